"""Reads the broker's Prometheus text into the few numbers that the console shows. Pure.

Unknown lines are skipped: Apache Kafka behind an exporter has other names, then every number is
None.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hermes_console.live.observation import MetricsObserved, TopicPartition
from hermes_console.samples.snapshot import FlaggedPartition, Storage
from hermes_console.storagealarms import FLAGS_BY_METRIC

LINES_MAX: Final = 2_000_000
OLDEST_UNREAD: Final = "hermes_group_oldest_unread_seconds"
SUMMED: Final = {
    "hermes_records_in_total": "records_in_total",
    "hermes_bytes_in_total": "bytes_in_total",
    "hermes_records_out_total": "records_out_total",
    "hermes_bytes_out_total": "bytes_out_total",
    "hermes_disk_used_bytes": "disk_used_bytes",
    "hermes_disk_free_bytes": "disk_free_bytes",
    "hermes_log_size_bytes": "log_bytes",
    "hermes_disk_low": "disk_low",
    "hermes_disk_low_mark_bytes": "low_mark_bytes",
    "hermes_cleaner_uncleanable_partitions": "uncleanable",
}
COUNTERS: Final = frozenset(name for name in SUMMED if name.endswith("_total"))
NODE_INFO: Final = "hermes_node_info"
DIRTY_SHARE: Final = "hermes_cleaner_dirty_ratio"
FLAGGED_MAX: Final = 1_000
"""Flagged partitions that are kept; all are counted."""
DIRTY_TOPICS_MAX: Final = 1_000
WANTED: Final = ("# TYPE ", OLDEST_UNREAD, NODE_INFO, DIRTY_SHARE, *SUMMED, *FLAGS_BY_METRIC)
PLAIN_OLDEST_UNREAD: Final = re.compile(
    OLDEST_UNREAD
    + r'\{group="([^"\\]*)",topic="([^"\\]*)",partition="(\d{1,9})"\} (\S+)(?: \d+)?\s*\Z',
    re.ASCII,
)
"""The line as our broker writes it when no name needs an escape."""


def read_metrics(text: str) -> MetricsObserved:
    """The numbers in `text`; a counter that was declared but never counted is 0, an absent one
    None.
    """
    sums: dict[str, float] = {}
    oldest: dict[tuple[str, TopicPartition], float] = {}
    node_id: int | None = None
    flagged: list[FlaggedPartition] = []
    dirty: dict[str, float] = {}
    # A large broker's text has 100,000 lines, read every second: most are left out by one test.
    for line in text.split("\n")[:LINES_MAX]:
        if not line.startswith(WANTED):
            continue
        plain = PLAIN_OLDEST_UNREAD.match(line)
        if plain is not None:
            oldest[plain[1], TopicPartition(plain[2], int(plain[3]))] = _number(plain[4])
            continue
        if line.startswith("# TYPE "):
            declared = line.split(" ", 3)[2]
            if declared in COUNTERS:
                sums.setdefault(SUMMED[declared], 0.0)
            continue
        name = line[: _name_end(line)]
        if name in SUMMED:
            sums[SUMMED[name]] = sums.get(SUMMED[name], 0.0) + _value(line)
        elif name == OLDEST_UNREAD:
            labels = dict(_labels(line))
            where = _partition(labels)
            if where is not None:
                oldest[labels.get("group", ""), where] = _value(line)
        elif name == NODE_INFO:
            found = dict(_labels(line)).get("node_id", "")
            node_id = int(found) if found.isdecimal() else None
        elif name == DIRTY_SHARE:
            _keep_worst(dirty, line)
        elif name in FLAGS_BY_METRIC and (where := _flagged(line)) is not None:
            flagged.append(FlaggedPartition(FLAGS_BY_METRIC[name].key, *where))
    return MetricsObserved(
        records_in_total=sums.get("records_in_total"),
        bytes_in_total=sums.get("bytes_in_total"),
        records_out_total=sums.get("records_out_total"),
        bytes_out_total=sums.get("bytes_out_total"),
        disk_used_bytes=_whole(sums.get("disk_used_bytes")),
        disk_free_bytes=_whole(sums.get("disk_free_bytes")),
        log_bytes=_whole(sums.get("log_bytes")),
        oldest_unread_seconds=oldest,
        storage=_storage(node_id, sums, flagged, dirty),
    )


def _keep_worst(dirty: dict[str, float], line: str) -> None:
    """Notes by topic the highest share of its partitions; 0 is not noted."""
    share = _value(line)
    topic = dict(_labels(line)).get("topic", "")
    if share > dirty.get(topic, 0.0) and (topic in dirty or len(dirty) < DIRTY_TOPICS_MAX):
        dirty[topic] = share


def _storage(
    node_id: int | None,
    sums: Mapping[str, float],
    flagged: Sequence[FlaggedPartition],
    dirty: Mapping[str, float],
) -> Storage:
    return Storage(
        node_id=node_id,
        is_low=bool(sums.get("disk_low")),
        low_mark_bytes=_whole(sums.get("low_mark_bytes")),
        flagged=tuple(flagged[:FLAGGED_MAX]),
        flagged_counts=Counter(one.flag for one in flagged),
        uncleanable_count=int(sums.get("uncleanable", 0)),
        dirty_shares=dirty,
    )


def _flagged(line: str) -> TopicPartition | None:
    """The partition of a flag that is up."""
    return _partition(dict(_labels(line))) if _value(line) else None


def _partition(labels: Mapping[str, str]) -> TopicPartition | None:
    """None for labels that name none."""
    index = labels.get("partition", "")
    return TopicPartition(labels.get("topic", ""), int(index)) if index.isdecimal() else None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _name_end(line: str) -> int:
    brace, space = line.find("{"), line.find(" ")
    return min(position for position in (brace, space, len(line)) if position >= 0)


def _value(line: str) -> float:
    """The number after the labels (a timestamp may follow); 0 for what is none."""
    words = line[line.rfind("}") + 1 :].split() if "}" in line else line.split()[1:]
    return _number(words[0]) if words else 0.0


def _number(word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        return 0.0
    return value if value == value and abs(value) != float("inf") else 0.0  # noqa: PLR0124  NaN


def _labels(line: str) -> Iterator[tuple[str, str]]:
    """Label pairs; values may hold escaped quotes, backslashes and newlines."""
    position = line.find("{") + 1
    end = line.rfind("}")
    while 0 < position < end:
        equals = line.find('="', position)
        if equals < 0:
            return
        name = line[position:equals].strip(", ")
        value: list[str] = []
        position = equals + 2
        while position < end and line[position] != '"':
            if line[position] == "\\":
                position += 1
                value.append({"n": "\n"}.get(line[position], line[position]))
            else:
                value.append(line[position])
            position += 1
        yield name, "".join(value)
        position += 1
