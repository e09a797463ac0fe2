"""What the console costs at scale: a real broker with many groups, a real console, real sockets.

    python -m tests.benchmarks.console_scale [--groups 1000] [--partitions 10] [--sockets 200]

Each group reads a topic of its own, with a record that waits in one of its partitions; in a tenth
of the topics more arrive and are read all the time. It reports wall times and the console's CPU
seconds (all of its threads, from /proc), and ends with status 1 when a target is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import http.cookiejar
import json
import os
import statistics
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp

from broker.client.blocking import BlockingClient, NewTopic, TopicPartition
from tests.console.console_process import ConsoleProcess
from tests.support.broker_process import BrokerProcess

TOPICS_PER_CALL = 50
WAITING = 5
PAGE_MS_MAX = 500.0
FRAME_S_MAX = 1.0
SAMPLER_SHARE_MAX = 0.20
PAGES = 20
STARTED_S_MAX = 120
OPENING_MAX = 20
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class Result(NamedTuple):
    """A measured value and its target; None: only told."""

    name: str
    value: float
    unit: str
    limit: float | None = None

    @property
    def is_missed(self) -> bool:
        return self.limit is not None and self.value >= self.limit

    def line(self) -> str:
        target = "" if self.limit is None else f"  (target < {self.limit:g} {self.unit})"
        mark = "" if self.limit is None else ("  MISSED" if self.is_missed else "  ok")
        return f"{self.name:<52} {self.value:10.3f} {self.unit}{target}{mark}"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=1_000)
    parser.add_argument("--partitions", type=int, default=10)
    parser.add_argument("--sockets", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--bootstrap", help="a cluster that is filled already, or shall be")
    parser.add_argument("--metrics-url", default="", help="of that cluster's broker")
    parser.add_argument("--keep-filled", action="store_true", help="do not fill the cluster")
    values = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="console-scale-") as name:
        results = run(values, Path(name))
    if values.json:
        print(json.dumps([result._asdict() for result in results], indent=2))
    return int(any(result.is_missed for result in results))


def run(values: argparse.Namespace, directory: Path) -> list[Result]:
    with cluster(values, directory) as (bootstrap, metrics_url):
        client = BlockingClient(bootstrap, timeout_ms=120_000)
        if not values.keep_filled:
            fill(client, values.groups, values.partitions)
        stop = threading.Event()
        arguments = (bootstrap, values.groups, values.partitions, stop)
        traffic = threading.Thread(target=keep_moving, args=arguments, daemon=True)
        traffic.start()
        data = directory / "console"
        try:
            with ConsoleProcess(data, bootstrap=bootstrap, metrics_url=metrics_url) as console:
                return measure(console, values)
        finally:
            stop.set()
            traffic.join(30)
            client.close()


@contextmanager
def cluster(values: argparse.Namespace, directory: Path) -> Iterator[tuple[str, str]]:
    if values.bootstrap:
        yield values.bootstrap, values.metrics_url
        return
    own = directory / "broker"
    own.mkdir()
    with BrokerProcess(own) as broker:
        yield broker.bootstrap, f"{broker.metrics_url}/metrics"


def topic_of(number: int) -> str:
    return f"scale-{number:05d}"


def fill(client: BlockingClient, groups: int, partitions: int) -> None:
    """Topics, WAITING records in the first partition's log of each, and commits at 0."""
    began = time.monotonic()
    for start in range(0, groups, TOPICS_PER_CALL):
        topics = [
            NewTopic(topic_of(number), partitions, 1, {})
            for number in range(start, min(start + TOPICS_PER_CALL, groups))
        ]
        client.create_topics(topics)
    for number in range(groups):
        name = topic_of(number)
        client.produce(name, b"x", partition=number % partitions)
        offsets = {TopicPartition(name, index): 0 for index in range(partitions)}
        client.set_committed_offsets(f"group-{number:05d}", offsets)
    print(f"filled in {time.monotonic() - began:.1f} s", file=sys.stderr)


def keep_moving(bootstrap: str, groups: int, partitions: int, stop: threading.Event) -> None:
    """Records arrive in a tenth of the topics, and half of them are read."""
    client = BlockingClient(bootstrap, timeout_ms=60_000)
    written = dict.fromkeys(range(0, groups, 10), 1)
    while not stop.wait(1.0):
        for number in written:
            if stop.is_set():
                break
            partition = number % partitions
            client.produce(topic_of(number), b"x", partition=partition)
            written[number] += 1
            where = TopicPartition(topic_of(number), partition)
            if number % 20 == 0:
                client.set_committed_offsets(f"group-{number:05d}", {where: written[number] - 1})
    client.close()


def measure(console: ConsoleProcess, values: argparse.Namespace) -> list[Result]:
    visitor = Visitor(console)
    results: list[Result] = []

    def tell(*found: Result) -> None:
        for result in found:
            results.append(result)
            print(result.line(), flush=True)

    visitor.wait_for_groups(values.groups)
    time.sleep(5)
    idle = sampler_cost(visitor, values.seconds)
    tell(*idle)
    share = idle[0].value
    for title, path in (
        ("first page of groups", "/clusters/local/groups/"),
        ("page 10 of groups by lag", "/clusters/local/groups/?sort=lag&page=10"),
        ("overview", "/clusters/local/"),
        ("one group", "/clusters/local/groups/group-00010/"),
        ("API, 100 groups", "/api/admin/v1/groups?limit=100"),
    ):
        tell(*page_cost(visitor, title, path, share))
    same = [("groups", {})] * values.sockets
    tell(*asyncio.run(socket_cost(visitor, "the same list", same, values.seconds, share)))
    mixed = [
        ("group", {"group": f"group-{number % values.groups:05d}"})
        if number % 2
        else ("groups", {})
        for number in range(values.sockets)
    ]
    tell(
        *asyncio.run(socket_cost(visitor, "half lists, half groups", mixed, values.seconds, share))
    )
    return results


class Visitor:
    """Signed in by the one-time link; knows the console's CPU time."""

    def __init__(self, console: ConsoleProcess) -> None:
        assert console.process is not None
        self.address = console.address
        self._pid = console.process.pid
        self.jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))
        page = self.get(console.sign_in_link.removeprefix(self.address)).decode()
        token = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        body = f"csrfmiddlewaretoken={token}".encode()
        self._opener.open(urllib.request.Request(console.sign_in_link, body)).close()

    def get(self, path: str) -> bytes:
        with self._opener.open(self.address + path, timeout=120) as answer:
            return bytes(answer.read())

    def cpu_s(self) -> float:
        """Of all threads of the console so far."""
        fields = Path(f"/proc/{self._pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def sequence(self) -> int:
        return int(json.loads(self.get("/api/admin/v1/groups?limit=1"))["sequence"])

    def wait_for_groups(self, count: int) -> None:
        end = time.monotonic() + 300
        last = f"group-{count - 1:05d}"
        while True:
            try:
                if json.loads(self.get(f"/api/admin/v1/groups?q={last}"))["groups"]:
                    return
            except urllib.error.HTTPError as error:
                error.close()
            assert time.monotonic() < end, "the groups were never sampled"
            time.sleep(0.5)


def sampler_cost(visitor: Visitor, seconds: float) -> list[Result]:
    """Nobody looks: all that the console does is sampling and thinning."""
    first, cpu, began = visitor.sequence(), visitor.cpu_s(), time.monotonic()
    time.sleep(seconds)
    cpu, passed = visitor.cpu_s() - cpu, time.monotonic() - began
    looks = visitor.sequence() - first
    return [
        Result("sampler: share of a core", cpu / passed, "cores", SAMPLER_SHARE_MAX),
        Result("sampler: looks", looks / passed, "1/s"),
        Result("sampler: CPU per look", 1000 * cpu / max(1, looks), "ms"),
    ]


def page_cost(visitor: Visitor, title: str, path: str, share: float) -> list[Result]:
    visitor.get(path)
    times = []
    cpu, began = visitor.cpu_s(), time.monotonic()
    for _ in range(PAGES):
        start = time.monotonic()
        visitor.get(path)
        times.append(1000 * (time.monotonic() - start))
    passed = time.monotonic() - began
    cpu = visitor.cpu_s() - cpu - share * passed
    p95 = sorted(times)[int(0.95 * len(times))]
    return [
        Result(f"{title}: median", statistics.median(times), "ms", PAGE_MS_MAX),
        Result(f"{title}: P95", p95, "ms"),
        Result(f"{title}: CPU (sampler taken off)", 1000 * cpu / PAGES, "ms"),
    ]


async def socket_cost(
    visitor: Visitor,
    title: str,
    wanted: Sequence[tuple[str, dict[str, str]]],
    seconds: float,
    share: float,
) -> list[Result]:
    """A frame's age: from the end of the look at the cluster to its arrival at the browser."""
    ages: list[float] = []
    sizes: list[int] = []
    started: list[int] = []
    cookies = {cookie.name: cookie.value or "" for cookie in visitor.jar}
    is_counted = False

    opening = asyncio.Semaphore(OPENING_MAX)

    async def watch(session: aiohttp.ClientSession, view: str, parameters: dict[str, str]) -> None:
        await opening.acquire()
        async with session.ws_connect("/ws/live", origin=visitor.address) as socket:
            await socket.send_json(
                {"type": "subscribe", "view": view, "cluster": "local", "parameters": parameters}
            )
            async for number, message in numbered(socket):
                if number == 0:
                    opening.release()
                    started.append(1)  # at once, and as old as the last sample
                elif is_counted:
                    arrived_s = time.time()
                    ages.append(arrived_s - int(json.loads(message.data)["at_ms"]) / 1000)
                    sizes.append(len(message.data))

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(visitor.address, cookies=cookies, connector=connector) as web:
        tasks = [asyncio.ensure_future(watch(web, *one)) for one in wanted]
        start = time.monotonic()
        while len(started) < len(wanted) and time.monotonic() - start < STARTED_S_MAX:
            for task in tasks:
                if task.done():
                    task.result()  # raises why the socket ended
            await asyncio.sleep(0.2)
        opened_s = time.monotonic() - start
        await asyncio.sleep(2)
        is_counted = True
        cpu, began = visitor.cpu_s(), time.monotonic()
        await asyncio.sleep(seconds)
        cpu, passed = visitor.cpu_s() - cpu, time.monotonic() - began
        is_counted = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    ages.sort()
    count = max(1, len(ages))
    extra = max(0.0, cpu - share * passed)
    at: Callable[[float], float] = lambda part: ages[int(part * len(ages))] if ages else 999.0
    return [
        Result(f"{len(wanted)} sockets, {title}: frame P95", at(0.95), "s", FRAME_S_MAX),
        Result(f"{len(wanted)} sockets, {title}: frame P50", at(0.5), "s"),
        Result(f"{len(wanted)} sockets, {title}: opened in", opened_s, "s"),
        Result(f"{len(wanted)} sockets, {title}: frames", len(ages) / passed, "1/s"),
        Result(f"{len(wanted)} sockets, {title}: size", sum(sizes) / count / 1024, "KiB"),
        Result(f"{len(wanted)} sockets, {title}: CPU per frame", 1000 * extra / count, "ms"),
        Result(f"{len(wanted)} sockets, {title}: share of a core", cpu / passed, "cores"),
    ]


async def numbered(messages: AsyncIterable[Any]) -> AsyncIterator[tuple[int, Any]]:
    number = 0
    async for message in messages:
        yield number, message
        number += 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
