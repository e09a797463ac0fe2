"""Claims about the whole table of addresses: who may ask, what GET may do, what an unknown id
gets.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.apps import apps
from django.contrib.sessions.backends.db import SessionStore
from django.test import Client
from django.utils import timezone

from hermes_console.accounts.models import ApiToken, User, UserSession
from hermes_console.audit.models import AuditEvent
from hermes_console.clusters import Cluster
from tests.console.routes import Route, all_routes, unknown_value
from tests.support.broker_process import BrokerProcess

pytestmark = [pytest.mark.django_db(databases="__all__"), pytest.mark.timeout(180)]
PUBLIC = {"accounts:sign_in", "accounts:link", "healthz", "readyz", "metrics"}
ROUTES = all_routes()
WITH_IDS = [route for route in ROUTES if route.parameters and route.name != "accounts:link"]
IN_CLUSTERS = [route for route in ROUTES if "cluster" in route.parameters]
NOTHING_TO_SHOW = {
    "api:searches": "an empty list: a search may be older than its topic",
    "messages:searches": "the same as a page",
    "messages:progress": "a piece of a page that says so, with the status that ends its polling",
    "messages:found": "a piece of a page that says so",
    "groups:state": "a piece of a page: a group without members and commits is no group yet",
    "api:group_changes": "an empty list: changes outlive their group",
}
METHODS = ("get", "post", "put", "patch", "delete")
READING = ["view", "messages:read"]
# A session is noted with its first request; reads of messages and refused ones are recorded.
CHANGED_BY_READING = {UserSession, AuditEvent}


def name_of(route: Route) -> str:
    return route.name


def unknown_address(route: Route, **known: Any) -> str:
    values = {key: unknown_value(converter) for key, converter in route.parameters.items()}
    return route.address({**values, **{k: v for k, v in known.items() if k in values}})


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        yield broker


@pytest.fixture
def real_cluster(cluster: Cluster, broker: BrokerProcess) -> Cluster:
    cluster.bootstrap_address = f"127.0.0.1:{broker.kafka_port}"
    cluster.save()
    return cluster


def counts() -> dict[str, list[Any]]:
    return {
        model.__name__: list(model._default_manager.order_by("pk").values())
        for model in apps.get_models()
        if model not in CHANGED_BY_READING and model.__name__ != "Session"
    }


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
@pytest.mark.parametrize("method", METHODS)
def test_nobody_gets_anything_without_signing_in(
    client: Client, cluster: Cluster, route: Route, method: str
) -> None:
    answer = getattr(client, method)(unknown_address(route, cluster="local"))
    if route.name.startswith("api:") and route.name != "api:reference":
        assert answer.status_code == 401, answer.content
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert answer["Content-Type"] == "application/problem+json"
    elif route.name in PUBLIC:
        assert answer.status_code in {200, 405, 410}
    else:
        assert answer.status_code in {302, 405}
        assert answer.status_code == 405 or "/accounts/sign-in" in answer["Location"]


@pytest.mark.parametrize("route", WITH_IDS, ids=name_of)
def test_an_unknown_id_is_not_found_whatever_the_method(
    signed_in: Client, cluster: Cluster, route: Route
) -> None:
    """Of clusters, accounts, tokens…; what is inside a cluster is asked of a real one below."""
    for method in METHODS:
        answer = getattr(signed_in, method)(unknown_address(route), content_type="application/json")
        wanted = {404, 405} if method == "get" else {400, 404, 405, 428}
        assert answer.status_code in wanted, (method, answer.status_code, answer.content[:300])
        if route.name.startswith("api:"):
            assert answer["Content-Type"] == "application/problem+json"
            assert answer.json()["detail"]
            assert answer.json()["request_id"] == answer["X-Request-Id"]


@pytest.mark.parametrize("route", IN_CLUSTERS, ids=name_of)
def test_an_unknown_id_inside_a_cluster_is_no_failure_of_ours(
    signed_in: Client, real_cluster: Cluster, route: Route
) -> None:
    """404, or 400 where a parameter is missing as well."""
    may_be_empty = set(route.parameters) == {"cluster"} or route.name in NOTHING_TO_SHOW
    answer = signed_in.get(unknown_address(route, cluster="local"))
    wanted = {200, 286, 302, 400, 404, 405} if may_be_empty else {400, 404, 405}
    assert answer.status_code in wanted, (answer.status_code, answer.content[:600])


@pytest.mark.parametrize("route", ROUTES, ids=name_of)
def test_get_changes_nothing(signed_in: Client, real_cluster: Cluster, route: Route) -> None:
    user = User.objects.get(username="admin")
    token = ApiToken.objects.create(
        user=user, name="t", prefix="hermes_x", token_hash="x",
        expires_at=timezone.now() + timedelta(days=1),
    )  # fmt: skip
    other = SessionStore()
    other.create()
    row = UserSession.objects.create(user=user, session_key=str(other.session_key))
    known = {"cluster": "local", "account": "admin", "token": token.pk, "session": row.pk}
    before = counts()
    for method in ("get", "head"):
        answer = getattr(signed_in, method)(unknown_address(route, **known))
        assert answer.status_code < 500, answer.content[:300]
    assert counts() == before
    assert other.exists(str(other.session_key))
    assert UserSession.objects.filter(pk=row.pk).exists()
    assert not AuditEvent.objects.exclude(right__in=READING).exclude(outcome="refused").exists()


@pytest.mark.parametrize(
    "path",
    ["/accounts/users/~AA/", "/accounts/users/~/", "/clusters/%00/", "/audit/99999999999999999999",
     "/accounts/tokens/99999999999999999999/revoke", "/api/admin/v1/accounts/~AA",
     "/api/admin/v1/audit/99999999999999999999", "/api/admin/v1/nothing", "/api/nothing", "/api/"],
)  # fmt: skip
def test_odd_ids_are_not_found(signed_in: Client, cluster: Cluster, path: str) -> None:
    answer = signed_in.post(path) if path.endswith("revoke") else signed_in.get(path)
    assert answer.status_code == 404, answer.content[:300]
    is_api = path.startswith("/api/")
    assert answer["Content-Type"].startswith("application/problem+json" if is_api else "text/html")


def test_page_that_is_not_there_keeps_the_menu(signed_in: Client, cluster: Cluster) -> None:
    answer = signed_in.get("/nothing")
    assert answer.status_code == 404
    assert 'aria-label="Pages"' in answer.text
    assert answer["X-Request-Id"] in answer.text
