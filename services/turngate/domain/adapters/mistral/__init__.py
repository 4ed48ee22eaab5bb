"""Mistral chat completions."""
