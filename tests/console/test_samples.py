"""Stored snapshots and history: leases, writing, thinning, reading."""

from __future__ import annotations

import threading
import time

import pytest
from django.conf import settings
from django.db import connections
from django.test import Client

from hermes_console.clusters import Cluster
from hermes_console.live.sampler import pause_s
from hermes_console.samples import downsample
from hermes_console.samples.lease import LEASE_MS, hold_lease, release_lease
from hermes_console.samples.models import ClusterSample, GroupLatest, GroupSample, Series
from hermes_console.samples.read import group_history, latest_cluster, latest_group, sparklines
from hermes_console.samples.snapshot import GroupDetail, Verdict, by_attention
from hermes_console.samples.store import SampleStore
from hermes_console.samples.tasks import thin_samples
from hermes_console.samples.thinning import LEVELS, level_for, plan_condensation
from tests.console.conftest import group, partition, snapshot_of

pytestmark = pytest.mark.django_db(databases="__all__")
NOW_S = 1_800_000_000


def write(store: SampleStore, at_s: int, **lags: int | None) -> None:
    groups = [group(name, lag=lag) for name, lag in lags.items()]
    snapshot = snapshot_of(*groups, sequence=at_s, at_ms=at_s * 1000)
    store.write(snapshot, [GroupDetail(one, (partition(0, lag=one.lag),), ()) for one in groups])


def test_snapshot_comes_back_as_it_was_written(cluster: Cluster) -> None:
    stored = snapshot_of(group("app", lag=2**62), group("new", lag=None))
    detail = GroupDetail(stored.groups[0], (partition(0), partition(1, lag=None)), ())
    SampleStore(cluster.pk).write(stored, [detail])
    assert latest_cluster(cluster.pk) == stored
    assert latest_group(cluster.pk, "app") == detail
    assert SampleStore(cluster.pk).load() == stored


def test_cluster_that_was_never_sampled_has_no_snapshot(cluster: Cluster) -> None:
    assert latest_cluster(cluster.pk) is None
    assert latest_group(cluster.pk, "app") is None
    assert SampleStore(cluster.pk).load() is None


def test_group_that_is_gone_leaves_the_latest_but_keeps_its_history(cluster: Cluster) -> None:
    store = SampleStore(cluster.pk)
    write(store, NOW_S, app=1, other=2)
    write(store, NOW_S + 1, app=1)
    assert latest_group(cluster.pk, "other") is None
    history = group_history(cluster.pk, "other", since_s=NOW_S - 10, until_s=NOW_S + 10)
    assert [point.lag for point in history] == [2]


def test_group_with_a_name_that_postgresql_cannot_keep_stops_nobody(
    cluster: Cluster, signed_in: Client
) -> None:
    hostile, usual = group("a\0b"), group("app")
    snapshot = snapshot_of(hostile, usual, at_ms=time.time_ns() // 1_000_000)
    details = [GroupDetail(one, (partition(0),), ()) for one in (hostile, usual)]
    for _ in range(2):
        SampleStore(cluster.pk).write(snapshot, details)
    assert latest_group(cluster.pk, "app") is not None
    assert latest_group(cluster.pk, "a\0b") is None
    assert latest_group(cluster.pk, "\ud800") is None
    page = signed_in.get("/clusters/local/groups/")
    assert page.status_code == 200
    assert ">app<" in page.text
    for name in ("~YQBi", "~7aCA"):
        assert signed_in.get(f"/clusters/local/groups/{name}/").status_code == 404


def test_next_process_removes_groups_that_went_meanwhile(cluster: Cluster) -> None:
    write(SampleStore(cluster.pk), NOW_S, app=1, other=2)
    write(SampleStore(cluster.pk), NOW_S + 1, app=1)
    assert list(GroupLatest.objects.values_list("name", flat=True)) == ["app"]


def test_unchanged_group_is_not_written_again(cluster: Cluster) -> None:
    store = SampleStore(cluster.pk)
    write(store, NOW_S, app=1)
    GroupLatest.objects.update(payload="sentinel")
    write(store, NOW_S + 1, app=1)
    assert GroupLatest.objects.get().payload == "sentinel"


def test_same_second_twice_keeps_the_first_sample(cluster: Cluster) -> None:
    store = SampleStore(cluster.pk)
    write(store, NOW_S, app=1)
    write(store, NOW_S, app=5)
    assert GroupSample.objects.get().lag == 1


def test_lease_is_held_by_one_until_it_expires(cluster: Cluster) -> None:
    assert hold_lease(1, "a", 1_000)
    assert not hold_lease(1, "b", 1_000 + LEASE_MS - 1)
    assert hold_lease(1, "a", 2_000)
    assert not hold_lease(1, "b", 1_000 + LEASE_MS)
    assert hold_lease(1, "b", 2_000 + LEASE_MS)
    assert not hold_lease(1, "a", 2_001 + LEASE_MS)


def test_lease_that_is_given_back_is_free_at_once(cluster: Cluster) -> None:
    hold_lease(1, "a", 1_000)
    release_lease(1, "b")
    assert not hold_lease(1, "b", 1_001)
    release_lease(1, "a")
    assert hold_lease(1, "b", 1_002)


@pytest.mark.django_db(transaction=True, databases="__all__")
def test_lease_taken_by_many_at_once_goes_to_one() -> None:
    winners: list[str] = []

    def take(owner: str) -> None:
        if hold_lease(9, owner, 5_000):
            winners.append(owner)
        connections.close_all()

    threads = [threading.Thread(target=take, args=(f"o{n}",)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(winners) == 1


def test_condensing_keeps_the_peak_of_each_bucket_and_can_be_repeated(cluster: Cluster) -> None:
    store = SampleStore(cluster.pk)
    for second in range(40):
        write(store, NOW_S + second, app=1_000 if second == 13 else second, new=None)
    for _ in range(3):
        downsample.thin_slice(NOW_S + 40)
    rows = GroupSample.objects.filter(resolution_s=10, series__group="app").order_by("at_s")
    assert [(row.at_s - NOW_S, row.lag) for row in rows] == [(0, 9), (10, 1_000), (20, 29)]
    unknown = GroupSample.objects.filter(resolution_s=10, series__group="new")
    assert set(unknown.values_list("lag", flat=True)) == {None}
    assert ClusterSample.objects.filter(resolution_s=10).count() == 3


def test_history_survives_raw_samples_and_ends_after_a_week(cluster: Cluster) -> None:
    store = SampleStore(cluster.pk)
    for second in range(0, 1_200, 5):
        write(store, NOW_S + second, app=second)
    while downsample.thin_slice(NOW_S + 1_200):
        pass
    raw = GroupSample.objects.filter(resolution_s=1)
    assert raw.order_by("at_s")[0].at_s == NOW_S + 300
    hour = group_history(cluster.pk, "app", since_s=NOW_S - 2_000, until_s=NOW_S + 1_300)
    assert [hour[0].lag, hour[-1].lag] == [5, 1_185]
    downsample.thin_slice(NOW_S + 8 * 86_400)
    downsample.thin_slice(NOW_S + 8 * 86_400)
    assert not GroupSample.objects.exists()
    assert not Series.objects.exists()


def test_number_of_rows_is_bounded(cluster: Cluster) -> None:
    store = SampleStore(cluster.pk)
    for second in range(100):
        write(store, NOW_S + second, app=second)
    downsample.thin_slice(NOW_S + 20, rows_max=30)
    assert GroupSample.objects.count() == 30
    assert GroupSample.objects.filter(resolution_s=1).order_by("at_s")[0].at_s > NOW_S


def test_task_may_be_delivered_twice(cluster: Cluster) -> None:
    now_s = int(time.time())
    for second in range(60):
        write(SampleStore(cluster.pk), now_s - 500 + second, app=second)
    thin_samples()
    once = list(GroupSample.objects.order_by("resolution_s", "at_s").values())
    assert {row["resolution_s"] for row in once} == {1, 10, 60}
    thin_samples()
    assert list(GroupSample.objects.order_by("resolution_s", "at_s").values()) == once


def test_slices_follow_one_another_without_gaps() -> None:
    source, target = LEVELS[:2]
    until, begins = None, []
    while True:
        plan = plan_condensation(source, target, now_s=2_007, first_s=4, condensed_until_s=until)
        if plan is None:
            break
        begins.append(plan.begin_s)
        assert plan.end_s % 10 == 0
        until = plan.end_s
    assert begins == [0, 600, 1_200, 1_800]
    assert until == 2_000


def test_bucket_that_may_still_change_is_left_alone() -> None:
    source, target = LEVELS[:2]
    assert (
        plan_condensation(source, target, now_s=1_012, first_s=1_000, condensed_until_s=None)
        is None
    )
    assert plan_condensation(source, target, now_s=1_013, first_s=1_000, condensed_until_s=None)
    assert (
        plan_condensation(source, target, now_s=1_013, first_s=None, condensed_until_s=None) is None
    )


@pytest.mark.parametrize(
    ("span_s", "resolution_s"), [(900, 1), (901, 10), (21_600, 10), (604_800, 60), (10**9, 60)]
)
def test_level_that_holds_a_span(span_s: int, resolution_s: int) -> None:
    assert level_for(span_s).resolution_s == resolution_s


def test_sparklines_of_many_groups_are_one_question(
    cluster: Cluster, django_assert_num_queries: object
) -> None:
    store = SampleStore(cluster.pk)
    for second in range(30):
        write(store, NOW_S + second, a=second, b=2, c=None)
    with django_assert_num_queries(1, using=settings.SAMPLES_DATABASE):  # type: ignore[operator]
        found = sparklines(cluster.pk, ["a", "b"], since_s=NOW_S, until_s=NOW_S + 30, step_s=15)
    assert [point.lag for point in found["a"]] == [14, 29]
    assert set(found) == {"a", "b"}


def test_attention_goes_by_verdict_then_by_time_then_by_lag() -> None:
    ordered = by_attention(
        (
            group("fine-but-large", lag=10**9),
            group("stalled-little", lag=1, verdict=Verdict.STALLED),
            group("stalled-long", lag=50, verdict=Verdict.STALLED),
            group("unknown", lag=None),
            group("rewound", lag=1, verdict=Verdict.REWOUND),
        )
    )
    assert [one.name for one in ordered] == [
        "stalled-long",
        "stalled-little",
        "rewound",
        "unknown",
        "fine-but-large",
    ]


@pytest.mark.parametrize(
    ("now_s", "busy_s", "took_s", "next_s"),
    [
        (100.25, 0.0, 0.0, 101),
        (100.25, 0.05, 0.05, 101),
        (100.25, 0.5, 0.5, 104),
        (100.9, 0.03, 0.03, 102),
        (100.25, 0.5, 3.0, 101),  # the machine was busy with others: it has rested enough
    ],
)
def test_next_look_is_at_a_full_second_after_the_rest_that_bounds_the_load(
    now_s: float, busy_s: float, took_s: float, next_s: float
) -> None:
    assert now_s + pause_s(now_s, busy_s, took_s) == pytest.approx(next_s)
