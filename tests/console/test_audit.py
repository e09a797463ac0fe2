"""The audit page and its API: filters, paging, differences, a CSV without formulas."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import OperationalError, models
from django.test import Client
from django.utils import timezone

from hermes_console.accounts.actor import Actor
from hermes_console.accounts.models import User
from hermes_console.accounts.rights import RIGHTS_OF, Right, Role
from hermes_console.audit import prune
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.audit.prune import prune_slice
from hermes_console.audit.record import AuditUnavailable, audited, bounded, record
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused
from hermes_console.operations.audit import changes, csv_cell

pytestmark = pytest.mark.django_db(databases="__all__")
PAGE = "/audit/"
API = "/api/admin/v1/audit"


def actor(name: str = "admin", role: Role = Role.OPERATOR) -> Actor:
    return Actor(name, role, RIGHTS_OF[role], "session", "10.0.0.1", "req-1")


def fill(count: int, **fields: object) -> None:
    for number in range(count):
        record(
            actor(),
            "topic.create",
            outcome=Outcome.DONE,
            **{"target": f"t-{number}", **fields},  # type: ignore[arg-type]
        )


def test_act_is_recorded_before_it_begins_and_completed_after(cluster: Cluster) -> None:
    with audited(actor(), Right.TOPICS_WRITE, "topic.create", cluster=cluster, target="t") as act:
        assert AuditEvent.objects.get().outcome == Outcome.STARTED
        act.after = {"partitions": 3}
    event = AuditEvent.objects.get()
    assert (event.outcome, event.after, event.cluster) == ("done", {"partitions": 3}, "local")


def test_refusal_and_failure_go_on_and_are_recorded(cluster: Cluster) -> None:
    with (
        pytest.raises(Refused, match="too late"),
        audited(actor(), Right.TOPICS_WRITE, "topic.delete", cluster=cluster, target="t") as act,
    ):
        act.refuse("too late")
    with (
        pytest.raises(ZeroDivisionError),
        audited(actor(), Right.TOPICS_WRITE, "topic.delete", cluster=cluster, target="t"),
    ):
        _ = 1 / 0
    failed, refused = AuditEvent.objects.all()
    assert (refused.outcome, refused.reason) == ("refused", "too late")
    assert (failed.outcome, failed.reason) == ("failed", "ZeroDivisionError: division by zero")


def test_viewer_is_refused_before_anything_happens(cluster: Cluster) -> None:
    with (
        pytest.raises(Exception, match="vera is a viewer and may not create"),
        audited(
            actor("vera", Role.VIEWER), Right.TOPICS_WRITE, "topic.create", cluster=cluster,
            target="t",
        ),
    ):  # fmt: skip
        pytest.fail("the act began")
    assert AuditEvent.objects.get().outcome == "refused"


def test_page_walks_through_all_rows_once(signed_in: Client, cluster: Cluster) -> None:
    fill(120)
    address, seen = PAGE, []
    for _ in range(3):
        text = signed_in.get(address).text
        seen += [part.split("<")[0] for part in text.split('class="value">')[1:]]
        older = text.split('">Older')[0].rpartition('href="')[2]
        address = PAGE + older.replace("&amp;", "&")
    assert seen == [f"t-{number}" for number in reversed(range(120))]


def test_filters_fit_page_and_api(signed_in: Client, cluster: Cluster) -> None:
    fill(1, target="orders", cluster=cluster)
    record(actor("vera"), "group.reset", outcome=Outcome.FAILED, target="app", reason="timeout")
    AuditEvent.objects.complete(0, {})
    for query, expected in (
        ("actor=vera", ["app"]),
        ("action=topic", ["orders"]),
        ("action=topic.create", ["orders"]),
        ("action=topic.c", []),
        ("cluster=local", ["orders"]),
        ("outcome=failed", ["app"]),
        ("q=TIME", ["app"]),
        ("q=req-1", ["app", "orders"]),
        ("since=2099-01-01T00:00:00Z", []),
        ("until=2099-01-01T00:00:00Z", ["app", "orders"]),
        ("q=.*%2B(%3F", []),
    ):
        listed = signed_in.get(f"{API}?{query}").json()["events"]
        assert [one["target"] for one in listed] == expected, query
        text = signed_in.get(f"{PAGE}?{query}").text
        assert [t for t in ("app", "orders") if f'class="value">{t}<' in text] == expected, query


def test_nonsense_in_the_filter_is_said(signed_in: Client, cluster: Cluster) -> None:
    text = signed_in.get(f"{PAGE}?since=yesterday&outcome=x&before=abc").text
    assert "“yesterday” was left out. Enter a time" in text
    assert signed_in.get(f"{API}?since=yesterday").status_code == 400


def test_viewer_may_not_read_it(client: Client, viewer: User, cluster: Cluster) -> None:
    client.force_login(viewer)
    for address in (PAGE, f"{PAGE}export.csv", API):
        assert client.get(address).status_code == 403
    assert AuditEvent.objects.filter(outcome="refused", action="access").count() == 3


def test_csv_begins_no_formula(signed_in: Client, cluster: Cluster) -> None:
    targets = (
        "=1+1",
        "+1",
        "-1",
        "@x",
        "\t=1",
        " =1",
        "\u00a0=1",
        "\ufeff=1",
        "\uff1d1",
        "\uff201",
        "|x",
        "\r=1",
        "plain",
    )
    for target in targets:
        record(actor("=cmd"), "topic.create", outcome=Outcome.DONE, target=target)
    answer = signed_in.get(f"{PAGE}export.csv?action=topic")
    assert answer["Content-Disposition"].startswith("attachment;")
    text = b"".join(answer.streaming_content).decode()  # type: ignore[attr-defined]
    header, *rows = csv.reader(io.StringIO(text))
    assert len(rows) == len(targets)
    starts, skipped = tuple("=+-@|\t\r\uff1d\uff20"), " \u00a0\ufeff"
    for row in rows:
        assert not any(cell.lstrip(skipped).startswith(starts) for cell in row), row
    assert rows[0][header.index("target")] == "plain"


@pytest.mark.parametrize("value", [None, "", "a", 0, {"a": -1}, ["=x"]])
def test_csv_cell_of_anything_is_text(value: object) -> None:
    assert isinstance(csv_cell(value), str)


def test_difference_shows_what_changed_first() -> None:
    found = changes({"a": 1, "b": {"c": "x"}, "gone": 1}, {"a": 1, "b": {"c": "y"}, "new": None})
    assert [(one.name, one.before, one.after, one.is_changed) for one in found] == [
        ("b.c", "x", "y", True),
        ("gone", "1", None, True),
        ("new", None, "null", True),
        ("a", "1", "1", False),
    ]


def test_hostile_text_is_text_on_the_page(signed_in: Client, cluster: Cluster) -> None:
    record(
        actor("<svg onload=alert(1)>"), "topic.create", outcome=Outcome.DONE,
        target="<script>alert(1)</script>\r\nX: y", after={"<b>": "\0\ud800"},
    )  # fmt: skip
    text = signed_in.get(PAGE).text
    assert "<script>alert" not in text
    assert "<svg onload" not in text
    event = AuditEvent.objects.get()
    detail = signed_in.get(f"{PAGE}{event.pk}").text
    assert "&lt;b&gt;" in detail
    assert signed_in.get(f"{API}/{event.pk}").json()["target"].startswith("<script>")


def test_long_values_are_cut_and_say_so() -> None:
    cut = bounded({"x": "y" * 100_000})
    assert cut["cut"] is True
    assert len(json.dumps(cut)) < 65_536


def test_row_that_was_cut_off_is_shown_as_unknown(signed_in: Client, cluster: Cluster) -> None:
    record(actor(), "topic.delete", outcome=Outcome.STARTED, target="orders")
    assert "Unknown" in signed_in.get(PAGE).text
    assert AuditEvent.objects.get().at <= datetime.now(UTC)


def aged(days: int, target: str) -> None:
    event = record(actor(), "topic.create", outcome=Outcome.DONE, target=target)
    rows: models.QuerySet[AuditEvent] = models.QuerySet(AuditEvent).filter(pk=event.pk)
    rows.update(at=timezone.now() - timedelta(days=days))


def test_old_rows_go_a_slice_at_a_time_and_a_row_says_so(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune, "ROWS_PER_STEP", 2)
    monkeypatch.setattr(prune, "STEPS_PER_SLICE", 2)
    for number in range(5):
        aged(401, f"old-{number}")
    aged(399, "young")
    now = timezone.now()
    assert prune_slice(now, 400), "a slice is bounded"
    assert not prune_slice(now, 400)
    assert not prune_slice(now, 400), "nothing is left, and nothing is recorded"
    kept = list(AuditEvent.objects.order_by("pk").values_list("action", "target", "outcome"))
    assert kept[0] == ("topic.create", "young", "done")
    told = AuditEvent.objects.filter(action="audit.prune")
    assert [one.after["rows"] for one in told.order_by("pk")] == [4, 1]
    assert {one.actor for one in told} == {"console"}


def test_rows_are_kept_for_ever_on_demand(cluster: Cluster) -> None:
    aged(10_000, "old")
    assert not prune_slice(timezone.now(), 0)
    assert AuditEvent.objects.count() == 1


def test_nothing_goes_when_the_row_that_tells_of_it_cannot_be_written(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    aged(401, "old")

    def full(*_: object, **__: object) -> None:
        raise OperationalError("disk full")

    monkeypatch.setattr(models.Model, "save", full)
    with pytest.raises(AuditUnavailable):
        prune_slice(timezone.now(), 400)
    assert AuditEvent.objects.filter(target="old").exists()
