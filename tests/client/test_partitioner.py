"""murmur2 against kafka-python's, which is tested against Java."""

from __future__ import annotations

import warnings
from collections import Counter
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.client.partitioner import (
    StickyPartitioner,
    murmur2,
    murmur2_partition,
    murmur2_partitions,
)

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as oracle


@given(st.binary(max_size=64))
def test_hash_is_javas(key: bytes) -> None:
    assert murmur2(key) == oracle(key) & 0xFFFFFFFF


def test_known_values_of_javas_own_test() -> None:
    expected = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
    for key, value in expected.items():
        assert murmur2(key) == value & 0xFFFFFFFF


@settings(deadline=None)
@given(st.integers(0, 2**64), st.integers(1, 300), st.sets(st.integers(0, 1_100), max_size=4))
def test_many_keys_go_where_each_of_them_goes(seed: int, count: int, sizes: set[int]) -> None:
    random = Random(seed)
    keys = [random.randbytes(random.choice([8, *sizes])) for _ in range(count)]
    assert murmur2_partitions(keys, 1_000) == [murmur2_partition(key, 1_000) for key in keys]
    assert murmur2_partitions([], 5) == []


def test_partition_is_below_the_count_and_used_evenly() -> None:
    counts = Counter(murmur2_partition(f"order-{number}".encode(), 7) for number in range(7000))
    assert set(counts) == set(range(7))
    assert max(counts.values()) < 1.2 * min(counts.values())


class SeededIds:
    def __init__(self) -> None:
        self._random = Random(1)

    def uuid(self) -> bytes:
        return self._random.randbytes(16)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def test_records_without_a_key_stay_for_a_batch_then_move() -> None:
    sticky = StickyPartitioner(SeededIds(), bytes_max=1000)
    chosen = [sticky.partition("orders", 50, 100) for _ in range(200)]
    for start in range(0, 200, 10):
        assert len(set(chosen[start : start + 10])) == 1
    assert len(set(chosen)) > 10
