"""OpenAI Chat Completions, and the servers that speak its dialect."""
