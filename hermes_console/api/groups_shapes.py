"""The shapes of the API of groups: what is asked and what is answered."""

from __future__ import annotations

from typing import Any, Final

from rest_framework import serializers

from hermes_console.api.groups import GroupSerializer
from hermes_console.operations.groups_plan import Move, Place, Selection
from hermes_console.operations.groups_read import GroupNow, Preview, member_name
from hermes_console.samples.snapshot import GroupDetail, MemberSnapshot, PartitionSnapshot
from hermes_console.undo.models import OffsetChange

TOPICS_MAX: Final = 5_000
INDEXES_MAX: Final = 20_000
INT64: Final = "A 64-bit integer as text."
NAME_HELP: Final = (
    "A name of other characters than a-z, A-Z, 0-9, '.', '_' and '-' stands in the address as ~ "
    "and the base64url of its UTF-8."
)


class TopicSelectionSerializer(serializers.Serializer[Any]):
    """A topic and which of its partitions."""

    topic = serializers.CharField(max_length=249)
    partitions = serializers.ListField(
        child=serializers.IntegerField(min_value=0, max_value=1_000_000),
        required=False,
        allow_null=True,
        max_length=INDEXES_MAX,
        help_text="All of them if absent.",
    )


class TargetSerializer(serializers.Serializer[Any]):
    """Where to go."""

    place = serializers.ChoiceField([str(place) for place in Place])
    value = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=40,
        help_text=(
            "offset: the offset as text. time: ISO 8601 (UTC unless it names a zone) or "
            "milliseconds since 1970 as text. shift: by how many records, below 0 to go back."
        ),
    )


class ResetSerializer(serializers.Serializer[Any]):
    """A reset, or its preview."""

    to = TargetSerializer()
    topics = serializers.ListField(
        child=TopicSelectionSerializer(),
        required=False,
        max_length=TOPICS_MAX,
        help_text="Every topic that the group has offsets in, if absent.",
    )
    dry_run = serializers.BooleanField(
        default=True, help_text="true (the default): preview only, nothing changes."
    )
    token = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=64,
        help_text="Of the preview; needed without dry_run.",
    )


class CreateSerializer(serializers.Serializer[Any]):
    """A group to create."""

    name = serializers.CharField(max_length=255, trim_whitespace=False)
    to = TargetSerializer()
    topics = serializers.ListField(child=TopicSelectionSerializer(), max_length=TOPICS_MAX)
    dry_run = serializers.BooleanField(default=False, help_text="true: preview only.")


class UndoSerializer(serializers.Serializer[Any]):
    """An undo, or its preview."""

    dry_run = serializers.BooleanField(default=False, help_text="true: preview only.")


class MoveSerializer(serializers.Serializer[Any]):
    """One partition's offset before and after. A null offset: there is none."""

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    before = serializers.CharField(allow_null=True, help_text=INT64)
    after = serializers.CharField(allow_null=True, help_text=INT64)
    delta = serializers.CharField(allow_null=True, help_text=INT64)
    skipped_count = serializers.CharField(
        allow_null=True,
        help_text="Records that exist and will not be read; null outside of a preview. " + INT64,
    )
    read_again_count = serializers.CharField(allow_null=True, help_text=INT64)
    is_estimated = serializers.BooleanField(
        help_text="The topic is compacted: counts are upper bounds."
    )
    note = serializers.CharField(allow_blank=True)


class PreviewSerializer(serializers.Serializer[Any]):
    """What would happen, or has happened."""

    group = serializers.CharField()
    is_dry_run = serializers.BooleanField()
    why_refused = serializers.CharField(
        allow_blank=True, help_text="Why it cannot be done now; empty when it can."
    )
    token = serializers.CharField(
        allow_blank=True, help_text="Send it with the same reset to carry it out."
    )
    change = serializers.CharField(
        allow_null=True, help_text="Id for the undo; null for a dry run."
    )
    moves = MoveSerializer(many=True)


class GroupChangeSerializer(serializers.Serializer[Any]):
    """A change of a group's offsets that can be undone."""

    id = serializers.CharField()
    act = serializers.CharField(help_text="group.reset, group.create, group.delete-offsets, …")
    made_at = serializers.DateTimeField()
    made_by = serializers.CharField()
    expires_at = serializers.DateTimeField()
    undone_at = serializers.DateTimeField(allow_null=True)
    is_unsure = serializers.BooleanField(
        help_text="Whether it was done is not known: the cluster did not answer, or somebody else "
        "committed meanwhile. Its undo looks at each offset."
    )


class GroupChangesSerializer(serializers.Serializer[Any]):
    """The newest changes of a group that can be undone."""

    group = serializers.CharField()
    changes = GroupChangeSerializer(many=True)


class OffsetSerializer(serializers.Serializer[Any]):
    """A committed offset."""

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    offset = serializers.CharField(help_text=INT64)


class OffsetsSerializer(serializers.Serializer[Any]):
    """A group's commits this moment, asked of the cluster. Its ETag is for If-Match."""

    group = serializers.CharField()
    state = serializers.CharField()
    members = serializers.ListField(child=serializers.CharField(), help_text="client@host")
    offsets = OffsetSerializer(many=True)


class GroupPartitionSerializer(serializers.Serializer[Any]):
    """One partition as the group sees it. A null number is unknown, never 0."""

    topic = serializers.CharField()
    partition = serializers.IntegerField()
    log_start = serializers.CharField(help_text=INT64)
    end = serializers.CharField(help_text=INT64)
    committed = serializers.CharField(allow_null=True, help_text=INT64)
    lag = serializers.CharField(allow_null=True, help_text=INT64)
    lag_seconds = serializers.FloatField(allow_null=True)
    verdict = serializers.CharField()
    member_id = serializers.CharField(allow_blank=True, help_text="Empty: nobody reads it.")


class MemberSerializer(serializers.Serializer[Any]):
    """One member."""

    member_id = serializers.CharField()
    instance_id = serializers.CharField(allow_blank=True)
    client_id = serializers.CharField(allow_blank=True)
    client_host = serializers.CharField(allow_blank=True)
    partition_count = serializers.IntegerField()


class BlockerSerializer(serializers.Serializer[Any]):
    """One thing that keeps the group from reading."""

    kind = serializers.CharField()
    text = serializers.CharField()
    advice = serializers.CharField()


class GroupDetailSerializer(GroupSerializer):
    """A group as last sampled, with partitions, members and what blocks it."""

    partitions = GroupPartitionSerializer(many=True)
    members = MemberSerializer(many=True)
    blockers = BlockerSerializer(many=True)


def selection_of(topics: list[dict[str, Any]] | None) -> Selection:
    """The checked `topics` of a body as a selection."""
    found: dict[str, tuple[int, ...] | None] = {}
    for row in topics or ():
        indexes = row.get("partitions")
        found[row["topic"]] = None if indexes is None else tuple(sorted(set(indexes)))
    return found


def preview_json(
    name: str,
    moves: tuple[Move, ...],
    *,
    preview: Preview | None = None,
    change: OffsetChange | None = None,
    why_refused: str = "",
) -> dict[str, Any]:
    """As PreviewSerializer describes it."""
    estimated = preview.estimated if preview is not None else frozenset()
    return {
        "group": name,
        "is_dry_run": change is None,
        "why_refused": why_refused,
        "token": preview.token if preview is not None and change is None else "",
        "change": None if change is None else str(change.pk),
        "moves": [
            _move_json(move, is_estimated=move.topic in estimated, has_counts=preview is not None)
            for move in moves
        ],
    }


def change_json(change: OffsetChange) -> dict[str, Any]:
    """As GroupChangeSerializer describes it."""
    return {
        "id": str(change.pk),
        "act": change.act,
        "made_at": change.made_at.isoformat(),
        "made_by": change.made_by,
        "expires_at": change.expires_at.isoformat(),
        "undone_at": None if change.undone_at is None else change.undone_at.isoformat(),
        "is_unsure": change.is_unsure,
    }


def offsets_json(group: GroupNow) -> dict[str, Any]:
    """As OffsetsSerializer describes it."""
    return {
        "group": group.name,
        "state": group.state,
        "members": sorted(member_name(member) for member in group.members),
        "offsets": [
            {"topic": where.topic, "partition": where.partition, "offset": str(offset)}
            for where, offset in sorted(group.commits.items())
        ],
    }


def detail_json(summary: dict[str, Any], detail: GroupDetail) -> dict[str, Any]:
    """As GroupDetailSerializer describes it."""
    return {
        **summary,
        "partitions": [_partition_json(one) for one in detail.partitions],
        "members": [_member_json(one) for one in detail.members],
        "blockers": [
            {"kind": one.kind, "text": one.text, "advice": one.advice} for one in detail.blockers
        ],
    }


def _partition_json(one: PartitionSnapshot) -> dict[str, Any]:
    return {
        "topic": one.topic,
        "partition": one.partition,
        "log_start": str(one.log_start),
        "end": str(one.end),
        "committed": _text(one.committed),
        "lag": _text(one.lag),
        "lag_seconds": one.lag_seconds,
        "verdict": one.verdict.value,
        "member_id": one.member_id,
    }


def _member_json(one: MemberSnapshot) -> dict[str, Any]:
    return {
        "member_id": one.member_id,
        "instance_id": one.instance_id,
        "client_id": one.client_id,
        "client_host": one.client_host,
        "partition_count": one.partition_count,
    }


def _move_json(move: Move, *, is_estimated: bool, has_counts: bool) -> dict[str, Any]:
    return {
        "topic": move.topic,
        "partition": move.partition,
        "before": _text(move.before),
        "after": _text(move.after),
        "delta": _text(move.delta),
        "skipped_count": _text(move.skipped_count) if has_counts else None,
        "read_again_count": _text(move.read_again_count) if has_counts else None,
        "is_estimated": is_estimated,
        "note": move.note,
    }


def _text(value: int | None) -> str | None:
    return None if value is None else str(value)
