"""The message graph: committed history, candidates, builders of turns and sequences, graph rules."""

from turngate.domain.sequence.build import build_sequence
from turngate.domain.sequence.candidate import Candidate, candidate_findings
from turngate.domain.sequence.check import check_sequence, judge_sequence
from turngate.domain.sequence.history import CommittedHistory
from turngate.domain.sequence.turns import (
    AssistantBlock,
    build_artifact_turn,
    build_assistant_turn,
    build_input_turn,
    build_tool_turn,
    build_withdraw_turn,
    can_withdraw,
    chain,
)

__all__ = [
    "AssistantBlock",
    "Candidate",
    "CommittedHistory",
    "build_artifact_turn",
    "build_assistant_turn",
    "build_input_turn",
    "build_sequence",
    "build_tool_turn",
    "build_withdraw_turn",
    "can_withdraw",
    "candidate_findings",
    "chain",
    "check_sequence",
    "judge_sequence",
]
