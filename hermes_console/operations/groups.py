"""What an operator does to a group's offsets: reset, create, delete, and undo of each.

Each act: the right, the lock of the group, a look at what is true now, the refusal with its
reason, the row for its undo, the change, a look whether it is there. All partitions of an act go
to the group's coordinator in one request, which stores them as one batch.

The row for the undo stands before the change is asked for: an act whose end nobody saw (no answer,
a crash) can be undone as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Final, NamedTuple

from django.utils import timezone

from broker.client.blocking import (
    BrokerRefusal,
    ClientError,
    ConnectionLost,
    ErrorCode,
    TimedOut,
    TopicPartition,
)
from hermes_console import words
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import Act, audited, require
from hermes_console.clusters import Cluster
from hermes_console.connect import client_for
from hermes_console.errors import Refused
from hermes_console.operations.groups_plan import (
    Move,
    Selection,
    Target,
    Where,
    moves_text,
    offsets_json,
    read_moves,
)
from hermes_console.operations.groups_read import (
    GroupNow,
    Preview,
    no_such_group,
    preview_create,
    preview_reset,
    read_commits,
    read_group,
)
from hermes_console.undo.lock import Lease, group_lock
from hermes_console.undo.models import OffsetChange

UNDO_FOR: Final = timedelta(days=7)
CHANGES_SHOWN_MAX: Final = 10
RESET, CREATE, DELETE, DELETE_OFFSETS, UNDO = (
    "group.reset",
    "group.create",
    "group.delete",
    "group.delete-offsets",
    "group.undo",
)
ACT_WORDS: Final[Mapping[str, str]] = {
    RESET: "Offsets reset",
    CREATE: "Group created",
    DELETE: "Group deleted",
    DELETE_OFFSETS: "Offsets of a topic deleted",
}
HAS_MEMBERS: Final = frozenset(
    {
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.NON_EMPTY_GROUP,
        ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
    }
)


class UndoPreview(NamedTuple):
    """What an undo would do; `why_refused` is "" when it can be done now."""

    change: OffsetChange
    moves: tuple[Move, ...]
    why_refused: str


def reset_offsets(
    actor: Actor, cluster: Cluster, name: str, selection: Selection, target: Target, token: str
) -> OffsetChange:
    """Move the group's offsets as previewed. Raises NotAllowed, Refused, ClientError."""
    with _act(actor, cluster, name, RESET) as work:
        preview = preview_reset(cluster, name, selection, target)
        _check_preview(preview, token)
        return _carry_out(actor, cluster, work, RESET, name, preview.changes)


def create_group(
    actor: Actor, cluster: Cluster, name: str, selection: Selection, target: Target
) -> OffsetChange:
    """Make a group by committing offsets for it. Raises NotAllowed, Refused, ClientError."""
    with _act(actor, cluster, name, CREATE) as work:
        preview = preview_create(cluster, name, selection, target)
        return _carry_out(actor, cluster, work, CREATE, name, preview.changes)


def delete_group(actor: Actor, cluster: Cluster, name: str, typed_name: str) -> OffsetChange:
    """Forget the group and its commits; the undo commits them again. Raises NotAllowed, Refused,
    ClientError.
    """
    with _act(actor, cluster, name, DELETE) as work:
        _check_typed(typed_name, name)
        group = _existing(cluster, name)
        _check_quiet(group)
        moves = _removals(group.commits)
        work.act.before = {"state": group.state, "offsets": offsets_json(moves, "before")}
        change = _remember(actor, cluster, DELETE, name, moves)
        with _undoable(cluster, change, moves), _refusing_members(name):
            work.check_still_mine()
            client_for(cluster).delete_groups([name])
        work.act.after = {"state": "deleted"}
        return change


def delete_topic_offsets(
    actor: Actor, cluster: Cluster, name: str, topic: str, typed_name: str
) -> OffsetChange:
    """Forget the group's commits in one topic. Raises NotAllowed, Refused, ClientError."""
    with _act(actor, cluster, name, DELETE_OFFSETS) as work:
        _check_typed(typed_name, topic)
        group = _existing(cluster, name)
        moves = _removals(
            {where: at for where, at in group.commits.items() if where.topic == topic}
        )
        if not moves:
            raise Refused(404, "no-commits", f"The group has no offset in topic {topic!r}.")
        _check_quiet(group)
        return _carry_out(actor, cluster, work, DELETE_OFFSETS, name, moves)


def undo_change(actor: Actor, cluster: Cluster, name: str, change_id: int) -> OffsetChange:
    """Put the offsets back as they were before the change. Raises NotAllowed, Refused (undone
    already, expired, active, moved since), ClientError.
    """
    with _act(actor, cluster, name, UNDO) as work:
        preview = preview_undo(cluster, name, change_id)
        if preview.why_refused:
            raise Refused(409, "undo-refused", preview.why_refused)
        change = preview.change
        row = OffsetChange.objects.filter(pk=change.pk)
        # An undo without an end can be tried again. Whoever was faster has made it: once is enough.
        if not row.filter(undone_at=None).update(is_unsure=True):
            raise Refused(409, "undo-refused", "Somebody has undone this just now.")
        try:
            _store(cluster, work, name, preview.moves)
        except (Refused, ClientError) as error:
            if _did_nothing(error, cluster, name, preview.moves):
                row.update(is_unsure=change.is_unsure)
            raise
        row.update(undone_at=timezone.now(), undone_by=actor.name, is_unsure=False)
        change.refresh_from_db()
        return change


def preview_undo(cluster: Cluster, name: str, change_id: int) -> UndoPreview:
    """What `undo_change` would do now. Raises Refused for an unknown change, ClientError."""
    change = OffsetChange.objects.filter(cluster=cluster, group=name, pk=change_id).first()
    if change is None:
        raise Refused(404, "unknown-change", f"No such change of group {name!r} is remembered.")
    group = read_group(cluster, name)
    moves, moved = [], []
    for where, before, after in read_moves(change.moves):
        now = group.commits.get(where)
        if now == before and change.is_unsure:
            continue  # the change never came here, or an undo did already
        moves.append(Move(*where, after, before, 0, 0))
        if now != after:
            moved.append(where)
    why_refused = _why_no_undo(change, group, moved)
    if not why_refused and not moves and change.is_unsure:
        why_refused = "There is nothing to undo: every offset is what it was before the change."
    return UndoPreview(change, tuple(moves), why_refused)


def _why_no_undo(change: OffsetChange, group: GroupNow, moved: list[Where]) -> str:
    if change.undone_at is not None:
        return f"{change.undone_by} has undone this already."
    if change.expires_at <= timezone.now():
        return f"It can be undone for {UNDO_FOR.days} days only; that time is over."
    if group.is_active:
        return group.why_active
    if moved:
        names = words.listed([f"{where.topic}-{where.partition}" for where in moved])
        return (
            f"The offsets moved since ({names}): going back would lose that progress. "
            "Reset the offsets instead; its preview shows what that means."
        )
    return ""


def recent_changes(cluster: Cluster, name: str) -> list[OffsetChange]:
    """The newest changes of the group that may be undone, newest first."""
    rows = OffsetChange.objects.filter(
        cluster=cluster, group=name, undone_at=None, expires_at__gt=timezone.now()
    )
    return list(rows.defer("moves")[:CHANGES_SHOWN_MAX])


class _Work(NamedTuple):
    """The audit's row of an act, and the lock it was begun under."""

    act: Act
    lease: Lease

    def check_still_mine(self) -> None:
        """Right before the change. Raises Refused when the looks took longer than the lock lasts:
        somebody else may change the group by now.
        """
        if not self.lease.hold_on():
            self.act.refuse(
                "The cluster answered so slowly that the group may have been changed by somebody "
                "else meanwhile: nothing was done. Try again.",
                code="group-busy",
            )


@contextmanager
def _act(actor: Actor, cluster: Cluster, name: str, action: str) -> Iterator[_Work]:
    """The audit's row around the act, and the group's lock."""
    with (
        audited(actor, Right.GROUPS_WRITE, action, cluster=cluster, target=name) as act,
        group_lock(cluster.pk, name) as lease,
    ):
        if not lease:
            act.refuse("Somebody changes this group right now. Try again.", code="group-busy")
        yield _Work(act, lease)


def _check_preview(preview: Preview, token: str) -> None:
    if preview.why_refused:
        code = "group-active" if preview.group.is_active else "no-change"
        raise Refused(409, code, preview.why_refused)
    if token != preview.token:
        raise Refused(
            412,
            "preview-outdated",
            "The group's offsets or topics changed since the preview. Look at the new preview, "
            "then decide again.",
        )


def _check_typed(typed: str, wanted: str) -> None:
    if typed != wanted:
        raise Refused(422, "name-not-typed", f"Type the name exactly as it is: {wanted}")


def _existing(cluster: Cluster, name: str) -> GroupNow:
    group = read_group(cluster, name)
    if not group.exists:
        raise no_such_group(name)
    return group


def _check_quiet(group: GroupNow) -> None:
    if group.is_active:
        raise Refused(409, "group-active", group.why_active)


def _removals(commits: Mapping[Where, int]) -> tuple[Move, ...]:
    return tuple(Move(*where, offset, None, 0, 0) for where, offset in sorted(commits.items()))


def _carry_out(
    actor: Actor,
    cluster: Cluster,
    work: _Work,
    name_of_act: str,
    group: str,
    moves: tuple[Move, ...],
) -> OffsetChange:
    change = _remember(actor, cluster, name_of_act, group, moves)
    with _undoable(cluster, change, moves):
        _store(cluster, work, group, moves)
    return change


@contextmanager
def _undoable(cluster: Cluster, change: OffsetChange, moves: tuple[Move, ...]) -> Iterator[None]:
    """Around what the remembered change asks of the cluster: its row is completed afterwards,
    dropped when nothing changed, and stays unsure when nobody knows.
    """
    try:
        yield
    except (Refused, ClientError) as error:
        if _did_nothing(error, cluster, change.group, moves):
            change.delete()
        raise
    change.is_unsure = False
    change.save(update_fields=["is_unsure"])


def _did_nothing(
    error: Refused | ClientError, cluster: Cluster, group: str, moves: tuple[Move, ...]
) -> bool:
    """Whether the act that ended so left every offset as it was. False when nobody can say: offsets
    cannot be read, or the request got no answer and may be carried out yet.
    """
    if isinstance(error, TimedOut | ConnectionLost):
        return False
    if isinstance(error, BrokerRefusal) and error.is_retriable:
        return False
    try:
        found = read_commits(client_for(cluster), group)
    except ClientError:
        return False
    return all(found.get(Where(one.topic, one.partition)) == one.before for one in moves)


def _store(cluster: Cluster, work: _Work, group: str, moves: tuple[Move, ...]) -> None:
    """Commit and take away offsets, and read back whether they are there. What a crash between the
    two requests leaves is what was committed: the preview of the next try shows it.
    """
    client = client_for(cluster)
    work.act.before = offsets_json(moves, "before")
    kept = {
        TopicPartition(move.topic, move.partition): move.after
        for move in moves
        if move.after is not None
    }
    gone = [TopicPartition(move.topic, move.partition) for move in moves if move.after is None]
    work.check_still_mine()
    with _refusing_members(group):
        if kept:
            client.set_committed_offsets(group, kept)
        if gone:
            for refusal in client.delete_committed_offsets(group, gone).values():
                if refusal is not None:
                    raise refusal
    found = read_commits(client, group)
    work.act.after = offsets_json(moves, "after")
    other = [move for move in moves if found.get(Where(move.topic, move.partition)) != move.after]
    if other:
        names = words.listed([f"{move.topic}-{move.partition}" for move in other])
        raise ClientError(
            f"the cluster took the offsets, but {names} stands elsewhere now: somebody else "
            "commits for this group; stop them, look at the group, then try again"
        )


@contextmanager
def _refusing_members(group: str) -> Iterator[None]:
    """A member that joined after the look: the broker refuses, and so does the act."""
    try:
        yield
    except BrokerRefusal as refusal:
        if refusal.code not in HAS_MEMBERS:
            raise
        raise Refused(
            409,
            "group-active",
            f"A member joined group {group!r} just now, so its offsets stay as they are. "
            "Stop the group's clients, then try again.",
        ) from refusal


def _remember(
    actor: Actor, cluster: Cluster, act: str, group: str, moves: tuple[Move, ...]
) -> OffsetChange:
    """The row for the undo, unsure yet. Without it there is no act: raises DatabaseError."""
    now = timezone.now()
    OffsetChange.objects.filter(expires_at__lt=now).delete()
    return OffsetChange.objects.create(
        cluster=cluster,
        group=group,
        act=act,
        made_at=now,
        made_by=actor.name,
        expires_at=now + UNDO_FOR,
        moves=moves_text(moves),
        is_unsure=True,
    )


def act_words(change: OffsetChange) -> str:
    """What the change was, for people; it says so when nobody saw its end."""
    words_of_act = ACT_WORDS.get(change.act, change.act)
    return (
        f"{words_of_act} (whether it was done is not known)" if change.is_unsure else words_of_act
    )


def check_may_change(actor: Actor, cluster: Cluster, name: str) -> None:
    """For a form: raises NotAllowed, recorded, before anything is filled in."""
    require(actor, Right.GROUPS_WRITE, cluster=cluster, target=name)
