"""Who may do what: the rights, and which of them a role has. A pure table.

A tenant's own roles will be further rows: whoever asks, asks for a right, never for a role.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final


class Right(StrEnum):
    """What an act or a page needs. The values are what API tokens are scoped by."""

    VIEW = "view"
    MESSAGES_READ = "messages:read"
    PRODUCE = "messages:produce"
    TOPICS_WRITE = "topics:write"
    GROUPS_WRITE = "groups:write"
    CLUSTERS_WRITE = "clusters:write"
    ACCOUNTS_WRITE = "accounts:write"
    AUDIT_READ = "audit:read"


class Role(StrEnum):
    """What an account is."""

    OPERATOR = "operator"
    VIEWER = "viewer"


RIGHTS_OF: Final[Mapping[Role, frozenset[Right]]] = {
    Role.OPERATOR: frozenset(Right),
    Role.VIEWER: frozenset({Right.VIEW, Right.MESSAGES_READ}),
}
MEANING_OF: Final[Mapping[Right, str]] = {
    Right.VIEW: "see clusters, brokers, topics and groups",
    Right.MESSAGES_READ: "read messages",
    Right.PRODUCE: "produce messages",
    Right.TOPICS_WRITE: "create, change and delete topics and their records",
    Right.GROUPS_WRITE: "create groups, reset their offsets and delete them",
    Right.CLUSTERS_WRITE: "add, change and remove clusters",
    Right.ACCOUNTS_WRITE: "manage accounts",
    Right.AUDIT_READ: "read the audit",
}

CONSOLE_WIDE: Final = frozenset({Right.CLUSTERS_WRITE, Right.ACCOUNTS_WRITE})
"""Rights whose acts, where no cluster is named, are on the console itself: accounts, the list of
clusters. A token for chosen clusters may not make them.
"""


def roles_with(right: Right) -> list[Role]:
    """The roles that have the right."""
    return [role for role in Role if right in RIGHTS_OF[role]]
