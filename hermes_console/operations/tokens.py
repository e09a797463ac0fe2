"""Making and revoking API tokens, for the profile page and the API alike."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import timedelta
from typing import Any

from django.utils import timezone

from hermes_console.accounts import tokens
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.models import ApiToken, User
from hermes_console.accounts.rights import Right
from hermes_console.audit.record import audited
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused


def token_json(token: ApiToken) -> dict[str, Any]:
    """What the audit and the API say of a token; never its secret."""
    return {
        "id": str(token.pk),
        "account": token.user.username,
        "name": token.name,
        "prefix": token.prefix,
        "rights": list(token.rights),
        "clusters": None
        if token.is_for_all_clusters
        else sorted(cluster.name for cluster in token.clusters.all()),
        "state": token.state,
        "created_at": _time(token.created_at),
        "expires_at": _time(token.expires_at),
        "revoked_at": _time(token.revoked_at),
        "used_at": _time(token.used_at),
        "used_from": token.used_from or None,
    }


def make_token(
    actor: Actor,
    owner: User,
    *,
    name: str,
    rights: Collection[Right],
    clusters: Sequence[Cluster] | None,
    days: int,
) -> tuple[ApiToken, str]:
    """A new token of `owner`, who is the actor, and its secret. Raises Refused; also for an actor
    who came by a token: one that leaked could otherwise outlive its own end.
    """
    with audited(actor, Right.VIEW, "token.create", cluster=None, target=name) as act:
        if actor.via != "session":
            act.refuse(
                "Only somebody who is signed in makes tokens: use the profile page.",
                status=403,
                code="session-required",
            )
        token, secret = tokens.issue(
            owner, name=name, rights=rights, clusters=clusters, lifetime=timedelta(days=days)
        )
        act.after = token_json(token)
    return token, secret


def revoke_token(actor: Actor, token: ApiToken) -> ApiToken:
    """The token, worth nothing from now on. Whose it is not needs the right to manage accounts."""
    right = Right.VIEW if token.user_id == actor.user_id else Right.ACCOUNTS_WRITE
    target = f"{token.prefix} of {token.user.username}"
    before = token_json(token)
    with audited(actor, right, "token.revoke", cluster=None, target=target, before=before) as act:
        if token.revoked_at is not None:
            raise Refused(409, "revoked-already", "This token was revoked already.")
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        act.after = token_json(token)
    return token


def _time(at: Any) -> str | None:
    return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")
