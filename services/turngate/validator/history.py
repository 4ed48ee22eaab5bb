"""Committed histories kept in memory between requests, so that a long conversation decodes only its new turns."""

from __future__ import annotations

from collections import OrderedDict

from turngate.domain.sequence import CommittedHistory
from turngate.schemas.codec import decode
from turngate.schemas.errors import Retryable
from turngate.schemas.turn import Turn
from turngate.validator.store import ConversationState

CACHED_CONVERSATIONS_MAX = 512


class HistoryIncomplete(Retryable):
    """Redis does not hold the bytes of a turn; they come back with the next reconcile."""

    code = "history_incomplete"


class HistoryCache:
    """Histories by conversation key, least recently used out first. A digest that differs throws an entry away."""

    def __init__(self, limit: int = CACHED_CONVERSATIONS_MAX) -> None:
        self._limit = limit
        self._entries: OrderedDict[bytes, CommittedHistory] = OrderedDict()

    def first_missing(self, key: bytes) -> int:
        """The first revision that must be loaded."""
        entry = self._entries.get(key)
        return 1 if entry is None else entry.head_revision + 1

    def forget(self, key: bytes) -> None:
        self._entries.pop(key, None)

    def extend(self, key: bytes, tenant: str, conversation: str, state: ConversationState) -> CommittedHistory | None:
        """The history up to the loaded head, or None where the cached part does not belong to it: load from 1 again.

        Raises HistoryIncomplete where a turn's bytes are missing.
        """
        base = self._entries.get(key) or CommittedHistory(tenant=tenant, conversation=conversation, turns=())
        if any(not data for data in state.turns):
            raise HistoryIncomplete("a committed turn's bytes are missing from Redis")
        history = CommittedHistory(
            tenant=tenant,
            conversation=conversation,
            turns=base.turns + tuple(decode(Turn, data) for data in state.turns),
        )
        if history.head_revision != state.revision or (
            state.revision > 0 and history.history_digest != state.history_digest
        ):
            self.forget(key)
            return None
        self._entries[key] = history
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)
        return history
