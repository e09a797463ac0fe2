"""Recording acts: `audited` around a change, `require` before a read.

The row is written before the act; when it cannot be written, the act is refused. Afterwards it is
completed with what came of it. Call `audited` outside of transactions: a rolled back row proves
nothing.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, NoReturn, TypeAlias

from django.core.exceptions import PermissionDenied
from django.db import DatabaseError
from django.utils import timezone

from hermes_console.accounts.actor import Actor, NotAllowed
from hermes_console.accounts.rights import Right
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused, trouble_of

Json: TypeAlias = "Mapping[str, Any] | list[Any] | str | int | float | bool | None"
JSON_LENGTH_MAX: Final = 65_536
TARGET_LENGTH_MAX: Final = 512
REASON_LENGTH_MAX: Final = 1_024

log = logging.getLogger(__name__)


class AuditUnavailable(Refused):
    """The audit cannot be written: nothing was done."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "audit-unavailable",
            "Nothing was done: the audit could not be written. "
            "Check the console's database and its disk, then try again.",
        )


class Act:
    """An act in work. Set `after` to what is true now, and `before` when only the act learns it."""

    def __init__(self, before: Json) -> None:
        self.before: Json = before
        self.after: Json = None

    def refuse(self, reason: str, *, status: int = 409, code: str = "refused") -> NoReturn:
        """End the act as refused: raises Refused, which pages and API turn into their answer."""
        raise Refused(status, code, reason)


@contextmanager
def audited(
    actor: Actor,
    right: Right,
    action: str,
    *,
    cluster: Cluster | None,
    target: str,
    before: Json = None,
) -> Iterator[Act]:
    """Around a change. `action` is `<noun>.<verb>`, for example `topic.create`.

    Raises NotAllowed (recorded as refused) without the right, AuditUnavailable when the row cannot
    be written. Refused, raised inside, is recorded as refused, any other exception as failed; both
    go on to the caller.
    """
    if not actor.may(right, cluster):
        refusal = NotAllowed(actor, right, cluster=cluster)
        record(
            actor,
            action,
            outcome=Outcome.REFUSED,
            right=right,
            cluster=cluster,
            target=target,
            reason=str(refusal),
        )
        raise refusal
    event = record(
        actor,
        action,
        outcome=Outcome.STARTED,
        right=right,
        cluster=cluster,
        target=target,
        before=before,
    )
    act = Act(before)
    try:
        yield act
    except (Refused, PermissionDenied) as refusal:
        _complete(event, act, Outcome.REFUSED, _sentence(refusal))
        raise
    except Exception as error:
        _complete(event, act, Outcome.FAILED, _sentence(error))
        raise
    _complete(event, act, Outcome.DONE, "")


def require(actor: Actor, right: Right, *, cluster: Cluster | None, target: str) -> None:
    """Before a read. Raises NotAllowed and records the refusal."""
    if actor.may(right, cluster):
        return
    refusal = NotAllowed(actor, right, cluster=cluster)
    record(
        actor,
        "access",
        outcome=Outcome.REFUSED,
        right=right,
        cluster=cluster,
        target=target,
        reason=str(refusal),
    )
    raise refusal


def record(
    actor: Actor,
    action: str,
    *,
    outcome: Outcome,
    target: str,
    right: Right | None = None,
    cluster: Cluster | None = None,
    before: Json = None,
    after: Json = None,
    reason: str = "",
) -> AuditEvent:
    """One row, for what has no act around it: a sign-in, a refusal. Raises AuditUnavailable."""
    event = AuditEvent(
        actor=_text(actor.name, 150),
        via=actor.via,
        address=actor.address,
        request_id=_text(actor.request_id, 64),
        action=action,
        right="" if right is None else right.value,
        cluster="" if cluster is None else cluster.name,
        cluster_id=None if cluster is None else cluster.pk,
        target=_text(target, TARGET_LENGTH_MAX),
        before=bounded(before),
        after=bounded(after),
        outcome=outcome,
        reason=_text(reason, REASON_LENGTH_MAX),
        ended_at=None if outcome == Outcome.STARTED else timezone.now(),
    )
    try:
        event.save()
    except DatabaseError as error:
        log.exception("the audit could not be written: %s %s", action, outcome)
        raise AuditUnavailable from error
    return event


def bounded(value: Json) -> Any:
    """The value as the audit keeps it: JSON without NUL characters and halves of surrogate pairs;
    what is too long is cut to text and says so.
    """
    if value is None:
        return None
    written = json.dumps(value, default=str, ensure_ascii=False).replace("\\u0000", "\\ufffd")
    text = written.encode("utf-8", "replace").decode()
    if len(text) > JSON_LENGTH_MAX:
        return {"cut": True, "length": len(text), "beginning": text[: JSON_LENGTH_MAX // 2]}
    return json.loads(text)


def _complete(event: AuditEvent, act: Act, outcome: Outcome, reason: str) -> None:
    """The act is over, whatever happens here: a failure leaves the row `started` and is logged."""
    values = {
        "outcome": outcome,
        "before": bounded(act.before),
        "after": bounded(act.after),
        "reason": _text(reason, REASON_LENGTH_MAX),
        "ended_at": timezone.now(),
    }
    try:
        AuditEvent.objects.complete(event.pk, values)
    except DatabaseError:
        log.exception("the audit row %s could not be completed: it was %s", event.pk, outcome)


def _sentence(error: BaseException) -> str:
    trouble = trouble_of(error)
    return trouble.detail if trouble is not None else f"{type(error).__name__}: {error}"


def _text(text: str, length_max: int) -> str:
    cleaned = text.encode("utf-8", "replace").decode().replace("\0", "\ufffd")
    return cleaned if len(cleaned) <= length_max else cleaned[: length_max - 1] + "…"
