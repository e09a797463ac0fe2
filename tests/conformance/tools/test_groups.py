"""kafka-consumer-groups: every view and every way to reset, delete and refuse."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.conformance.tools.groups import commit, committed, member, now_ms, write
from tests.conformance.tools.java_tools import JavaTools, Ran, write_file

HOUR_MS = 3_600_000
OLD, RECENT = 6, 4
"""Records of partition 0: so many are two hours old, and so many ten minutes."""
COMMITTED = 3


class Group(NamedTuple):
    """A group without members: at 3 of 10 records in partition 0 and at 1 of 2 in partition 1."""

    name: str
    topic: str
    split_ms: int
    """A time between the old and the recent records."""

    def offsets(self, bootstrap: str) -> list[int]:
        return committed(bootstrap, self.name, [(self.topic, 0), (self.topic, 1)])


@pytest.fixture
def group(bootstrap: str, new_topic: Callable[[int], str], unused: Callable[[], str]) -> Group:
    topic, name, now = new_topic(2), unused(), now_ms()
    old = [now - 2 * HOUR_MS + i for i in range(OLD)]
    recent = [now - HOUR_MS // 6 + i for i in range(RECENT)]
    write(bootstrap, topic, old + recent)
    write(bootstrap, topic, [now - 2 * HOUR_MS, now - HOUR_MS // 6], partition=1)
    commit(bootstrap, name, {(topic, 0): COMMITTED, (topic, 1): 1})
    return Group(name, topic, now - HOUR_MS)


def groups(tools: JavaTools, *options: str) -> Ran:
    return tools.ok("kafka-consumer-groups", *options)


def reset(tools: JavaTools, group: Group, *options: str) -> list[tuple[str, int, int]]:
    """What a reset of the group shows: (topic, partition, new offset), sorted."""
    ran = groups(tools, "--reset-offsets", "--group", group.name, *options)
    rows = ran.rows("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    assert {row["GROUP"] for row in rows} <= {group.name}
    return sorted((row["TOPIC"], int(row["PARTITION"]), int(row["NEW-OFFSET"])) for row in rows)


def test_groups_are_listed_with_state_and_type(tools: JavaTools, group: Group) -> None:
    assert group.name in groups(tools, "--list").lines
    states = {
        row["GROUP"]: row["STATE"] for row in groups(tools, "--list", "--state").rows("GROUP")
    }
    assert states[group.name] == "Empty"
    types = {row["GROUP"]: row["TYPE"] for row in groups(tools, "--list", "--type").rows("GROUP")}
    assert types[group.name] == "Classic"
    assert group.name not in groups(tools, "--list", "--state", "Stable").said
    assert group.name in groups(tools, "--list", "--state", "Empty,Stable").said
    assert group.name in groups(tools, "--list", "--type", "classic").said
    assert group.name in tools.ok("kafka-groups", "--list").said


def test_describe_shows_offsets_and_lag_of_a_group_without_members(
    tools: JavaTools, group: Group
) -> None:
    ran = groups(tools, "--describe", "--group", group.name)
    assert f"Consumer group '{group.name}' has no active members." in ran.said
    rows = {row["PARTITION"]: row for row in ran.rows("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")}
    assert [rows["0"][c] for c in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")] == ["3", "10", "7"]
    assert [rows["1"][c] for c in ("CURRENT-OFFSET", "LOG-END-OFFSET", "LAG")] == ["1", "2", "1"]
    assert rows["0"]["CONSUMER-ID"] == "-"
    state = groups(tools, "--describe", "--group", group.name, "--state").rows("GROUP", "STATE")
    assert state[0]["#MEMBERS"] == "0"


def test_every_view_of_a_group_with_a_member(
    tools: JavaTools, group: Group, bootstrap: str
) -> None:
    with member(bootstrap, group.topic, group.name):
        offsets = groups(tools, "--describe", "--group", group.name, "--offsets")
        for row in offsets.rows("GROUP", "CONSUMER-ID", "CLIENT-ID"):
            assert row["CLIENT-ID"] == "judged-member"
            assert row["HOST"].startswith("/127.0.0.1")
        (one,) = groups(tools, "--describe", "--group", group.name, "--members").rows("GROUP")
        assert one["#PARTITIONS"] == "2"
        verbose = groups(tools, "--describe", "--group", group.name, "--members", "--verbose")
        assert f"{group.topic}:0,1" in verbose.said
        state = groups(tools, "--describe", "--group", group.name, "--state")
        assert "range" in state.said
        assert "Stable" in state.said
        everything = groups(tools, "--describe", "--all-groups")
        assert group.name in everything.said
        assert group.name in groups(tools, "--list", "--state", "Stable").said


def test_a_group_that_is_not_there_is_named_in_the_error(
    tools: JavaTools, unused: Callable[[], str]
) -> None:
    name = unused()
    assert name in groups(tools, "--describe", "--group", name).said
    refused = groups(tools, "--delete", "--group", name)
    assert f"Group '{name}' could not be deleted due to" in refused.said


def iso(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time_ms % 1000:03}Z"


RESETS: dict[str, tuple[tuple[str, ...], int, int]] = {
    "to-earliest": (("--to-earliest",), 0, 0),
    "to-latest": (("--to-latest",), 10, 2),
    "to-offset": (("--to-offset", "2"), 2, 2),
    "to-offset beyond the end": (("--to-offset", "99"), 10, 2),
    "to-current": (("--to-current",), COMMITTED, 1),
    "shift-by forward": (("--shift-by", "1"), COMMITTED + 1, 2),
    "shift-by back": (("--shift-by", "-2"), COMMITTED - 2, 0),
    "shift-by beyond the start": (("--shift-by", "-50"), 0, 0),
    "to-datetime": (("--to-datetime", "{split}"), OLD, 1),
    "to-datetime in the future": (("--to-datetime", "{future}"), 10, 2),
    "by-duration": (("--by-duration", "PT1H"), OLD, 1),
    "by-duration of days": (("--by-duration", "P2D"), 0, 0),
}


@pytest.mark.parametrize("name", RESETS)
def test_a_reset_is_shown_first_and_then_done(
    tools: JavaTools, group: Group, bootstrap: str, name: str
) -> None:
    words, first, second = RESETS[name]
    times = {"split": iso(group.split_ms), "future": iso(now_ms() + HOUR_MS)}
    options = ("--all-topics", *(word.format(**times) for word in words))
    expected = [(group.topic, 0, first), (group.topic, 1, second)]
    assert reset(tools, group, *options, "--dry-run") == expected
    assert group.offsets(bootstrap) == [COMMITTED, 1], "a dry run changes nothing"
    assert reset(tools, group, *options, "--execute") == expected
    assert group.offsets(bootstrap) == [first, second]


def test_a_reset_of_one_partition_leaves_the_others(
    tools: JavaTools, group: Group, bootstrap: str
) -> None:
    done = reset(tools, group, "--topic", f"{group.topic}:1", "--to-earliest", "--execute")
    assert done == [(group.topic, 1, 0)]
    assert group.offsets(bootstrap) == [COMMITTED, 0]
    done = reset(tools, group, "--topic", group.topic, "--to-latest", "--execute")
    assert done == [(group.topic, 0, 10), (group.topic, 1, 2)]


def test_an_exported_plan_is_read_back_from_a_file(
    tools: JavaTools, group: Group, bootstrap: str, tmp_path: Path
) -> None:
    exported = groups(
        tools,
        *("--reset-offsets", "--group", group.name, "--all-topics", "--to-current"),
        *("--export", "--dry-run"),
    )
    assert sorted(line.replace('"', "") for line in exported.lines) == [
        f"{group.topic},0,{COMMITTED}",
        f"{group.topic},1,1",
    ]
    plan = write_file(tmp_path, "plan.csv", f"{group.topic},0,7\n{group.topic},1,0\n")
    expected = [(group.topic, 0, 7), (group.topic, 1, 0)]
    assert reset(tools, group, "--from-file", plan, "--dry-run") == expected
    assert reset(tools, group, "--from-file", plan, "--execute") == expected
    assert group.offsets(bootstrap) == [7, 0]


def test_a_reset_of_all_groups_names_each(
    tools: JavaTools, group: Group, bootstrap: str, unused: Callable[[], str]
) -> None:
    other = unused()
    commit(bootstrap, other, {(group.topic, 0): 9})
    ran = groups(
        tools,
        *("--reset-offsets", "--group", group.name, "--group", other, "--all-topics"),
        *("--to-earliest", "--execute"),
    )
    rows = ran.rows("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    assert {row["GROUP"] for row in rows} == {group.name, other}
    assert committed(bootstrap, other, [(group.topic, 0)]) == [0]
    everything = groups(
        tools, "--reset-offsets", "--all-groups", "--topic", group.topic, "--to-latest", "--dry-run"
    )
    assert {group.name, other} <= {row["GROUP"] for row in everything.rows("GROUP", "NEW-OFFSET")}


def test_a_group_gets_offsets_on_a_topic_that_it_never_read(
    tools: JavaTools, group: Group, bootstrap: str, unused: Callable[[], str]
) -> None:
    fresh = group._replace(name=unused())
    done = reset(tools, fresh, "--topic", group.topic, "--to-latest", "--execute")
    assert done == [(group.topic, 0, 10), (group.topic, 1, 2)]
    assert fresh.offsets(bootstrap) == [10, 2]


def test_an_active_group_is_neither_reset_nor_deleted_nor_robbed_of_offsets(
    tools: JavaTools, group: Group, bootstrap: str
) -> None:
    with member(bootstrap, group.topic, group.name):
        refused = groups(
            tools,
            *("--reset-offsets", "--group", group.name, "--all-topics"),
            *("--to-latest", "--execute"),
        )
        assert "only be reset if the group" in refused.said
        assert "the current state is Stable" in refused.said
        refused = groups(tools, "--delete", "--group", group.name)
        assert "GroupNotEmptyException" in refused.said
        refused = groups(tools, "--delete-offsets", "--group", group.name, "--topic", group.topic)
        assert refused.said.count("GroupSubscribedToTopicException") == 2
    assert group.offsets(bootstrap) == [COMMITTED, 1]


def test_offsets_are_deleted_by_partition_and_by_topic(
    tools: JavaTools, group: Group, bootstrap: str
) -> None:
    ran = groups(tools, "--delete-offsets", "--group", group.name, "--topic", f"{group.topic}:1")
    assert [row["STATUS"] for row in ran.rows("TOPIC", "PARTITION", "STATUS")] == ["Successful"]
    assert group.offsets(bootstrap) == [COMMITTED, -1001]
    groups(tools, "--delete-offsets", "--group", group.name, "--topic", group.topic)
    assert group.offsets(bootstrap) == [-1001, -1001]


def test_a_deleted_group_is_gone(tools: JavaTools, group: Group, bootstrap: str) -> None:
    ran = groups(tools, "--delete", "--group", group.name)
    assert f"Deletion of requested consumer groups ('{group.name}') was successful." in ran.said
    assert group.name not in groups(tools, "--list").lines
    assert group.offsets(bootstrap) == [-1001, -1001]
