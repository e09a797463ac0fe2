"""Frames out of a byte stream, through the shared buffer, by whatever pieces they arrive in."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.server.incoming import FrameError, Incoming
from broker.server.limits import (
    FRAME_BUFFER_BYTES_MIN,
    KEPT_PREFIX_BYTES_MAX,
    SHARED_TURN_BYTES_MAX,
    MemoryBudget,
)

SHARED_BYTES = 1 << 20
SIZE_MAX = 8 << 20
OTHERS = b"\xee"


class Feed:
    """A connection's reads as asyncio makes them: get_buffer, fill some of it, take frames."""

    def __init__(self, memory_bytes: int = 64 << 20) -> None:
        self.shared = memoryview(bytearray(OTHERS * SHARED_BYTES))
        self.memory = MemoryBudget(memory_bytes)
        self.incoming = Incoming(self.shared, self.memory)
        self.frames: list[bytes] = []

    def push(self, given: bytes, piece: int | None = None, taken: int = 0) -> None:
        data = memoryview(given)
        while data:
            buffer = self.incoming.get_buffer(taken)
            count = min(len(buffer), len(data), piece or len(data))
            assert count > 0
            buffer[:count] = data[:count]
            data = data[count:]
            assert not any(self.shared[:taken].tobytes().strip(OTHERS)), "others' bytes are there"
            self.take(count)
            if self.incoming.is_starved:
                return

    def take(self, count: int, frame_count_max: int = 1_000_000) -> None:
        self.incoming.begin(count)
        try:
            for _ in range(frame_count_max):
                frame = self.incoming.next_frame(SIZE_MAX)
                if frame is None:
                    break
                assert not frame.readonly, "batches are patched in place"
                self.frames.append(bytes(frame))
        finally:
            self.incoming.keep_rest()
        self.shared[:] = OTHERS * SHARED_BYTES  # other connections use it too


def framed(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


@settings(deadline=None, max_examples=40)
@given(
    sizes=st.lists(
        st.sampled_from([0, 1, 3, 100, 70_000, 300_000, 1_500_000, 5_000_000]), max_size=6
    ),
    piece=st.sampled_from([9_970, 40_960, 65_536, 200_001, 1 << 20, 1 << 24]),
    taken=st.sampled_from([0, 1, 999, SHARED_TURN_BYTES_MAX]),
)
def test_frames_come_out_whole_whatever_the_pieces(
    sizes: list[int], piece: int, taken: int
) -> None:
    feed = Feed()
    marked = [bytes([index]) + b"x" * size for index, size in enumerate(sizes)]
    feed.push(b"".join(map(framed, marked)), piece, taken)
    assert [len(frame) for frame in feed.frames] == [len(frame) for frame in marked]
    assert feed.frames == marked, "contents differ"
    assert not feed.incoming.is_inside_frame
    assert feed.memory.used_bytes == 0


def test_bytes_one_by_one_make_a_frame() -> None:
    feed = Feed()
    feed.push(framed(b"hello") + framed(b""), piece=1)
    assert feed.frames == [b"hello", b""]


def test_a_size_alone_costs_no_memory() -> None:
    feed = Feed()
    feed.push(struct.pack(">i", SIZE_MAX))
    assert feed.incoming.is_inside_frame
    assert feed.memory.used_bytes <= FRAME_BUFFER_BYTES_MIN


@pytest.mark.parametrize("size", [-1, -(2**31), SIZE_MAX + 1, 2**31 - 1])
def test_an_impossible_size_is_refused_before_memory_is_taken(size: int) -> None:
    feed = Feed()
    with pytest.raises(FrameError, match=str(size)):
        feed.push(struct.pack(">i", size))
    assert feed.memory.used_bytes == 0


@pytest.mark.parametrize(
    ("first_bytes", "word"),
    [(b"GET / HTTP/1.1\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")],
)
def test_another_protocol_is_recognised(first_bytes: bytes, word: str) -> None:
    with pytest.raises(FrameError, match=word):
        Feed().push(first_bytes)


def test_a_big_frame_waits_for_memory_and_grows_when_it_comes() -> None:
    feed = Feed(memory_bytes=2 << 20)
    feed.memory.take(2 << 20)
    payload = b"y" * (KEPT_PREFIX_BYTES_MAX + 1 + SHARED_BYTES)
    feed.push(framed(payload))
    assert feed.incoming.is_starved
    feed.memory.give(2 << 20)
    feed.incoming.grow()
    assert not feed.incoming.is_starved
    feed.push(framed(payload)[SHARED_BYTES:])
    assert feed.frames == [payload]


def test_what_was_not_handled_is_kept_apart_from_the_shared_buffer() -> None:
    feed = Feed()
    data = b"".join(framed(bytes([index]) * 10) for index in range(5))
    feed.incoming.get_buffer()[: len(data)] = data
    feed.take(len(data), frame_count_max=2)
    assert feed.incoming.has_backlog
    feed.take(0, frame_count_max=2)
    feed.take(0)
    assert feed.frames == [bytes([index]) * 10 for index in range(5)]
    assert not feed.incoming.has_backlog


def test_a_big_frame_that_is_complete_and_not_taken_is_a_backlog() -> None:
    """Its connection stopped handling just then: there is no room to read into, and nothing may be
    read before the frame is taken.
    """
    feed = Feed()
    sent = framed(b"x" * 300_000)
    feed.push(sent[:-10])
    assert not feed.incoming.has_backlog
    feed.incoming.get_buffer()[:10] = sent[-10:]
    feed.take(10, frame_count_max=0)
    assert feed.incoming.has_backlog
    feed.take(0)
    assert feed.frames == [b"x" * 300_000]
    assert not feed.incoming.has_backlog
    assert len(feed.incoming.get_buffer()) == SHARED_BYTES


def test_closing_returns_the_memory_of_an_incomplete_frame() -> None:
    feed = Feed()
    feed.push(framed(b"z" * (1 << 20))[: 600 << 10])
    assert feed.memory.used_bytes > 0
    feed.incoming.close()
    assert feed.memory.used_bytes == 0
