"""The JSON of topics and settings, both ways: serializers for the document, functions for answers.

64-bit integers are strings; null is unknown, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rest_framework import serializers

from broker.client.blocking import BrokerRefusal, WindowCounts
from hermes_console.operations.configs import Change, Setting
from hermes_console.operations.topics import BROKER_DECIDES, PARTITIONS_MAX
from hermes_console.operations.topics_catalogue import Show, TopicEntry
from hermes_console.operations.topics_impact import Cut, Reader
from hermes_console.operations.topics_read import Partition, Topic, TopicNumbers

INT64: Final = r"^-?[0-9]{1,19}$"
VERDICT_HELP: Final = "How the whole group does, as in the list of groups."


class ReaderSerializer(serializers.Serializer[Any]):
    """A group that reads a topic, as last sampled."""

    name = serializers.CharField(allow_blank=True)
    state = serializers.CharField()
    verdict = serializers.CharField(help_text=VERDICT_HELP)
    lag = serializers.CharField(allow_null=True, help_text="On this topic alone.")
    lag_seconds = serializers.FloatField(allow_null=True)
    member_count = serializers.IntegerField(help_text="Members that read this topic now.")


class TopicRowSerializer(serializers.Serializer[Any]):
    """One topic of a list."""

    name = serializers.CharField()
    topic_id = serializers.CharField(allow_blank=True, help_text="Hexadecimal.")
    is_internal = serializers.BooleanField()
    partition_count = serializers.IntegerField()
    replication_factor = serializers.IntegerField()
    trouble = serializers.CharField(
        allow_blank=True, help_text="What is wrong with its partitions, empty when nothing is."
    )
    size_bytes = serializers.CharField(allow_null=True, help_text="All replicas on disk.")
    messages_in_per_second = serializers.FloatField(
        allow_null=True, help_text="Over the last minute, by the messages' timestamps."
    )
    retention_ms = serializers.CharField(allow_null=True)
    retention_bytes = serializers.CharField(allow_null=True)
    cleanup_policy = serializers.CharField(allow_null=True)
    groups = ReaderSerializer(many=True)


class TopicPageSerializer(serializers.Serializer[Any]):
    """A page of topics, in order of name."""

    cluster = serializers.CharField()
    topics = TopicRowSerializer(many=True)
    gaps = serializers.ListField(
        child=serializers.CharField(), help_text="Why some numbers are null."
    )
    next_cursor = serializers.CharField(allow_null=True)


class WindowSerializer(serializers.Serializer[Any]):
    """Messages of a topic with a delivery window (delivery.delay.ms, delivery.ttl.ms)."""

    expired = serializers.CharField(help_text="Still on disk, no longer delivered.")
    visible = serializers.CharField(help_text="Between start and end, as consumers see them.")
    delayed = serializers.CharField(help_text="Not due yet.")


class PartitionSerializer(serializers.Serializer[Any]):
    """One partition; offsets are [start, end)."""

    partition = serializers.IntegerField()
    leader = serializers.IntegerField(help_text="-1: none.")
    replicas = serializers.ListField(child=serializers.IntegerField())
    in_sync_replicas = serializers.ListField(child=serializers.IntegerField())
    start_offset = serializers.CharField(allow_null=True)
    end_offset = serializers.CharField(allow_null=True)
    size_bytes = serializers.CharField(allow_null=True)
    delivery_window = WindowSerializer(allow_null=True)


class TopicSerializer(serializers.Serializer[Any]):
    """One topic."""

    cluster = serializers.CharField()
    name = serializers.CharField()
    topic_id = serializers.CharField(allow_blank=True)
    is_internal = serializers.BooleanField()
    replication_factor = serializers.IntegerField()
    trouble = serializers.CharField(allow_blank=True)
    message_count = serializers.CharField(
        allow_null=True, help_text="Between first and last offset."
    )
    is_message_count_estimated = serializers.BooleanField()
    size_bytes = serializers.CharField(allow_null=True)
    delivery_window = WindowSerializer(
        allow_null=True, help_text="Null: the topic has none, or a partition does not answer."
    )
    last_write_ms = serializers.CharField(allow_null=True, help_text="Null: no message is kept.")
    messages_in_per_second = serializers.FloatField(allow_null=True)
    partitions = PartitionSerializer(many=True)
    groups = ReaderSerializer(many=True)
    gaps = serializers.ListField(child=serializers.CharField())


class SettingSerializer(serializers.Serializer[Any]):
    """One setting with its effective value and where it comes from."""

    name = serializers.CharField()
    value = serializers.CharField(allow_null=True, allow_blank=True, help_text="Null: secret.")
    comes_from = serializers.CharField(help_text="topic, broker, cluster, static or default.")
    is_set_here = serializers.BooleanField(help_text="A change here overrides something else.")
    inherited_value = serializers.CharField(
        allow_null=True, allow_blank=True, help_text="What holds without the value set here."
    )
    is_read_only = serializers.BooleanField(help_text="Needs a restart of the broker.")
    is_sensitive = serializers.BooleanField()
    documentation = serializers.CharField(allow_blank=True)


class ConfigSerializer(serializers.Serializer[Any]):
    """The settings of a topic or broker, common ones first."""

    cluster = serializers.CharField()
    name = serializers.CharField()
    settings = SettingSerializer(many=True)


class ChangeSerializer(serializers.Serializer[Any]):
    """A setting before and after."""

    name = serializers.CharField()
    before = serializers.CharField(allow_null=True, allow_blank=True)
    after = serializers.CharField(
        allow_null=True, allow_blank=True, help_text="Null: the override is taken away."
    )


class ChangesSerializer(serializers.Serializer[Any]):
    """What was changed, or with dry_run would be."""

    is_dry_run = serializers.BooleanField()
    changes = ChangeSerializer(many=True)


class NewTopicSerializer(serializers.Serializer[Any]):
    """A topic to create."""

    name = serializers.CharField(max_length=249)
    partitions = serializers.IntegerField(
        required=False,
        allow_null=True,
        min_value=1,
        max_value=PARTITIONS_MAX,
        help_text="As the cluster has it when absent.",
    )
    replication_factor = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=32_767
    )
    configs = serializers.DictField(
        child=serializers.CharField(max_length=4_096, allow_blank=True),
        required=False,
        default=dict,
        help_text="Setting → value.",
    )
    dry_run = serializers.BooleanField(
        required=False, default=False, help_text="Let the cluster check it and create nothing."
    )


class CreatedTopicSerializer(serializers.Serializer[Any]):
    """What was created, or with dry_run would be."""

    cluster = serializers.CharField()
    name = serializers.CharField()
    topic_id = serializers.CharField(allow_blank=True)
    partition_count = serializers.IntegerField(allow_null=True)
    is_dry_run = serializers.BooleanField()


class GrowSerializer(serializers.Serializer[Any]):
    """How many partitions the topic shall have. Keys move to others."""

    count = serializers.IntegerField(min_value=1, max_value=PARTITIONS_MAX)
    topic_id = serializers.CharField(
        required=False, max_length=32, help_text="Refused when the topic is no longer this one."
    )


class CutsSerializer(serializers.Serializer[Any]):
    """Which records to delete: below an offset per partition, or all that are older than a time."""

    before_offsets = serializers.DictField(
        child=serializers.RegexField(INT64), required=False, help_text="Partition → offset."
    )
    before_time_ms = serializers.RegexField(
        INT64, required=False, help_text="Milliseconds since 1970; of every partition."
    )
    topic_id = serializers.CharField(required=False, max_length=32)
    dry_run = serializers.BooleanField(required=False, default=False)


class CutSerializer(serializers.Serializer[Any]):
    """Records of one partition that were deleted, or would be."""

    partition = serializers.IntegerField()
    start_offset = serializers.CharField()
    new_start_offset = serializers.CharField()
    end_offset = serializers.CharField()
    count = serializers.CharField()
    refusal = serializers.CharField(
        allow_blank=True, help_text="Why nothing was deleted here, empty when it was."
    )


class CutResultSerializer(serializers.Serializer[Any]):
    """Per partition what was deleted."""

    is_dry_run = serializers.BooleanField()
    partitions = CutSerializer(many=True)


class TopicsQuerySerializer(serializers.Serializer[Any]):
    """Parameters of the list."""

    q = serializers.CharField(
        required=False, max_length=255, default="", help_text="Part of the topic's name."
    )
    show = serializers.ChoiceField(
        ["own", *(one.value for one in Show if one.value)],
        required=False,
        default="own",
        help_text="own: those that are not internal.",
    )
    limit = serializers.IntegerField(required=False, min_value=1, max_value=200, default=50)
    cursor = serializers.CharField(
        required=False, max_length=1024, help_text="next_cursor of the page before."
    )


def count_or_cluster(value: int | None) -> int:
    """A number of the body, or the cluster's own choice."""
    return BROKER_DECIDES if value is None else value


def row_json(entry: TopicEntry, numbers: TopicNumbers, readers: Iterable[Reader]) -> dict[str, Any]:
    """A topic as TopicRowSerializer describes it."""
    return {
        "name": entry.name,
        "topic_id": entry.topic_id.hex() if any(entry.topic_id) else "",
        "is_internal": entry.is_internal,
        "partition_count": entry.partition_count,
        "replication_factor": entry.replication_factor,
        "trouble": entry.trouble,
        "size_bytes": _text(numbers.size_bytes),
        "messages_in_per_second": numbers.in_per_s,
        "retention_ms": numbers.retention_ms,
        "retention_bytes": numbers.retention_bytes,
        "cleanup_policy": numbers.cleanup_policy,
        "groups": [reader_json(one) for one in readers],
    }


def topic_json(cluster: str, topic: Topic, readers: Iterable[Reader]) -> dict[str, Any]:
    """A topic as TopicSerializer describes it."""
    return {
        "cluster": cluster,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.entry.is_internal,
        "replication_factor": topic.entry.replication_factor,
        "trouble": topic.entry.trouble,
        "message_count": _text(topic.count),
        "is_message_count_estimated": topic.is_count_estimated,
        "size_bytes": _text(topic.size_bytes),
        "delivery_window": _window_json(topic.window),
        "last_write_ms": _text(topic.last_write_ms),
        "messages_in_per_second": topic.in_per_s,
        "partitions": [_partition_json(one) for one in topic.partitions],
        "groups": [reader_json(one) for one in readers],
        "gaps": list(topic.gaps),
    }


def _window_json(window: WindowCounts | None) -> dict[str, str] | None:
    if window is None:
        return None
    return {name: str(count) for name, count in window._asdict().items()}


def reader_json(one: Reader) -> dict[str, Any]:
    return {
        "name": one.name,
        "state": one.state,
        "verdict": one.verdict.value,
        "lag": _text(one.lag),
        "lag_seconds": one.lag_seconds,
        "member_count": one.member_count,
    }


def config_json(cluster: str, name: str, settings: Iterable[Setting]) -> dict[str, Any]:
    """Settings as ConfigSerializer describes them; their ETag is of this."""
    return {
        "cluster": cluster,
        "name": name,
        "settings": [
            {
                "name": one.name,
                "value": one.value,
                "comes_from": one.source.key,
                "is_set_here": one.is_set_here,
                "inherited_value": one.inherited,
                "is_read_only": one.is_read_only,
                "is_sensitive": one.is_sensitive,
                "documentation": one.documentation,
            }
            for one in settings
        ],
    }


def changes_json(changes: Iterable[Change], *, is_dry_run: bool) -> dict[str, Any]:
    return {
        "is_dry_run": is_dry_run,
        "changes": [
            {"name": one.name, "before": one.before, "after": one.after} for one in changes
        ],
    }


def cuts_json(
    cuts: Sequence[Cut], answers: Mapping[int, int | BrokerRefusal] | None
) -> dict[str, Any]:
    """`answers` None: a dry run."""
    return {
        "is_dry_run": answers is None,
        "partitions": [_cut_json(one, (answers or {}).get(one.partition)) for one in cuts],
    }


def _cut_json(cut: Cut, answer: int | BrokerRefusal | None) -> dict[str, Any]:
    refused = str(answer) if isinstance(answer, BrokerRefusal) else ""
    start_then = cut.start if refused else cut.before
    if isinstance(answer, int):
        start_then = answer
    return {
        "partition": cut.partition,
        "start_offset": str(cut.start),
        "new_start_offset": str(start_then),
        "end_offset": str(cut.end),
        "count": str(start_then - cut.start),
        "refusal": refused,
    }


def _partition_json(one: Partition) -> dict[str, Any]:
    return {
        "partition": one.view.partition,
        "leader": one.view.leader,
        "replicas": list(one.view.replicas),
        "in_sync_replicas": list(one.view.in_sync_replicas),
        "start_offset": _text(one.offsets.start if one.offsets else None),
        "end_offset": _text(one.offsets.end if one.offsets else None),
        "size_bytes": _text(one.size_bytes),
        "delivery_window": _window_json(one.window),
    }


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
