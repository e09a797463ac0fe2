"""The rows of `hermes groups`."""

from __future__ import annotations

from typing import Final

from broker.commands.table import Area, Argument, Command, Example, Names

_GROUP: Final = Argument(("group",), "the group's id", {"metavar": "GROUP"}, Names.GROUP)
_GROUPS: Final = Argument(
    ("group",), "ids of groups", {"metavar": "GROUP", "nargs": "+"}, Names.GROUP
)
_YES: Final = Argument(("--yes",), "do it without asking", {"action": "store_true"})
_SELECTION: Final = {"metavar": "TOPIC[:0,2-4]", "type": "selection", "action": "append"}
_TARGETS: Final = (
    Argument(
        ("--to-earliest",),
        "the oldest record there is",
        {"action": "store_true"},
        group="target",
    ),
    Argument(
        ("--to-latest",),
        "the end: only what is written from now on",
        {"action": "store_true"},
        group="target",
    ),
    Argument(
        ("--to-offset",),
        "an offset (kept within what the partition has)",
        {"metavar": "OFFSET", "type": "offset"},
        group="target",
    ),
    Argument(
        ("--to-time",),
        "the first record at or after a time",
        {"metavar": "TIME", "type": "time"},
        group="target",
    ),
    Argument(
        ("--shift-by",),
        "so many records forward, or back when negative (--shift-by=-100)",
        {"metavar": "N", "type": "whole"},
        group="target",
    ),
    Argument(
        ("--to-current",),
        "what is committed now, kept within what the partition has",
        {"action": "store_true"},
        group="target",
    ),
    Argument(
        ("--from-file",),
        "lines of TOPIC,PARTITION,OFFSET (- is standard input); --save writes such a file",
        {"metavar": "FILE"},
        Names.FILE,
        group="target",
    ),
)

_LIST: Final = Command(
    ("groups", "list"),
    "the consumer groups, with state and members",
    "groups:list_groups",
    (
        Argument(
            ("pattern",),
            "only groups that this shell pattern matches, such as 'billing-*'",
            {"metavar": "PATTERN", "nargs": "?"},
        ),
        Argument(
            ("--state",),
            "only groups in this state, such as Stable or Empty",
            {"metavar": "STATE"},
        ),
        Argument(("--lag",), "how far each is behind, in records", {"action": "store_true"}),
        Argument(("-q", "--quiet"), "ids alone, one a line", {"action": "store_true"}),
    ),
    (
        Example("hermes groups list --lag", "who is behind?"),
        Example("hermes groups list --state Empty -q", "groups without members"),
    ),
)
_DESCRIBE: Final = Command(
    ("groups", "describe"),
    "commits, lag and members of groups",
    "groups:describe_groups",
    (
        _GROUPS,
        Argument(("--topic",), "only this topic (repeat for more)", _SELECTION, Names.TOPIC),
        Argument(("--members",), "the members and their partitions", {"action": "store_true"}),
    ),
    (
        Example("hermes groups describe billing", "partitions, lag and who reads them"),
        Example("hermes groups describe billing --members", "member by member"),
    ),
    "LAG is what is left to read: the end, asked after the commit, minus the commit. A partition\n"
    "without a commit has an unknown lag, shown as -.",
)
_CREATE: Final = Command(
    ("groups", "create"),
    "create a group that begins somewhere, before its members start",
    "groups_reset:create_group",
    (
        Argument(("group",), "the new group's id", {"metavar": "GROUP"}),
        Argument(
            ("--topic",),
            "what it will read (repeat for more)",
            {**_SELECTION, "required": True},
            Names.TOPIC,
        ),
        Argument(
            ("--at",),
            "start, end, an offset (42), the last so many (-5) or @TIME (default: end)",
            {"metavar": "PLACE", "type": "start", "default": "end"},
        ),
    ),
    (
        Example("hermes groups create billing --topic orders --at start", "from the oldest"),
        Example("hermes groups create billing --topic orders --at @-1h", "from an hour ago"),
    ),
)
_RESET: Final = Command(
    ("groups", "reset"),
    "set where a group goes on reading; shows a preview unless --execute",
    "groups_reset:reset_group",
    (
        _GROUP,
        Argument(
            ("--topic",),
            "only these (default: all that it has committed)",
            _SELECTION,
            Names.TOPIC,
        ),
        *_TARGETS,
        Argument(
            ("--execute",), "do it; without this the result is only shown", {"action": "store_true"}
        ),
        Argument(
            ("--dry-run",), "only show the result, as without --execute", {"action": "store_true"}
        ),
        Argument(
            ("--save",),
            "write the commits as they were before to FILE, for --from-file",
            {"metavar": "FILE"},
            Names.FILE,
        ),
    ),
    (
        Example("hermes groups reset billing --to-time=-1h", "what would change?"),
        Example(
            "hermes groups reset billing --to-time=-1h --execute --save before.csv",
            "change it, and keep what was",
        ),
        Example("hermes groups reset billing --from-file before.csv --execute", "undo that"),
        Example("hermes groups reset billing --topic orders:3 --shift-by=-100", "one partition"),
    ),
    "A group with members is refused: they would go on from where they are and commit over it.",
)
_DELETE: Final = Command(
    ("groups", "delete"),
    "delete groups without members, with all they have committed",
    "groups_delete:delete_groups",
    (_GROUPS, _YES),
    (Example("hermes groups delete old-billing", "shows what is lost, wants the id typed"),),
)
_DELETE_OFFSETS: Final = Command(
    ("groups", "delete-offsets"),
    "forget what a group has committed for some partitions",
    "groups_delete:delete_offsets",
    (
        _GROUP,
        Argument(
            ("--topic",),
            "for which (repeat for more)",
            {**_SELECTION, "required": True},
            Names.TOPIC,
        ),
        _YES,
    ),
    (Example("hermes groups delete-offsets billing --topic retired", "a topic it left"),),
)

GROUPS: Final = Area(
    "groups",
    "list, describe, create, reset and delete consumer groups",
    (_LIST, _DESCRIBE, _CREATE, _RESET, _DELETE, _DELETE_OFFSETS),
)
