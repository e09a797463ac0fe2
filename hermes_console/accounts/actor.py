"""Who acts: a person by session, a script by token, the console itself. Made anew for each request,
so that a changed role, a closed account and a revoked token act at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from django.core.exceptions import PermissionDenied

from hermes_console.accounts.address import address_of
from hermes_console.accounts.rights import (
    CONSOLE_WIDE,
    MEANING_OF,
    RIGHTS_OF,
    Right,
    Role,
    roles_with,
)
from hermes_console.clusters import Cluster

NAME_LENGTH_MAX: Final = 150


class NotAllowed(PermissionDenied):
    """The actor lacks a right; the message names it and who can grant it."""

    def __init__(self, actor: Actor, right: Right, *, cluster: Cluster | None = None) -> None:
        self.right = right
        meant = f"{MEANING_OF[right]} ({right})"
        if cluster is not None and not actor.reaches(cluster):
            text = (
                f"This token is not for cluster {cluster.name}. "
                "Make one that is, on your profile page."
            )
        elif actor.holds(right):
            text = (
                f"This token is for chosen clusters and may not {meant} of the console itself. "
                "Make one for all clusters, on your profile page."
            )
        elif actor.via == "token" and right in RIGHTS_OF[actor.role]:
            text = f"This token may not {meant}. Make one with that right, on your profile page."
        else:
            roles = " or ".join(
                f"an {role}" if role == Role.OPERATOR else f"a {role}" for role in roles_with(right)
            )
            text = (
                f"{actor.name} is a {actor.role} and may not {meant}. "
                f"An operator can make the account {roles} on the page Accounts."
            )
        super().__init__(text)


@dataclass(frozen=True, slots=True)
class Actor:
    """`via` is session, token or system; `clusters` are the keys of the clusters that a token is
    for, None for all of them.
    """

    name: str
    role: Role
    rights: frozenset[Right]
    via: str
    address: str
    request_id: str
    user_id: int | None = None
    clusters: frozenset[int] | None = None

    def may(self, right: Right, cluster: Cluster | None = None) -> bool:
        """On that cluster; None: on the console itself."""
        if cluster is not None:
            return self.holds(right) and self.reaches(cluster)
        return self.holds(right) and not (self.clusters is not None and right in CONSOLE_WIDE)

    def holds(self, right: Right) -> bool:
        """Whether there is anything that the right can be used on."""
        return right in self.rights

    def reaches(self, cluster: Cluster) -> bool:
        """Whether the actor's credential is for this cluster at all."""
        return self.clusters is None or cluster.pk in self.clusters


def actor_of(request: Any) -> Actor:
    """Who makes this request; a Django request or one of Django REST framework. Raises
    PermissionDenied when nobody is signed in.
    """
    user = request.user
    if not user.is_authenticated:
        raise PermissionDenied("Nobody is signed in.")
    role = Role(user.role)
    token = getattr(request, "auth", None)
    rights = RIGHTS_OF[role]
    return Actor(
        name=user.get_username(),
        role=role,
        rights=rights if token is None else rights & token.right_set,
        via="session" if token is None else "token",
        address=address_of(request),
        request_id=getattr(request, "request_id", ""),
        user_id=user.pk,
        clusters=None if token is None else token.cluster_keys,
    )


def system_actor(name: str) -> Actor:
    """The console itself, for what nobody who is signed in asked for."""
    return Actor(
        name=name,
        role=Role.OPERATOR,
        rights=frozenset(Right),
        via="system",
        address="",
        request_id="",
    )
