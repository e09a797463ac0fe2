"""The journal's bytes: what is read is what was written, whole or not at all."""

from __future__ import annotations

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from broker.log.journal import (
    BLOCK_BYTES,
    FIRST_RECORD,
    RECORD_BYTES_MAX,
    JournalEntry,
    JournalHead,
    blocks_of,
    encode_head,
    entries_of,
    find_record,
    read_heads,
    record_size,
)
from broker.records.crc import crc32c
from broker.server.journal_rounds import LOGS_MAX, ROUND_BYTES_MAX
from tests.log.journal_world import OTHER_RUN, RUN, record_of
from tests.log.world import TOPIC_ID

CONTENTS = st.binary(max_size=300)
ENTRIES = st.lists(
    st.builds(
        JournalEntry,
        st.binary(min_size=16, max_size=16),
        st.integers(0, 2**31 - 1),
        st.text("abcXYZ-_.09", min_size=1, max_size=249),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        CONTENTS,
    ),
    max_size=4,
)


@settings(deadline=None)
@given(ENTRIES, st.integers(0, 2**64 - 1))
def test_a_record_says_what_was_written(entries: list[JournalEntry], sequence: int) -> None:
    content = memoryview(record_of(entries, sequence))
    found = find_record(content, 8192, RUN)
    assert found == (sequence, 8192, record_size(entries))
    read = [entry._replace(content=bytes(entry.content)) for entry in entries_of(content)]
    assert read == entries
    assert find_record(content, 8192, OTHER_RUN) is None, "of another process"


@settings(deadline=None)
@given(ENTRIES, st.data())
def test_a_record_that_is_not_whole_is_none(
    entries: list[JournalEntry], data: st.DataObject
) -> None:
    content = bytearray(record_of(entries, 5))
    size = record_size(entries)
    position = data.draw(st.integers(0, size - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    assert find_record(memoryview(content), 0, RUN) is None, "one bit"
    whole = record_of(entries, 5)
    cut = data.draw(st.integers(0, size - 1))
    assert find_record(memoryview(whole[:cut]), 0, RUN) is None, "torn"


def test_the_longest_record_of_a_round_fits() -> None:
    size = ROUND_BYTES_MAX // LOGS_MAX
    one = JournalEntry(TOPIC_ID, 2**31 - 1, "x" * 249, 2**63 - 1, 2**63 - 1, bytes(size))
    assert blocks_of(record_size(LOGS_MAX * [one])) <= RECORD_BYTES_MAX


def test_the_later_whole_head_counts() -> None:
    old, new = JournalHead(RUN, 6), JournalHead(OTHER_RUN, 7)
    both = encode_head(old) + encode_head(new)
    assert (old.position, new.position) == (0, BLOCK_BYTES)
    assert read_heads(both) == (new, False, 0)
    for position in range(36):
        torn = bytearray(both)
        torn[BLOCK_BYTES + position] ^= 0xFF
        assert read_heads(bytes(torn)) == (old, True, 0), position
        torn[position] ^= 0xFF
        assert read_heads(bytes(torn)) == (None, True, 0)
    assert read_heads(bytes(FIRST_RECORD)) == read_heads(b"") == (None, False, 0)
    assert read_heads(both[:30]) == (None, True, 0)
    assert old.followed_by(OTHER_RUN) == (JournalHead(OTHER_RUN, 7), JournalHead(OTHER_RUN, 8))


def test_a_record_that_lies_about_its_size_is_none() -> None:
    content = bytearray(record_of([JournalEntry(TOPIC_ID, 0, "t", 0, 0, b"x")], 1))
    for size in (0, 39, len(content) + 1, 2**32 - 1):
        content[32:36] = pack(">I", size)
        content[36:40] = pack(">I", crc32c(content[40:size], crc32c(content[:36])))
        assert find_record(memoryview(content), 0, RUN) is None
