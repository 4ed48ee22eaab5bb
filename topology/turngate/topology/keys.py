"""Bucket and partition of a conversation (DESIGN §2).

Bucket = murmur2(conversation key) mod 1024; partition = bucket mod partitions. Partition counts are powers
of two up to 1024, so the stock Kafka partitioner (murmur2 mod partitions) gives the same partition.
"""

from __future__ import annotations

from functools import lru_cache

BUCKETS = 1024
KEYS_REMEMBERED = 65_536


def murmur2(data: bytes) -> int:
    """Kafka's murmur2 as an unsigned, positive 31-bit number (what the stock partitioner takes modulo)."""
    length = len(data)
    seed = 0x9747B28C
    m = 0x5BD1E995
    mask = 0xFFFFFFFF
    h = (seed ^ length) & mask
    whole = length - length % 4
    for index in range(0, whole, 4):
        k = int.from_bytes(data[index : index + 4], "little")
        k = (k * m) & mask
        k ^= k >> 24
        k = (k * m) & mask
        h = (h * m) & mask
        h ^= k
    rest = data[whole:]
    if rest:
        h ^= int.from_bytes(rest, "little")
        h = (h * m) & mask
    h ^= h >> 13
    h = (h * m) & mask
    h ^= h >> 15
    return h & 0x7FFFFFFF


@lru_cache(maxsize=KEYS_REMEMBERED)
def bucket_of(key: bytes) -> int:
    """The bucket of a conversation key (`tenant/conversation`). Asked for with every record, so it is remembered."""
    return murmur2(key) % BUCKETS


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a conversation key. Raises ValueError unless `partitions` is a power of two."""
    check_partitions(partitions)
    return bucket_of(key) % partitions


def buckets_of(partition: int, partitions: int) -> range:
    """All buckets of one partition."""
    check_partitions(partitions)
    return range(partition, BUCKETS, partitions)


def check_partitions(partitions: int) -> None:
    if partitions < 1 or partitions > BUCKETS or partitions & (partitions - 1):
        raise ValueError(f"partitions must be a power of two between 1 and {BUCKETS}, not {partitions}")
