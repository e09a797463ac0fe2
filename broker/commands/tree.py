"""The table of all commands on a cluster, and of `plan`, which needs none. Data alone: a command's
code is loaded when it runs.

A new command is a row here and the function that it names; docs/cli.md, help and completion follow.
"""

from __future__ import annotations

from typing import Final

from broker.commands.table import Area
from broker.commands.tree_admin import CLUSTER, CONFIG
from broker.commands.tree_groups import GROUPS
from broker.commands.tree_plan import PLAN
from broker.commands.tree_records import CONSUME, PRODUCE
from broker.commands.tree_topics import TOPICS

AREAS: Final[tuple[Area, ...]] = (TOPICS, GROUPS, PRODUCE, CONSUME, CLUSTER, CONFIG, PLAN)
