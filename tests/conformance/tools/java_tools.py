"""Apache Kafka's command line tools, run one after the other in a JVM of their own.

What a tool prints and its exit code are those of its script; `hermesmq.Tools` (java/) calls its
main method. A tool that does not end is ended with the JVM, and the next call starts another one.
"""

from __future__ import annotations

import json
import select
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO, Final, NamedTuple, TypeVar

from tests.conformance.clients import JAVA_TARGET

_PACKAGE: Final = "org.apache.kafka.tools."
MAIN_CLASSES: Final = {
    "kafka-broker-api-versions": f"{_PACKAGE}BrokerApiVersionsCommand",
    "kafka-cluster": f"{_PACKAGE}ClusterTool",
    "kafka-configs": f"{_PACKAGE}ConfigCommand",
    "kafka-console-consumer": f"{_PACKAGE}consumer.ConsoleConsumer",
    "kafka-console-producer": f"{_PACKAGE}ConsoleProducer",
    "kafka-consumer-groups": f"{_PACKAGE}consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": f"{_PACKAGE}ConsumerPerformance",
    "kafka-delete-records": f"{_PACKAGE}DeleteRecordsCommand",
    "kafka-get-offsets": f"{_PACKAGE}GetOffsetShell",
    "kafka-groups": f"{_PACKAGE}GroupsCommand",
    "kafka-leader-election": f"{_PACKAGE}LeaderElectionCommand",
    "kafka-log-dirs": f"{_PACKAGE}LogDirsCommand",
    "kafka-producer-perf-test": f"{_PACKAGE}ProducerPerformance",
    "kafka-reassign-partitions": f"{_PACKAGE}reassign.ReassignPartitionsCommand",
    "kafka-topics": f"{_PACKAGE}TopicCommand",
    "kafka-verifiable-consumer": f"{_PACKAGE}VerifiableConsumer",
    "kafka-verifiable-producer": f"{_PACKAGE}VerifiableProducer",
}
JAVA: Final = (
    *("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
    *("-Duser.timezone=UTC", "-cp"),
    f"{JAVA_TARGET}/conformance-1.jar:{JAVA_TARGET}/lib/*",
)
_CALL_SECONDS_MAX: Final = 60
_UNTIL_SECONDS_MAX: Final = 20
Seen = TypeVar("Seen")


class Ran(NamedTuple):
    """What one call of a tool left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        """What it printed, without empty lines."""
        return [line.rstrip() for line in self.out.splitlines() if line.strip()]

    @property
    def said(self) -> str:
        """Both streams, for a complaint that may be in either."""
        return f"{self.out}\n{self.err}"

    def rows(self, *columns: str) -> list[dict[str, str]]:
        """A table with a head line, as the tools print it: a dict per row, by the head's names.

        The head is the first line that has all of `columns`.
        """
        lines = self.lines
        start = next((i for i, line in enumerate(lines) if set(columns) <= set(line.split())), None)
        assert start is not None, f"no line with {columns} in:\n{self.said}"
        head = lines[start].split()
        rows = [line.split() for line in lines[start + 1 :]]
        return [dict(zip(head, row, strict=False)) for row in rows if len(row) >= len(columns)]


class JavaTools:
    """A context manager; `bootstrap` is given to every tool."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  closed by __exit__

    def __enter__(self) -> JavaTools:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._end()
        self._errors.close()

    def ok(self, tool: str, *arguments: str, text: str = "") -> Ran:
        """A call that must succeed."""
        ran = self.run(tool, *arguments, text=text)
        assert ran.code == 0, f"{tool} {' '.join(arguments)} ended with {ran.code}:\n{ran.said}"
        return ran

    def until_ok(self, tool: str, *arguments: str) -> Ran:
        """A call that must succeed soon: Apache Kafka's metadata takes its time."""
        return self.until(lambda: self.run(tool, *arguments), lambda ran: ran.code == 0)

    def until(self, look: Callable[[], Seen], is_right: Callable[[Seen], bool]) -> Seen:
        """What `look` sees, once it is right."""
        deadline = time.monotonic() + _UNTIL_SECONDS_MAX
        while True:
            seen = look()
            if is_right(seen):
                return seen
            assert time.monotonic() < deadline, f"not in {_UNTIL_SECONDS_MAX} s; seen: {seen}"
            time.sleep(0.1)

    def run(self, tool: str, *arguments: str, text: str = "") -> Ran:
        """A call; `text` is what the tool reads from its input."""
        words = ["--bootstrap-server", self.bootstrap, *arguments]
        return self.run_class(MAIN_CLASSES[tool], words, text)

    def alone(self, tool: str, *arguments: str) -> Ran:
        """A call in a JVM of its own, for a tool that does its last work when the process ends."""
        words = [MAIN_CLASSES[tool], "--bootstrap-server", self.bootstrap, *arguments]
        finished = subprocess.run(
            [*JAVA, *words], capture_output=True, timeout=_CALL_SECONDS_MAX, check=False
        )
        ran = Ran(finished.returncode, finished.stdout.decode(), finished.stderr.decode())
        assert ran.code == 0, f"{' '.join(words)} ended with {ran.code}:\n{ran.said}"
        return ran

    def run_class(self, main_class: str, arguments: list[str], text: str = "") -> Ran:
        process = self._process or self._start()
        call = {"main": main_class, "arguments": arguments, "input": text}
        assert process.stdin is not None
        process.stdin.write(json.dumps(call).encode() + b"\n")
        process.stdin.flush()
        return Ran(**json.loads(self._read_line(process, f"{main_class} {' '.join(arguments)}")))

    def _read_line(self, process: subprocess.Popen[bytes], what: str) -> bytes:
        assert process.stdout is not None
        deadline = time.monotonic() + _CALL_SECONDS_MAX
        while True:
            ready, _, _ = select.select([process.stdout], [], [], 0.5)
            if ready:
                line = process.stdout.readline()
                assert line, f"the JVM ended during: {what}\n{self._end()}"
                return line
            assert time.monotonic() < deadline, (
                f"not done in {_CALL_SECONDS_MAX} s: {what}\n{self._end()}"
            )

    def _start(self) -> subprocess.Popen[bytes]:
        self._process = subprocess.Popen(
            [*JAVA, "hermesmq.Tools"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
        )
        return self._process

    def _end(self) -> str:
        """Kill the JVM; what it wrote to its error output."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
        self._errors.seek(0)
        return self._errors.read()[-3000:].decode(errors="replace")


def write_file(directory: Path, name: str, content: str) -> str:
    """A file for a tool to read, and its path."""
    path = directory / name
    path.write_text(content)
    return str(path)
