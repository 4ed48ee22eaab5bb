"""A second, plain stream gate: the rules of turngate's conformance report written once more, for people who run tools
and want to read, top to bottom, why a call was handed to them. Standard library only; nothing of turngate is imported.

`fixture.py` reads a recorded stream, `chat.py` and `messages.py` read the events of the three providers, `turn.py`
holds what came and judges it, `strict_json.py` and `tool_schema.py` judge the arguments of a call.
"""
