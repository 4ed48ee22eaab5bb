"""The pure stream core: raw provider events of one relay in, previews and one outcome out.

Synchronous and deterministic; no clock, log, socket or event loop. How a caller uses it:

    tools = compile_toolset({"get_weather": schema})   # once; `tools.findings` names what is unsupported
    assembler = Assembler(profile="openai", normaliser_version=1, tools=tools, tool_choice=None)
    for frame in frames:                               # any split, any order inside the window,
    repeats welcome previews = assembler.feed(frame.first_seq, frame.events)
    outcome = assembler.end(StreamEnd("eof", count=frame_count))

`feed` gives Preview(kind, phase, block_index, text_offset in code points, text, call_id, name, byte_count);
argument bytes never leave before the gate. `end` gives the Outcome: verdict, stop class, blocks, calls,
findings, usage, what becomes of the previews, the request_end status and the retry class. `assembler.handle`
is the provider's response id.

Stages, one module each: sequencer -> normaliser (turngate.domain.adapters) -> slots (states) -> gate
(strict_json, toolschema, toolset) -> outcome (the table). Errors raised: UnknownNormaliser from Assembler,
ValueError for a negative seq; everything a provider can do wrong is a finding.
"""

from turngate.domain.stream.assembler import Assembler
from turngate.domain.stream.findings import Finding, GateCode, Severity, UnknownNormaliser
from turngate.domain.stream.operations import BlockKind, StopClass
from turngate.domain.stream.outcome import Block, EndCause, Outcome, Retry, StreamEnd, Verdict
from turngate.domain.stream.preview import Preview, joined
from turngate.domain.stream.slots import Limits
from turngate.domain.stream.toolset import (
    CompiledToolset,
    ToolSchema,
    ToolsetRefusal,
    compile_schema,
    compile_toolset,
    refusal_of,
)

__all__ = [
    "Assembler",
    "Block",
    "BlockKind",
    "CompiledToolset",
    "EndCause",
    "Finding",
    "GateCode",
    "Limits",
    "Outcome",
    "Preview",
    "Retry",
    "Severity",
    "StopClass",
    "StreamEnd",
    "ToolSchema",
    "ToolsetRefusal",
    "UnknownNormaliser",
    "Verdict",
    "compile_schema",
    "compile_toolset",
    "joined",
    "refusal_of",
]
