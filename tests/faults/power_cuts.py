"""A broker under load on an ext4 that loses its power, again and again; the simulator's checker
judges what clients saw: `python -m tests.faults.power_cuts --cuts 50`.

Each cut stops the file system without flushing its journal, kills the broker, and mounts again.
Every fourth waits for a new segment whose records were acknowledged, every third of the others for
a cleaning that exchanges segments, every fifth hits the start after another one. Needs root.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Final, NamedTuple

from broker.log.names import CLEANED, DELETED, SWAP
from broker.simulator.checker import check
from broker.wire import api
from broker.wire.messages.metadata import MetadataRequest
from tests.faults.disks import Ext4Disk
from tests.faults.power_clients import (
    Customer,
    Ledger,
    PowerCommitter,
    PowerProducer,
    PowerReader,
    PowerTrimmer,
    TopicMaker,
    read_everything,
)
from tests.faults.power_keeper import SETTINGS as KEYED_SETTINGS
from tests.faults.power_keeper import TOPIC as KEYED_TOPIC
from tests.faults.power_keeper import PowerKeeper
from tests.faults.scrape import metric
from tests.support.broker_process import BrokerProcess
from tests.support.wire_client import WireClient

SEGMENT_BYTES: Final = 100_000
"""Small, so that every round rolls."""
PARTITIONS: Final = 2
ROUND_S: Final = (0.05, 0.5)
"""How long the load runs before a cut, once it has got going."""
ROUND_RECORDS: Final = 20
"""Acknowledged in a round before its cut, however slow the machine is."""
PROGRESS_S: Final = 60.0
START_S: Final = (0.1, 0.8)
MEGABYTES: Final = 512
BROKER_SETTINGS: Final[Mapping[str, object]] = {
    "offsets.topic.num.partitions": 1,
    "hermes.log.dir.min.free.bytes": 0,
    "log.cleaner.backoff.ms": 100,
}
CLEANING: Final = (CLEANED, SWAP, DELETED)
"""Files of these kinds are there while segments are exchanged, one kind after the other."""


class Verdict(NamedTuple):
    """`findings` is empty when every promise was kept."""

    findings: list[str]
    counts: Mapping[str, int]


class PowerCuts:
    """One campaign. `settings` are those of every topic."""

    def __init__(self, directory: Path, seed: int, settings: Mapping[str, str]) -> None:
        self._random = Random(seed)
        self._settings = {"segment.bytes": str(SEGMENT_BYTES), **settings}
        self._disk = Ext4Disk(directory, megabytes=MEGABYTES)
        self._broker = BrokerProcess(directory, BROKER_SETTINGS)
        self._broker.data = self._disk.path / "data"
        self._keyed = self._broker.data / "topics" / KEYED_TOPIC / "partition-00"
        self._segments = set[str]()
        """Of the compacted topic, as last seen."""

    def run(self, cuts: int, history: Path | None = None) -> Verdict:
        """So many cuts, then everything is read and judged; the history goes to a file when one is
        named.
        """
        with self._disk, self._broker as broker:
            ledger = Ledger(broker.kafka_port)
            with WireClient(broker.kafka_port) as client:
                named = _underscored(self._settings)
                client.create_topic("orders", PARTITIONS, **named)
                client.create_topic("trimmed", **named)
                client.create_topic(KEYED_TOPIC, **{**named, **_underscored(KEYED_SETTINGS)})
            maker = TopicMaker(ledger, "maker", self._settings)
            keeper = PowerKeeper(ledger)
            customers = [*_customers(ledger), maker, keeper]
            for customer in customers:
                customer.thread.start()
            try:
                for number in range(1, cuts + 1):
                    self._round(ledger, number)
                self._wait_for_records(ledger, ROUND_RECORDS)
            finally:
                ledger.is_stopping.set()
                for customer in customers:
                    customer.thread.join(PROGRESS_S)
                    if customer.thread.is_alive():
                        ledger.find(f"{customer.name} gets no answer")
            for customer in customers:
                if not ledger.counts[f"by {customer.name}"]:
                    ledger.find(f"{customer.name} got nothing done: nothing is proved for it")
            verdict = self._judge(ledger, maker, keeper)
            if history is not None:
                with history.open("w") as file:
                    ledger.history.write(file)
                shutil.copy(self._broker.log_path, f"{history}.broker.log")
            return verdict

    def _round(self, ledger: Ledger, number: int) -> None:
        self._wait_for_records(ledger, ROUND_RECORDS)
        if number % 4 == 0:
            self._wait_for_a_roll(ledger)
        elif number % 3 == 0:
            self._wait_for_a_cleaning(ledger)
        else:
            time.sleep(self._random.uniform(*ROUND_S))
        self._cut(ledger)
        if number % 5 == 0:
            self._start_and_cut(ledger)
        self._broker.start()
        replayed = metric(self._broker, "hermes_journal_replayed_records_total")
        ledger.count("records replayed from the journal", int(replayed or 0))

    def _cut(self, ledger: Ledger) -> None:
        self._stop(ledger)
        self._broker.kill()
        ledger.is_dark.clear()
        self._disk.begin()
        ledger.count("cuts")
        self._count_cleaned_away(ledger)
        left = self._cleaning_files()
        ledger.count("cuts during a cleaning", bool(left))
        ledger.count("cuts during a swap", SWAP in left)

    def _stop(self, ledger: Ledger) -> None:
        ledger.is_dark.set()
        ledger.record("power goes")
        self._disk.stop()

    def _start_and_cut(self, ledger: Ledger) -> None:
        """The power goes again while the broker starts, or just after."""
        timer = threading.Timer(self._random.uniform(*START_S), self._stop, [ledger])
        timer.start()
        try:
            with contextlib.suppress(AssertionError):  # it may fail to start: its disk is gone
                self._broker.start()
                self._broker.kill()
        finally:
            timer.join()
            ledger.is_dark.clear()
        self._disk.begin()
        ledger.count("cuts during a start")

    def _wait_for_records(self, ledger: Ledger, count: int) -> None:
        wanted = ledger.counts["records acknowledged"] + count
        deadline = time.monotonic() + PROGRESS_S
        while ledger.counts["records acknowledged"] < wanted:
            assert time.monotonic() < deadline, f"no progress; {ledger.findings}"
            time.sleep(0.005)

    def _wait_for_a_roll(self, ledger: Ledger) -> None:
        """Until there is a segment that was not there, and more was acknowledged since."""
        directory = self._broker.data / "topics" / "orders" / "partition-00"
        before = {path.name for path in directory.glob("*.log")}
        deadline = time.monotonic() + PROGRESS_S
        while {path.name for path in directory.glob("*.log")} <= before:
            assert time.monotonic() < deadline, f"nothing was rolled; {ledger.findings}"
            time.sleep(0.002)
        self._wait_for_records(ledger, self._random.randint(1, 3))

    def _wait_for_a_cleaning(self, ledger: Ledger) -> None:
        """Until a cleaning has exchanged segments, and one is at some step of the next exchange."""
        step = self._random.choice(CLEANING)
        deadline = time.monotonic() + PROGRESS_S
        is_cleaned = False
        while not is_cleaned or step not in self._cleaning_files():
            is_cleaned |= self._count_cleaned_away(ledger)
            assert time.monotonic() < deadline, f"nothing was cleaned; {ledger.findings}"

    def _cleaning_files(self) -> set[str]:
        """Which kinds of CLEANING are there."""
        return {path.suffix for path in self._keyed.iterdir()} & set(CLEANING)

    def _count_cleaned_away(self, ledger: Ledger) -> bool:
        """Whether segments of the compacted topic are gone since the last time."""
        found = {path.name for path in self._keyed.glob("0*.log")}
        gone, self._segments = self._segments - found, found
        ledger.count("segments cleaned away", len(gone))
        return bool(gone)

    def _judge(self, ledger: Ledger, maker: TopicMaker, keeper: PowerKeeper) -> Verdict:
        with WireClient(self._broker.kafka_port, PROGRESS_S) as client:
            answer = client.call(api.METADATA, 9, MetadataRequest(topics=None))
            names = {topic.name for topic in answer.topics}
            for lost in sorted(maker.made.keys() - names):
                ledger.find(f"topic {lost} was made and is gone")
            for back in sorted(maker.deleted & names):
                ledger.find(f"topic {back} was deleted and is back")
            places = [("orders", index) for index in range(PARTITIONS)]
            places += [("trimmed", 0), *((name, 0) for name in maker.made)]
            for place in places:
                read_everything(ledger, client, *place)
            keeper.read(client)
        broken = [f"{found.rule}: {found.evidence}" for found in check(ledger.history.events)]
        return Verdict([*ledger.findings, *broken], dict(ledger.counts))


def _customers(ledger: Ledger) -> Sequence[Customer]:
    return (
        PowerProducer(ledger, "plain", "orders", 0),
        PowerProducer(ledger, "sure", "orders", 0, is_idempotent=True),
        PowerProducer(ledger, "leader", "orders", 1, acks=1),
        PowerProducer(ledger, "steady", "orders", 1, is_idempotent=True),
        PowerProducer(ledger, "trimmed", "trimmed", 0, is_idempotent=True),
        PowerReader(ledger, "reader-0", "orders", 0),
        PowerReader(ledger, "reader-1", "orders", 1),
        PowerCommitter(ledger, "billing", "orders"),
        PowerTrimmer(ledger, "trimmer", "trimmed"),
    )


def _underscored(settings: Mapping[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """0 when every promise was kept."""
    parser = argparse.ArgumentParser(prog="power_cuts", description=__doc__)
    parser.add_argument("--cuts", type=int, default=50)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 1_000_000)
    parser.add_argument("--durability", default="fsync", choices=("fsync", "replicated"))
    parser.add_argument(
        "--history",
        type=Path,
        help="write what clients saw there, as JSON lines, and the broker's log beside it",
    )
    options = parser.parse_args(arguments)
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="power-cuts-") as directory:
        campaign = PowerCuts(Path(directory), options.seed, {"durability": options.durability})
        verdict = campaign.run(options.cuts, options.history)
    shown = {what: count for what, count in verdict.counts.items() if not what.startswith("by ")}
    counts = ", ".join(f"{count:,} {what}" for what, count in sorted(shown.items()))
    print(f"seed {options.seed}: {time.monotonic() - began_s:.0f} s, {counts}")
    for finding in verdict.findings:
        print(f"  {finding}")
    print(f"{len(verdict.findings)} findings")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
