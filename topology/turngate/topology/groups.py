"""The roles: one consumer group each, what it reads, at which isolation, and what it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from turngate.topology.topics import TOPICS

Isolation = Literal["read_committed", "read_uncommitted"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """One role. `inputs` are logical topic names; one group name always has the same set of topics."""

    name: str
    inputs: tuple[str, ...]
    isolation: Isolation
    outputs: tuple[str, ...]
    tables: tuple[str, ...] = ()
    """Changelogs of the role's own tables: it writes them and reads them back from their beginning, without offsets."""
    generation: int = 1
    """Raised with any change of `inputs`: a new set of topics is a new group name."""

    def group(self, prefix: str) -> str:
        """The consumer group's name on the broker."""
        return f"{prefix}.{self.name}.g{self.generation}"

    def transactional_id(self, prefix: str, partition: int) -> str:
        """The one transactional id of a partition number of this role (DESIGN §4 rule 3)."""
        return f"{self.group(prefix)}.{partition}"


def _outputs(role: str) -> tuple[str, ...]:
    return tuple(spec.name for spec in TOPICS.values() if role in spec.writers)


ROLES: Mapping[str, RoleSpec] = {
    role.name: role
    for role in (
        RoleSpec(
            name="validator", inputs=("turn-requests", "control"), isolation="read_committed",
            outputs=_outputs("validator"),
        ),
        RoleSpec(
            name="dispatcher", inputs=("sequences",), isolation="read_committed",
            outputs=_outputs("dispatcher")
        ),
        RoleSpec(
            name="reassembler", inputs=("stream-events",), isolation="read_uncommitted",
            outputs=_outputs("reassembler"),
        ),
        RoleSpec(
            name="ledger", inputs=("turns", "tool-results", "control"), isolation="read_committed",
            outputs=_outputs("ledger"),
        ),
        RoleSpec(
            name="recovery", inputs=("turns", "session-events", "control", "toolsets"), isolation="read_committed",
            outputs=_outputs("recovery"),
        ),
        RoleSpec(
            name="edge", inputs=("session-events",), isolation="read_uncommitted", outputs=_outputs("edge")
        ),
        RoleSpec(
            name="observer", inputs=("turns",), isolation="read_committed",
            outputs=_outputs("observer"), tables=("observer-turns-changelog",),
        ),
    )
}  # fmt: skip

CO_PARTITIONED: frozenset[str] = frozenset(
    {spec.name for spec in TOPICS.values() if spec.keyed}
    | {name for role in ROLES.values() for name in (*role.inputs, *role.tables)}
)
"""Topics that must all have the same partition count: keyed by conversation, so that a conversation has one partition
everywhere, or read by a role whatever their key, so that the assignor hands a process partition p of all its inputs
and of its tables' changelogs. A process that gets p of some of them stops."""

_ANSWERING: Mapping[str, str] = {
    name: next(role.name for role in ROLES.values() if name in role.inputs)
    for name in sorted({name for role in ROLES.values() for name in role.inputs})
}


def answering_role(topic: str) -> str:
    """The role that answers for records of a topic which none of its readers can use: the first of ROLES to read it.

    It writes their dead letters, and moves what lies on a wrong partition, so it needs to write to the topic itself.
    Raises KeyError where no role reads the topic.
    """
    return _ANSWERING[topic]
