"""The rows of `hermes produce` and `hermes consume`."""

from __future__ import annotations

from typing import Final

from broker.commands.table import Area, Argument, Command, Example, Names

PRODUCE: Final = Area(
    "produce",
    "send records to a topic: from arguments, or lines of standard input",
    (
        Command(
            ("produce",),
            "send records to a topic: from arguments, or lines of standard input",
            "produce:produce",
            (
                Argument(("topic",), "the topic's name", {"metavar": "TOPIC"}, Names.TOPIC),
                Argument(
                    ("value",),
                    "values; without any, each line of standard input is one",
                    {"metavar": "VALUE", "nargs": "*"},
                ),
                Argument(
                    ("-k", "--key"), "the key of all records", {"metavar": "KEY"}, group="optional"
                ),
                Argument(
                    ("-K", "--key-separator"),
                    "what ends the key at the beginning of each value, such as : or \\t",
                    {"metavar": "TEXT", "type": "separator"},
                    group="optional",
                ),
                Argument(
                    ("-H", "--header"),
                    "a header of all records; without = its value is null (repeat for more)",
                    {
                        "metavar": "NAME=VALUE",
                        "type": "header",
                        "action": "append",
                        "default": [],
                    },
                ),
                Argument(
                    ("-Z", "--null-marker"),
                    "a key or value that is exactly TEXT is null (a tombstone); '' for empty ones",
                    {"metavar": "TEXT", "type": "escaped"},
                ),
                Argument(
                    ("-p", "--partition"),
                    "where to (default: by key as Java does (murmur2), without a key at random)",
                    {"metavar": "N", "type": "partition"},
                ),
                Argument(
                    ("-T", "--timestamp"),
                    "the records' time (default: the present)",
                    {"metavar": "TIME", "type": "time"},
                ),
                Argument(
                    ("--acks",),
                    "who must have it: all replicas in sync, the leader (1), nobody (0)",
                    {"choices": ("all", "1", "0"), "default": "all"},
                ),
                Argument(
                    ("-z", "--compression"),
                    "default: none",
                    {"choices": ("none", "gzip", "snappy", "lz4", "zstd"), "default": "none"},
                ),
                Argument(
                    ("-f", "--format"),
                    "what standard input has: lines, json (an object a line, as consume --json"
                    " prints) or whole (one record)",
                    {"choices": ("lines", "json", "whole"), "default": "lines"},
                ),
                Argument(
                    ("-D", "--delimiter"),
                    "what ends a record of the format lines (default: \\n)",
                    {"metavar": "TEXT", "type": "separator", "default": "\n"},
                ),
                Argument(
                    ("-v", "--verbose"),
                    "print partition and offset of each record",
                    {"action": "store_true"},
                ),
            ),
            (
                Example("hermes produce orders 'first' 'second'", "two records"),
                Example('hermes produce orders -k order-7 \'{"state":"paid"}\'', "with a key"),
                Example("hermes produce orders -K : < lines.txt", "key:value, a line each"),
                Example("hermes produce orders -k order-7 -Z '' ''", "a tombstone"),
                Example(
                    "hermes consume orders --json --exit | hermes produce copy --format json",
                    "copy with keys, headers and times",
                ),
            ),
            "A topic that does not exist is refused, not created. With --json: one item per\n"
            "partition with its count and first and last offset.",
        ),
    ),
)

CONSUME: Final = Area(
    "consume",
    "print a topic's records",
    (
        Command(
            ("consume",),
            "print a topic's records",
            "consume:consume",
            (
                Argument(
                    ("topic",),
                    "names of topics, with partitions if not all: TOPIC:0,2-4",
                    {"metavar": "TOPIC", "nargs": "+", "type": "selection"},
                    Names.TOPIC,
                ),
                Argument(
                    ("-o", "--from"),
                    "where to begin in each partition: start, end, an offset (42), the last so "
                    "many (-5) or @TIME (default: start)",
                    {"metavar": "PLACE", "type": "start", "dest": "start"},
                    group="optional-place",
                ),
                Argument(
                    ("-g", "--group"),
                    "read as a member of this group: from its commits, and commit what was printed",
                    {"metavar": "GROUP"},
                    Names.GROUP,
                    group="optional-place",
                ),
                Argument(
                    ("-n", "--count"),
                    "stop after so many records",
                    {"metavar": "N", "type": "count"},
                ),
                Argument(
                    ("-e", "--exit"),
                    "stop at the end, as it was when reading began (default: wait for more)",
                    {"action": "store_true"},
                ),
                Argument(
                    ("--until",),
                    "stop a partition at the first record from this time on",
                    {"metavar": "TIME", "type": "time"},
                ),
                Argument(("--key",), "only records with exactly this key", {"metavar": "KEY"}),
                Argument(
                    ("--grep",),
                    "only records with this text in key, value or a header",
                    {"metavar": "TEXT"},
                ),
                Argument(
                    ("-f", "--format"),
                    "value (default), line, or a text with %t topic, %p partition, %o offset, "
                    "%k key, %s value, %h headers, %T time in ms, %I time in ISO form, %S size of "
                    "the value, %% and \\n, \\t",
                    {"metavar": "FORMAT", "default": "value"},
                ),
                Argument(
                    ("-Z", "--null-marker"),
                    "what null looks like in text (default: NULL)",
                    {"metavar": "TEXT", "default": "NULL"},
                ),
                Argument(
                    ("--isolation",),
                    "committed (default) leaves out records of open and aborted transactions",
                    {"choices": ("committed", "uncommitted"), "default": "committed"},
                ),
            ),
            (
                Example("hermes consume orders --from -5 --exit", "the last five per partition"),
                Example("hermes consume orders --from @-15m -f '%p %o %k %s\\n'", "since 15 min"),
                Example("hermes consume orders:3 --from 1200 -n 1 --json", "one record, whole"),
                Example("hermes consume orders --key order-7 --exit", "one order's events"),
                Example("hermes consume orders --group billing -n 10", "ten, and commit them"),
            ),
            "With --json: one object a line, {topic, partition, offset, timestamp_ms, key, value,\n"
            "headers: [{name, value}]}; null is null. What is not UTF-8 is in key_base64 and\n"
            "value_base64 in place of key and value. --from, --key and --grep take nothing from\n"
            "a group.",
            streams=True,
        ),
    ),
)
