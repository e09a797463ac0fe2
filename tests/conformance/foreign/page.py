"""docs/judges.md from the tables: `python -m tests.conformance.foreign.page` writes it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.conformance.clients import CLIENTS, HERE
from tests.conformance.foreign.scope import OUT_OF_SCOPE
from tests.conformance.foreign.suites import SUITES, Suite
from tests.conformance.tools.java_tools import MAIN_CLASSES

PAGE: Final = Path(__file__).parents[3] / "docs" / "judges.md"
TOOL_TESTS: Final = 86
"""Tests in tests/conformance/tools; `test_page.py` counts them."""
_HEAD: Final = """\
# Judges

<!-- written by `python -m tests.conformance.foreign.page`; change the tables that it reads -->

Nobody should be the judge of his own protocol. These programs of other projects ask whether
HermesMQ is a Kafka broker. Each was first run against Apache Kafka 4.4.0, where all of what is
counted as passed here passes too; then against a HermesMQ process. Every failure and every skip
fails the run; so does an entry of the tables below that no longer matches a test, and a suite that
passes with another number of tests than this page says.

```sh
./hermes test --stage conformance   # in every `./hermes test`
./hermes test --judges              # the same with the judges marked * below
HERMES_CONFORMANCE_BOOTSTRAP=127.0.0.1:9092 ./hermes test --judges   # judge another broker
```

What is missing (Java, Node, Maven, kcat) is installed as root, or named with the command to type.
Sources are downloaded once and proved by their hash. A judge marked * has no source distribution
with tests on PyPI: it is taken by the commit's id from its public git repository, or a copy of it,
which `HERMES_JUDGES_CONFLUENT_KAFKA` names. Another broker needs `node.id=0`, `num.partitions=4`,
`group.min.session.timeout.ms=1000` and `group.initial.rebalance.delay.ms=0`, as the suites expect.
One thing is changed in a client: kafka-python's readers subscribe after their first metadata;
3.0.12 may forget one beside it, and may then read nothing for `metadata.max.age.ms`.

## Results

| judge | version | tests run | passed | out of scope |
|---|---|---|---|---|
"""
_TAIL: Final = """
## What is out of scope

Only tests that need an API which HermesMQ does not have yet.
"""


def page() -> str:
    return "".join(
        [_HEAD, *_result_rows(), _tools_text(), _TAIL, *(_scope_of(suite) for suite in SUITES)]
    )


def _result_rows() -> Iterator[str]:
    for suite in SUITES:
        apis = Counter(entry.api for entry in OUT_OF_SCOPE[suite.name])
        star = "" if suite.in_every_run else " *"
        yield (
            f"| {suite.title}{star} | {suite.source.version} | {suite.passed} | {suite.passed} |"
            f" {', '.join(sorted(apis))} |\n"
        )
    yield (
        f"| Apache Kafka's command line tools | {_tools_version()} | {TOOL_TESTS} | {TOOL_TESTS} |"
        " nothing |\n"
    )


def _tools_text() -> str:
    tools = ", ".join(f"`{name}`" for name in sorted(MAIN_CLASSES))
    clients = ", ".join(client.name for client in CLIENTS)
    return (
        f"\nThe tools, in one JVM from Maven Central: {tools}.\n"
        f"\nThe client libraries {clients} have tests of their own"
        " ([tests/conformance](../tests/conformance/README.md)).\n"
        "\nThe Python suites run with the newest client of the tools' environment, whatever the"
        " suite's own version is.\n"
    )


def _scope_of(suite: Suite) -> str:
    rows = "".join(
        f"| {entry.api} | `{entry.test}` | {entry.reason} |\n"
        for entry in sorted(OUT_OF_SCOPE[suite.name], key=lambda entry: (entry.api, entry.test))
    )
    head = f"\n### {suite.title} {suite.source.version}\n\n"
    return f"{head}| API | test | what it does |\n|---|---|---|\n{rows}"


def _tools_version() -> str:
    """The version of kafka-tools in java/pom.xml."""
    space = "{http://maven.apache.org/POM/4.0.0}"
    root = ElementTree.parse(HERE / "java" / "pom.xml").getroot()
    for dependency in root.iter(f"{space}dependency"):
        if dependency.findtext(f"{space}artifactId") == "kafka-tools":
            return dependency.findtext(f"{space}version") or ""
    message = "java/pom.xml has no kafka-tools"
    raise ValueError(message)


if __name__ == "__main__":
    PAGE.write_text(page())
