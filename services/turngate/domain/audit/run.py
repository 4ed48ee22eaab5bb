"""The audit: every check over one log."""

from __future__ import annotations

from collections.abc import Sequence

from turngate.domain.audit.accounts import check_accounts
from turngate.domain.audit.history import check_one_turn, check_receipts
from turngate.domain.audit.index import index_of
from turngate.domain.audit.isolation import check_isolation
from turngate.domain.audit.log import AuditLog, ReceiveLine
from turngate.domain.audit.preview import check_preview_text, check_previews_end
from turngate.domain.audit.report import AuditReport
from turngate.domain.audit.sending import check_bytes, check_nothing_invalid_sent, check_one_attempt
from turngate.domain.audit.tools import check_orders, check_results


def audit(
    log: AuditLog, receive_log: Sequence[ReceiveLine] | None = None, *, expect_settled: bool = False
) -> AuditReport:
    """Prove or refute I1-I10 and the receipts from the records alone.

    receive_log: what the providers' side received; without it I1, I4, I9 hold by the sender's word at best.
    expect_settled: the run is over, so work that is still open counts as lost.
    """
    index = index_of(log, receive_log, settled=expect_settled)
    findings = (
        check_nothing_invalid_sent(index),
        check_orders(index),
        check_one_turn(index),
        check_one_attempt(index),
        check_results(index),
        check_accounts(index),
        check_previews_end(index),
        check_preview_text(index),
        check_bytes(index),
        check_isolation(index),
        check_receipts(index),
    )
    records = {topic: len(entries) for topic, entries in sorted(log.topics.items())}
    return AuditReport(
        tuple(found.result() for found in findings),
        records,
        None if receive_log is None else len(receive_log),
    )
