"""The rows of `hermes cluster` and `hermes config`."""

from __future__ import annotations

from typing import Final

from broker.commands.table import Area, Argument, Command, Example, Names

KINDS: Final = ("topic", "broker", "group", "client-metrics", "broker-logger")

_KIND: Final = Argument(("kind",), "whose setting", {"choices": KINDS})
_NAME: Final = Argument(
    ("name",),
    "its name; a broker's id, or all for the default of all brokers",
    {"metavar": "NAME"},
    Names.CONFIG_OWNER,
)
_DRY_RUN: Final = Argument(
    ("--dry-run",), "let the broker check it, change nothing", {"action": "store_true"}
)

CLUSTER: Final = Area(
    "cluster",
    "the cluster, its brokers, disks and protocol",
    (
        Command(
            ("cluster", "describe"),
            "id, controller, and how much there is of what; what is not well",
            "cluster:describe",
            (),
            (Example("hermes cluster describe", "is everything all right?"),),
            "Exit code 1 when a partition has no leader or too few replicas in sync.",
        ),
        Command(
            ("cluster", "brokers"),
            "the brokers with their addresses and leaderships",
            "cluster:brokers",
            (),
            (Example("hermes cluster brokers", "who leads how much"),),
        ),
        Command(
            ("cluster", "log-dirs"),
            "data directories with disk space, and the largest partitions",
            "cluster:log_dirs",
            (
                Argument(
                    ("--broker",),
                    "only this broker",
                    {"metavar": "ID", "type": "partition"},
                    Names.BROKER,
                ),
                Argument(
                    ("--topic",),
                    "only this topic's partitions (repeat for more)",
                    {"metavar": "TOPIC", "action": "append"},
                    Names.TOPIC,
                ),
                Argument(
                    ("--top",),
                    "how many partitions to show, the largest first (default: 20)",
                    {"metavar": "N", "type": "count", "default": 20},
                ),
            ),
            (Example("hermes cluster log-dirs --top 5", "what fills the disk?"),),
        ),
        Command(
            ("cluster", "api-versions"),
            "the APIs that a broker offers, and the version used with it",
            "cluster:api_versions",
            (
                Argument(
                    ("--broker",),
                    "this broker (default: whichever answers)",
                    {"metavar": "ID", "type": "partition"},
                    Names.BROKER,
                ),
            ),
            (Example("hermes cluster api-versions", "what does it speak?"),),
        ),
    ),
)

CONFIG: Final = Area(
    "config",
    "settings of topics, brokers and groups",
    (
        Command(
            ("config", "list"),
            "whose settings there are",
            "config:list_owners",
            (Argument(("kind",), "only of this kind", {"choices": KINDS, "nargs": "?"}),),
            (Example("hermes config list group", "groups that have settings of their own"),),
            "Needs a broker that lists them: HermesMQ, or Apache Kafka from 4.1 on.",
        ),
        Command(
            ("config", "describe"),
            "settings with values and where they come from",
            "config:describe",
            (
                _KIND,
                _NAME,
                Argument(
                    ("setting",),
                    "only these (default: those that somebody set)",
                    {"metavar": "SETTING", "nargs": "*"},
                ),
                Argument(("-a", "--all"), "defaults too", {"action": "store_true"}),
                Argument(
                    ("--docs",),
                    "what each means, and what its value would be otherwise",
                    {"action": "store_true"},
                ),
            ),
            (
                Example("hermes config describe topic orders", "what was set for it"),
                Example("hermes config describe topic orders retention.ms --docs", "one, in full"),
                Example("hermes config describe broker 1 --all", "everything"),
            ),
        ),
        Command(
            ("config", "set"),
            "set settings; shows what they were",
            "config:set_settings",
            (
                _KIND,
                _NAME,
                Argument(
                    ("setting",),
                    "what to set",
                    {"metavar": "SETTING=VALUE", "type": "setting", "nargs": "+"},
                ),
                _DRY_RUN,
            ),
            (
                Example("hermes config set topic orders retention.ms=604800000", "keep a week"),
                Example("hermes config set broker all log.retention.ms=86400000", "for all"),
            ),
        ),
        Command(
            ("config", "unset"),
            "take settings away, so that the next default counts",
            "config:unset_settings",
            (
                _KIND,
                _NAME,
                Argument(("setting",), "what to take away", {"metavar": "SETTING", "nargs": "+"}),
                _DRY_RUN,
            ),
            (Example("hermes config unset topic orders retention.ms", "as the broker says"),),
        ),
    ),
)
