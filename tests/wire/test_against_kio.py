"""Every advertised version of every message, both directions, byte for byte against kio."""

from __future__ import annotations

from random import Random

import pytest

from broker.wire.api import Api
from broker.wire.schema import decoder, encoder
from tests.wire.kio_oracle import kio_decode, kio_encode, kio_type, to_kio
from tests.wire.samples import VERSIONS, message_type, sample

SAMPLES = 12


@pytest.mark.parametrize(
    ("api", "direction", "version"),
    VERSIONS,
    ids=[f"{api.name}-{direction}-v{version}" for api, direction, version in VERSIONS],
)
def test_bytes_equal_kio_in_both_directions(api: Api, direction: str, version: int) -> None:
    ours = message_type(api, direction)
    theirs = kio_type(api, direction, version)
    random = Random(f"{api.name} {direction} {version}")
    encode, decode = encoder(ours, version), decoder(ours, version)
    for _ in range(SAMPLES):
        message = sample(ours, version, random)
        twin = to_kio(message, theirs, version)
        expected = kio_encode(twin)

        out = bytearray(b"before")
        encode(out, message)
        assert out == b"before" + expected

        decoded, end = decode(memoryview(b"before" + expected + b"after"), len(b"before"))
        assert decoded == message
        assert end == len(b"before") + len(expected)
        assert kio_decode(theirs, bytes(out[6:])) == twin


def test_every_api_of_the_plan_is_covered() -> None:
    assert len({api.key for api, _, _ in VERSIONS}) == 34
    assert len(VERSIONS) > 280
