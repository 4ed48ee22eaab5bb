"""A provider simulator: speaks the wire formats of OpenAI Chat Completions and Anthropic Messages, on demand badly.

`python -m turngate.devstack.provider_sim --script FILE --receive-log FILE --port-file FILE`. Its endpoints may
stand under any path prefix (`/openai/v1/chat/completions`), so one process can be several providers.
"""
