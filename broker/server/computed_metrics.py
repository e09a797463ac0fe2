"""Where the metrics that hold nothing come from: one row each, computed from the broker's state at
a scrape.

A source yields a sample at a time, so that the scrape can stop between any two and let the loop go
on; one with few samples of many partitions goes over them in steps.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Final

from broker.log.cleanable import dirty_ratio
from broker.log.damage import DamagedRange
from broker.log.open_segments import measure
from broker.log.survey import damaged_ranges
from broker.metrics import QUANTILES, percentile
from broker.ports import DiskFault
from broker.runtime.descriptors import descriptor_limit, open_descriptor_count
from broker.runtime.installation import installed_version
from broker.runtime.process_stats import cpu_seconds, device_read_bytes, resident_bytes
from broker.server.lag import is_current

if TYPE_CHECKING:
    from broker.server.lag import LagReader
    from broker.server.node import Broker
    from broker.server.partition import Partition

Sample = tuple[tuple[str, ...], float]
Source = Callable[["Broker", "LagReader"], AsyncIterator[Sample]]
PARTITIONS_PER_STEP: Final = 500
"""Looked at in one step of the loop, with or without a sample."""


async def _request_quantiles(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    now_ms = broker.clock.monotonic_ms()
    for (api,), child in list(broker.metrics.request_duration_seconds.children.items()):
        counts = child.recent_counts(now_ms)
        for quantile in QUANTILES:
            value = percentile(counts, quantile)
            if value is not None:
                yield (api, str(quantile)), value


async def _loop_lag_quantiles(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    counts = broker.metrics.loop_lag_seconds.labels().recent_counts(broker.clock.monotonic_ms())
    for quantile in QUANTILES:
        value = percentile(counts, quantile)
        if value is not None:
            yield (str(quantile),), value


async def _fetch_sessions(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), len(broker.fetch_sessions)


async def _fetch_sessions_evicted(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), broker.fetch_sessions.evicted_count


async def _topics(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), len(broker.catalog.topics())


async def _partitions(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), len(broker.partitions)


async def _in_steps(broker: Broker) -> AsyncIterator[Partition]:
    """Every partition that is not offline when it is looked at."""
    for count, partition in enumerate(broker.partitions.all(), start=1):
        if not partition.is_offline:
            yield partition
        if count % PARTITIONS_PER_STEP == 0:
            await asyncio.sleep(0)


async def _offline_partitions(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), sum(partition.is_offline for partition in broker.partitions.all())


async def _partition_offline(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    for partition in broker.partitions.all():
        if partition.is_offline:
            yield (partition.topic, str(partition.index)), 1


async def _log_sizes(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    for partition in broker.partitions.all():
        if not partition.is_offline:
            log = partition.log
            try:
                await measure(log)
            except DiskFault as fault:
                partition.take_offline(str(fault))
                continue
            yield (partition.topic, str(partition.index)), log.log_size()


async def _dirty_ratios(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for partition in _in_steps(broker):
        log = partition.log
        if log.config.is_compacted:
            yield (partition.topic, str(partition.index)), dirty_ratio(log)


async def _uncleanable_partitions(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    count = 0
    async for partition in _in_steps(broker):
        count += bool(partition.log.uncleanable_reason)
    yield (), count


async def _log_starts(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    for partition in broker.partitions.all():
        if not partition.is_offline:
            yield (partition.topic, str(partition.index)), partition.log_start_offset


async def _high_watermarks(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    for partition in broker.partitions.all():
        if not partition.is_offline:
            yield (partition.topic, str(partition.index)), partition.high_watermark


async def _delayed(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for partition in _in_steps(broker):
        if await _has_current_window(partition):
            delayed = partition.high_watermark - partition.visible_end
            yield (partition.topic, str(partition.index)), delayed


async def _expired(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for partition in _in_steps(broker):
        if await _has_current_window(partition):
            expired = partition.first_offset - partition.log_start_offset
            yield (partition.topic, str(partition.index)), expired


async def _has_current_window(partition: Partition) -> bool:
    if partition.window is None:
        return False
    return await is_current(partition) and partition.window is not None


async def _unsynced_bytes(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), sum(partition.unsynced_bytes for partition in broker.partitions.all())


async def _damaged_ranges(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for partition, ranges in _damage(broker):
        yield (partition.topic, str(partition.index)), len(ranges)


async def _damaged_offsets(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for partition, ranges in _damage(broker):
        count = sum(found.end_offset - found.offset for found in ranges)
        yield (partition.topic, str(partition.index)), count


async def _damage(broker: Broker) -> AsyncIterator[tuple[Partition, list[DamagedRange]]]:
    async for partition in _in_steps(broker):
        ranges = damaged_ranges(partition.log)
        if ranges:
            yield partition, ranges


async def _scrub_last_round(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    if broker.scrubbing.state.finished_ms:
        yield (), broker.scrubbing.state.finished_ms / 1000


async def _groups(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    for state, count in broker.groups.groups_by_state().items():
        yield (state,), count


async def _group_members(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    for group, count in broker.groups.members_by_group():
        yield (group,), count


async def _committed_offsets(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for position in lag.positions():
        partition = position.partition
        labels = (position.group, partition.topic, str(partition.index))
        yield labels, position.committed_offset


async def _lag_records(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for position in lag.positions():
        partition = position.partition
        yield (position.group, partition.topic, str(partition.index)), position.lag_records


async def _oldest_unread(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    async for position in lag.positions():
        partition = position.partition
        labels = (position.group, partition.topic, str(partition.index))
        age = await lag.oldest_unread_seconds(position)
        if age is not None:
            yield labels, age


async def _descriptors_open(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), open_descriptor_count()


async def _descriptors_limit(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), descriptor_limit()


async def _disk_used(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), broker.disk.total_bytes() - broker.disk.free_bytes()


async def _disk_free(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), broker.disk.free_bytes()


async def _disk_low(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), int(broker.space.is_low)


async def _disk_mark(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), broker.space.mark_bytes


async def _resident_memory(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), resident_bytes()


async def _cpu(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), cpu_seconds()


async def _device_reads(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    size = device_read_bytes()
    if size is not None:
        yield (), size


async def _uptime(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), (broker.clock.monotonic_ms() - broker.started_ms) / 1000


async def _ready(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (), int(broker.is_ready)


async def _node_info(broker: Broker, lag: LagReader) -> AsyncIterator[Sample]:
    yield (str(broker.node_id), broker.cluster_id, software_version()), 1


@functools.cache
def software_version() -> str:
    """The installed version of HermesMQ; "unknown" in a checkout that is not installed."""
    return installed_version() or "unknown"


COMPUTED: Final[dict[str, Source]] = {
    "hermes_request_duration_quantile_seconds": _request_quantiles,
    "hermes_fetch_sessions": _fetch_sessions,
    "hermes_fetch_sessions_evicted_total": _fetch_sessions_evicted,
    "hermes_topics": _topics,
    "hermes_partitions": _partitions,
    "hermes_offline_partitions": _offline_partitions,
    "hermes_partition_offline": _partition_offline,
    "hermes_log_size_bytes": _log_sizes,
    "hermes_cleaner_dirty_ratio": _dirty_ratios,
    "hermes_cleaner_uncleanable_partitions": _uncleanable_partitions,
    "hermes_log_start_offset": _log_starts,
    "hermes_high_watermark": _high_watermarks,
    "hermes_delivery_delayed_records": _delayed,
    "hermes_delivery_expired_records": _expired,
    "hermes_unsynced_bytes": _unsynced_bytes,
    "hermes_damaged_ranges": _damaged_ranges,
    "hermes_damaged_offsets": _damaged_offsets,
    "hermes_scrub_last_round_timestamp_seconds": _scrub_last_round,
    "hermes_groups": _groups,
    "hermes_group_members": _group_members,
    "hermes_group_committed_offset": _committed_offsets,
    "hermes_group_lag_records": _lag_records,
    "hermes_group_oldest_unread_seconds": _oldest_unread,
    "hermes_loop_lag_quantile_seconds": _loop_lag_quantiles,
    "hermes_descriptors_open": _descriptors_open,
    "hermes_descriptors_limit": _descriptors_limit,
    "hermes_disk_used_bytes": _disk_used,
    "hermes_disk_free_bytes": _disk_free,
    "hermes_disk_low": _disk_low,
    "hermes_disk_low_mark_bytes": _disk_mark,
    "hermes_process_resident_memory_bytes": _resident_memory,
    "hermes_process_cpu_seconds_total": _cpu,
    "hermes_process_device_read_bytes_total": _device_reads,
    "hermes_uptime_seconds": _uptime,
    "hermes_ready": _ready,
    "hermes_node_info": _node_info,
}
