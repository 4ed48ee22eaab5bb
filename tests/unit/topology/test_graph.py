"""The picture of the topology, and the page that shows it."""

from __future__ import annotations

from pathlib import Path

import pytest

from turngate.topology.graph import BEGIN_MARK, END_MARK, graph_block, topology_graph, with_graph
from turngate.topology.groups import ROLES
from turngate.topology.topics import TOPICS

PAGE = Path(__file__).parents[3] / "ARCHITECTURE.md"


def test_every_topic_and_role_is_drawn_with_its_edges() -> None:
    lines = topology_graph().splitlines()
    assert lines[0] == "flowchart LR"
    for name in TOPICS:
        assert any(line.strip().endswith(f"[({name})]") for line in lines)
    for role in ROLES.values():
        for name in role.inputs:
            assert f"    topic_{name.replace('-', '_')} --> role_{role.name}" in lines


def test_a_page_gets_the_current_picture_between_its_marks() -> None:
    page = f"# Title\n\n{BEGIN_MARK}\nold\n{END_MARK}\n\nmore\n"
    fresh = with_graph(page)
    assert fresh == f"# Title\n\n{graph_block()}\n\nmore\n"
    assert with_graph(fresh) == fresh


@pytest.mark.parametrize("page", ["no marks", BEGIN_MARK, END_MARK])
def test_a_page_without_marks_is_refused(page: str) -> None:
    with pytest.raises(ValueError, match="no block"):
        with_graph(page)


def test_the_architecture_page_is_up_to_date() -> None:
    if not PAGE.exists():
        pytest.skip("the architecture page is not part of this checkout")
    page = PAGE.read_text(encoding="utf-8")
    assert with_graph(page) == page, "run: turngate topology graph --page ARCHITECTURE.md"
