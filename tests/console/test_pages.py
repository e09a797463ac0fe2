"""The pages: who may see them, what they say with, without and with stale samples, and what they
refuse.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing

import pytest
from django.test import Client
from django.urls import reverse

from hermes_console.clusters import Cluster
from hermes_console.samples.snapshot import ClusterSnapshot, Rates, Verdict
from tests.console.conftest import group

pytestmark = pytest.mark.django_db(databases="__all__")

OVERVIEW = "/clusters/local/"
GROUPS = "/clusters/local/groups/"


def text_of(client: Client, address: str, status: int = 200, **headers: str) -> str:
    answer = client.get(address, headers=headers)
    assert answer.status_code == status
    return re.sub(r"\s+", " ", answer.content.decode())


def test_a_module_of_an_older_release_is_never_mixed_with_newer_ones(client: Client) -> None:
    module, sheet = "/static/console/js/chart.js", "/static/console/css/parts.css"
    with closing(client.get(module)) as first:
        assert first["Cache-Control"] == "no-cache"
    with closing(client.get(module, headers={"If-None-Match": first["ETag"]})) as again:
        assert again.status_code == 304
    with closing(client.get(sheet)) as versioned:
        assert "max-age" in versioned["Cache-Control"]


def test_home_leads_to_the_default_cluster(signed_in: Client, cluster: Cluster) -> None:
    Cluster.objects.create(name="another", bootstrap_address="a:1")
    assert signed_in.get("/")["Location"] == OVERVIEW


def test_unknown_cluster_is_a_404_without_a_trace(signed_in: Client, cluster: Cluster) -> None:
    text = text_of(signed_in, "/clusters/nope/", 404)
    assert "Nothing here" in text
    assert "Traceback" not in text


@pytest.mark.parametrize("address", [OVERVIEW, GROUPS])
def test_page_before_the_first_sample_says_that_it_waits(
    signed_in: Client, cluster: Cluster, address: str
) -> None:
    assert "Waiting for the first sample" in text_of(signed_in, address)


@pytest.mark.parametrize("address", [OVERVIEW, GROUPS])
def test_cluster_without_groups_says_how_one_comes_to_be(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot], address: str
) -> None:
    store_groups()
    text = text_of(signed_in, address)
    assert "No consumer group yet" in text
    assert "kcat -b 127.0.0.1:9092 -G my-group" in text


def test_overview_shows_rates_disk_and_who_needs_attention_first(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(
        group("calm"),
        group("late", lag=900, verdict=Verdict.FALLING_BEHIND),
        group("halted", lag=5, verdict=Verdict.STOPPED, member_count=0),
    )
    text = text_of(signed_in, OVERVIEW)
    assert "2.0 KiB/s" in text
    assert "70 % used" in text
    assert "2 need attention" in text
    rows = re.findall(r'<tr data-key="([^"]+)"', text)
    assert rows[:2] == ["halted", "late"]
    assert "calm" not in rows


def test_unreachable_cluster_keeps_the_last_numbers_and_says_what_to_do(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app", lag=12_345), trouble="Tried 127.0.0.1:9092: refused.", rates=Rates())
    text = text_of(signed_in, GROUPS)
    assert "Cluster local cannot be reached" in text
    assert "Tried 127.0.0.1:9092: refused." in text
    assert "12,345" in text
    assert "Check that the broker runs" in text


def test_missing_metrics_leave_rates_unknown_and_say_why(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app"), rates=Rates(), metrics_trouble="Tried http://m: refused.")
    text = text_of(signed_in, OVERVIEW)
    assert "Rates and disk are unknown." in text
    assert "Tried http://m: refused." in text


def test_unknown_lag_is_never_shown_as_zero(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("new", lag=None))
    text = text_of(signed_in, GROUPS + "new/")
    assert re.search(r'data-lag-of="new">unknown<', text)
    assert "none yet" in text


def test_offsets_beyond_2_to_the_53_are_exact(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app", lag=10))
    assert f"{2**60 - 10:,}" in text_of(signed_in, GROUPS + "app/")


def test_group_that_does_not_exist_is_a_404_that_explains(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app"))
    assert "No such group in local" in text_of(signed_in, GROUPS + "nope/", 404)
    assert signed_in.get(GROUPS + "nope/history").status_code == 404


@pytest.mark.parametrize(
    "name", ["<script>alert(1)</script>", "../..", "a/b", "=cmd|' /C calc'", "ü\r\nX: y"]
)
def test_hostile_names_are_shown_as_text(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot], name: str
) -> None:
    store_groups(group(name, verdict=Verdict.STALLED))
    for address in (OVERVIEW, GROUPS, reverse("groups:detail", args=["local", name])):
        text = text_of(signed_in, address)
        assert "<script>alert" not in text


def test_list_filters_orders_and_pages_on_the_server(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(*(group(f"g-{n:03}", lag=n) for n in range(120)))

    def rows(query: str) -> list[str]:
        return re.findall(r'<tr data-key="([^"]+)"', text_of(signed_in, GROUPS + query))

    assert len(rows("")) == 50
    assert rows("?sort=lag")[0] == "g-119"
    assert rows("?sort=name&page=3") == [f"g-{n:03}" for n in range(100, 120)]
    assert rows("?q=G-11")[0] == "g-119"
    assert len(rows("?q=G-11")) == 10
    assert rows("?page=99&sort=name")[-1] == "g-119"
    assert "No group fits" in text_of(signed_in, GROUPS + "?show=stalled")


def test_filter_by_htmx_gets_the_table_alone(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app"))
    text = text_of(signed_in, GROUPS + "?q=a", **{"HX-Request": "true"})
    assert "<table" in text
    assert "<html" not in text


@pytest.mark.parametrize(
    "query",
    [
        "?page=-1",
        "?page=x",
        "?page=²",
        f"?page={'9' * 5_000}",
        "?sort=;drop",
        "?show=<",
        "?span=9y",
    ],
)
def test_nonsense_in_the_query_falls_back(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot], query: str
) -> None:
    store_groups(group("app"))
    for address in (OVERVIEW, GROUPS, GROUPS + "app/"):
        assert signed_in.get(address + query).status_code == 200


def test_history_gives_whole_numbers_as_text(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app", lag=2**55 + 1, lag_seconds=1.5))
    points = signed_in.get(GROUPS + "app/history").json()["points"]
    assert points[0][1:] == [str(2**55 + 1), 1.5]


def test_state_changes_by_get_are_refused(signed_in: Client, cluster: Cluster) -> None:
    for address in (OVERVIEW, GROUPS):
        assert signed_in.post(address).status_code == 405


def test_first_page_of_a_thousand_groups_is_quick(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    import time

    store_groups(*(group(f"g-{n:04}", lag=n) for n in range(1_000)))
    signed_in.get(GROUPS)
    began = time.perf_counter()
    assert signed_in.get(GROUPS).status_code == 200
    assert time.perf_counter() - began < 0.5


def test_pages_carry_the_strict_policy_and_no_inline_code(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app"))
    for address in (OVERVIEW, GROUPS, GROUPS + "app/", "/api/admin/v1/docs", "/accounts/password"):
        answer = signed_in.get(address)
        policy = set(answer["Content-Security-Policy"].split("; "))
        assert {"default-src 'none'", "script-src 'self'", "style-src 'self'"} <= policy
        assert "unsafe" not in answer["Content-Security-Policy"]
        html = answer.content.decode()
        assert not re.search(r"<script(?![^>]*\bsrc=)", html)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html)
        assert not re.search(r'(src|href)="(https?:)?//', html)


def test_pages_of_the_signed_in_are_in_no_cache(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app"))
    for address in (OVERVIEW, GROUPS, GROUPS + "app/", "/api/admin/v1/groups"):
        assert "no-store" in signed_in.get(address)["Cache-Control"]


def test_health_and_readiness_need_no_session(client: Client, cluster: Cluster) -> None:
    assert client.get("/healthz").content == b"ok\n"
    assert client.get("/readyz").content == b"ready\n"
    assert b"django_http_requests" in client.get("/metrics").content
