"""A pytest plugin for a suite of another project: our broker in place of theirs, and the scope.

It is loaded alone (`-p hermes_judge`) in the suite's own process, with this directory on the path,
and imports nothing of this repository: a suite has a package `tests` of its own.
HERMES_JUDGE_BOOTSTRAP is the broker; HERMES_JUDGE_SCOPE a JSON file with the tests that are left
out. One of those that matches no test stops the run: the list never outlives what it is about.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
from kafka import KafkaConsumer

BOOTSTRAP = os.environ["HERMES_JUDGE_BOOTSTRAP"]
SCOPE: tuple[str, ...] = tuple(json.loads(Path(os.environ["HERMES_JUDGE_SCOPE"]).read_text()))
_left_out: Counter[str] = Counter()


class RunningCluster:
    """`trivup.clusters.KafkaCluster.KafkaCluster` of confluent-kafka: it runs already."""

    def __init__(self, **_conf: object) -> None:
        pass

    def wait_operational(self) -> None:
        pass

    def client_conf(self) -> dict[str, str]:
        return {"bootstrap.servers": BOOTSTRAP}

    def stop(self, **_options: object) -> None:
        pass


class RunningService:
    """`test.service.ExternalService` of kafka-python: a broker that runs already."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass


class NotInstalled:
    """Stands for a class of an optional part that no test in scope makes an object of."""


def provide(name: str, **members: object) -> None:
    """Make `import name` give a module with those members, and NotInstalled for any other."""
    module = ModuleType(name)
    module.__path__ = []
    for member, value in members.items():
        setattr(module, member, value)
    if not members:
        vars(module)["__getattr__"] = placeholder
    sys.modules[name] = module


def placeholder(name: str) -> type[NotInstalled]:
    if name.startswith("__"):
        raise AttributeError(name)
    return NotInstalled


provide("trivup")
provide("trivup.clusters")
provide("trivup.clusters.KafkaCluster", KafkaCluster=RunningCluster)
for _module in ("", ".avro", ".json_schema", ".protobuf", ".schema_registry_client"):
    provide(f"confluent_kafka.schema_registry{_module}")
provide("confluent_kafka.avro")
provide("confluent_kafka.schema_registry._async")
provide("confluent_kafka.schema_registry._async.schema_registry_client")
provide("test.service", ExternalService=RunningService, SpawnedService=object)


def subscribe_when_bootstrapped() -> None:
    """kafka-python's readers know the cluster before they subscribe.

    Version 3.0.12 may forget topics that are named while a metadata request of its start is on its
    way, and may read nothing for minutes: about once in a hundred starts, Apache Kafka 4.4 too.
    """
    construct = KafkaConsumer.__init__

    def construct_then_subscribe(self: KafkaConsumer, *topics: str, **configs: object) -> None:
        construct(self, **configs)
        if topics:
            self.bootstrap(refresh=True)
            self.subscribe(topics)

    KafkaConsumer.__init__ = construct_then_subscribe


subscribe_when_bootstrapped()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file or directory of the scope is not even imported: it may need what is not installed."""
    name = collection_path.relative_to(config.rootpath).as_posix()
    if name not in SCOPE:
        return None
    _left_out[name] += 1
    return True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    kept, left_out = [], []
    for item in items:
        pass_over_steps(item)
        entry = next((entry for entry in SCOPE if covers(entry, item.nodeid)), None)
        if entry is None:
            kept.append(item)
        else:
            left_out.append(item)
            _left_out[entry] += 1
    items[:] = kept
    config.hook.pytest_deselected(items=left_out)
    unknown = [entry for entry in SCOPE if not _left_out[entry]]
    if unknown:
        message = f"out of scope, but not in the suite any more: {', '.join(unknown)}"
        raise pytest.UsageError(message)


def pass_over_steps(item: pytest.Item) -> None:
    """Functions of the test's module that stand in the scope as `path:function` do nothing."""
    path = item.nodeid.partition("::")[0]
    for entry in SCOPE:
        name = entry.removeprefix(f"{path}:")
        module = getattr(item, "module", None)
        if name.isidentifier() and callable(getattr(module, name, None)):
            setattr(module, name, do_nothing)
            _left_out[entry] += 1


def do_nothing(*_arguments: object, **_options: object) -> None:
    pass


def covers(entry: str, nodeid: str) -> bool:
    """Whether a test is the entry itself or one of its parameters or methods."""
    return nodeid == entry or nodeid.startswith((f"{entry}[", f"{entry}::"))
