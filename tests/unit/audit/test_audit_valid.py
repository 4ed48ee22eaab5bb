"""What is right is proved; what cannot be seen is said."""

from __future__ import annotations

from turngate.domain.audit import Status


def test_a_valid_log_is_proved(story):
    report = story.audit()
    assert {r.invariant: (r.status, [b.why for b in r.breaches], r.unknowns) for r in report.results} == {
        r.invariant: (Status.PROVED, [], ()) for r in report.results
    }
    assert report.exit_code == 0
