"""The load generator, in a process of its own: `python -m broker.bench.load JOB` with JOB as JSON.

| kind    | does                                                    | prints                   |
|---------|---------------------------------------------------------|--------------------------|
| produce | sends as fast as it can for `seconds`                   | sent, seconds            |
| pace    | sends `rate` records a second, each stamped with a time | sent, seconds, late      |
| follow  | reads as a member of a group until it is told to end    | latencies by windows     |

With `until_told`, pace also ends when it is told to. Each answers with one line of JSON on standard
output; `cpu_seconds` is its own, librdkafka's threads included.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from confluent_kafka import Producer

from broker.bench.follow import STAMP, follow
from broker.bench.told import Told

_FLUSH_S: Final = 60.0
_CHUNK_RECORDS_MAX: Final = 1_000

Job = Mapping[str, Any]


def main() -> None:
    job = json.loads(sys.argv[1])
    result = KINDS[job["kind"]](job)
    usage = resource.getrusage(resource.RUSAGE_SELF)
    print(json.dumps({**result, "cpu_seconds": usage.ru_utime + usage.ru_stime}))


def produce(job: Job) -> dict[str, Any]:
    """`partitions` in turn, a chunk of about one batch each, until the time is over."""
    producer = Producer(_producer_settings(job))
    value = os.urandom(job["record_bytes"])
    chunk_records = max(1, min(job["batch_bytes"] // job["record_bytes"], _CHUNK_RECORDS_MAX))
    chunk = [{"value": value}] * chunk_records
    producer.list_topics(job["topic"])
    sent = partition = 0
    started_s = time.monotonic()
    end_s = started_s + job["seconds"]
    while time.monotonic() < end_s:
        queued = _queue(producer, job["topic"], chunk, partition)
        sent += queued
        if queued < chunk_records:
            producer.poll(0.002)
        partition = (partition + 1) % job["partitions"]
    left = producer.flush(_FLUSH_S)
    return {"sent": sent - left, "seconds": time.monotonic() - started_s, "left": left}


def _queue(producer: Producer, topic: str, chunk: list[Any], partition: int) -> int:
    try:
        return producer.produce_batch(topic, chunk, partition)
    except BufferError:
        return 0


def pace(job: Job) -> dict[str, Any]:
    """One record every 1/rate seconds, as due; each begins with its time of sending."""
    producer = Producer(_producer_settings(job))
    padding = os.urandom(job["record_bytes"] - STAMP.size)
    producer.list_topics(job["topic"])
    partitions, topic, rate = job["partitions"], job["topic"], job["rate"]
    total = int(rate * job["seconds"])
    told = Told() if job.get("until_told") else None
    started_s = time.monotonic()
    sent, late_s = 0, 0.0
    while sent < total and not (told and told.is_told):
        now_s = time.monotonic() - started_s
        due = min(int(now_s * rate) + 1, total)
        late_s = max(late_s, now_s - sent / rate)
        for number in range(sent, due):
            stamp = STAMP.pack(time.monotonic_ns())
            producer.produce(topic, stamp + padding, partition=number % partitions)
        sent = due
        producer.poll(0)
        time.sleep(0.0005)
    left = producer.flush(_FLUSH_S)
    seconds = time.monotonic() - started_s
    return {"sent": sent - left, "seconds": seconds, "late_ms": late_s * 1000, "left": left}


def _producer_settings(job: Job) -> dict[str, Any]:
    return {
        "bootstrap.servers": job["bootstrap"],
        "log_level": 3,
        "acks": job["acks"],
        "batch.size": job["batch_bytes"],
        "batch.num.messages": 1_000_000,
        "linger.ms": job["linger_ms"],
        "queue.buffering.max.messages": 400_000,
        "queue.buffering.max.kbytes": 512_000,
        "enable.idempotence": job.get("is_idempotent", False),
        "partitioner": "murmur2_random",
    }


KINDS: Final[Mapping[str, Callable[[Job], dict[str, Any]]]] = {
    "produce": produce,
    "pace": pace,
    "follow": follow,
}

if __name__ == "__main__":
    main()
