"""Runs functions of confluent-kafka 1's `integration_test.py`, a program and no pytest suite.

Its `main` needs a Schema Registry and a module version that reads otherwise now, so its functions
are called here, on a topic of their own with the three partitions that they expect and
what its producer check writes. Usage: hermes_script.py PATH BOOTSTRAP FUNCTION…
"""

from __future__ import annotations

import importlib.util
import sys
import uuid
from types import ModuleType

from confluent_kafka.admin import AdminClient, NewTopic


def load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("integration_test", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main(path: str, bootstrap: str, *functions: str) -> None:
    module = load(path)
    topic = f"judge-{uuid.uuid4()}"
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, 3, 1)])[topic].result(30)
    module.bootstrap_servers = bootstrap
    module.topic = topic
    if "verify_producer" not in functions:
        module.verify_producer()
    for function in functions:
        getattr(module, function)()
        print(f"\n== done: {function}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
