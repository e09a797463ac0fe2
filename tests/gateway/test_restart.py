"""Ids outlive the gateway: clean stops, SIGKILL, a second gateway; and their limits."""

from __future__ import annotations

import base64
import contextlib
import signal
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from tests.gateway.gateway_process import GatewayProcess, wait_until
from tests.gateway.records import read_all

NewTopic = Callable[..., str]


def test_a_repeat_after_a_clean_restart_gets_the_first_answer(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    topic = new_topic(3)
    with GatewayProcess(tmp_path, bootstrap) as gateway:
        first = [gateway.put(topic, messageId=f"m{n}", shardingKey=f"k{n}") for n in range(20)]
        assert gateway.end(signal.SIGTERM) == 0
        gateway.start()
        assert gateway.metric("hermes_gateway_recovered_ids_total") == 20
        for number, reply in enumerate(first):
            again = gateway.put(topic, messageId=f"m{number}", shardingKey=f"k{number}")
            assert again.json == {**reply.json, "duplicate": True}
    assert len(read_all(bootstrap, topic, 3)) == 20


def test_a_repeat_after_sigkill_gets_the_first_answer(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    """Killed at once after the answer: the id is in no block yet, only in the topic itself."""
    topic = new_topic()
    with GatewayProcess(tmp_path, bootstrap) as gateway:
        for number in range(4):
            first = gateway.put(topic, messageId=f"m{number}", value=b"x")
            gateway.kill()
            gateway.start()
            again = gateway.put(topic, messageId=f"m{number}", value=b"x")
            assert again.json == {**first.json, "duplicate": True}
            other = gateway.put(topic, messageId=f"m{number}", value=b"y")
            assert other.status == 409
        again = gateway.put(topic, messageId="m0", value=b"x")
        assert again.json["duplicate"] is True, "ids of the life before the last one are kept too"
    assert len(read_all(bootstrap, topic)) == 4


def test_a_repeat_without_a_key_after_sigkill_is_found_in_another_partition(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    topic = new_topic(8)
    with GatewayProcess(tmp_path, bootstrap) as gateway:
        first = [gateway.put(topic, messageId=f"m{number}").json for number in range(5)]
        gateway.kill()
        gateway.start()
        for number, row in enumerate(first):
            assert gateway.put(topic, messageId=f"m{number}").json == {**row, "duplicate": True}
    assert len(read_all(bootstrap, topic, 8)) == 5


def test_sigkill_in_the_middle_of_batches_stores_every_id_once(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    topic = new_topic(4)
    value = base64.b64encode(bytes(300)).decode()
    batches = [
        [
            {"messageId": f"{batch}-{row}", "shardingKey": f"{row}", "body": value}
            for row in range(200)
        ]
        for batch in range(12)
    ]
    with GatewayProcess(tmp_path, bootstrap) as gateway:
        for life in range(3):
            threads = [
                threading.Thread(target=_ignoring_failures, args=(gateway, topic, batch))
                for batch in batches[4 * life : 4 * life + 4]
            ]
            for thread in threads:
                thread.start()
            wait_until(
                lambda least=life * 200: len(read_all(bootstrap, topic, 4)) > least,
                what="a stored batch",
            )
            gateway.kill()
            for thread in threads:
                thread.join()
            gateway.start()
        answers = {}
        for batch in batches:
            reply = gateway.put_batch(batch, topic=topic)
            assert reply.status == 200, reply.body[:500]
            for row in reply.json["results"]:
                answers[row["messageId"]] = (row["partition"], int(row["queueOffset"]))
        assert gateway.metric("hermes_gateway_double_stores_total") == 0
    stored = read_all(bootstrap, topic, 4)
    assert Counter(record.message_id for record in stored).most_common(1)[0][1] == 1
    assert {r.message_id: (r.partition, r.offset) for r in stored} == answers
    assert len(answers) == 2_400


def _ignoring_failures(gateway: GatewayProcess, topic: str, batch: list[dict[str, str]]) -> None:
    with contextlib.suppress(OSError):
        gateway.put_batch(batch, topic=topic)


def test_a_second_gateway_takes_over_and_the_first_stops(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with GatewayProcess(tmp_path / "first", bootstrap) as first:
        stored = first.put(topic, messageId="m").json
        taken = str(first.settings["dedup_topic"])
        with GatewayProcess(tmp_path / "second", bootstrap, dedup_topic=taken) as second:
            assert second.put(topic, messageId="m").json == {**stored, "duplicate": True}
            assert second.put(topic, messageId="n").json["queueOffset"] == "1"
            late = first.put(topic, messageId="o")
            assert late.status in {503, 504}, "fenced: it cannot write any more"
            assert first.wait() == 1
            assert "another gateway took over" in first.log_path.read_text()
            assert second.put(topic, messageId="p").json["queueOffset"] == "2"
    assert [record.message_id for record in read_all(bootstrap, topic)] == ["m", "n", "p"]


def test_an_id_is_forgotten_after_the_window(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with GatewayProcess(tmp_path, bootstrap, dedup_window_ms=2_000) as gateway:
        assert gateway.put(topic, messageId="m").json["duplicate"] is False
        assert gateway.put(topic, messageId="m").json["duplicate"] is True
        wait_until(lambda: gateway.metric("hermes_gateway_ids") == 0, what="the end of the window")
        assert gateway.put(topic, messageId="m").json["duplicate"] is False
        gateway.kill()
        gateway.start()
        wait_until(lambda: gateway.metric("hermes_gateway_ids") == 0, what="the end of the window")
        assert gateway.put(topic, messageId="m").json["duplicate"] is False


def test_more_ids_than_are_kept_are_refused_and_messages_without_one_go_on(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    topic = new_topic()
    with GatewayProcess(tmp_path, bootstrap, dedup_ids_max=1_000) as gateway:
        rows = [{"messageId": str(number), "body": None} for number in range(1_001)]
        reply = gateway.put_batch(rows, topic=topic)
        assert (reply.json["stored"], reply.json["failed"]) == (1_000, 1)
        refused = gateway.put(topic, messageId="one more")
        assert (refused.status, refused.json["code"]) == (429, "THROTTLED")
        assert 1 <= int(refused.headers["Retry-After"]) <= 300 + 40
        assert gateway.put(topic, messageId="7", body=None).json["duplicate"] is True
        assert gateway.put(topic).status == 200


def test_a_topic_of_ids_that_cannot_be_one_is_refused_at_start(
    bootstrap: str, tmp_path: Path, new_topic: NewTopic
) -> None:
    gateway = GatewayProcess(tmp_path, bootstrap, dedup_topic=new_topic(2))
    gateway.start(waits=False)
    assert gateway.wait() == 2
    assert "has 2 partitions, but ids are kept in one" in gateway.log_path.read_text()
