"""The integration suites of other projects: where each comes from and how it is started.

Nothing of a suite is in this repository. `sources.py` gets it, `plugin.py` points it at our
broker, `scope.py` says which of its tests need an API that is not there yet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class Sdist:
    """A source distribution on PyPI, proved by its hash."""

    project: str
    version: str
    sha256: str
    directory: str
    """Where its tests are; nothing else is unpacked."""

    @property
    def identity(self) -> str:
        return self.sha256

    @property
    def label(self) -> str:
        return f"{self.project} {self.version}"


@dataclass(frozen=True)
class Checkout:
    """A commit of a public git repository, proved by the commit's id."""

    project: str
    version: str
    commit: str
    directory: str
    variable: str
    """The environment variable that names the repository, or a copy of it."""

    @property
    def identity(self) -> str:
        return self.commit

    @property
    def label(self) -> str:
        return f"{self.project} {self.version}"


@dataclass(frozen=True)
class Script:
    """A program of the suite that pytest does not collect; each function of it is one test.

    The functions of one run share a topic, and the later ones read what the earlier ones wrote.
    """

    path: str
    runs: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Suite:
    """`targets` are what pytest is given; `passed` is how many tests pass, on purpose a constant:

    a suite that suddenly runs fewer tests is as wrong as one that fails.
    """

    name: str
    title: str
    source: Sdist | Checkout
    targets: tuple[str, ...]
    passed: int
    in_every_run: bool
    """Whether `hermes test` runs it; otherwise only `hermes test --judges`."""

    packages: tuple[str, ...] = ()
    """Directories that are packages in the project's repository and lost that in the sdist."""

    script: Script | None = None

    asyncio: bool = False
    """Whether its tests need pytest-asyncio."""


_SCRIPT: Final = Script(
    "tests/integration/integration_test.py",
    (
        (
            "verify_producer",
            "verify_producer_performance",
            "verify_consumer",
            "verify_batch_consumer",
            "verify_consumer_performance",
            "verify_batch_consumer_performance",
            "verify_stats_cb",
        ),
        ("verify_admin",),
    ),
)
"""Of confluent-kafka 1 (from 2 on `verify_admin` is a pytest test). Its other functions need a
Schema Registry, or client quotas.
"""

SUITES: Final = (
    Suite(
        name="kafka-python",
        title="kafka-python's integration suite",
        source=Sdist(
            "kafka-python",
            "3.0.12",
            "4ccda3616b9aa5c353d74a97f2770d6cd1b950890d77ab0e8890e09a48eeed65",
            directory="test",
        ),
        packages=("test",),
        targets=("test/integration",),
        passed=49,
        in_every_run=True,
    ),
    Suite(
        name="confluent-kafka-1",
        title="confluent-kafka-python's integration suite",
        source=Sdist(
            "confluent-kafka",
            "1.4.2",
            "c2660807e5c1ecd723e280f76918794c3fd84595000c1e8de1f254f5d89a785c",
            directory="tests",
        ),
        targets=("tests/integration",),
        script=_SCRIPT,
        passed=17,
        in_every_run=True,
    ),
    Suite(
        name="confluent-kafka-2",
        title="confluent-kafka-python's integration suite",
        source=Checkout(
            "confluent-kafka-python",
            "2.15.0",
            "8b1c7a613434eee3d0e1287d624d7af04932f410",
            directory="tests",
            variable="HERMES_JUDGES_CONFLUENT_KAFKA",
        ),
        targets=("tests/integration",),
        passed=25,
        in_every_run=False,
        asyncio=True,
    ),
)
