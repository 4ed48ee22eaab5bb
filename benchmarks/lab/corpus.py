"""All cases in the order of the page: per API the good ones first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from benchmarks.lab import chat, messages, recorded
from benchmarks.lab.cases import Case


def corpus() -> list[Case]:
    every = [*recorded.cases(), *chat.CASES, *messages.CASES]
    return [
        case
        for api in ("chat", "messages")
        for kind in (True, False)
        for case in every
        if case.api == api and case.good is kind
    ]


def as_json(cases: list[Case]) -> list[dict[str, Any]]:
    """What the children read; the verdict stays with the parent."""
    wanted = ("name", "profile", "events", "forced")
    return [{"api": case.api, **{key: asdict(case)[key] for key in wanted}} for case in cases]
