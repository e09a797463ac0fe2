"""Reading and producing messages on a real broker: pages and API, and what is refused."""

from __future__ import annotations

import csv
import html
import io
import json
import os
import re
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from django.test import Client

from broker.client.partitioner import murmur2_partition
from hermes_console.accounts.models import User
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.clusters import Cluster, ClusterKind
from tests.console.kafka_world import World, running_cluster

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(180)]
API = "/api/admin/v1/clusters/local/topics"
PAGE = "/clusters/local/messages"
HTML = b"<script>alert(document.domain)</script><svg onload=alert(1)>"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    with running_cluster(tmp_path_factory.mktemp("messages-broker")) as bootstrap:
        yield World(bootstrap)


@pytest.fixture
def local(cluster: Cluster, world: World) -> Cluster:
    cluster.bootstrap_address = world.bootstrap
    is_foreign = bool(os.environ.get("CONSOLE_TEST_BOOTSTRAP"))
    cluster.kind = ClusterKind.KAFKA if is_foreign else ClusterKind.OURS
    cluster.save()
    return cluster


@pytest.fixture
def operator(local: Cluster, signed_in: Client) -> Client:
    return signed_in


@pytest.fixture
def reader(local: Cluster, viewer: User) -> Client:
    client = Client()
    client.force_login(viewer)
    return client


def text_of(answer: Any) -> str:
    """The page's text, without tags and runs of white space."""
    page = re.sub(r"<[^>]*>", " ", answer.content.decode())
    return re.sub(r"\s+", " ", html.unescape(page))


def put(
    world: World,
    topic: str,
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    partition: int = 0,
    headers: list[tuple[str, bytes | None]] | None = None,
    first_ms: int = 1_000_000,
    **settings: object,
) -> None:
    producer = Producer({"bootstrap.servers": world.bootstrap, **settings})
    for number, (key, value) in enumerate(records):
        producer.produce(
            topic,
            value,
            key=key,
            partition=partition,
            headers=headers,  # type: ignore[arg-type]
            timestamp=first_ms + number * 1_000,
        )
    assert producer.flush(30) == 0


def records(client: Client, topic: str, **query: object) -> dict[str, Any]:
    answer = client.get(f"{API}/{topic}/records", query)
    assert answer.status_code == 200, answer.content
    return dict(answer.json())


def places(page: dict[str, Any]) -> list[tuple[int, int]]:
    return [(one["partition"], int(one["offset"])) for one in page["records"]]


def test_newest_come_first_over_all_partitions_and_paging_shows_each_once(
    operator: Client, world: World
) -> None:
    topic = world.topic(partitions=3, records=40)
    seen: list[tuple[int, int]] = []
    page = records(operator, topic, limit=17)
    times = [int(one["timestamp_ms"]) for one in page["records"]]
    assert times == sorted(times, reverse=True)
    assert page["stopped"] == "full"
    while True:
        seen += places(page)
        if page["older_cursor"] is None:
            break
        page = records(operator, topic, limit=17, cursor=page["older_cursor"])
    assert len(seen) == 120
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(40)]
    assert page["stopped"] == "end"


def test_newer_pages_show_what_arrived_since(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=5)
    page = records(operator, topic, limit=3)
    cursor = page["newer_cursor"]
    assert records(operator, topic, cursor=cursor)["records"] == []
    put(world, topic, [(b"k", b"late")], partition=1, first_ms=9_000_000)
    found = records(operator, topic, cursor=cursor)
    assert places(found) == [(1, 5)]


def test_older_and_newer_are_each_others_way_back(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=30)
    first = records(operator, topic, limit=10)
    second = records(operator, topic, limit=10, cursor=first["older_cursor"])
    assert places(second) == [(0, offset) for offset in range(19, 9, -1)]
    back = records(operator, topic, limit=10, cursor=second["newer_cursor"])
    assert places(back) == places(first)


def test_from_an_offset_and_from_a_time_goes_forward(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=20)
    page = records(operator, topic, partition=1, start="offset", offset=12, limit=3)
    assert places(page) == [(1, 12), (1, 13), (1, 14)]
    later = records(
        operator,
        topic,
        partition=1,
        start="offset",
        offset=12,
        limit=50,
        cursor=page["newer_cursor"],
    )
    assert places(later) == [(1, offset) for offset in range(15, 20)]
    page = records(operator, topic, start="time", time_ms=1_000_000 + 17_500, limit=4)
    assert places(page) == [(0, 18), (1, 18), (0, 19), (1, 19)]
    page = records(operator, topic, start="oldest", limit=3)
    assert places(page)[0] == (0, 0)


def test_an_offset_outside_the_log_is_said(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=3)
    page = records(operator, topic, partition=0, start="offset", offset=7)
    assert page["records"] == []
    assert page["notes"] == ["There is no offset 7 yet: the partition ends at 3."]


def test_a_key_is_looked_for_where_murmur2_puts_it(operator: Client, world: World) -> None:
    topic = world.topic(partitions=4, records=30)
    home = murmur2_partition(b"order-17", 4)
    put(
        world,
        topic,
        [(b"order-17", b"one"), (b"order-1", b"no"), (b"order-17", b"two")],
        partition=home,
    )
    elsewhere = (home + 1) % 4
    put(world, topic, [(b"order-17", b"three")], partition=elsewhere)
    page = records(operator, topic, key="order-17")
    assert page["partitions"] == [home]
    assert [one["value"]["content"] for one in page["records"]] == ["two", "one"]
    everywhere = records(operator, topic, key="order-17", all_partitions=True)
    assert len(everywhere["records"]) == 3
    hexed = records(operator, topic, key=b"order-17".hex(), key_encoding="hex")
    assert places(hexed) == places(page)
    assert records(operator, topic, key="order-18")["stopped"] == "end"


def test_the_api_call_of_the_page_gives_what_the_page_shows(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=3)
    put(world, topic, [(b"a b", b"one"), (b"c", b"two")], partition=1)
    page = text_of(operator.get(f"{PAGE}/{topic}/?from=oldest&partition=1&key=a+b&n=20"))
    (path,) = re.findall(r"curl [^\n]*?'http://testserver(/api/[^']+)'", page)
    found = operator.get(path).json()
    assert [one["value"]["content"] for one in found["records"]] == ["one"]
    assert "?" not in re.findall(r"curl [^\n]*", text_of(operator.get(f"{PAGE}/{topic}/")))[0]


def test_a_search_for_a_key_stops_at_its_budget_and_goes_on_from_there(
    operator: Client, world: World
) -> None:
    topic = world.topic(partitions=1, records=0)
    put(world, topic, [(b"needle", b"here")])
    put(world, topic, [(b"hay", os.urandom(1_000)) for _ in range(3_000)])
    query = {"key": "needle", "all_partitions": True, "max_bytes": 1_000_000}
    page = records(operator, topic, **query)
    rounds = 1
    assert page["stopped"] == "bytes"
    assert "as much as one page may" in page["stopped_because"]
    while not page["records"] and page["older_cursor"]:
        page = records(operator, topic, **query, cursor=page["older_cursor"])
        rounds += 1
        assert rounds < 20, "each page gets on"
    assert places(page) == [(0, 0)]


def test_the_smallest_budget_still_gets_on(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    put(world, topic, [(b"k", os.urandom(200_000)) for _ in range(4)])
    seen: list[tuple[int, int]] = []
    cursor: dict[str, str] = {}
    for _ in range(20):
        page = records(operator, topic, max_bytes=1, **cursor)
        seen += places(page)
        if page["older_cursor"] is None:
            break
        cursor = {"cursor": page["older_cursor"]}
    assert seen == [(0, 3), (0, 2), (0, 1), (0, 0)]


@pytest.mark.parametrize("compression", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_batches_are_read(operator: Client, world: World, compression: str) -> None:
    topic = world.topic(partitions=1, records=0)
    settings = {"compression.type": compression, "linger.ms": 50}
    put(world, topic, [(b"k%d" % n, b"v" * 500) for n in range(50)], **settings)
    page = records(operator, topic, limit=60)
    assert len(page["records"]) == 50
    assert {one["compression"] for one in page["records"]} == {compression}
    assert places(records(operator, topic, key="k7")) == [(0, 7)]


def test_null_empty_and_tombstone_are_told_apart(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    put(world, topic, [(None, b""), (b"", None)], headers=[("h", None), ("h", b""), ("h", b"\xff")])
    last, first = records(operator, topic)["records"]
    assert first["key"] is None
    assert first["value"]["size"] == "0"
    assert not first["is_tombstone"]
    assert last["key"]["size"] == "0"
    assert last["value"] is None
    assert last["is_tombstone"]
    headers = [(one["name"], one["value"] and one["value"]["content"]) for one in last["headers"]]
    assert headers == [("h", None), ("h", ""), ("h", "/w==")]
    page = text_of(operator.get(f"{PAGE}/{topic}/0/1/"))
    assert "A tombstone: the value is null, not empty" in page
    assert "empty (0 bytes)" in page
    assert "Tombstone (null)" in text_of(operator.get(f"{PAGE}/{topic}/"))


def test_json_is_shown_as_sent(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    sent = b'{"id":9007199254740993,"id":1.10,"big":123456789012345678901234567890}'
    put(world, topic, [(b"k", sent)])
    page = html.unescape(operator.get(f"{PAGE}/{topic}/0/0/").content.decode())
    assert '"id": 9007199254740993,\n  "id": 1.10,\n  "big": 123456789012345678901234567890' in page
    assert records(operator, topic)["records"][0]["value"]["content"] == sent.decode()
    page = html.unescape(operator.get(f"{PAGE}/{topic}/0/0/?view=text").content.decode())
    assert sent.decode() in page
    page = operator.get(f"{PAGE}/{topic}/0/0/?view=hex").content.decode()
    assert "00000000  7b 22 69 64" in page


def test_html_in_payloads_is_text(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    put(world, topic, [(HTML, HTML)], headers=[(HTML.decode(), HTML)])
    for path in (f"{PAGE}/{topic}/", f"{PAGE}/{topic}/0/0/", f"{PAGE}/{topic}/?key=<script>"):
        page = operator.get(path).content
        assert b"<script>alert" not in page
        assert b"<svg onload" not in page


def test_raw_downloads_are_files_that_no_browser_runs(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    put(world, topic, [(b"k", HTML + b"\xff" * 100_000)], headers=[("a", b"1"), ("a", b"\x00")])
    for path, content in (
        (f"{PAGE}/{topic}/0/0/value", HTML + b"\xff" * 100_000),
        (f"{API}/{topic}/records/0/0/value", HTML + b"\xff" * 100_000),
        (f"{PAGE}/{topic}/0/0/key", b"k"),
        (f"{PAGE}/{topic}/0/0/header-1", b"\x00"),
    ):
        answer = operator.get(path)
        assert answer.status_code == 200
        assert answer.content == content
        assert answer["Content-Type"] == "application/octet-stream"
        assert answer["X-Content-Type-Options"] == "nosniff"
        assert re.fullmatch(
            r'attachment; filename="[A-Za-z0-9._-]+\.bin"', answer["Content-Disposition"]
        )
        assert "sandbox" in answer["Content-Security-Policy"]
    assert operator.get(f"{PAGE}/{topic}/0/0/header-9").status_code == 404
    assert "preview" not in operator.get(f"{PAGE}/{topic}/0/0/").content.decode()
    assert "The first 16 KiB are shown." in text_of(operator.get(f"{PAGE}/{topic}/0/0/"))


def test_a_null_value_cannot_be_downloaded(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    put(world, topic, [(b"k", None)])
    answer = operator.get(f"{API}/{topic}/records/0/0/value")
    assert answer.status_code == 404
    assert answer.json()["code"] == "is-null"


def test_an_export_is_whole_and_no_formula(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    values = [b"=1+1", b"+SUM(A1)", b"-2", b"@x", b"\t=1", b" =1", b'{"a":1}', b"\xff", b"", None]
    put(world, topic, [(b"=key", value) for value in values])
    answer = operator.get(f"{PAGE}/{topic}/export?format=csv&from=oldest")
    assert answer["Content-Disposition"] == f'attachment; filename="{topic}-messages.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.content.decode())))
    assert len(rows) == len(values)
    for row in rows:
        for cell in row.values():
            assert not cell.lstrip().startswith(("=", "+", "-", "@", "\t", "\r")), cell
    assert [row["value_encoding"] for row in rows[-3:]] == ["base64", "utf-8", "null"]
    answer = operator.get(f"{API}/{topic}/records/export?file=json&start=oldest")
    found = json.loads(answer.content)
    assert [one["value"] and one["value"]["content"] for one in found] == [
        *(value.decode() for value in values[:7] if value),
        "/w==",
        "",
        None,
    ]


def test_an_export_holds_more_than_a_page(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=600)
    answer = operator.get(f"{API}/{topic}/records/export?limit=1")
    assert len(json.loads(answer.content)) == 1_200


def test_counts_of_compacted_topics_are_estimated(operator: Client, world: World) -> None:
    plain = world.topic(partitions=1, records=3)
    compacted = world.topic(partitions=1, records=3, config={"cleanup.policy": "compact"})
    assert "3 messages in 1 partition." in text_of(operator.get(f"{PAGE}/{plain}/"))
    assert "About 3 messages (estimated" in text_of(operator.get(f"{PAGE}/{compacted}/"))


def test_log_append_time_is_named(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=1, config={"message.timestamp.type": "LogAppendTime"})
    assert records(operator, topic)["records"][0]["timestamp_type"] == "LogAppendTime"
    assert "LogAppendTime" in text_of(operator.get(f"{PAGE}/{topic}/0/0/"))


def test_produced_by_key_it_is_found_by_key(operator: Client, world: World) -> None:
    topic = world.topic(partitions=5, records=0)
    sent = '{"id": 9007199254740993, "total": 10.50}'
    answer = operator.post(
        f"{PAGE}/{topic}/produce",
        {
            "key": "order-17",
            "value": sent,
            "value_as": "json",
            "header_name_0": "event",
            "header_value_0": "created",
            "header_name_1": "event",
            "header_value_1": "00 ff",
            "header_as_1": "hex",
            "time": "2026-03-01 14:03:12.345",
        },
    )
    home = murmur2_partition(b"order-17", 5)
    assert answer.status_code == 302
    assert answer["Location"] == f"{PAGE}/{topic}/{home}/0/"
    page = text_of(operator.get(answer["Location"]))
    assert f"Stored in partition {home} at offset 0." in page
    (found,) = records(operator, topic, key="order-17")["records"]
    assert found["value"]["content"] == sent
    assert found["timestamp_ms"] == "1772373792345"
    assert [one["value"]["content"] for one in found["headers"]] == ["created", "AP8="]
    event = AuditEvent.objects.get(action="message.produce")
    assert event.outcome == Outcome.DONE
    assert event.after == event.before | {"partition": home, "offset": "0"}, "all of it stayed"
    assert "order-17" not in json.dumps(event.before), "the audit keeps shapes, not contents"


@pytest.mark.parametrize(
    ("value", "encoding", "stored"),
    [
        ("", "text", b""),
        ("", "null", None),
        ("68 69", "hex", b"hi"),
        ("aGk=", "base64", b"hi"),
        ("a\r\nb", "text", b"a\nb"),
        ("null", "json", b"null"),
    ],
)
def test_what_is_entered_is_what_is_stored(
    operator: Client, world: World, value: str, encoding: str, stored: bytes | None
) -> None:
    topic = world.topic(partitions=1, records=0)
    answer = operator.post(
        f"{PAGE}/{topic}/produce", {"value": value, "value_as": encoding, "partition": "0"}
    )
    assert answer.status_code == 302, text_of(answer)
    (found,) = records(operator, topic)["records"]
    assert found["key"] is None
    content = found["value"]
    assert (content and content["content"].encode()) == stored


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"value": "{", "value_as": "json"}, "Not JSON"),
        ({"value": "x", "value_as": "null"}, "Null has no content"),
        ({"key": "zz", "key_as": "hex"}, "Not hex"),
        ({"value": "a", "value_as": "base64"}, "Not base64"),
        ({"partition": "-1"}, "whole number"),
        ({"time": "yesterday"}, "Enter a time"),
        ({"header_value_0": "x"}, "A header needs a name"),
    ],
)
def test_a_bad_message_is_refused_beside_its_field_and_the_form_is_kept(
    operator: Client, world: World, fields: dict[str, str], says: str
) -> None:
    topic = world.topic(partitions=1, records=0)
    answer = operator.post(f"{PAGE}/{topic}/produce", {"value": "kept", **fields})
    assert answer.status_code == 400
    assert says in text_of(answer)
    assert records(operator, topic)["records"] == []
    if "value" not in fields:
        assert "kept" in answer.content.decode()


def test_what_the_topic_refuses_is_no_success(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0, config={"max.message.bytes": "1000"})
    answer = operator.post(f"{PAGE}/{topic}/produce", {"value": "x" * 2_000, "partition": "0"})
    assert answer.status_code == 413
    assert "max.message.bytes" in text_of(answer)
    assert "Stored" not in text_of(answer)
    assert operator.post(f"{PAGE}/{topic}/produce", {"partition": "7"}).status_code == 404
    assert records(operator, topic)["records"] == []
    outcomes = set(
        AuditEvent.objects.filter(action="message.produce").values_list("outcome", flat=True)
    )
    assert outcomes == {Outcome.REFUSED}


def test_producing_over_the_api_says_where(operator: Client, world: World) -> None:
    topic = world.topic(partitions=3, records=0)
    body = {
        "key": {"content": "k"},
        "value": {"encoding": "json", "content": '{"a": 1.0}'},
        "headers": [{"name": "h", "value": None}],
        "partition": 2,
        "timestamp_ms": "1234567",
    }
    send = {"data": json.dumps(body), "content_type": "application/json"}
    answer = operator.post(f"{API}/{topic}/records", **send, headers={"Idempotency-Key": "one"})  # type: ignore[arg-type]
    assert answer.status_code == 201, answer.content
    assert answer.json() == {"partition": 2, "offset": "0"}
    found = operator.get(answer["Location"]).json()
    assert found["timestamp_ms"] == "1234567"
    assert found["headers"] == [{"name": "h", "value": None}]
    again = operator.post(f"{API}/{topic}/records", **send, headers={"Idempotency-Key": "one"})  # type: ignore[arg-type]
    assert again.json() == answer.json()
    assert len(records(operator, topic)["records"]) == 1, "sent twice, stored once"


def test_a_viewer_reads_and_does_not_produce(reader: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=2)
    assert len(records(reader, topic)["records"]) == 2
    for address in (f"{PAGE}/{topic}/", f"{PAGE}/{topic}/searches/"):
        page = text_of(reader.get(address))
        assert "Search" in page
        assert "Produce" not in page
    assert reader.get(f"{PAGE}/{topic}/produce").status_code == 403
    for answer in (
        reader.post(f"{PAGE}/{topic}/produce", {"value": "x"}),
        reader.post(f"{PAGE}/{topic}/produce", {"value": "{", "value_as": "json"}),
        reader.post(f"{API}/{topic}/records", "{}", content_type="application/json"),
    ):
        assert answer.status_code == 403
    assert len(records(reader, topic)["records"]) == 2
    assert AuditEvent.objects.filter(action="message.produce", outcome=Outcome.REFUSED).exists()


def test_reads_are_audited_with_topic_range_and_count(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=5)
    records(operator, topic, limit=4)
    operator.get(f"{PAGE}/{topic}/1/3/")
    listed, read = AuditEvent.objects.filter(target=topic).order_by("pk")
    assert listed.action == "messages.browse"
    assert listed.after["messages"] == 4
    assert listed.after["offsets"] == {"0": ["3", "5"], "1": ["3", "5"]}
    assert read.action == "messages.read"
    assert read.after == {"partition": 1, "offset": "3", "messages": 1}


def test_nothing_is_created_by_looking(operator: Client, world: World) -> None:
    for path in (
        f"{PAGE}/no-such-topic/",
        f"{PAGE}/no-such-topic/produce",
        f"{API}/no-such-topic/records",
        f"{API}/no-such-topic/records/0/0",
    ):
        assert operator.get(path).status_code == 404, path
    answer = operator.post(f"{PAGE}/no-such-topic/produce", {"value": "x"})
    assert answer.status_code == 404
    admin = AdminClient({"bootstrap.servers": world.bootstrap})
    assert "no-such-topic" not in admin.list_topics(timeout=10).topics


HUGE = "9" * 40


@pytest.mark.parametrize(
    "query",
    [
        "partition=99",
        "partition=-1",
        "partition=x",
        f"partition={HUGE}",
        "from=nowhere",
        "from=offset",
        f"from=offset&offset={HUGE}",
        "from=time&time=soon",
        "cursor=x",
        "key=zz&key_as=hex",
        "key=a&key_as=json",
        "n=x",
        "s=-3",
        "mb=lots",
        "partition=%EF%BC%91",
        "from=time&time=0001-01-01T00:00:00%2B23:00",
        "from=time&time=9999-12-31T23:59:59-23:00",
        "cursor=eJwDAAAAAAE",
        "key=%00",
        "view=%3Cscript%3E",
    ],
)
def test_bad_addresses_are_answered_in_words(operator: Client, world: World, query: str) -> None:
    topic = world.topic(partitions=1, records=1)
    answer = operator.get(f"{PAGE}/{topic}/?{query}")
    assert answer.status_code in {200, 400, 404}
    assert b"Traceback" not in answer.content
    api = operator.get(f"{API}/{topic}/records?{query.replace('from', 'start')}")
    assert api.status_code in {200, 400, 404, 422}, api.content


@pytest.mark.parametrize(
    "topic", ["..", "a%00b", "~AA", "x" * 300, "~Li4vLi4vZXRj", "a%0d%0ab", "%3Cscript%3E"]
)
def test_names_that_no_topic_has_are_not_found(operator: Client, topic: str) -> None:
    for path in ("", "produce", "searches/", "searches/abc/", "0/0/", "0/0/value", "export"):
        assert operator.get(f"{PAGE}/{topic}/{path}").status_code in {400, 404}, path
    for path in ("records", "records/0/0", "records/searches", "records/searches/abc"):
        assert operator.get(f"{API}/{topic}/{path}").status_code == 404, path


def test_an_offset_without_a_message_says_why(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=5)
    assert "not written yet" in text_of(operator.get(f"{PAGE}/{topic}/0/5/"))
    assert operator.get(f"{PAGE}/{topic}/0/{HUGE}/").status_code == 404
    assert operator.get(f"{PAGE}/{topic}/9/0/").status_code == 404


def test_get_changes_nothing(operator: Client, world: World) -> None:
    topic = world.topic(partitions=1, records=0)
    operator.get(f"{PAGE}/{topic}/produce?value=x&value_as=text")
    assert operator.get(f"{PAGE}/{topic}/searches/abc/cancel").status_code == 405
    assert operator.get(f"{PAGE}/{topic}/searches/abc/resume").status_code == 405
    assert records(operator, topic)["records"] == []


def test_topics_to_choose_from(operator: Client, world: World) -> None:
    topic = world.topic(partitions=2, records=0)
    page = operator.get(f"{PAGE}/", {"q": topic})
    assert f"{PAGE}/{topic}/" in page.content.decode()
    assert "1 topic" in text_of(page)
    assert "/api/admin/v1/clusters/local/topics" in text_of(page)
    assert "has “nothing-like-it”" in text_of(operator.get(f"{PAGE}/?q=nothing-like-it"))


def test_an_unreachable_cluster_is_said_on_the_page(
    operator: Client, local: Cluster, free_port: Any
) -> None:
    local.bootstrap_address = f"127.0.0.1:{free_port()}"
    local.save()
    answer = operator.get(f"{PAGE}/orders/")
    assert answer.status_code in {502, 504}
    assert "cluster" in text_of(answer).lower()
