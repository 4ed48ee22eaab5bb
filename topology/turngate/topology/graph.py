"""The picture of topics and roles as a Mermaid flowchart, drawn from the declarations so that it cannot go
stale.
"""

from __future__ import annotations

from turngate.topology.groups import ROLES
from turngate.topology.topics import TOPICS

BEGIN_MARK = "<!-- topology graph: begin -->"
END_MARK = "<!-- topology graph: end -->"


def topology_graph() -> str:
    """Mermaid text. Solid lines: produced, or consumed by the role's group; dotted: read on demand."""
    outside = sorted({name for spec in TOPICS.values() for name in (*spec.writers, *spec.readers)} - set(ROLES))
    lines = ["flowchart LR"]
    lines += [f"    {_id(name)}([{name}])" for name in outside]
    lines += [f"    {_id(name)}[{name}]" for name in ROLES]
    lines += [f"    {_topic(name)}[({name})]" for name in TOPICS]
    for spec in TOPICS.values():
        lines += [f"    {_id(writer)} --> {_topic(spec.name)}" for writer in spec.writers]
        for reader in spec.readers:
            consumed = reader not in ROLES or spec.name in (*ROLES[reader].inputs, *ROLES[reader].tables)
            lines.append(f"    {_topic(spec.name)} {'-->' if consumed else '-.->'} {_id(reader)}")
    return "\n".join(lines) + "\n"


def graph_block() -> str:
    """The marked block of a Markdown page that holds the diagram."""
    return f"{BEGIN_MARK}\n```mermaid\n{topology_graph()}```\n{END_MARK}"


def with_graph(page: str) -> str:
    """A Markdown page with its marked block brought up to date.
    Raises ValueError where the marks are missing.
    """
    before, begin, rest = page.partition(BEGIN_MARK)
    _, end, after = rest.partition(END_MARK)
    if not begin or not end:
        raise ValueError(f"the page has no block between {BEGIN_MARK!r} and {END_MARK!r}")
    return before + graph_block() + after


def _id(name: str) -> str:
    return "role_" + name.replace("-", "_")


def _topic(name: str) -> str:
    return "topic_" + name.replace("-", "_")
