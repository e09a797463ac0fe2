"""Whatever the bytes, a decoder answers with a message or MalformedMessage, soon, and in memory
proportional to them: a length or count is never believed before the bytes are there
(CVE-2022-34917).
"""

from __future__ import annotations

import contextlib
import gc
import struct
import time
import tracemalloc
from functools import cache
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broker.wire import frame
from broker.wire.api import APIS, Api
from broker.wire.fast_produce import decode_produce
from broker.wire.messages.produce import ProduceRequest
from broker.wire.primitives import MalformedMessage
from broker.wire.schema import decoder, encoder
from tests.wire.samples import VERSIONS, message_type, sample

HOSTILE = (
    struct.pack(">i", -2),
    struct.pack(">i", 2**31 - 1),
    struct.pack(">i", -(2**31)),
    struct.pack(">h", -2),
    struct.pack(">h", 32767),
    b"\xff\xff\xff\xff\x07",  # varint 2^31 - 1
    b"\xff\xff\xff\xff\x0f",  # varint 2^32 - 1
    b"\xff\xff\xff\xff\xff\x01",  # more than 32 bits
    b"\xff" * 12,
)
SETTINGS = settings(
    max_examples=1500, deadline=None, derandomize=True, database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip


def decode_any(api: Api, direction: str, version: int, data: bytes) -> None:
    """Decode in every way there is; anything but MalformedMessage escapes."""
    view = memoryview(data)
    with contextlib.suppress(MalformedMessage):
        decoder(message_type(api, direction), version)(view, 0)
    if direction == "response":
        with contextlib.suppress(MalformedMessage):
            frame.decode_response(api.key, version, view)
    elif api.request_type is ProduceRequest:
        with contextlib.suppress(MalformedMessage):
            decode_produce(view, 0, version)


@cache
def valid_bytes(api: Api, direction: str, version: int) -> bytes:
    """The longest of a few samples, at most 600 bytes."""
    random = Random(f"{api.name}{direction}{version}")
    best = b""
    for _ in range(20):
        out = bytearray()
        kind = message_type(api, direction)
        encoder(kind, version)(out, sample(kind, version, random))
        if len(best) < len(out) <= 600:
            best = bytes(out)
    return best


@SETTINGS
@given(st.sampled_from(VERSIONS), st.binary(max_size=200))
def test_random_bytes(case: tuple[Api, str, int], data: bytes) -> None:
    decode_any(*case, data)


@SETTINGS
@given(st.sampled_from(VERSIONS), st.data())
def test_mutated_messages(case: tuple[Api, str, int], data: st.DataObject) -> None:
    content = bytearray(valid_bytes(*case))
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(0, len(content)))
        patch = data.draw(st.one_of(st.sampled_from(HOSTILE), st.binary(min_size=1, max_size=6)))
        cut = data.draw(st.sampled_from((0, 1, len(patch))))
        content[position : position + cut] = patch
    decode_any(*case, bytes(content))


@SETTINGS
@given(st.binary(max_size=40), st.sampled_from(sorted(APIS)), st.integers(-1, 20))
def test_request_headers(tail: bytes, key: int, version: int) -> None:
    with contextlib.suppress(MalformedMessage):
        frame.decode_request_header(memoryview(struct.pack(">hhi", key, version, 1) + tail))


def test_hostile_lengths_at_every_position() -> None:
    for case in VERSIONS[::2]:
        content = valid_bytes(*case)[:160]
        for position in range(len(content)):
            for patch in HOSTILE:
                decode_any(*case, content[:position] + patch + content[position + len(patch) :])


def test_every_cut_is_malformed() -> None:
    for api, direction, version in VERSIONS:
        content = valid_bytes(api, direction, version)
        decode = decoder(message_type(api, direction), version)
        for end in range(0, len(content), 7):
            with pytest.raises(MalformedMessage):
                decode(memoryview(content)[:end], 0)


@pytest.mark.parametrize(
    "filling", [b"\0", b"\1", b"\2", b"\x7f", b"\xff", b"\x80\x02", b"\xff\xff\xff\x7f"]
)
def test_memory_and_time_follow_the_size_of_the_input(filling: bytes) -> None:
    """A frame full of small elements or promises costs at most 30 times its bytes."""
    size = 40_000
    data = filling * (size // len(filling))
    for api, direction, version in VERSIONS:
        for head in (b"", struct.pack(">i", 30_000), b"\xff\xff\x01"):
            gc.collect(0)
            tracemalloc.start()
            begin = time.perf_counter()
            with contextlib.suppress(MalformedMessage):
                decoder(message_type(api, direction), version)(memoryview(head + data), 0)
            seconds = time.perf_counter() - begin
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            assert peak < 30 * size, f"{api.name} {direction} {version}: {peak} bytes for {size}"
            assert seconds < 2, f"{api.name} {direction} {version}: {seconds} s for {size} bytes"
