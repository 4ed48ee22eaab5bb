"""Redis keys: eight per bucket, all in one cluster slot (hash tag `{b<n>}`), always passed to a script together.

A conversation's replay buffer at the edge has two more in the same slot; they are a cache that expires by itself.

Fields inside the hashes (`c` = conversation key, `o` = operation id, `g` = attempt generation):

meta    token, replid, term:<role>, checkpoint:<topic>, opened
heads   c|rev, c|hd (history digest), c|cg (cancel generation), c|op (open operation), c|calls (revision with open
        calls), c|paused, c|whead and c|wtail (the line of held requests)
turns   c|<revision> -> the turn's bytes
ops     o|st, o|conv, o|base, o|cg, o|gen, o|relay, o|owner, o|boot, o|src, o|spec, o|seq, o|man, o|md, o|rd, o|handle,
        o|notes, o|unknown, o|evidence, o|out:<g> (records owed by the outcome of generation g)
reqs    c|r|<requestId>|v, ...|a, ...|c (verdict, stored answer, cause id); c|w|<n> (held request)
calls   the ledger's: <callKey>|<field>
leases  operation id -> expiry (ms)
timers  <kind>|<id> -> due (ms)
"""

from __future__ import annotations

KINDS = ("meta", "heads", "turns", "ops", "reqs", "calls", "leases", "timers")
META, HEADS, TURNS, OPS, REQS, CALLS, LEASES, TIMERS = range(8)


def bucket_keys(prefix: str, bucket: int) -> tuple[str, ...]:
    """The eight keys of a bucket, in the order every script expects."""
    return tuple(f"{prefix}:{{b{bucket}}}:{kind}" for kind in KINDS)


def replay_keys(prefix: str, bucket: int, conversation_key: str) -> tuple[str, str]:
    """A conversation's replay buffer at the edge, in the slot of its bucket: its state (hash), its events (stream)."""
    slot = f"{prefix}:{{b{bucket}}}"
    return f"{slot}:projection:{conversation_key}", f"{slot}:replay:{conversation_key}"


def instances_key(prefix: str) -> str:
    """Hash of instance id -> highest boot number seen."""
    return f"{prefix}:{{instances}}"


def takeovers_key(prefix: str, group: str, partition: int) -> str:
    """Hash of a group's partition: the position it was last taken over at, how often, the record that may kill."""
    return f"{prefix}:takeovers:{group}:{partition}"


def toolset_key(prefix: str, digest: str) -> str:
    """A toolset's bytes, immutable."""
    return f"{prefix}:toolset:{digest}"
