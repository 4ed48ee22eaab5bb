"""The demo's last page: a timeline, the committed conversations, what was taken back, digests, the audit's verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from turngate.cli.audit import show_report
from turngate.devstack.demo.watch import Watch
from turngate.domain.audit import AuditReport
from turngate.schemas.blocks import Block
from turngate.schemas.manifest import DispatchManifest

SHOWN = frozenset(
    {
        "request_begin", "preview_retracted", "request_end", "tool_call", "tool_call_output", "turn_committed",
        "approval_requested", "abort",
    }
)  # fmt: skip
TEXT_MAX = 96


def show_summary(console: Console, watch: Watch, conversations: Sequence[str], report: AuditReport) -> None:
    """Prints everything; decides nothing."""
    for conversation in conversations:
        _timeline(console, watch, conversation)
        _history(console, watch, conversation)
    _taken_back(console, watch, conversations)
    show_manifests(console, watch.manifests())
    show_report(report, console)


def show_manifests(console: Console, manifests: Iterable[DispatchManifest]) -> None:
    """A line each, whatever the width of the terminal: half a digest names nothing."""
    console.print("manifests", style="italic")
    for manifest in manifests:
        line = f" {manifest.request_bytes:>6} bytes  {manifest.operation_id[:14]}  {manifest.manifest_digest}"
        console.print(line, highlight=False, soft_wrap=True)


def _timeline(console: Console, watch: Watch, conversation: str) -> None:
    table = Table("ms", "event", "", title=f"timeline of {conversation}", title_justify="left", box=None)
    seen: set[str] = set()
    start: int | None = None
    for event in watch.events(conversation):
        if event.type not in SHOWN or event.event_id in seen:
            continue
        seen.add(event.event_id)
        start = start if start is not None else event.at_ms or 0
        gist = [
            f"generation {event.generation}" if event.type.startswith(("request", "preview")) else "",
            event.status or event.reason or "",
            event.tool or "",
            event.call_id or "",
            f"revision {event.revision} ({event.kind})" if event.type == "turn_committed" else "",
            f"retry in {event.retry_in_ms} ms" if event.retry_in_ms is not None else "",
        ]
        table.add_row(str((event.at_ms or 0) - start), event.type, " ".join(part for part in gist if part))
    console.print(table)


def _history(console: Console, watch: Watch, conversation: str) -> None:
    table = Table("rev", "kind", "blocks", title=f"committed: {conversation}", title_justify="left", box=None)
    for turn in watch.turns(conversation):
        table.add_row(str(turn.revision), turn.kind, Text("\n".join(_gist(block) for block in turn.blocks)))
    console.print(table)


def _gist(block: Block) -> str:
    content = block.content
    if block.kind == "tool_call":
        return f"{content.tool}({content.arguments_raw})"
    text = content.text or ""
    return f"{block.kind}: {text[:TEXT_MAX]}{'...' if len(text) > TEXT_MAX else ''}"


def counted(reasons: Iterable[str | None]) -> str:
    """How often each reason was given, the most frequent first: `missing_terminal 3, provider_error 1`."""
    numbers = Counter(reason or "no reason" for reason in reasons)
    in_order = sorted(numbers.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{reason} {number}" for reason, number in in_order) or "none"


def _taken_back(console: Console, watch: Watch, conversations: Sequence[str]) -> None:
    retracted = {
        (event.operation_id, event.generation, event.reason)
        for conversation in conversations
        for event in watch.events(conversation, "preview_retracted")
    }
    console.print(f"retracted previews: {len(retracted)} ({counted(reason for _, _, reason in retracted)})")
    kept = watch.quarantined()
    console.print(f"quarantined records: {len(kept)} ({counted(record.reason for record in kept)})")
