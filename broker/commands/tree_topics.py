"""The rows of `hermes topics`."""

from __future__ import annotations

from typing import Final

from broker.commands.table import Area, Argument, Command, Example, Names

_TOPIC: Final = Argument(("topic",), "the topic's name", {"metavar": "TOPIC"}, Names.TOPIC)
_TOPICS: Final = Argument(
    ("topic",), "names of topics", {"metavar": "TOPIC", "nargs": "+"}, Names.TOPIC
)
_YES: Final = Argument(("--yes",), "do it without asking", {"action": "store_true"})
_DRY_RUN: Final = Argument(
    ("--dry-run",), "let the broker check it, change nothing", {"action": "store_true"}
)
_SET: Final = Argument(
    ("--set",),
    "set a setting (repeat for more)",
    {"metavar": "NAME=VALUE", "type": "setting", "action": "append", "default": []},
)

_LIST: Final = Command(
    ("topics", "list"),
    "the topics, with partitions and replicas",
    "topics:list_topics",
    (
        Argument(
            ("pattern",),
            "only topics that this shell pattern matches, such as 'orders-*'",
            {"metavar": "PATTERN", "nargs": "?"},
        ),
        Argument(("--internal",), "internal topics too", {"action": "store_true"}),
        Argument(("-q", "--quiet"), "names alone, one a line", {"action": "store_true"}),
    ),
    (
        Example("hermes topics list", "all of them"),
        Example("hermes topics list 'orders-*' --quiet", "names alone, for other commands"),
        Example("hermes topics list --json | jq '.items[].topic'", "for programs"),
    ),
)
_DESCRIBE: Final = Command(
    ("topics", "describe"),
    "partitions with leaders, offsets and sizes, what an acknowledgement means, and what was set",
    "topics:describe_topics",
    (_TOPICS,),
    (Example("hermes topics describe orders", "one topic"),),
    "RECORDS is end minus start. Compaction leaves gaps between offsets: of a compacted topic it\n"
    "is an estimate, RECORDS AT MOST. Ends of transactions count, too. A topic with a delivery\n"
    "window (delivery.delay.ms, delivery.ttl.ms) shows what consumers see: START, END, VISIBLE;\n"
    "DELAYED is not due yet, EXPIRED is still stored.",
)
_CREATE: Final = Command(
    ("topics", "create"),
    "create topics",
    "topics_change:create_topics",
    (
        Argument(("topic",), "names of new topics", {"metavar": "TOPIC", "nargs": "+"}),
        Argument(
            ("-p", "--partitions"),
            "how many partitions (default: the broker's num.partitions)",
            {"metavar": "N", "type": "small-count", "default": -1},
        ),
        Argument(
            ("-r", "--replicas"),
            "how many replicas of each (default: the broker's)",
            {"metavar": "N", "type": "small-count", "default": -1},
        ),
        _SET,
        Argument(
            ("--if-not-exists",), "a topic that is there already is fine", {"action": "store_true"}
        ),
        _DRY_RUN,
    ),
    (
        Example("hermes topics create orders -p 12", "twelve partitions"),
        Example(
            "hermes topics create prices -p 6 --set cleanup.policy=compact", "the last per key"
        ),
        Example("hermes topics create orders -p 12 --dry-run", "would it be accepted?"),
    ),
    "Choose the number of partitions for the years to come: adding some later moves keys.",
)
_ALTER: Final = Command(
    ("topics", "alter"),
    "change a topic's settings",
    "topics_change:alter_topics",
    (
        _TOPICS,
        _SET,
        Argument(
            ("--unset",),
            "back to the broker's value (repeat for more)",
            {"metavar": "NAME", "action": "append", "default": []},
        ),
        Argument(
            ("--append",),
            "add to a list (repeat for more)",
            {"metavar": "NAME=VALUE", "type": "setting", "action": "append", "default": []},
        ),
        Argument(
            ("--subtract",),
            "take from a list (repeat for more)",
            {"metavar": "NAME=VALUE", "type": "setting", "action": "append", "default": []},
        ),
        _DRY_RUN,
    ),
    (
        Example("hermes topics alter orders --set retention.ms=604800000", "keep a week"),
        Example("hermes topics alter orders --unset retention.ms", "as the broker says again"),
        Example("hermes topics alter prices --append cleanup.policy=delete", "one more policy"),
    ),
)
_GROW: Final = Command(
    ("topics", "grow"),
    "add partitions to a topic; keys move",
    "topics_change:grow_topic",
    (
        _TOPIC,
        Argument(
            ("-p", "--partitions"),
            "how many it has afterwards",
            {"metavar": "N", "type": "small-count", "required": True},
        ),
        _YES,
        _DRY_RUN,
    ),
    (Example("hermes topics grow orders -p 24", "asks first, on a terminal"),),
    "New records of a key may go to another partition than its old ones: their order is lost\n"
    "until consumers have read what is there. Partitions cannot be taken away again.",
)
_DELETE: Final = Command(
    ("topics", "delete"),
    "delete topics with everything in them",
    "topics_delete:delete_topics",
    (_TOPICS, _YES),
    (
        Example("hermes topics delete old-orders", "shows what is lost, wants the name typed"),
        Example("hermes topics delete old-orders --yes", "in a script"),
    ),
)
_DELETE_RECORDS: Final = Command(
    ("topics", "delete-records"),
    "delete a topic's oldest records",
    "topics_delete:delete_records",
    (
        _TOPIC,
        Argument(
            ("--partitions",),
            "only of these (default: of all)",
            {"metavar": "0,2-4", "type": "partitions"},
        ),
        Argument(
            ("--before",),
            "records with a lower offset",
            {"metavar": "OFFSET", "type": "offset"},
            group="what",
        ),
        Argument(
            ("--before-time",),
            "records older than that",
            {"metavar": "TIME", "type": "time"},
            group="what",
        ),
        Argument(
            ("--all",), "everything written until now", {"action": "store_true"}, group="what"
        ),
        _YES,
    ),
    (
        Example("hermes topics delete-records orders --before-time=-30d", "older than 30 days"),
        Example("hermes topics delete-records orders --partitions 3 --before 1200", "an offset"),
    ),
    "Offsets stay as they are; the partition begins later. This cannot be undone.",
)

TOPICS: Final = Area(
    "topics",
    "list, describe, create, change and delete topics",
    (_LIST, _DESCRIBE, _CREATE, _ALTER, _GROW, _DELETE, _DELETE_RECORDS),
)
