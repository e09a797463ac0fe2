"""DescribeLogDirs (35): how many bytes each partition has in the data directory, and the volume's
sizes.

There is one directory and one replica of everything: nothing lags behind, nothing moves, and no
directory can be cordoned. Partitions that do not exist, or are offline, are left out, as Kafka
does.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Final

from broker.errors import ErrorCode
from broker.log.open_segments import measure
from broker.ports import DiskFault
from broker.server.context import RequestContext
from broker.server.encoded import EncodedBody, encode_sliced
from broker.server.outcome import count_errors
from broker.wire.api import DESCRIBE_LOG_DIRS
from broker.wire.messages.describe_log_dirs import (
    DescribeLogDirsPartition,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
    DescribeLogDirsResult,
    DescribeLogDirsTopic,
)

if TYPE_CHECKING:
    from broker.server.node import Broker

PARTITIONS_PER_STEP: Final = 250


async def handle_describe_log_dirs(
    broker: Broker, context: RequestContext, request: DescribeLogDirsRequest
) -> EncodedBody:
    """The data directory with the partitions asked for; null asks for all, nothing for none."""
    result = _directory(broker)
    count_errors(broker, "DescribeLogDirs", [result.error_code])
    if result.error_code == ErrorCode.NONE:
        result.topics = await _topics(broker, request)
    return await encode_sliced(
        DESCRIBE_LOG_DIRS,
        context.api_version,
        DescribeLogDirsResponse(results=[result]),
        ["results", "topics", "partitions"],
        PARTITIONS_PER_STEP,
    )


def _directory(broker: Broker) -> DescribeLogDirsResult:
    result = DescribeLogDirsResult(log_dir=str(Path(broker.settings.log_dir).absolute()))
    try:
        result.total_bytes = broker.disk.total_bytes()
        result.usable_bytes = broker.disk.free_bytes()
    except DiskFault:
        result.error_code = ErrorCode.KAFKA_STORAGE_ERROR
    return result


async def _topics(broker: Broker, request: DescribeLogDirsRequest) -> list[DescribeLogDirsTopic]:
    topics: list[DescribeLogDirsTopic] = []
    looked_at = 0
    for name, indexes in _wanted(broker, request):
        partitions = []
        for index in indexes:
            looked_at += 1
            if looked_at % PARTITIONS_PER_STEP == 0:
                await asyncio.sleep(0)
            partition = broker.partitions.get(name, index)
            if partition is not None and not partition.is_offline:
                log = partition.log
                try:
                    await measure(log)
                except DiskFault as fault:
                    partition.take_offline(str(fault))
                    continue
                size = log.log_size()
                partitions.append(
                    DescribeLogDirsPartition(partition_index=index, partition_size=size)
                )
        if partitions:
            topics.append(DescribeLogDirsTopic(name=name, partitions=partitions))
    return topics


def _wanted(broker: Broker, request: DescribeLogDirsRequest) -> list[tuple[str, list[int]]]:
    if request.topics is None:
        return [
            (topic.name, list(range(topic.partition_count))) for topic in broker.catalog.topics()
        ]
    wanted: dict[str, dict[int, None]] = {}
    for topic in request.topics:
        wanted.setdefault(topic.topic, {}).update(dict.fromkeys(topic.partitions))
    return [(name, list(indexes)) for name, indexes in wanted.items()]
