"""When a shard tries to store again after a full disk."""

from broker.server.groups.room import FULL_RETRY_MS, FULL_RETRY_MS_MAX, ROOM_BYTES, Room


def roomy() -> int:
    return ROOM_BYTES


def test_it_is_open_until_the_disk_is_full_and_again_when_there_is_space() -> None:
    room = Room()
    assert room.is_open(0, lambda: 0), "nobody looks before an append was refused"
    room.on_full(0)
    assert not room.is_open(FULL_RETRY_MS - 1, roomy)
    assert not room.is_open(FULL_RETRY_MS, lambda: ROOM_BYTES - 1)
    assert not room.is_open(FULL_RETRY_MS + 1, roomy), "space is looked at once an interval"
    assert room.is_open(2 * FULL_RETRY_MS, roomy)
    assert room.is_open(2 * FULL_RETRY_MS, lambda: 0)


def test_a_disk_that_is_full_in_spite_of_free_space_is_tried_ever_more_seldom() -> None:
    room, now_ms, delays = Room(), 0, []
    for _ in range(8):
        room.on_full(now_ms)
        began_ms = now_ms
        while not room.is_open(now_ms, roomy):
            now_ms += FULL_RETRY_MS
        delays.append(now_ms - began_ms)
    assert delays == sorted(delays)
    assert delays[0] == FULL_RETRY_MS
    assert delays[-1] == FULL_RETRY_MS_MAX
    room.on_full(now_ms + 2 * FULL_RETRY_MS_MAX)
    assert room.is_open(now_ms + 2 * FULL_RETRY_MS_MAX + FULL_RETRY_MS, roomy), "long healthy"
