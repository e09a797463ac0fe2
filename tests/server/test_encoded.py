"""Answers encoded in steps are byte for byte what one step would give."""

from __future__ import annotations

import asyncio
from copy import deepcopy
from random import Random
from typing import Any

import pytest

from broker.server.encoded import encode_body, encode_sliced
from broker.wire import api
from broker.wire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from broker.wire.messages.describe_configs import (
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def topics(random: Random, counts: list[int]) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name="t" * random.randint(0, 200),
                partitions=[
                    DeleteRecordsPartitionResult(
                        partition_index=index, low_watermark=random.getrandbits(40)
                    )
                    for index in range(count)
                ],
            )
            for count in counts
        ]
    )


def configs(random: Random, counts: list[int]) -> DescribeConfigsResponse:
    def synonyms() -> list[DescribeConfigsSynonym]:
        return [DescribeConfigsSynonym(name="s", value=None)] * random.randint(0, 30)

    return DescribeConfigsResponse(
        results=[
            DescribeConfigsResult(
                resource_name=f"r{count}",
                configs=[
                    DescribeConfigsResourceResult(name=f"c{index}", value="v", synonyms=synonyms())
                    for index in range(count)
                ],
            )
            for count in counts
        ]
    )


@pytest.mark.parametrize("seed", range(40))
def test_in_steps_or_at_once(seed: int) -> None:
    random = Random(seed)
    counts = [random.choice((0, 1, 2, 7, 130, 300)) for _ in range(random.choice((0, 1, 3, 300)))]
    is_shallow = random.random() < 0.5
    message: Any = topics(random, counts[:20]) if is_shallow else configs(random, counts[:6])
    key = api.DELETE_RECORDS if is_shallow else api.DESCRIBE_CONFIGS
    paths = [["topics"], ["topics", "partitions"]]
    if not is_shallow:
        paths = [["results"], ["results", "configs"], ["results", "configs", "synonyms"]]
    version = random.choice((1, 2)) if is_shallow else random.choice((1, 3, 4))
    whole = encode_body(key, version, message)
    before = deepcopy(message)
    for path in paths:
        step = random.choice((1, 3, 50, 1000))
        assert asyncio.run(encode_sliced(key, version, message, path, step)).body == whole
        assert message == before


def test_the_loop_has_its_turn_between_two_steps() -> None:
    message = topics(Random(0), [5_000])
    turns = 0

    async def run() -> None:
        nonlocal turns
        encoding = asyncio.ensure_future(
            encode_sliced(api.DELETE_RECORDS, 2, message, ["topics", "partitions"], 100)
        )
        while not encoding.done():
            turns += 1
            await asyncio.sleep(0)

    asyncio.run(run())
    assert turns >= 50
