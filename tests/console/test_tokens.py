"""API tokens and the base of the admin API: bearer, scope, expiry, CSRF, ETags, repeated POSTs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from hermes_console.accounts.actor import system_actor
from hermes_console.accounts.models import ApiToken, User
from hermes_console.accounts.rights import Right, Role
from hermes_console.accounts.tokens import issue
from hermes_console.api import throttle
from hermes_console.api.models import StoredAnswer
from hermes_console.audit.models import AuditEvent, Outcome
from hermes_console.audit.record import record
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused

pytestmark = pytest.mark.django_db(databases="__all__")
API = "/api/admin/v1"
Call = Callable[..., Any]


def make_token(user: User, *rights: Right, clusters: list[Cluster] | None = None) -> str:
    _, secret = issue(
        user,
        name="test",
        rights=rights or [Right.VIEW],
        clusters=clusters,
        lifetime=timedelta(days=1),
    )
    return secret


def caller(secret: str) -> Call:
    client = Client(headers={"Authorization": f"Bearer {secret}"})

    def call(method: str, path: str, body: Any = None, **headers: str) -> Any:
        data = {} if body is None else {"data": json.dumps(body)}
        return getattr(client, method)(
            API + path,
            content_type="application/json",
            headers={name.replace("_", "-"): value for name, value in headers.items()},
            **data,
        )

    return call


@pytest.fixture
def call(user: User, cluster: Cluster) -> Call:
    return caller(make_token(user, *Right))


def test_token_of_the_page_works_and_is_shown_once(signed_in: Client, cluster: Cluster) -> None:
    form = {"name": "report", "rights": ["view"], "days": "30"}
    page = signed_in.post(reverse("accounts:new_token"), form)
    secret = page.text.split("data-secret>")[1].split("<")[0]
    me = caller(secret)("get", "/me").json()
    assert (me["account"], me["via"], me["rights"]) == ("admin", "token", ["view"])
    profile = signed_in.get(reverse("accounts:profile")).text
    assert secret[:13] in profile
    assert secret not in profile
    row = ApiToken.objects.get()
    assert secret not in (row.token_hash, row.prefix)
    assert row.used_at is not None
    event = AuditEvent.objects.get(action="token.create")
    assert secret not in json.dumps(event.after)


def test_expired_revoked_unknown_and_disabled_say_why(
    user: User, viewer: User, cluster: Cluster
) -> None:
    secret = make_token(viewer)
    call = caller(secret)
    assert call("get", "/me").status_code == 200
    ApiToken.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    expired = call("get", "/me")
    assert (expired.status_code, expired["Content-Type"]) == (401, "application/problem+json")
    assert "expired at" in expired.json()["detail"]
    assert expired["WWW-Authenticate"].startswith("Bearer")
    ApiToken.objects.update(revoked_at=timezone.now())
    assert "was revoked" in call("get", "/me").json()["detail"]
    assert "is unknown" in caller("hermes_nonsense")("get", "/me").json()["detail"]
    User.objects.filter(pk=viewer.pk).update(is_active=False)
    other = caller(make_token(viewer))("get", "/me")
    assert "disabled" in other.json()["detail"]


def test_token_never_has_more_rights_than_its_owner_now(viewer: User, cluster: Cluster) -> None:
    viewer.role = Role.OPERATOR
    viewer.save()
    call = caller(make_token(viewer, Right.ACCOUNTS_WRITE))
    assert call("get", "/accounts").status_code == 200
    User.objects.filter(pk=viewer.pk).update(role=Role.VIEWER)
    refused = call("get", "/accounts")
    assert (refused.status_code, refused.json()["code"]) == (403, "not-allowed")
    assert AuditEvent.objects.get(outcome="refused").via == "token"
    with pytest.raises(Refused, match="has no right to: topics:write"):
        issue(
            viewer.__class__.objects.get(pk=viewer.pk),
            name="x",
            rights=[Right.TOPICS_WRITE],
            clusters=None,
            lifetime=timedelta(days=1),
        )


def test_token_reaches_only_its_clusters_also_after_renaming(user: User, cluster: Cluster) -> None:
    other = Cluster.objects.create(name="other", bootstrap_address="127.0.0.1:1")
    call = caller(make_token(user, Right.VIEW, clusters=[other]))
    listed = call("get", "/clusters").json()["clusters"]
    assert [one["name"] for one in listed] == ["other"]
    assert call("get", "/clusters/other").status_code == 200
    assert call("get", "/clusters/local").status_code == 404
    Cluster.objects.filter(pk=other.pk).update(name="renamed")
    Cluster.objects.create(name="other", bootstrap_address="127.0.0.1:1")
    assert call("get", "/clusters/other").status_code == 404, "another cluster of that name"
    assert call("get", "/clusters/renamed").status_code == 200
    Cluster.objects.get(name="renamed").delete()
    assert call("get", "/clusters").json()["clusters"] == []


def test_token_for_a_cluster_reads_the_audit_of_that_cluster_alone(
    user: User, cluster: Cluster
) -> None:
    other = Cluster.objects.create(name="other", bootstrap_address="127.0.0.1:1")
    for where, target in ((cluster, "mine"), (other, "theirs"), (None, "nobody's")):
        record(system_actor("x"), "t.do", outcome=Outcome.DONE, cluster=where, target=target)
    ids = {one.target: one.pk for one in AuditEvent.objects.all()}
    call = caller(make_token(user, Right.AUDIT_READ, clusters=[cluster]))
    rows = call("get", "/audit").json()["events"]
    assert [one["target"] for one in rows] == ["mine"]
    assert call("get", f"/audit/{ids['mine']}").status_code == 200
    for target in ("theirs", "nobody's"):
        assert call("get", f"/audit/{ids[target]}").status_code == 404


def test_token_makes_no_tokens(call: Call) -> None:
    answer = call("post", "/tokens", {"name": "x", "rights": ["view"]})
    assert (answer.status_code, answer.json()["code"]) == (403, "session-required")
    assert AuditEvent.objects.get(action="token.create").outcome == "refused"


def test_session_wants_the_csrf_token(user: User, cluster: Cluster) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    body = {"name": "x", "rights": ["view"]}
    path = f"{API}/tokens"
    refused = client.post(path, body, content_type="application/json")
    assert (refused.status_code, refused["Content-Type"]) == (403, "application/problem+json")
    client.get(reverse("accounts:profile"))
    name = next(one for one in client.cookies if "csrf" in one)
    headers = {"X-CSRFToken": client.cookies[name].value}
    made = client.post(path, body, content_type="application/json", headers=headers)
    assert made.status_code == 201
    assert made.json()["token"].startswith("hermes_")


def test_somebody_elses_token_is_not_there_for_a_viewer(user: User, viewer: User) -> None:
    make_token(user)
    key = ApiToken.objects.get().pk
    call = caller(make_token(viewer))
    assert call("get", f"/tokens/{key}").status_code == 404
    assert call("delete", f"/tokens/{key}").status_code == 404
    assert call("get", "/tokens?account=*").status_code == 403
    assert caller(make_token(user, *Right))("delete", f"/tokens/{key}").status_code == 200


def test_change_wants_the_version_it_saw(call: Call, viewer: User) -> None:
    seen = call("get", "/accounts/vera")
    path, body = "/accounts/vera", {"role": "operator"}
    assert call("get", path, If_None_Match=seen["ETag"]).status_code == 304
    missing = call("patch", path, body)
    assert (missing.status_code, missing.json()["code"]) == (428, "if-match-required")
    done = call("patch", path, body, If_Match=seen["ETag"])
    assert (done.status_code, done.json()["role"]) == (200, "operator")
    late = call("patch", path, {"is_enabled": False}, If_Match=seen["ETag"])
    assert (late.status_code, late.json()["code"]) == (412, "changed-meanwhile")
    assert call("patch", path, {"is_enabled": False}, If_Match="*").status_code == 200


def test_post_with_a_key_acts_once(call: Call) -> None:
    body = {"name": "olga", "role": "viewer"}
    first = call("post", "/accounts", body, Idempotency_Key="k1")
    again = call("post", "/accounts", {"role": "viewer", "name": "olga"}, Idempotency_Key="k1")
    assert (first.status_code, again.status_code) == (201, 201)
    assert again["Idempotency-Replayed"] == "true"
    assert again["Location"] == first["Location"]
    assert first.json()["sign_in_link"] is not None
    assert again.json() == {**first.json(), "sign_in_link": None}, "a secret is shown once"
    assert AuditEvent.objects.filter(action="account.create").count() == 1
    other = call("post", "/accounts", {**body, "name": "otto"}, Idempotency_Key="k1")
    assert (other.status_code, other.json()["code"]) == (422, "idempotency-key-reused")
    elsewhere = call("post", "/accounts/olga/unlock", body, Idempotency_Key="k1")
    assert elsewhere.status_code == 422


def test_post_in_work_is_not_done_a_second_time(call: Call, user: User) -> None:
    body = {"name": "olga", "role": "viewer"}
    call("post", "/accounts", body, Idempotency_Key="k1")
    StoredAnswer.objects.update(status=None)
    again = call("post", "/accounts", body, Idempotency_Key="k1")
    assert (again.status_code, again.json()["code"]) == (409, "in-flight")


def test_refused_answer_is_repeated_but_a_bad_request_is_not_kept(call: Call, viewer: User) -> None:
    taken = {"name": "vera", "role": "viewer"}
    for _ in range(2):
        answer = call("post", "/accounts", taken, Idempotency_Key="k1")
        assert (answer.status_code, answer.json()["code"]) == (409, "account-exists")
    assert call("post", "/accounts", {"name": "x"}, Idempotency_Key="k2").status_code == 400
    fixed = call("post", "/accounts", {"name": "x", "role": "viewer"}, Idempotency_Key="k2")
    assert fixed.status_code == 201
    assert call("post", "/accounts", taken, Idempotency_Key="a b").status_code == 400


def test_keys_of_two_callers_do_not_meet(call: Call, viewer: User) -> None:
    viewer.role = Role.OPERATOR
    viewer.save()
    other = caller(make_token(viewer, *Right))
    assert call("post", "/accounts", {"name": "a1", "role": "viewer"}, Idempotency_Key="k").json()
    second = other("post", "/accounts", {"name": "b1", "role": "viewer"}, Idempotency_Key="k")
    assert (second.status_code, second.json()["name"]) == (201, "b1")


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type", "status"),
    [
        ("post", "/accounts", "{", "application/json", 400),
        ("post", "/accounts", "a=b", "application/x-www-form-urlencoded", 415),
        ("put", "/accounts", "{}", "application/json", 405),
        ("post", "/accounts", "[]", "application/json", 400),
        ("post", "/accounts", '"x"', "application/json", 400),
        ("post", "/accounts", '{"name": "x", "role": "viewer", "password": "short"}',
         "application/json", 422),
        ("post", "/accounts", '{"name": "' + "x" * 1_100_000 + '"}', "application/json", 413),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_a_problem(
    user: User, cluster: Cluster, method: str, path: str, body: str, content_type: str, status: int
) -> None:
    client = Client(headers={"Authorization": f"Bearer {make_token(user, *Right)}"})
    answer = getattr(client, method)(API + path, body, content_type=content_type)
    assert (answer.status_code, answer["Content-Type"]) == (status, "application/problem+json")
    assert answer.json()["status"] == status
    assert answer.json()["detail"]


def test_request_id_is_kept_when_it_is_one(call: Call) -> None:
    assert call("get", "/me", X_Request_Id="trace-7")["X-Request-Id"] == "trace-7"
    made = call("get", "/me", X_Request_Id="bad id\u00e9")["X-Request-Id"]
    assert len(made) == 24


def test_too_many_requests_are_told_to_wait(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.clear()
    monkeypatch.setattr(throttle, "REQUESTS_MAX", 3)
    answers = [call("get", "/me") for _ in range(8)]
    limited = [one for one in answers if one.status_code == 429]
    assert limited
    assert 1 <= int(limited[0]["Retry-After"]) <= throttle.WINDOW_S
    cache.clear()


@pytest.mark.parametrize("brackets", [40, 1_000, 100_000])
def test_body_that_is_nested_too_deep_is_a_bad_request(call: Call, brackets: int) -> None:
    body = "[" * brackets + "]" * brackets
    bearer = call("get", "/me").wsgi_request.headers["Authorization"]
    client = Client(headers={"Authorization": bearer})
    answer = client.post(f"{API}/accounts", body, content_type="application/json")
    assert (answer.status_code, answer["Content-Type"]) == (400, "application/problem+json")
    assert "nested too deep" in answer.json()["detail"]


def test_options_is_a_method_like_any_other_that_is_not_there(call: Call) -> None:
    answer = call("options", "/me")
    assert answer.status_code == 405
    assert "OPTIONS" not in answer["Allow"]


def test_token_for_a_cluster_does_not_act_on_the_console_itself(
    user: User, viewer: User, cluster: Cluster
) -> None:
    call = caller(
        make_token(user, Right.VIEW, Right.CLUSTERS_WRITE, Right.ACCOUNTS_WRITE, clusters=[cluster])
    )
    for method, path, body in (
        ("post", "/clusters", {"name": "new", "bootstrap_address": "127.0.0.1:9092"}),
        ("get", "/accounts", None),
        ("post", "/accounts", {"name": "eve", "role": "operator"}),
        ("patch", "/accounts/vera", {"role": "operator"}),
        ("post", "/accounts/vera/sign-in-links", None),
        ("get", "/tokens?account=vera", None),
    ):
        answer = call(method, path, body, If_Match="*")
        assert answer.status_code == 403, path
        assert "for chosen clusters" in answer.json()["detail"], path
    assert not User.objects.filter(username="eve").exists()
    other = Cluster.objects.create(name="other", bootstrap_address="127.0.0.1:1")
    assert call("patch", "/clusters/other", {"name": "x"}, If_Match="*").status_code == 404
    mine = caller(make_token(user, Right.VIEW, Right.CLUSTERS_WRITE, clusters=[other]))
    assert mine("patch", "/clusters/other", {"name": "renamed"}, If_Match="*").status_code == 200
