"""The console on a real broker: exact lag, an outage and its end, history that is thinned."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from broker.client.blocking import BlockingClient
from broker.model import TopicPartition as ModelPartition
from tests.console.console_process import ROOT, ConsoleProcess
from tests.support.broker_process import BrokerProcess

pytestmark = pytest.mark.timeout(180)
RECORDS = 120
COMMITTED = (50, 30)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path) as broker:
        yield broker


class Browser:
    """Signed in by the one-time link; reads the API."""

    def __init__(self, console: ConsoleProcess) -> None:
        self._address = console.address
        jar = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
        page = self.text(console.sign_in_link.removeprefix(self._address))
        token = page.split('name="csrfmiddlewaretoken" value="')[1].split('"')[0]
        self._opener.open(
            urllib.request.Request(
                console.sign_in_link, f"csrfmiddlewaretoken={token}".encode(), method="POST"
            )
        ).close()

    def text(self, path: str) -> str:
        with self._opener.open(self._address + path, timeout=10) as answer:
            return str(answer.read().decode())

    def groups(self, path: str = "/api/admin/v1/groups") -> dict[str, Any]:
        try:
            return dict(json.loads(self.text(path)))
        except urllib.error.HTTPError as error:
            error.close()
            return {"groups": [], "trouble": "not sampled yet"}

    def wait_for(
        self,
        condition: Callable[[dict[str, Any]], bool],
        seconds: float = 60,
        *,
        path: str = "/api/admin/v1/groups",
    ) -> Any:
        end = time.monotonic() + seconds
        while not condition(page := self.groups(path)):
            assert time.monotonic() < end, page
            time.sleep(0.2)
        return page


def commit_some(bootstrap: str) -> None:
    """A topic of two partitions with RECORDS records each; `app` has read COMMITTED of them."""
    settings = {"bootstrap.servers": bootstrap}
    admin = AdminClient(settings)
    admin.create_topics([NewTopic("orders", 2, 1)])["orders"].result(10)
    producer = Producer(settings)
    for number in range(RECORDS):
        for partition in (0, 1):
            producer.produce("orders", str(number).encode(), partition=partition)
    assert producer.flush(10) == 0
    offsets = [TopicPartition("orders", index, offset) for index, offset in enumerate(COMMITTED)]
    group = ConsumerGroupTopicPartitions("app", offsets)
    admin.alter_consumer_group_offsets([group])["app"].result(10)


def test_lag_is_exact_and_an_outage_is_told_and_passes(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    commit_some(broker.bootstrap)
    metrics = f"{broker.metrics_url}/metrics"
    with ConsoleProcess(
        tmp_path / "console", bootstrap=broker.bootstrap, metrics_url=metrics
    ) as console:
        browser = Browser(console)
        page = browser.wait_for(lambda page: bool(page["groups"]))
        (app,) = page["groups"]
        assert app["lag"] == str(2 * RECORDS - sum(COMMITTED))
        assert (app["verdict"], app["member_count"]) == ("stopped", 0)
        assert app["topics"] == ["orders"]
        assert app["lag_seconds"] is not None

        broker.kill()
        page = browser.wait_for(lambda page: page["trouble"] != "")
        assert f"Tried {broker.bootstrap}" in page["trouble"]
        assert page["groups"][0]["lag"] == app["lag"]
        text = browser.text("/clusters/local/groups/app/")
        assert "Cluster local cannot be reached" in text
        assert "Traceback" not in text

        broker.start()
        page = browser.wait_for(lambda page: page["trouble"] == "" and bool(page["groups"]))
        assert page["groups"][0]["lag"] == app["lag"]


def test_lag_is_what_the_delivery_window_shows_beyond_the_commit(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    """Not what is expired below it, nor what is not due above it."""
    settings = {"message.timestamp.type": "LogAppendTime", "delivery.ttl.ms": "1500"}
    with (
        BlockingClient(broker.bootstrap, timeout_ms=20_000) as client,
        ConsoleProcess(tmp_path / "console", bootstrap=broker.bootstrap) as console,
    ):
        browser = Browser(console)

        def wait_for_lag(lag: str) -> None:
            browser.wait_for(lambda page: [row["lag"] for row in page["groups"]] == [lag])
            assert f'data-lag-of="app">{lag}<' in browser.text("/clusters/local/groups/app/")

        client.create_topic("rung", partition_count=1, replication_factor=1, configs=settings)
        for _ in range(4):
            client.produce("rung", b"old", partition=0)
        client.set_committed_offsets("app", {ModelPartition("rung", 0): 1})
        wait_for_lag("0")
        settings = {"delivery.ttl.ms": "7200000", "delivery.delay.ms": "3600000"}
        client.alter_topic_config("rung", settings)
        client.produce("rung", b"new", partition=0)
        wait_for_lag("3")


def test_group_in_action_has_members_and_its_history_is_thinned(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    commit_some(broker.bootstrap)
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap,
            "group.id": "app",
            "client.id": "worker-1",
            "auto.commit.interval.ms": 200,
        }
    )
    consumer.subscribe(["orders"])
    with ConsoleProcess(tmp_path / "console", bootstrap=broker.bootstrap) as console:
        browser = Browser(console)
        read = 0
        while read < 2 * RECORDS - sum(COMMITTED):
            read += len(consumer.consume(50, timeout=1))
        page = browser.wait_for(
            lambda page: bool(page["groups"]) and page["groups"][0]["lag"] == "0"
        )
        assert page["groups"][0]["verdict"] == "fine"
        assert page["groups"][0]["member_count"] == 1
        text = browser.text("/clusters/local/groups/app/")
        assert "worker-1" in text
        file = tmp_path / "console" / "console" / "samples.sqlite3"
        end = time.monotonic() + 60
        while not condensed(file):
            assert time.monotonic() < end, "the task has condensed nothing"
            consumer.poll(0.5)
    consumer.close()


def test_cluster_added_at_run_time_is_sampled_beside_the_first(
    broker: BrokerProcess, tmp_path: Path
) -> None:
    commit_some(broker.bootstrap)
    other = tmp_path / "other"
    other.mkdir()
    with (
        BrokerProcess(other) as second,
        ConsoleProcess(tmp_path / "console", bootstrap=broker.bootstrap) as console,
    ):
        commit_some(second.bootstrap)
        browser = Browser(console)
        browser.wait_for(lambda page: bool(page["groups"]))
        add_cluster(tmp_path / "console", "second", second.bootstrap)
        path = "/api/admin/v1/groups?cluster=second"
        page = browser.wait_for(lambda page: bool(page["groups"]), path=path)
        assert (page["cluster"], page["groups"][0]["name"]) == ("second", "app")
        second.kill()
        page = browser.wait_for(lambda page: page["trouble"] != "", path=path)
        assert second.bootstrap in page["trouble"]
        assert browser.groups()["trouble"] == ""


def add_cluster(data: Path, name: str, bootstrap: str) -> None:
    """A row as the page of clusters writes it."""
    code = (
        "from hermes_console.clusters import Cluster; "
        f"Cluster.objects.create(name={name!r}, bootstrap_address={bootstrap!r})"
    )
    subprocess.run(
        [sys.executable, "manage.py", "shell", "-c", code],
        cwd=ROOT,
        env={**os.environ, "HERMES_DATA_DIR": str(data)},
        check=True,
        capture_output=True,
    )


def condensed(file: Path) -> int:
    connection = sqlite3.connect(f"file:{file}?mode=ro", uri=True)
    try:
        found = connection.execute(
            "SELECT count(*) FROM samples_groupsample WHERE resolution_s = 10"
        )
        return int(found.fetchone()[0])
    finally:
        connection.close()
