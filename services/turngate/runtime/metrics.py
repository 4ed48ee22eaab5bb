"""Every metric of turngate, declared once: name, type, labels, unit and meaning.

No label ever carries a tenant or a conversation. Each process has its own registry, so tests and several
roles in one process do not meet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

Kind = Literal["counter", "gauge", "histogram"]
LATENCY_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
AGE_BUCKETS = (1.0, 5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0, 14400.0, 86400.0)
SIZE_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0)


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric as exported. unit: of a sample; must_stay_zero: any increase is an alert."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = LATENCY_BUCKETS
    must_stay_zero: bool = False


_SPECS = (
    MetricSpec(
        "turngate_sequence_rejections_total",
        "counter",
        "requests",
        "Rejected turn requests, by finding code.",
        ("code",),
    ),
    MetricSpec("turngate_orphan_results_total", "counter", "results", "Tool results without a call."),
    MetricSpec("turngate_duplicate_results_total", "counter", "results", "Second results of a settled call."),
    MetricSpec(
        "turngate_unknown_age_seconds",
        "histogram",
        "seconds",
        "How long an attempt was UNKNOWN, at its resolution.",
        (),
        AGE_BUCKETS,
    ),
    MetricSpec(
        "turngate_unknown_oldest_age_seconds", "gauge", "seconds", "Age of the oldest attempt that is UNKNOWN now."
    ),
    MetricSpec(
        "turngate_handle_recoveries_total",
        "counter",
        "attempts",
        "Ends of recoveries of an attempt, by outcome.",
        ("outcome",),
    ),
    MetricSpec(
        "turngate_late_blocks_total",
        "counter",
        "frames",
        "Late, foreign or rebound stream events kept in quarantine.",
        ("reason",),
    ),
    MetricSpec(
        "turngate_preview_retractions_total", "counter", "attempts", "Previews taken back, by reason.", ("reason",)
    ),
    MetricSpec(
        "turngate_canonical_conflicts_total",
        "counter",
        "turns",
        "Commits the canonical CAS refused, by reason.",
        ("reason",),
    ),
    MetricSpec(
        "turngate_partial_tool_dispatches_total",
        "counter",
        "orders",
        "Tool orders of a turn that was not canonical.",
        must_stay_zero=True,
    ),
    MetricSpec("turngate_dispatches_total", "counter", "attempts", "Attempts to send, by outcome.", ("outcome",)),
    MetricSpec("turngate_stage_latency_seconds", "histogram", "seconds", "Time a record spent in a stage.", ("stage",)),
    MetricSpec("turngate_open_streams", "gauge", "streams", "Provider streams open in this process."),
    MetricSpec(
        "turngate_consumer_lag_records",
        "gauge",
        "records",
        "Records not yet processed, per input and partition.",
        ("topic", "partition"),
    ),
    MetricSpec(
        "turngate_watermark_age_seconds",
        "gauge",
        "seconds",
        "Age of the oldest record read and not committed.",
        ("topic", "partition"),
    ),
    MetricSpec(
        "turngate_invariant_breaches_total",
        "counter",
        "breaches",
        "Breaches of an invariant seen at run time.",
        ("invariant",),
        must_stay_zero=True,
    ),
    MetricSpec(
        "turngate_dead_letters_total",
        "counter",
        "records",
        "Records written to the dead letters, by reason.",
        ("reason",),
    ),
    MetricSpec(
        "turngate_misrouted_records_total", "counter", "records", "Records moved to their key's partition.", ("topic",)
    ),
    MetricSpec(
        "turngate_skipped_records_total",
        "counter",
        "records",
        "Records of no use to any reader of their topic, left to the role that answers for it, by reason.",
        ("reason",),
    ),
    MetricSpec(
        "turngate_worker_transactions_total", "counter", "transactions", "Transactions, by result.", ("result",)
    ),
    MetricSpec(
        "turngate_worker_transaction_records",
        "histogram",
        "records",
        "Input records per committed transaction.",
        (),
        SIZE_BUCKETS,
    ),
    MetricSpec(
        "turngate_worker_transaction_seconds",
        "histogram",
        "seconds",
        "From the first record produced to the acknowledged commit.",
    ),
    MetricSpec("turngate_worker_step_seconds", "histogram", "seconds", "Time in the role's step of one batch."),
    MetricSpec(
        "turngate_worker_retries_total",
        "counter",
        "steps",
        "Steps tried again because the world was not ready, by code.",
        ("code",),
    ),
    MetricSpec(
        "turngate_worker_redone_batches_total",
        "counter",
        "batches",
        "Batches redone conversation by conversation after an error.",
    ),
    MetricSpec("turngate_worker_takeovers_total", "counter", "partitions", "Partitions taken over."),
    MetricSpec(
        "turngate_worker_lost_partitions_total", "counter", "partitions", "Partitions dropped, by reason.", ("reason",)
    ),
    MetricSpec(
        "turngate_worker_queue_records", "gauge", "records", "Records fetched and waiting for a step.", ("partition",)
    ),
    MetricSpec("turngate_observed_turns_total", "counter", "turns", "Turns the observer counted, by kind.", ("kind",)),
    MetricSpec(
        "turngate_observer_skipped_total",
        "counter",
        "records",
        "Records the observer could not count, by reason.",
        ("reason",),
    ),
    MetricSpec("turngate_worker_partitions", "gauge", "partitions", "Partitions being worked on by this process."),
)

METRICS: Mapping[str, MetricSpec] = {spec.name: spec for spec in _SPECS}


class Metrics:
    """All metrics of one process, on a registry of its own; attributes carry the name without `turngate_`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.sequence_rejections = self._counter("turngate_sequence_rejections_total")
        self.orphan_results = self._counter("turngate_orphan_results_total")
        self.duplicate_results = self._counter("turngate_duplicate_results_total")
        self.unknown_age_seconds = self._histogram("turngate_unknown_age_seconds")
        self.unknown_oldest_age_seconds = self._gauge("turngate_unknown_oldest_age_seconds")
        self.handle_recoveries = self._counter("turngate_handle_recoveries_total")
        self.late_blocks = self._counter("turngate_late_blocks_total")
        self.preview_retractions = self._counter("turngate_preview_retractions_total")
        self.canonical_conflicts = self._counter("turngate_canonical_conflicts_total")
        self.partial_tool_dispatches = self._counter("turngate_partial_tool_dispatches_total")
        self.dispatches = self._counter("turngate_dispatches_total")
        self.stage_latency_seconds = self._histogram("turngate_stage_latency_seconds")
        self.open_streams = self._gauge("turngate_open_streams")
        self.consumer_lag_records = self._gauge("turngate_consumer_lag_records")
        self.watermark_age_seconds = self._gauge("turngate_watermark_age_seconds")
        self.invariant_breaches = self._counter("turngate_invariant_breaches_total")
        self.dead_letters = self._counter("turngate_dead_letters_total")
        self.misrouted_records = self._counter("turngate_misrouted_records_total")
        self.skipped_records = self._counter("turngate_skipped_records_total")
        self.worker_transactions = self._counter("turngate_worker_transactions_total")
        self.worker_transaction_records = self._histogram("turngate_worker_transaction_records")
        self.worker_transaction_seconds = self._histogram("turngate_worker_transaction_seconds")
        self.worker_step_seconds = self._histogram("turngate_worker_step_seconds")
        self.worker_retries = self._counter("turngate_worker_retries_total")
        self.worker_redone_batches = self._counter("turngate_worker_redone_batches_total")
        self.worker_takeovers = self._counter("turngate_worker_takeovers_total")
        self.worker_lost_partitions = self._counter("turngate_worker_lost_partitions_total")
        self.worker_queue_records = self._gauge("turngate_worker_queue_records")
        self.worker_partitions = self._gauge("turngate_worker_partitions")
        self.observed_turns = self._counter("turngate_observed_turns_total")
        self.observer_skipped = self._counter("turngate_observer_skipped_total")

    def render(self) -> bytes:
        """The Prometheus text format."""
        return generate_latest(self.registry)

    def _counter(self, name: str) -> Counter:
        spec = _spec(name, "counter")
        return Counter(name, spec.meaning, spec.labels, registry=self.registry)

    def _gauge(self, name: str) -> Gauge:
        spec = _spec(name, "gauge")
        return Gauge(name, spec.meaning, spec.labels, registry=self.registry)

    def _histogram(self, name: str) -> Histogram:
        spec = _spec(name, "histogram")
        return Histogram(name, spec.meaning, spec.labels, registry=self.registry, buckets=spec.buckets)


def _spec(name: str, kind: Kind) -> MetricSpec:
    spec = METRICS[name]
    assert spec.kind == kind, f"{name} is declared as a {spec.kind}"
    return spec
