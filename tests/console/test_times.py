"""The reader's time zone: chosen once, stated, used by every page; the palette's search."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client

from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Role
from hermes_console.clusters import Cluster
from hermes_console.palette import ROWS_PER_KIND_MAX, Entry, best
from hermes_console.samples.snapshot import ClusterSnapshot
from hermes_console.zone import read_mode, read_zone
from tests.console.conftest import group

pytestmark = pytest.mark.django_db(databases="__all__")
AT_MS = 1_772_370_192_000  # 2026-03-01 13:03:12 UTC


def test_chosen_zone_is_stated_and_used(
    signed_in: Client, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("app"), trouble="Tried it: refused.", reached_at_ms=AT_MS)
    page = signed_in.get("/clusters/local/groups/").content.decode()
    assert "2026-03-01 13:03:12 UTC" in page
    answer = signed_in.post(
        "/times", {"zone": "Asia/Tokyo", "times": "relative", "next": "/clusters/local/groups/"}
    )
    assert (answer.status_code, answer["Location"]) == (302, "/clusters/local/groups/")
    page = signed_in.get(answer["Location"]).content.decode()
    assert '<time datetime="2026-03-01T13:03:12.000Z" data-time="full">' in page
    assert "2026-03-01 22:03:12 JST" in page
    assert 'data-zone="Asia/Tokyo"' in page
    assert 'data-mode="relative"' in page


def test_times_page_names_the_zones_and_changes_nothing_by_get(
    signed_in: Client, cluster: Cluster
) -> None:
    page = signed_in.get("/times?zone=Asia/Tokyo&next=https://evil.example/")
    assert "hermes_zone" not in page.cookies
    assert b'<option value="Europe/Berlin">' in page.content
    assert b'name="next" value="/"' in page.content
    assert b'"https://evil.example' not in page.content
    away = signed_in.post("/times", {"zone": "UTC", "next": "//evil.example"})
    assert away["Location"] == "/"


@pytest.mark.parametrize(
    "cookie",
    [
        "",
        "Mars/Phobos",
        "../../etc/passwd",
        "/etc/localtime",
        "browser~",
        "UTC\r\nX: y",
        "a" * 9_999,
    ],
)
def test_nonsense_in_the_cookie_is_utc(cookie: str) -> None:
    assert read_zone(cookie) == "UTC"
    assert read_mode(cookie) == "absolute"


def test_zone_of_the_browser_is_kept_as_such(signed_in: Client, cluster: Cluster) -> None:
    answer = signed_in.post("/times", {"zone": "browser~America/New_York", "next": "/"})
    assert answer.cookies["hermes_zone"].value == "browser~America/New_York"
    assert read_zone("browser~America/New_York") == "America/New_York"


def test_palette_finds_pages_clusters_and_groups_by_a_part_of_their_name(
    signed_in: Client, cluster: Cluster, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    cluster.bootstrap_address = "127.0.0.1:1"
    cluster.save()
    store_groups(group("settlement"), group("risk"), trouble="Tried it: refused.")
    found = signed_in.get("/palette", {"q": "ETTLE", "cluster": "local"}).json()
    assert [(one["kind"], one["title"]) for one in found["entries"]] == [("group", "settlement")]
    assert found["entries"][0]["address"] == "/clusters/local/groups/settlement/"
    assert "the cluster does not answer" in found["note"]
    everything = signed_in.get("/palette", {"q": "", "cluster": "nowhere"}).json()["entries"]
    assert {"page", "cluster", "group"} <= {one["kind"] for one in everything}


def test_palette_treats_a_hostile_query_as_text(
    signed_in: Client, cluster: Cluster, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    cluster.bootstrap_address = "127.0.0.1:1"
    cluster.save()
    store_groups(group("aaaaaaaaaaaaaaaaaaaaaaaaaaaa"), trouble="Tried it: refused.")
    for query in ("(a+)+$", ".*", "\x00", "a" * 100_000, "%_"):
        answer = signed_in.get("/palette", {"q": query})
        assert answer.status_code == 200
        assert all(one["kind"] != "group" for one in answer.json()["entries"])


def test_palette_offers_a_viewer_only_what_the_viewer_may_open(
    client: Client, cluster: Cluster, store_groups: Callable[..., ClusterSnapshot]
) -> None:
    store_groups(group("risk"), trouble="Tried it: refused.")
    client.force_login(User.objects.create(username="vera", role=Role.VIEWER, password="!"))
    titles = [one["title"] for one in client.get("/palette", {"q": "a"}).json()["entries"]]
    assert "Admin API" in titles
    assert not {"Accounts", "Audit", "Create a group"} & set(titles)


def test_palette_needs_a_session(client: Client, cluster: Cluster) -> None:
    assert client.get("/palette").status_code == 302


def test_best_are_bounded_and_those_that_begin_so_come_first() -> None:
    entries = [Entry("group", f"x-app-{n}", "/") for n in range(100)]
    entries.append(Entry("group", "app", "/"))
    found = best(entries, "app")
    assert len(found) == ROWS_PER_KIND_MAX
    assert found[0].title == "app"
