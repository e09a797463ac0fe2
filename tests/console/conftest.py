"""Fixtures of the console: Django's test client signed in, a cluster, stored samples."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest
from django.core.cache import cache
from django.db import connections
from django.test import Client

from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Role
from hermes_console.clusters import Cluster
from hermes_console.live import views
from hermes_console.samples import read
from hermes_console.samples.snapshot import (
    BrokerSnapshot,
    ClusterSnapshot,
    Disk,
    GroupDetail,
    GroupSummary,
    MemberSnapshot,
    PartitionSnapshot,
    Rates,
    Verdict,
)
from hermes_console.samples.store import SampleStore
from hermes_console.settings import ENVIRONMENT

PASSWORD = "correct horse battery"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Beside services (`hermes test --stage services`) only what uses the databases of the
    settings: the others start what they need themselves, and have run already.
    """
    if ENVIRONMENT.database is None:
        return
    others = [item for item in items if _is_ours(item) and not item.get_closest_marker("django_db")]
    config.hook.pytest_deselected(items=others)
    items[:] = [item for item in items if item not in others]


def _is_ours(item: pytest.Item) -> bool:
    return Path(__file__).parent in item.path.parents


@pytest.fixture(scope="session")
def django_db_modify_db_settings(
    tmp_path_factory: pytest.TempPathFactory, django_db_modify_db_settings_parallel_suffix: None
) -> None:
    """The test databases are files, as in the product: SQLite in memory, shared by threads, fails
    at once where a file waits for the other writer. On PostgreSQL, each process of the tests has
    one of its own.
    """
    directory = tmp_path_factory.mktemp("databases")
    for alias in connections:
        database = connections[alias].settings_dict
        if database["ENGINE"] == "django.db.backends.sqlite3":
            database["TEST"]["NAME"] = str(directory / f"{alias}.sqlite3")


@pytest.fixture
def cluster(db: None) -> Cluster:
    cache.clear()
    read._decoded.clear()  # keys of clusters repeat from test to test
    views._samples.clear()
    return Cluster.objects.create(
        name="local", bootstrap_address="127.0.0.1:9092", is_from_environment=True
    )


@pytest.fixture
def user(db: None) -> User:
    """An operator without a password: hashing one takes a second of every test."""
    return User.objects.create(username="admin", role=Role.OPERATOR, password="!")


@pytest.fixture
def viewer(db: None) -> User:
    return User.objects.create(username="vera", role=Role.VIEWER, password="!")


@pytest.fixture
def user_with_password(user: User) -> User:
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def signed_in(client: Client, user: User) -> Client:
    client.force_login(user)
    return client


def partition(index: int, *, lag: int | None = 10, **changes: object) -> PartitionSnapshot:
    fields = {
        "topic": "orders",
        "partition": index,
        "log_start": 0,
        "end": 2**60,
        "committed": None if lag is None else 2**60 - lag,
        "lag": lag,
        "lag_seconds": None if lag is None else lag / 10,
        "is_at_least": False,
        "verdict": Verdict.UNKNOWN if lag is None else Verdict.FINE,
        "member_id": "m-1",
        "client_id": "app",
        "client_host": "10.0.0.1",
    }
    return PartitionSnapshot(**{**fields, **changes})  # type: ignore[arg-type]


def group(name: str, *, lag: int | None = 10, **changes: object) -> GroupSummary:
    fields = {
        "name": name,
        "state": "Stable",
        "protocol": "range",
        "member_count": 1,
        "partition_count": 1,
        "unknown_count": int(lag is None),
        "lag": lag,
        "lag_seconds": None if lag is None else lag / 10,
        "is_at_least": False,
        "produced_per_s": 5.0,
        "consumed_per_s": 5.0,
        "drain_seconds": None,
        "verdict": Verdict.UNKNOWN if lag is None else Verdict.FINE,
        "reason": "Keeps up.",
        "topics": ("orders",),
    }
    return GroupSummary(**{**fields, **changes})  # type: ignore[arg-type]


def snapshot_of(*groups: GroupSummary, sequence: int = 7, **changes: object) -> ClusterSnapshot:
    now_ms = int(time.time() * 1000)
    fields = {
        "sequence": sequence,
        "at_ms": now_ms,
        "reached_at_ms": now_ms,
        "cluster_id": "abc",
        "brokers": (BrokerSnapshot(0, "127.0.0.1", 9092, "", is_controller=True),),
        "topic_count": 3,
        "partition_count": 12,
        "rates": Rates(100.0, 2048.0, 300.0, 6144.0),
        "disk": Disk(used_bytes=700, free_bytes=300, log_bytes=50),
        "groups": groups,
    }
    return ClusterSnapshot(**{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def store_groups(cluster: Cluster) -> Callable[..., ClusterSnapshot]:
    """Stores a snapshot with these groups, each with one partition and one member."""

    def store(*groups: GroupSummary, **changes: object) -> ClusterSnapshot:
        snapshot = snapshot_of(*groups, **changes)
        details = [
            GroupDetail(
                one,
                (partition(0, lag=one.lag),),
                (MemberSnapshot("m-1", "", "app", "10.0.0.1", 1),),
            )
            for one in groups
        ]
        SampleStore(cluster.pk).write(snapshot, details)
        return snapshot

    return store
