"""The rows of `hermes plan`: sums that ask no cluster."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from broker.commands.table import Area, Argument, Command, Example
from broker.planning import HEADROOM, PARTITION_BYTES_PER_S

_RATE_FORMS: Final = "A RATE is 1000/s (or 1000), 50k/min, 1000000000/d"
_SIZE_FORMS: Final = "a SIZE 512, 1KB (1,000 bytes), 1KiB (1,024)"
_SPAN_FORMS: Final = "\na SPAN 90s, 15m, 1h30m, 7d"
_RATE: Final = Argument(
    ("--rate",),
    "messages that arrive",
    {"metavar": "RATE", "type": "rate", "required": True},
)

_BACKLOG: Final = Command(
    ("plan", "backlog"),
    "how long messages wait when more arrive than are finished",
    "plan:backlog",
    (
        _RATE._replace(help="messages that arrive in the rush"),
        Argument(
            ("--for",),
            "how long the rush lasts",
            {"metavar": "SPAN", "type": "span-s", "required": True, "dest": "span"},
        ),
        Argument(
            ("--capacity",),
            "messages that all workers together finish",
            {"metavar": "RATE", "type": "positive-rate", "required": True},
        ),
        Argument(
            ("--then",),
            "messages that arrive after it (default: none)",
            {"metavar": "RATE", "type": "rate"},
        ),
        Argument(
            ("--waiting",),
            "messages that wait already (default: 0)",
            {"metavar": "COUNT", "type": "offset", "default": 0},
        ),
        Argument(("--size",), "bytes of a message", {"metavar": "SIZE", "type": "size"}),
    ),
    (
        Example(
            "hermes plan backlog --rate 1000/s --for 60s --capacity 400/s --then 100/s",
            "a sale's first minute",
        ),
        Example(
            "hermes plan backlog --waiting 2000000 --rate 500/s --for 1h --capacity 900/s",
            "catching up with a lag",
        ),
    ),
    notes=f"{_RATE_FORMS}, {_SIZE_FORMS}, {_SPAN_FORMS}.",
    is_offline=True,
)

_PARTITIONS: Final = Command(
    ("plan", "partitions"),
    "how many workers and partitions a rate needs",
    "plan:partitions",
    (
        _RATE,
        Argument(
            ("--worker",),
            "messages that one worker finishes",
            {"metavar": "RATE", "type": "positive-rate", "required": True},
        ),
        Argument(
            ("--size",),
            "bytes of a message (default: 1KB)",
            {"metavar": "SIZE", "type": "size", "default": Fraction(1_000)},
        ),
        Argument(
            ("--partitions",),
            "what so many partitions get done",
            {"metavar": "N", "type": "small-count"},
        ),
        Argument(
            ("--downstream",),
            "messages that whatever the workers write to takes, such as a database",
            {"metavar": "RATE", "type": "positive-rate"},
        ),
        Argument(
            ("--partition-rate",),
            "bytes that one partition takes (default: 10MB/s)",
            {"metavar": "SIZE/s", "type": "bandwidth", "default": PARTITION_BYTES_PER_S},
        ),
        Argument(
            ("--headroom",),
            "room to grow (default: 25%)",
            {"metavar": "SHARE", "type": "share", "default": HEADROOM},
        ),
    ),
    (
        Example(
            "hermes plan partitions --rate 2000/s --worker 50/s --size 2KB --partitions 32",
            "are 32 enough?",
        ),
        Example(
            "hermes plan partitions --rate 2000/s --worker 50/s --downstream 5000/s",
            "workers that write to a database",
        ),
    ),
    notes=f"{_RATE_FORMS}, {_SIZE_FORMS}.",
    is_offline=True,
)

_STORAGE: Final = Command(
    ("plan", "storage"),
    "how many bytes a stream keeps, in all and for each partition",
    "plan:storage",
    (
        _RATE,
        Argument(
            ("--size",),
            "bytes of a message",
            {"metavar": "SIZE", "type": "size", "required": True},
        ),
        Argument(
            ("--retention",),
            "how long it is kept (default: 7d)",
            {"metavar": "SPAN", "type": "span-s", "default": Fraction(7 * 86_400)},
        ),
        Argument(
            ("--replicas",),
            "copies (without it 3 are assumed, on fewer brokers as many as these)",
            {"metavar": "N", "type": "small-count"},
        ),
        Argument(
            ("--partitions",),
            "partitions (default: 1)",
            {"metavar": "N", "type": "small-count", "default": 1},
        ),
        Argument(
            ("--brokers",),
            "brokers that share it (without it as many as copies are assumed)",
            {"metavar": "N", "type": "small-count"},
        ),
        Argument(
            ("--compression",),
            "how many bytes become one (default: 1)",
            {"metavar": "FACTOR", "type": "factor", "default": Fraction(1)},
        ),
    ),
    (
        Example(
            "hermes plan storage --rate 11574/s --size 1KB --retention 7d --partitions 100",
            "a billion messages a day",
        ),
    ),
    notes=f"{_RATE_FORMS}, {_SIZE_FORMS}, {_SPAN_FORMS}. Retention drops whole segments:\n"
    "a partition keeps up to one segment (segment.bytes, segment.ms) more than this.",
    is_offline=True,
)

PLAN: Final = Area(
    "plan",
    "capacity sums: waiting times, workers and partitions, disks",
    (_BACKLOG, _PARTITIONS, _STORAGE),
)
