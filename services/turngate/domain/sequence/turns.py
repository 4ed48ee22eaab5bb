"""Builders of committed turns: ids, digests, trust, the history chain and the receipt. Pure; the caller
stores them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from turngate.domain.sequence.history import CommittedHistory
from turngate.schemas import digests
from turngate.schemas.blocks import Block, BlockContent, Kind, Role, ToolEdge, Trust, content_digest
from turngate.schemas.errors import Refused
from turngate.schemas.manifest import DispatchManifest
from turngate.schemas.requests import NewBlock, TurnRequest
from turngate.schemas.sequence import OperationSpec
from turngate.schemas.tools import ToolResult
from turngate.schemas.turn import GenerationNote, Receipt, StopClass, Turn, turn_digest

_ROLE_TRUST: dict[Role, Trust] = {
    "system": "system",
    "developer": "operator",
    "user": "user",
    "assistant": "model",
    "tool": "tool",
}
_KIND_TRUST: dict[Kind, Trust] = {"context": "retrieved", "notice": "operator"}


@dataclass(frozen=True, slots=True)
class AssistantBlock:
    """One finished block of a model's answer, as the gate passed it.

    call_id, tool, arguments_raw, schema_digest belong to a tool_call: `arguments_raw` is the exact text
    received and `schema_digest` the sha256 of the declared input schema's exact text. data is an opaque
    part's exact JSON text.
    """

    kind: Kind
    text: str | None = None
    data: str | None = None
    signature: str | None = None
    call_id: str | None = None
    tool: str | None = None
    arguments_raw: str | None = None
    schema_digest: str | None = None


def chain(previous: str, blocks: Iterable[Block]) -> str:
    """The history digest after a turn with these blocks."""
    return digests.history_digest(previous, (block.digest for block in blocks))


def build_input_turn(history: CommittedHistory, request: TurnRequest, revision: int) -> Turn:
    """The input turn a READY request commits: its blocks, and what it withdraws.

    Raises Refused (revision_conflict) unless `revision` is the head's successor.
    """
    _next_revision(history.head_revision, revision)
    blocks = tuple(_input_block(block, revision, order) for order, block in enumerate(request.blocks))
    return Turn(
        tenant=request.tenant,
        conversation=request.conversation,
        revision=revision,
        kind="input",
        blocks=blocks,
        cause_id=request.request_id,
        history_digest=chain(history.history_digest, blocks),
        withdraws=request.withdraws,
        options=request.options,
    )


def build_withdraw_turn(history: CommittedHistory, *, withdraws: int, cause_id: str) -> Turn:
    """An input turn without blocks that takes an earlier, still unanswered input turn out of what is
    rendered.

    Raises Refused (revision_conflict) where that revision cannot be withdrawn.
    """
    if not can_withdraw(history, withdraws):
        raise Refused(f"revision {withdraws} is not an unanswered input turn", code="revision_conflict")
    return Turn(
        tenant=history.tenant,
        conversation=history.conversation,
        revision=history.head_revision + 1,
        kind="input",
        blocks=(),
        cause_id=cause_id,
        history_digest=history.history_digest,
        withdraws=withdraws,
    )


def build_artifact_turn(history: CommittedHistory, *, text: str, replaces: tuple[int, int], cause_id: str) -> Turn:
    """The input turn of a compaction: one context block in place of the covered revisions.

    It starts a new chain that names the old one. Raises Refused (revision_conflict) where the span is not
    committed or would part a call from its results.
    """
    first, last = replaces
    if not 1 <= first <= last <= history.head_revision:
        raise Refused("a compaction must cover committed revisions", code="revision_conflict")
    beyond = history.turns[last] if last < history.head_revision else None
    if (history.turns[last - 1].kind == "assistant" and history.turns[last - 1].tool_edges) or (
        history.turns[first - 1].kind == "tool" or (beyond is not None and beyond.kind == "tool")
    ):
        raise Refused("a compaction must not part a call from its results", code="revision_conflict")
    revision = history.head_revision + 1
    content = BlockContent(text=text)
    block = Block(
        id=f"u-{revision}",
        role="user",
        kind="context",
        turn=revision,
        order=0,
        trust="model",
        scope="artifact",
        covers=replaces,
        digest=content_digest("context", content),
        content=content,
    )
    return Turn(
        tenant=history.tenant,
        conversation=history.conversation,
        revision=revision,
        kind="input",
        blocks=(block,),
        cause_id=cause_id,
        history_digest=digests.history_digest(digests.EMPTY_HISTORY, (history.history_digest, block.digest)),
        replaces=replaces,
    )


def can_withdraw(history: CommittedHistory, revision: int) -> bool:
    """Whether that revision is an input turn with blocks that nothing has answered and nobody withdrew."""
    if not 1 <= revision <= history.head_revision or revision in history.withdrawn:
        return False
    target = history.turns[revision - 1]
    after = history.turns[revision:]
    return target.kind == "input" and bool(target.blocks) and all(turn.kind == "input" for turn in after)


def build_assistant_turn(
    history_digest: str,
    *,
    spec: OperationSpec,
    manifest: DispatchManifest,
    revision: int,
    generation: int,
    relay: int,
    blocks: Sequence[AssistantBlock],
    stop: StopClass,
    continues: bool | None = None,
    usage_raw: str | None = None,
    generations: Sequence[GenerationNote] = (),
    handle: str | None = None,
    events: int = 0,
    deltas: int = 0,
    terminal: str | None = None,
    sign: Callable[[str], str] | None = None,
) -> Turn:
    """The canonical assistant turn with its receipt.

    history_digest: the chain value at `spec.base_revision`. generations: the history including the winner;
    when empty the winner alone is noted. sign: Ed25519 over the turn digest (hex in, base64 out) where a key
    is configured. Raises Refused: revision_conflict, duplicate_call_id, or incomplete_arguments for a call
    without its parts.
    """
    _next_revision(spec.base_revision, revision)
    built = _assistant_blocks(blocks, revision)
    turn = Turn(
        tenant=spec.tenant,
        conversation=spec.conversation,
        revision=revision,
        kind="assistant",
        blocks=built,
        tool_edges=_edges(blocks, built, generation),
        cause_id=spec.operation_id,
        history_digest=chain(history_digest, built),
        operation_id=spec.operation_id,
        generation=generation,
        stop=stop,
        continues=continues,
        usage_raw=usage_raw,
        options=spec.options,
    )
    digest = turn_digest(turn)
    receipt = Receipt(
        request_digest=manifest.request_digest,
        manifest_digest=manifest.manifest_digest,
        adapter=manifest.adapter,
        adapter_digest=manifest.adapter_digest,
        normaliser=manifest.normaliser,
        toolset_digest=manifest.toolset_digest,
        policy_digest=manifest.policy_digest,
        generations=tuple(generations) or (GenerationNote(generation=generation, status="completed"),),
        relay=relay,
        handle=handle,
        events=events,
        deltas=deltas,
        terminal=terminal,
        turn_digest=digest,
        signature=sign(digest) if sign is not None else None,
    )
    return turn.model_copy(update={"receipt": receipt})


def build_tool_turn(
    history_digest: str,
    *,
    tenant: str,
    conversation: str,
    revision: int,
    assistant_turn: Turn,
    results: Sequence[ToolResult],
) -> Turn:
    """The tool turn that settles an assistant turn: one result per call, in call order whatever order they
    came in.

    Raises Refused: missing_result, duplicate_result, orphan_result, or result_mismatch (tool, arguments,
    generation).
    """
    by_call: dict[str, ToolResult] = {}
    for result in results:
        if result.call_id in by_call:
            raise Refused("two results for one call", code="duplicate_result")
        by_call[result.call_id] = result
    blocks: list[Block] = []
    edges: list[ToolEdge] = []
    for order, edge in enumerate(assistant_turn.tool_edges):
        found = by_call.pop(edge.call_id, None)
        if found is None:
            raise Refused(
                f"call {order + 1} of revision {assistant_turn.revision} has no result", code="missing_result"
            )
        _match(edge, found)
        blocks.append(_result_block(found, assistant_turn.revision, revision, order))
        edges.append(edge.model_copy(update={"result_id": found.result_id, "status": found.status}))
    if by_call:
        raise Refused("a result answers no call of the turn", code="orphan_result")
    return Turn(
        tenant=tenant,
        conversation=conversation,
        revision=revision,
        kind="tool",
        blocks=tuple(blocks),
        tool_edges=tuple(edges),
        cause_id=f"settled/{assistant_turn.revision}",
        history_digest=chain(history_digest, blocks),
        options=assistant_turn.options,
    )


def _next_revision(head: int, revision: int) -> None:
    if revision != head + 1:
        raise Refused(f"head is {head}, so the next revision is {head + 1}, not {revision}", code="revision_conflict")


def _input_block(new: NewBlock, revision: int, order: int) -> Block:
    letter = new.role[0]
    return Block(
        id=f"{letter}-{revision}" if order == 0 else f"{letter}-{revision}-{order + 1}",
        role=new.role,
        kind=new.kind,
        turn=revision,
        order=order,
        trust=_KIND_TRUST.get(new.kind, _ROLE_TRUST[new.role]),
        digest=content_digest(new.kind, new.content),
        content=new.content,
    )


def _assistant_blocks(blocks: Sequence[AssistantBlock], revision: int) -> tuple[Block, ...]:
    built: list[Block] = []
    calls: set[str] = set()
    for order, block in enumerate(blocks):
        call_id = block.call_id
        suffix = f"b{order + 1}"
        if block.kind == "tool_call":
            suffix = f"c{len(calls) + 1}"
            call_id = call_id or f"call-{revision}-{len(calls) + 1}"
            if call_id in calls:
                raise Refused("two calls of one turn share an id", code="duplicate_call_id")
            calls.add(call_id)
        content = BlockContent(
            text=block.text,
            data=block.data,
            signature=block.signature,
            tool=block.tool,
            arguments_raw=block.arguments_raw,
        )
        built.append(
            Block(
                id=f"a-{revision}-{suffix}",
                role="assistant",
                kind=block.kind,
                turn=revision,
                order=order,
                trust="model",
                call_id=call_id,
                digest=content_digest(block.kind, content),
                content=content,
            )
        )
    return tuple(built)


def _edges(blocks: Sequence[AssistantBlock], built: Sequence[Block], generation: int) -> tuple[ToolEdge, ...]:
    edges: list[ToolEdge] = []
    for source, block in zip(blocks, built, strict=True):
        if block.kind != "tool_call":
            continue
        if source.tool is None or source.arguments_raw is None or source.schema_digest is None or block.call_id is None:
            raise Refused("a call needs its tool, arguments and schema digest", code="incomplete_arguments")
        edges.append(
            ToolEdge(
                call_id=block.call_id,
                tool=source.tool,
                schema_digest=source.schema_digest,
                arguments_digest=digests.text_digest(source.arguments_raw),
                generation=generation,
            )
        )
    return tuple(edges)


def _match(edge: ToolEdge, result: ToolResult) -> None:
    wanted = (edge.tool, edge.arguments_digest, edge.generation)
    if (result.tool, result.arguments_digest, result.generation) != wanted:
        raise Refused("a result names another tool, arguments or generation than its call", code="result_mismatch")


def _result_block(result: ToolResult, call_revision: int, revision: int, order: int) -> Block:
    content = BlockContent(text=result.content, status=result.status)
    return Block(
        id=f"t-{call_revision}-r{order + 1}",
        role="tool",
        kind="tool_result",
        turn=revision,
        order=order,
        trust="tool",
        call_id=result.call_id,
        digest=content_digest("tool_result", content),
        content=content,
    )
