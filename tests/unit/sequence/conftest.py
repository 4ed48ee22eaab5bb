"""A small conversation to build turns with: it plays validator, dispatcher, reassembler and ledger, purely."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from turngate.domain.adapters.registry import Adapter, adapter, build_manifest
from turngate.domain.sequence import (
    AssistantBlock,
    CommittedHistory,
    build_assistant_turn,
    build_input_turn,
    build_sequence,
    build_tool_turn,
)
from turngate.schemas.blocks import BlockContent, ToolEdge
from turngate.schemas.digests import text_digest
from turngate.schemas.requests import NewBlock, TurnOptions, TurnRequest
from turngate.schemas.sequence import MessageSequence, OperationSpec
from turngate.schemas.tools import ToolDeclaration, ToolResult, Toolset, toolset_digest
from turngate.schemas.turn import Turn

POLICY = "9" * 64
SCHEMA = '{"type": "object", "properties": {"x": {"type": "number"}}}'


class Talk:
    """Grows a committed history one turn at a time."""

    def __init__(self, adapter_name: str = "openai-chat", *, tools: bool = True, model: str = "m-1") -> None:
        declared = tuple(
            ToolDeclaration(name=name, input_schema=SCHEMA, side_effects="read") for name in ("get_a", "get_b")
        )
        self.toolset = (
            Toolset(tenant="t", tools=declared, toolset_digest=toolset_digest("t", declared)) if tools else None
        )
        self.options = TurnOptions(
            endpoint="main",
            model=model,
            max_output_tokens=256,
            toolset_digest=self.toolset.toolset_digest if self.toolset else None,
        )
        self.adapter: Adapter = adapter(adapter_name)
        self.turns: list[Turn] = []

    @property
    def history(self) -> CommittedHistory:
        return CommittedHistory("t", "c", tuple(self.turns))

    def request(self, *blocks: NewBlock, **fields: object) -> TurnRequest:
        plain = {"tenant": "t", "conversation": "c", "request_id": f"r-{len(self.turns)}", "options": self.options}
        return TurnRequest.model_validate({**plain, "blocks": blocks, **fields})

    def say(self, *texts: str, role: str = "user", kind: str = "text", **fields: object) -> Turn:
        blocks = tuple(
            NewBlock.model_validate({"role": role, "kind": kind, "content": BlockContent(text=text)}) for text in texts
        )
        request = self.request(*blocks, **fields)
        return self._add(build_input_turn(self.history, request, len(self.turns) + 1))

    def answer(self, *blocks: AssistantBlock, stop: str = "complete", continues: bool | None = None) -> Turn:
        sequence = self.sequence()
        manifest = build_manifest(
            sequence,
            self.adapter.render(sequence, self.toolset),
            self.adapter,
            operation_id="op-1",
            provider="main",
            created_at_ms=1,
        )
        spec = OperationSpec(
            operation_id="op-1",
            request_id="r",
            tenant="t",
            conversation="c",
            base_revision=len(self.turns),
            cancel_generation=0,
            sequence_digest=sequence.sequence_digest,
            options=self.options,
        )
        return self._add(
            build_assistant_turn(
                self.history.history_digest,
                spec=spec,
                manifest=manifest,
                revision=len(self.turns) + 1,
                generation=1,
                relay=1,
                blocks=blocks,
                stop="tool_calls" if any(block.kind == "tool_call" for block in blocks) else stop,  # type: ignore[arg-type]
                continues=continues,
            )
        )

    def settle(self, *outcomes: tuple[str, str]) -> Turn:
        """outcomes: (status, text) in call order; handed over in reverse."""
        turn = self.turns[-1]
        results = [
            self.result(edge, turn.revision, status, text)
            for edge, (status, text) in zip(turn.tool_edges, outcomes, strict=True)
        ]
        return self._add(
            build_tool_turn(
                turn.history_digest,
                tenant="t",
                conversation="c",
                revision=turn.revision + 1,
                assistant_turn=turn,
                results=results[::-1],
            )
        )

    def result(self, edge: ToolEdge, revision: int, status: str = "success", text: str = "ok") -> ToolResult:
        return ToolResult.model_validate(
            {
                "tenant": "t",
                "conversation": "c",
                "call_key": f"t/c/{revision}/{edge.call_id}",
                "call_id": edge.call_id,
                "tool": edge.tool,
                "revision": revision,
                "generation": edge.generation,
                "attempt": 1,
                "arguments_digest": edge.arguments_digest,
                "idempotency_key": "k",
                "result_id": f"res-{revision}-{edge.call_id}"[:256],
                "status": status,
                "content": text,
            }
        )

    def sequence(self, **fields: object) -> MessageSequence:
        return build_sequence(self.history, options=self.options, adapter=self.adapter, policy_digest=POLICY)

    def body(self) -> bytes:
        return self.adapter.render(self.sequence(), self.toolset).body

    @staticmethod
    def text(text: str) -> AssistantBlock:
        return AssistantBlock("text", text=text)

    @staticmethod
    def call(call_id: str, tool: str = "get_a", raw: str = "{}") -> AssistantBlock:
        digest = text_digest(SCHEMA)
        return AssistantBlock("tool_call", call_id=call_id, tool=tool, arguments_raw=raw, schema_digest=digest)

    def golden(self) -> Talk:
        """System, user, text and two calls, a success and a failure: the conversation of the golden requests."""
        self.turns.clear()
        blocks = (("system", "S"), ("user", "U1"))
        request = self.request(
            *(NewBlock.model_validate({"role": role, "content": BlockContent(text=text)}) for role, text in blocks)
        )
        self._add(build_input_turn(self.history, request, 1))
        self.answer(self.text("T"), self.call("c1", raw='{"x": 1.0}'), self.call("c2", "get_b"))
        self.settle(("success", "one"), ("error", "boom"))
        return self

    def replace(self, turns: Sequence[Turn]) -> Talk:
        self.turns = list(turns)
        return self

    def _add(self, turn: Turn) -> Turn:
        self.turns.append(turn)
        return turn


@pytest.fixture(scope="session")
def talk() -> type[Talk]:
    return Talk
