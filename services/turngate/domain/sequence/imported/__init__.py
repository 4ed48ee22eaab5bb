"""Bare provider histories: read, judged against one API's rules, repaired where policy asks."""

from turngate.domain.sequence.imported.judge import Judged, Repair, find_profile, judge_history
from turngate.domain.sequence.imported.profiles import ALIASES, PROFILES
from turngate.domain.sequence.imported.reader import Imported, load_json, refuse_doubled_keys

__all__ = [
    "ALIASES",
    "PROFILES",
    "Imported",
    "Judged",
    "Repair",
    "find_profile",
    "judge_history",
    "load_json",
    "refuse_doubled_keys",
]
