"""The neutral form the graph rules read: nodes in order, whether they come from committed blocks or a bare
history.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby

from turngate.schemas.findings import Finding, HistoryCode
from turngate.schemas.sequence import MessageSequence


@dataclass(frozen=True, slots=True)
class Node:
    """One block.

    turn: revision of its turn, or a number that grows with each turn of a bare history. message: the wire
    message that held it. arguments: exact text of a call's arguments. opaque: it carries provider data
    instead of text.
    """

    turn: int
    message: int
    role: str
    kind: str
    path: str
    text: str | None = None
    call_id: str | None = None
    tool: str | None = None
    arguments: str | None = None
    signature: str | None = None
    opaque: bool = False
    trust: str | None = None
    status: str | None = None
    block_id: str | None = None

    @property
    def is_call(self) -> bool:
        return self.kind == "tool_call"

    @property
    def is_result(self) -> bool:
        return self.kind == "tool_result"

    @property
    def is_system(self) -> bool:
        return self.role in ("system", "developer")

    def finding(self, code: HistoryCode, message: str, *, severity: str = "error") -> Finding:
        """A finding at this node; the message never quotes content."""
        return Finding.model_validate(
            {
                "code": str(code),
                "severity": severity,
                "message": message,
                "block_id": self.block_id,
                "call_id": printable(self.call_id),
                "path": self.path,
            }
        )


Nodes = tuple[Node, ...]


def printable(identifier: str | None) -> str | None:
    """An id that can be written as UTF-8, whatever a caller put into it."""
    return None if identifier is None else identifier.encode("utf-8", "replace").decode()[:256]


def from_sequence(sequence: MessageSequence) -> Nodes:
    """The nodes of a sequence, one a block, each turn its own message."""
    return tuple(
        Node(
            turn=block.turn,
            message=block.turn,
            role=block.role,
            kind=block.kind,
            path=f"blocks/{index}",
            text=block.content.text,
            call_id=block.call_id,
            tool=block.content.tool,
            arguments=block.content.arguments_raw,
            signature=block.content.signature,
            opaque=block.content.data is not None,
            trust=block.trust,
            status=block.content.status,
            block_id=block.id,
        )
        for index, block in enumerate(sequence.blocks)
    )


def messages(nodes: Iterable[Node]) -> Iterator[Nodes]:
    """Adjacent nodes of the same wire message."""
    for _, group in groupby(nodes, key=lambda node: node.message):
        yield tuple(group)


def turns(nodes: Iterable[Node]) -> Iterator[Nodes]:
    """Adjacent nodes of the same turn."""
    for _, group in groupby(nodes, key=lambda node: node.turn):
        yield tuple(group)
