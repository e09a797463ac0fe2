"""The limits that group decisions obey: a snapshot of the broker's settings, passed in with every
step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 5 * 60 * 1000
"""How long a member that has never been answered may stay parked in its first join (KAFKA-7610)."""
PENDING_MEMBERS_MAX: Final = 1000
"""Member ids handed out and not yet used, per group; beyond it the oldest is forgotten."""
MEMBER_ID_PREFIX_MAX: Final = 255
"""Characters of the client or instance id that a member id begins with."""


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """Times in ms, sizes in bytes. `group_record_bytes_max` bounds one stored generation."""

    session_timeout_ms_min: int = 6_000
    session_timeout_ms_max: int = 1_800_000
    group_size_max: int = 2**31 - 1
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_bytes_max: int = 4_096
    offsets_retention_ms: int = 7 * 24 * 3600 * 1000
    group_record_bytes_max: int = 1_000_000
