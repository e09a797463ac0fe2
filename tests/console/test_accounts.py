"""Signing in and out, one-time links, the own password."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.core import signing
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from hermes_console.accounts.links import (
    SALT,
    create_link,
    first_administrator,
    owner_of,
    use_link,
)
from hermes_console.accounts.models import SignInLink, User
from hermes_console.audit.models import AuditEvent
from hermes_console.clusters import Cluster
from tests.console.conftest import PASSWORD

pytestmark = pytest.mark.django_db(databases="__all__")


def test_link_signs_in_once(client: Client) -> None:
    address = reverse("accounts:link", args=[create_link(first_administrator())])
    assert client.post(address).status_code == 302
    assert client.session["_auth_user_id"] == str(first_administrator().pk)
    again = Client().post(address)
    assert again.status_code == 410
    assert "manage.py signin_link" in again.content.decode()


def test_opening_the_link_does_not_use_it_up(client: Client) -> None:
    token = create_link(first_administrator())
    assert client.get(reverse("accounts:link", args=[token])).status_code == 200
    assert "_auth_user_id" not in client.session
    assert owner_of(token)


def test_command_prints_a_link_for_a_named_account(
    client: Client, viewer: User, capsys: pytest.CaptureFixture[str]
) -> None:
    call_command("signin_link", "--user", "vera", "--url", "http://testserver")
    link = capsys.readouterr().out.strip().removeprefix("http://testserver")
    client.post(link)
    assert client.session["_auth_user_id"] == str(viewer.pk)
    made = AuditEvent.objects.get(action="account.sign-in-link")
    assert (made.via, made.target, made.outcome) == ("system", "vera", "done")
    assert link.rsplit("/", 1)[1] not in str(made.after)
    with pytest.raises(CommandError, match="no account named 'nobody'"):
        call_command("signin_link", "--user", "nobody")


def test_link_is_stored_as_a_hash_only() -> None:
    token = create_link(first_administrator())
    stored = SignInLink.objects.get().token_hash
    assert stored not in token
    assert token not in stored
    assert len(stored) == 64


def test_expired_link_is_worthless() -> None:
    token = create_link(first_administrator())
    SignInLink.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    assert not owner_of(token)
    assert use_link(token) is None


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a:b:c",
        pytest.param(signing.TimestampSigner(salt="other").sign("a"), id="signed-for-another-use"),
    ],
)
def test_forged_link_is_worthless(token: str) -> None:
    assert not owner_of(token)
    assert use_link(token) is None


def test_signed_token_without_a_row_is_worthless() -> None:
    assert use_link(signing.TimestampSigner(salt=SALT).sign("unknown")) is None


def test_link_of_a_closed_account_is_worthless() -> None:
    user = first_administrator()
    token = create_link(user)
    User.objects.filter(pk=user.pk).update(is_active=False)
    assert use_link(token) is None


def test_first_administrator_is_made_once_and_without_a_password() -> None:
    assert first_administrator() == first_administrator()
    assert User.objects.count() == 1
    assert not first_administrator().has_usable_password()
    made = AuditEvent.objects.get(action="account.create")
    assert (made.via, made.target) == ("system", first_administrator().username)


def test_command_leaves_the_cluster_of_a_running_console_alone(cluster: Cluster) -> None:
    """It runs with an environment of its own, mostly an empty one."""
    cluster.bootstrap_address = "kafka.internal:19092"
    cluster.save()
    call_command("signin_link", stdout=StringIO(), stderr=StringIO())
    assert [one.bootstrap_address for one in Cluster.objects.all()] == ["kafka.internal:19092"]


def test_command_prints_a_link_that_works(client: Client) -> None:
    out = StringIO()
    call_command("signin_link", url="http://127.0.0.1:9/", stdout=out, stderr=StringIO())
    address = out.getvalue().strip()
    assert address.startswith("http://127.0.0.1:9/accounts/link/")
    assert client.post(address.removeprefix("http://127.0.0.1:9")).status_code == 302


def test_password_signs_in_and_sign_out_needs_post(
    client: Client, user_with_password: User
) -> None:
    answer = client.post(reverse("accounts:sign_in"), {"username": "admin", "password": PASSWORD})
    assert answer.status_code == 302
    assert client.get(reverse("accounts:sign_out")).status_code == 405
    assert "_auth_user_id" in client.session
    assert client.post(reverse("accounts:sign_out")).status_code == 302
    assert "_auth_user_id" not in client.session


def test_wrong_password_and_unknown_name_read_the_same(
    client: Client, user_with_password: User
) -> None:
    texts = []
    for name in ("admin", "nobody"):
        answer = client.post(reverse("accounts:sign_in"), {"username": name, "password": "x" * 12})
        assert answer.status_code == 200
        texts.append("do not belong together" in answer.content.decode())
    assert texts == [True, True]


def test_next_address_elsewhere_is_not_followed(client: Client, user_with_password: User) -> None:
    answer = client.post(
        reverse("accounts:sign_in"),
        {"username": "admin", "password": PASSWORD, "next": "https://evil.example/"},
    )
    assert answer["Location"] == "/"


def test_passwords_are_hashed_with_argon2(user_with_password: User) -> None:
    assert user_with_password.password.startswith("argon2$argon2id$")


def test_choosing_a_password_keeps_this_session_and_ends_the_others(user: User) -> None:
    here, elsewhere = Client(), Client()
    here.force_login(user)
    elsewhere.force_login(user)
    new = {"new_password1": "an even longer one", "new_password2": "an even longer one"}
    assert here.post(reverse("accounts:password"), new).status_code == 302
    assert here.get(reverse("accounts:password")).status_code == 200
    assert elsewhere.get(reverse("accounts:password")).status_code == 302


def test_short_password_is_refused(signed_in: Client) -> None:
    answer = signed_in.post(
        reverse("accounts:password"), {"new_password1": "short", "new_password2": "short"}
    )
    assert answer.status_code == 200
    assert "too short" in answer.content.decode()


def test_form_without_a_token_is_refused_without_a_trace(user: User) -> None:
    strict = Client(enforce_csrf_checks=True)
    answer = strict.post(reverse("accounts:sign_in"), {"username": "a", "password": "b"})
    assert answer.status_code == 403
    assert "The form is too old" in answer.content.decode()
