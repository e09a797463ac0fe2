"""Preparing the databases: migrations that fit the models, backups, the default cluster."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pytest
from django.conf import settings
from django.core.exceptions import ValidationError
from django.core.management import call_command
from django.db import IntegrityError, transaction

from hermes_console.clusters import Cluster, default_cluster, upsert_environment_cluster
from hermes_console.storage import BACKUPS_KEPT, back_up
from tenants.models import Tenant


@pytest.mark.django_db(databases="__all__")
def test_migrations_fit_the_models() -> None:
    call_command("makemigrations", check=True, dry_run=True, stdout=StringIO())


def test_deployment_check_is_clean_when_secure(settings: pytest.FixtureRequest) -> None:
    settings.SESSION_COOKIE_SECURE = settings.CSRF_COOKIE_SECURE = True  # type: ignore[attr-defined]
    settings.SECURE_HSTS_SECONDS = 31_536_000  # type: ignore[attr-defined]
    settings.SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W008", "security.W021"]  # type: ignore[attr-defined]
    call_command("check", deploy=True, fail_level="WARNING", stdout=StringIO())


def test_backup_is_a_whole_database_for_its_owner_and_few_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "console.sqlite3"
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE t (x)")
        for number in range(BACKUPS_KEPT + 3):
            connection.execute("INSERT INTO t VALUES (?)", (number,))
            connection.commit()
            back_up(file)
    connection.close()
    backups = sorted(tmp_path.glob("*.backup-*"))
    assert [path.name.rpartition("-")[2] for path in backups] == ["4", "5", "6"]
    copy = sqlite3.connect(backups[-1])
    assert copy.execute("SELECT count(*) FROM t").fetchone() == (BACKUPS_KEPT + 3,)
    copy.close()
    assert backups[-1].stat().st_mode & 0o077 == 0


@pytest.mark.django_db
def test_cluster_of_the_environment_follows_it() -> None:
    environment = settings.ENVIRONMENT
    first = upsert_environment_cluster(environment)
    Cluster.objects.create(name="aaa", bootstrap_address="x:1")
    moved = upsert_environment_cluster(replace(environment, bootstrap="b:1,c:2", metrics_url=""))
    assert moved.pk == first.pk
    assert moved.bootstrap_address == "b:1,c:2"
    assert default_cluster() == moved


@pytest.mark.django_db
@pytest.mark.parametrize("slug", ["acme.eu", "Acme", "a_b", "ü", "", "a\n"])
def test_tenant_slug_has_no_dot_and_nothing_odd(slug: str) -> None:
    with pytest.raises(ValidationError):
        Tenant(slug=slug, name="x").full_clean()
    with pytest.raises(IntegrityError), transaction.atomic():
        Tenant.objects.create(slug=slug, name="x")


@pytest.mark.django_db
def test_tenant_slug_of_the_rule_is_taken() -> None:
    tenant = Tenant(slug="acme-2", name="Acme")
    tenant.full_clean()
    tenant.save()
    assert str(Tenant.objects.get()) == "acme-2"
