"""DescribeLogDirs (35): what the data directory holds, in bytes. 2 is flexible, 3 has a top-level
error, 4 the volume's sizes, 5 whether new replicas are kept off it (KIP-1066).
"""

from __future__ import annotations

from broker.wire.schema import INT32, array, boolean, int16, int32, int64, message, string, struct


@struct
class DescribableLogDirTopic:
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(INT32)


@message(api_key=35, direction="request", versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    """Partitions; null means all."""

    topics: list[DescribableLogDirTopic] | None = array(DescribableLogDirTopic, nullable="0+")


@struct
class DescribeLogDirsPartition:
    """One replica: its bytes, and how far its log end is from the high watermark."""

    partition_index: int = int32()
    partition_size: int = int64()
    offset_lag: int = int64()
    is_future_key: bool = boolean()


@struct
class DescribeLogDirsTopic:
    """Replicas of one topic."""

    name: str = string()
    partitions: list[DescribeLogDirsPartition] = array(DescribeLogDirsPartition)


@struct
class DescribeLogDirsResult:
    """One data directory; sizes of its volume are -1 when they are not known."""

    error_code: int = int16()
    log_dir: str = string()
    topics: list[DescribeLogDirsTopic] = array(DescribeLogDirsTopic)
    total_bytes: int = int64(-1, versions="4+", ignorable=True)
    usable_bytes: int = int64(-1, versions="4+", ignorable=True)
    is_cordoned: bool = boolean(versions="5+", ignorable=True)


@message(api_key=35, direction="response", versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    """Every data directory."""

    throttle_time_ms: int = int32()
    error_code: int = int16(versions="3+", ignorable=True)
    results: list[DescribeLogDirsResult] = array(DescribeLogDirsResult)
