"""KIP-227: full, incremental and refused fetches; what is left out of answers; who gives way."""

import pytest

from broker.errors import ErrorCode, Refusal
from broker.model import INT32_MAX
from broker.runtime.ids import SystemIds
from broker.server.fetch_sessions import FetchPlan, FetchSessions, to_answer
from broker.wire.fast_fetch_request import FetchParts

SLOTS = 2
EVICTION_MS = 1000


def request(
    session_id: int,
    epoch: int,
    offsets: dict[int, int] | None = None,
    forget: list[int] | None = None,
    leader_epoch: int = -1,
) -> FetchParts:
    wants = [(index, leader_epoch, offset, -1, 100) for index, offset in (offsets or {}).items()]
    return FetchParts(
        replica_id=-1,
        max_wait_ms=0,
        min_bytes=1,
        max_bytes=1 << 20,
        isolation_level=0,
        session_id=session_id,
        session_epoch=epoch,
        topics=[("t", wants)] if wants else [],
        forgotten=[("t", forget)] if forget else [],
    )


def plan(
    sessions: FetchSessions, wanted: FetchParts, *, uses_ids: bool = False, now_ms: float = 0
) -> FetchPlan:
    return sessions.plan(
        wanted,
        uses_ids=uses_ids,
        now_ms=now_ms,
        session_count_max=SLOTS,
        eviction_ms=EVICTION_MS,
    )


@pytest.fixture
def sessions() -> FetchSessions:
    return FetchSessions(SystemIds())


def offsets(found: FetchPlan) -> dict[int, int]:
    return {wanted.index: wanted.fetch_offset for wanted in found.wanted}


def test_a_sessionless_fetch_begins_nothing(sessions: FetchSessions) -> None:
    found = plan(sessions, request(0, -1, {0: 5}))
    assert (found.session_id, found.is_incremental, offsets(found)) == (0, False, {0: 5})
    assert len(sessions) == 0


def test_an_incremental_fetch_names_only_what_changed(sessions: FetchSessions) -> None:
    session_id = plan(sessions, request(0, 0, {0: 5, 1: 6, 2: 7})).session_id
    assert session_id > 0
    second = plan(sessions, request(session_id, 1, {1: 60, 3: 8}, forget=[2]))
    assert second.is_incremental
    assert offsets(second) == {0: 5, 1: 60, 3: 8}
    assert offsets(plan(sessions, request(session_id, 2))) == {0: 5, 1: 60, 3: 8}


def test_a_session_keeps_the_leader_epochs_it_was_given(sessions: FetchSessions) -> None:
    session_id = plan(sessions, request(0, 0, {0: 5}, leader_epoch=7)).session_id
    second = plan(sessions, request(session_id, 1))
    assert [wanted.current_leader_epoch for wanted in second.wanted] == [7]


def test_an_unknown_session_is_refused_with_70(sessions: FetchSessions) -> None:
    with pytest.raises(Refusal) as refused:
        plan(sessions, request(4711, 1))
    assert refused.value.code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_repeated_epoch_is_refused_with_71_and_changes_nothing(sessions: FetchSessions) -> None:
    session_id = plan(sessions, request(0, 0, {0: 5})).session_id
    plan(sessions, request(session_id, 1))
    with pytest.raises(Refusal) as refused:
        plan(sessions, request(session_id, 1, {0: 99}))
    assert refused.value.code == ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert offsets(plan(sessions, request(session_id, 2))) == {0: 5}


def test_names_in_a_session_of_ids_are_refused_with_106(sessions: FetchSessions) -> None:
    session_id = plan(sessions, request(0, 0, {0: 5})).session_id
    with pytest.raises(Refusal) as refused:
        plan(sessions, request(session_id, 1), uses_ids=True)
    assert refused.value.code == ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_epochs_wrap_to_one(sessions: FetchSessions) -> None:
    found = plan(sessions, request(0, 0, {0: 5}))
    assert found.session is not None
    found.session.epoch = INT32_MAX
    plan(sessions, request(found.session_id, INT32_MAX))
    assert plan(sessions, request(found.session_id, 1)).is_incremental


def test_the_final_epoch_ends_a_session(sessions: FetchSessions) -> None:
    session_id = plan(sessions, request(0, 0, {0: 5})).session_id
    assert plan(sessions, request(session_id, -1, {0: 5})).session_id == 0
    assert len(sessions) == 0


def test_a_session_without_partitions_ends(sessions: FetchSessions) -> None:
    session_id = plan(sessions, request(0, 0, {0: 5})).session_id
    assert plan(sessions, request(session_id, 1, forget=[0])).session_id == 0
    assert len(sessions) == 0


def test_partitions_with_nothing_new_are_left_out_of_incremental_answers(
    sessions: FetchSessions,
) -> None:
    first = plan(sessions, request(0, 0, {0: 5, 1: 5, 2: 5, 3: 5}))
    quiet = [(wanted, 0, 10, 0, 0) for wanted in first.wanted]
    assert to_answer(first, quiet) == [True] * 4
    second = plan(sessions, request(first.session_id, 1))
    a, b, c, d = second.wanted
    news = [(a, 0, 10, 0, 0), (b, 0, 11, 0, 0), (c, 0, 10, 2, 0), (d, 6, -1, -1, 0)]
    assert to_answer(second, news) == [False, True, True, True]
    third = plan(sessions, request(first.session_id, 2))
    again = [(a, 0, 10, 0, 0), (b, 0, 11, 0, 0), (c, 0, 10, 2, 0), (d, 0, 10, 0, 0)]
    assert to_answer(third, again) == [False, False, False, True]


def test_who_was_served_goes_to_the_end_of_the_order(sessions: FetchSessions) -> None:
    first = plan(sessions, request(0, 0, {0: 5, 1: 5, 2: 5}))
    to_answer(first, [(wanted, 0, 10, 0, int(wanted.index == 0)) for wanted in first.wanted])
    second = plan(sessions, request(first.session_id, 1))
    assert [wanted.index for wanted in second.wanted] == [1, 2, 0]


def test_a_recently_used_session_does_not_give_way(sessions: FetchSessions) -> None:
    for _ in range(SLOTS):
        assert plan(sessions, request(0, 0, {0: 5})).session_id > 0
    assert plan(sessions, request(0, 0, {0: 5}), now_ms=EVICTION_MS).session_id == 0


def test_the_longest_unused_session_gives_way(sessions: FetchSessions) -> None:
    old, used = (plan(sessions, request(0, 0, {0: 5})).session_id for _ in range(SLOTS))
    plan(sessions, request(used, 1), now_ms=EVICTION_MS)
    assert plan(sessions, request(0, 0, {0: 5}), now_ms=EVICTION_MS + 1).session_id > 0
    assert sessions.evicted_count == 1
    assert plan(sessions, request(used, 2)).is_incremental
    with pytest.raises(Refusal):
        plan(sessions, request(old, 1))


def test_a_smaller_old_session_gives_way_to_a_bigger_one(sessions: FetchSessions) -> None:
    small = plan(sessions, request(0, 0, {0: 5})).session_id
    big = plan(sessions, request(0, 0, {0: 5, 1: 5, 2: 5})).session_id
    plan(sessions, request(small, 1), now_ms=EVICTION_MS)
    plan(sessions, request(big, 1), now_ms=EVICTION_MS)
    found = plan(sessions, request(0, 0, {0: 5, 1: 5}), now_ms=EVICTION_MS + 1)
    assert found.session_id > 0
    assert plan(sessions, request(big, 2)).is_incremental
