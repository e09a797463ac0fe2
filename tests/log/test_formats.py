"""The log's small files: what is written comes back, anything else is recognised."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.log.epochs import LeaderEpochs, decode_epochs, encode_epochs
from broker.log.index import (
    SegmentIndex,
    Times,
    decode_indexes,
    encode_index,
    encode_time_index,
)
from broker.log.names import Swap, numbered, ranged, sort_out
from broker.log.snapshot import decode_snapshot

offsets = st.integers(0, 2**62)
entries = st.lists(
    st.tuples(
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**32 - 1),
        st.integers(0, 2**62),
        st.integers(-1, 2**62),
    ),
    max_size=20,
)


def an_index(base: int, rows: list[tuple[int, int, int, int]]) -> SegmentIndex:
    index = SegmentIndex(base)
    for relative, position, append_time, timestamp in rows:
        assert index.add(base + relative, position, append_time, timestamp)
    return index


@given(offsets, entries, st.integers(0, 2**40), st.data())
def test_indexes_come_back_whole_or_not_at_all(
    base: int, rows: list[tuple[int, int, int, int]], size: int, data: st.DataObject
) -> None:
    index, times = an_index(base, rows), Times(1, 2, 3)
    files = [encode_index(index, size), encode_time_index(index, size, times)]
    found = decode_indexes(base, *files)
    assert found is not None
    assert found[1:] == (times, size)
    for name in ("relative_offsets", "positions", "append_times", "max_timestamps"):
        assert getattr(found[0], name) == getattr(index, name)
    number = data.draw(st.integers(0, 1))
    position = data.draw(st.integers(0, len(files[number]) - 1))
    harmed = bytearray(files[number])
    harmed[position] ^= data.draw(st.integers(1, 255))
    files[number] = bytes(harmed)
    assert decode_indexes(base, *files) is None
    assert decode_indexes(base + 1, *files) is None


@given(st.binary(max_size=300), st.binary(max_size=300))
def test_random_bytes_are_no_file_of_ours(first: bytes, second: bytes) -> None:
    assert decode_indexes(0, first, second) is None
    assert decode_snapshot(first) is None
    assert decode_epochs(first) is None


def test_an_offset_too_far_from_the_base_is_not_entered() -> None:
    index = SegmentIndex(10)
    assert index.add(10 + 2**32 - 1, 5, 0, 0)
    assert not index.add(10 + 2**32, 9, 0, 0)
    assert len(index) == 1
    assert index.floor_offset(2**60) == (10 + 2**32 - 1, 5)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=20, unique=True), st.data())
def test_floors_are_the_last_entries_at_or_below(places: list[int], data: st.DataObject) -> None:
    places.sort()
    index = an_index(100, [(place, place * 10, place, place) for place in places])
    target = data.draw(st.integers(0, 60))
    below = [place for place in places if place <= target]
    assert index.floor_offset(100 + target) == (
        (100 + below[-1], below[-1] * 10) if below else (100, 0)
    )
    assert index.floor_position(target * 10) == index.floor_offset(100 + target)
    before = [place for place in places if place < target]
    assert index.floor_timestamp(target) == (
        (100 + before[-1], before[-1] * 10) if before else (100, 0)
    )


@given(st.lists(st.tuples(st.integers(0, 2**31), offsets), max_size=10))
def test_leader_epochs_come_back(pairs: list[tuple[int, int]]) -> None:
    content = encode_epochs(pairs)
    assert decode_epochs(content) == pairs
    assert decode_epochs(content[:-1]) is None
    assert decode_epochs(b"2" + content[1:]) is None


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 30)), max_size=12), st.integers(0, 30))
def test_epochs_answer_as_a_plain_list_does(steps: list[tuple[int, int]], end: int) -> None:
    epochs = LeaderEpochs()
    offset = 0
    owner: list[int] = []
    for epoch, count in sorted(steps):
        epochs.begin(epoch, offset)
        owner += [epoch] * count
        offset += count
    assert [epochs.epoch_at(place) for place in range(offset)] == owner
    for epoch in set(owner):
        last = max(place for place in range(offset) if owner[place] == epoch)
        assert epochs.end_offset_for_epoch(epoch, offset) == (epoch, last + 1)
    epochs.truncate_to_offset(end)
    assert all(start < end for _, start in epochs.entries)


def test_a_directorys_names_are_sorted_out() -> None:
    listing = sort_out(
        [
            numbered(5, ".log"),
            numbered(7, ".log"),
            numbered(7, ".snapshot"),
            numbered(7, ".idx"),
            numbered(6, ".idx"),
            numbered(6, ".timeidx"),
            ranged(5, 9, ".swap"),
            ranged(5, 0, ".cleaned"),
            "x.deleted",
            "x.tmp",
            "notes.txt",
            "00005.log",
        ]
    )
    assert listing.segments == [5, 7]
    assert listing.snapshots == [7]
    assert listing.swaps == [Swap(5, 9, ranged(5, 9, ".swap"))]
    no_segments = [numbered(6, ".idx"), numbered(6, ".timeidx")]
    assert listing.leftovers == [ranged(5, 0, ".cleaned"), "x.deleted", "x.tmp", *no_segments]
