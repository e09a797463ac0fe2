"""Accounts: roles that act at once, the last operator, lock-out, links, sessions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.hashers import PBKDF2PasswordHasher, make_password
from django.contrib.sessions.models import Session
from django.db import DatabaseError
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from hermes_console.accounts import lockout
from hermes_console.accounts.actor import system_actor
from hermes_console.accounts.address import client_address, origin_of
from hermes_console.accounts.links import create_link
from hermes_console.accounts.models import SignInFailures, SignInLink, User, UserSession
from hermes_console.accounts.rights import Role
from hermes_console.audit.models import AuditEvent, AuditQuerySet
from hermes_console.clusters import Cluster
from hermes_console.environment import parse_networks
from hermes_console.errors import Refused
from hermes_console.operations import accounts
from tests.console.conftest import PASSWORD

pytestmark = pytest.mark.django_db(databases="__all__")
SIGN_IN = "/accounts/sign-in"
USERS = "/accounts/users/"


def sign_in(client: Client, name: str, password: str, address: str = "10.0.0.1") -> int:
    form = {"username": name, "password": password}
    return client.post(SIGN_IN, form, REMOTE_ADDR=address).status_code


@pytest.fixture
def as_viewer(viewer: User, cluster: Cluster) -> Client:
    client = Client()
    client.force_login(viewer)
    return client


def test_created_account_signs_in_by_its_link_once(signed_in: Client, cluster: Cluster) -> None:
    page = signed_in.post(f"{USERS}new", {"name": "olga", "role": "operator"})
    assert page.status_code == 200
    assert "no-store" in page["Cache-Control"]
    link = page.text.split("data-secret>")[1].split("<")[0].removeprefix("http://testserver")
    olga = Client()
    assert "olga" in olga.get(link).text
    assert olga.post(link).status_code == 302
    assert olga.get(USERS).status_code == 200
    assert Client().post(link).status_code == 410


def test_weak_password_and_taken_name_keep_the_form(signed_in: Client, viewer: User) -> None:
    weak = signed_in.post(f"{USERS}new", {"name": "x", "role": "viewer", "password": "short"})
    assert weak.status_code == 422
    assert "at least 12 characters" in weak.text
    taken = signed_in.post(f"{USERS}new", {"name": "VERA", "role": "viewer"})
    assert taken.status_code == 422
    assert "already" in taken.text
    assert set(User.objects.values_list("username", flat=True)) == {"admin", "vera"}


@pytest.mark.parametrize("name", ["a\r\nb", "a b", "", "<b>", "x" * 151, "a\0b"])
def test_odd_account_names_are_refused(signed_in: Client, name: str) -> None:
    page = signed_in.post(f"{USERS}new", {"name": name, "role": "viewer"})
    assert page.status_code == 422
    assert User.objects.count() == 1


def test_role_acts_on_the_next_request(signed_in: Client, as_viewer: Client, viewer: User) -> None:
    assert as_viewer.get(USERS).status_code == 403
    signed_in.post(reverse("users:role", kwargs={"account": "vera"}), {"role": "operator"})
    assert as_viewer.get(USERS).status_code == 200
    signed_in.post(reverse("users:role", kwargs={"account": "vera"}), {"role": "viewer"})
    refused = as_viewer.get(USERS)
    assert refused.status_code == 403
    assert "vera is a viewer and may not manage accounts" in refused.text


def test_last_operator_stays_one(signed_in: Client, user: User, viewer: User) -> None:
    demoted = signed_in.post(reverse("users:role", kwargs={"account": "admin"}), {"role": "viewer"})
    assert demoted.status_code == 409
    assert "last operator" in demoted.text
    disabled = signed_in.post(
        reverse("users:disable", kwargs={"account": "admin"}), {"confirmation": "admin"}
    )
    assert disabled.status_code == 409
    user.refresh_from_db()
    assert (user.role, user.is_active) == (Role.OPERATOR, True)
    assert AuditEvent.objects.filter(outcome="refused").count() == 2


def test_disabling_ends_sessions_links_and_wants_the_name(
    signed_in: Client, as_viewer: Client, viewer: User
) -> None:
    link = create_link(viewer)
    as_viewer.get(reverse("accounts:profile"))
    address = reverse("users:disable", kwargs={"account": "vera"})
    assert signed_in.post(address, {"confirmation": "ver"}).status_code == 422
    assert User.objects.get(username="vera").is_active
    assert signed_in.post(address, {"confirmation": "vera"}).status_code == 302
    assert as_viewer.get("/").status_code == 302
    assert Client().post(reverse("accounts:link", args=[link])).status_code == 410
    event = AuditEvent.objects.get(action="account.disable", outcome="done")
    assert (event.before["is_enabled"], event.after["is_enabled"]) == (True, False)
    assert event.after["sessions_ended"] == 1


def test_old_hash_is_replaced_at_sign_in(user: User, cluster: Cluster) -> None:
    user.password = make_password(PASSWORD, hasher=PBKDF2PasswordHasher())
    user.save()
    assert sign_in(Client(), "admin", PASSWORD) == 302
    user.refresh_from_db()
    assert user.password.startswith("argon2")


def test_lock_out_is_for_one_account_at_one_address(
    user_with_password: User, cluster: Cluster
) -> None:
    for _ in range(lockout.PAIR_FAILURES_MAX):
        assert sign_in(Client(), "admin", "wrong") == 200
    locked = Client().post(
        SIGN_IN, {"username": "ADMIN", "password": PASSWORD}, REMOTE_ADDR="10.0.0.1"
    )
    assert locked.status_code == 429
    assert "Too many failed attempts" in locked.text
    assert 0 < int(locked["Retry-After"]) <= 900
    assert sign_in(Client(), "admin", PASSWORD, "10.0.0.2") == 302, "elsewhere it is open"
    assert sign_in(Client(), "someone", "wrong") == 200, "other accounts are open"
    assert AuditEvent.objects.filter(action="sign-in.lock", target="admin").count() == 1


def test_right_password_counts_as_no_failure(user_with_password: User, cluster: Cluster) -> None:
    for _ in range(3):
        sign_in(Client(), "admin", "wrong")
        assert sign_in(Client(), "admin", PASSWORD) == 302
    assert not SignInFailures.objects.filter(failure_count__gt=3).exists()


def test_lock_out_ends_by_itself_and_by_an_operator(signed_in: Client, viewer: User) -> None:
    for _ in range(lockout.PAIR_FAILURES_MAX + 1):
        sign_in(Client(), "vera", "wrong")
    page = signed_in.get(reverse("users:detail", kwargs={"account": "vera"}))
    assert "Locked out" in page.text
    signed_in.post(reverse("users:unlock", kwargs={"account": "vera"}))
    assert sign_in(Client(), "vera", "wrong") == 200
    for _ in range(lockout.PAIR_FAILURES_MAX):
        sign_in(Client(), "vera", "wrong")
    assert sign_in(Client(), "vera", "wrong") == 429
    ended = timezone.now() - timedelta(seconds=1)
    SignInFailures.objects.filter(locked_until__isnull=False).update(locked_until=ended)
    assert sign_in(Client(), "vera", "wrong") == 200


def test_one_address_cannot_try_every_account(cluster: Cluster) -> None:
    for number in range(lockout.ADDRESS_FAILURES_MAX):
        assert lockout.begin_attempt(f"name-{number}", "10.0.0.9") is None
    assert lockout.begin_attempt("another", "10.0.0.9") is not None
    assert lockout.begin_attempt("another", "10.0.0.8") is None


def test_addresses_of_one_ipv6_network_are_one_guesser(db: None) -> None:
    for number in range(lockout.PAIR_FAILURES_MAX):
        assert lockout.begin_attempt("admin", f"2001:db8:1:2::{number + 1:x}") is None
    assert lockout.begin_attempt("admin", "2001:db8:1:2:ffff::1") is not None
    assert lockout.begin_attempt("admin", "2001:db8:1:3::1") is None
    assert lockout.locked_addresses("admin") == ["2001:db8:1:2::/64"]
    lockout.succeed("admin", "2001:db8:1:2::1")
    assert lockout.locked_addresses("admin") == []


@pytest.mark.parametrize(
    ("address", "origin"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_what_failures_are_counted_by(address: str, origin: str) -> None:
    assert origin_of(address) == origin


def test_what_was_typed_as_an_unknown_name_is_kept_nowhere(cluster: Cluster) -> None:
    sign_in(Client(), "my secret password", "admin")
    assert not AuditEvent.objects.filter(target__contains="secret").exists()
    assert not SignInFailures.objects.filter(account__contains="secret").exists()
    assert AuditEvent.objects.get().target == "(no such account)"


def test_sign_in_changes_the_session_key(user_with_password: User, cluster: Cluster) -> None:
    client = Client()
    session = client.session
    session["x"] = 1
    session.save()
    before = session.session_key
    assert sign_in(client, "admin", PASSWORD) == 302
    assert client.session.session_key != before
    assert not Session.objects.filter(session_key=before).exists()
    cookie = next(value for name, value in client.cookies.items() if "session" in name)
    assert cookie["httponly"]
    assert cookie["samesite"] == "Lax"
    assert cookie["max-age"] == 12 * 60 * 60


def test_nobody_signs_in_when_the_audit_cannot_be_written(
    user_with_password: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_audit(monkeypatch)
    client = Client()
    assert sign_in(client, "admin", PASSWORD) == 503
    assert "_auth_user_id" not in client.session


def refuse_audit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The database refuses rows of the audit, as one on a full disk does."""

    def refuse(*_args: object, **_kwargs: object) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(AuditEvent, "save_base", refuse)


def test_nothing_is_done_when_the_audit_cannot_be_written(
    signed_in: Client, viewer: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse_audit(monkeypatch)
    page = signed_in.post(reverse("users:role", kwargs={"account": "vera"}), {"role": "operator"})
    assert page.status_code == 503
    assert "Nothing was done: the audit could not be written" in page.text
    viewer.refresh_from_db()
    assert viewer.role == Role.VIEWER


def test_link_stays_unused_when_the_sign_in_cannot_be_recorded(
    user: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = reverse("accounts:link", args=[create_link(user)])
    client = Client()
    with monkeypatch.context() as broken:
        refuse_audit(broken)
        page = client.post(address)
        assert page.status_code == 503
        assert "Nothing was done: the audit could not be written" in page.text
        assert "_auth_user_id" not in client.session
    assert client.post(address).status_code == 302
    assert client.session["_auth_user_id"] == str(user.pk)


def test_sign_in_says_that_the_database_cannot_be_written(
    user_with_password: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise DatabaseError("disk full")

    monkeypatch.setattr(SignInFailures, "save_base", refuse)
    client = Client()
    page = client.post(reverse("accounts:sign_in"), {"username": "admin", "password": PASSWORD})
    assert page.status_code == 503
    assert "the console&#x27;s database cannot be written" in page.text
    assert "_auth_user_id" not in client.session


def test_page_without_a_place_for_the_refusal_is_no_failure(
    signed_in: Client, viewer: User, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Client()
    other.force_login(viewer)
    refuse_audit(monkeypatch)
    for page in (
        signed_in.post(reverse("accounts:end_other_sessions")),
        other.get(reverse("audit:list")),
    ):
        assert page.status_code == 503
        assert "the audit could not be written" in page.text


def test_own_sessions_are_listed_and_ended(user: User, cluster: Cluster) -> None:
    here, there = (
        Client(headers={"user-agent": "Here/1"}),
        Client(headers={"user-agent": "There/1"}),
    )
    for client in (here, there):
        client.force_login(user)
        client.get("/")
    page = here.get(reverse("accounts:profile")).text
    assert "Here/1" in page
    assert "There/1" in page
    row = UserSession.objects.get(browser="There/1")
    here.post(reverse("accounts:end_session", kwargs={"session": row.pk}))
    assert there.get("/").status_code == 302
    assert here.get(reverse("accounts:profile")).status_code == 200


def test_somebody_elses_session_is_not_there(as_viewer: Client, signed_in: Client) -> None:
    signed_in.get("/")
    row = UserSession.objects.get(user__username="admin")
    answer = as_viewer.post(reverse("accounts:end_session", kwargs={"session": row.pk}))
    assert answer.status_code == 404
    assert signed_in.get(reverse("accounts:profile")).status_code == 200


def test_password_wants_the_old_one_and_ends_other_sessions(
    user_with_password: User, cluster: Cluster
) -> None:
    here, there = Client(), Client()
    for client in (here, there):
        assert sign_in(client, "admin", PASSWORD) == 302
        client.get("/")
    new = {"new_password1": "another good one 7", "new_password2": "another good one 7"}
    address = reverse("accounts:password")
    assert here.post(address, new).status_code == 200
    assert here.post(address, {**new, "old_password": PASSWORD}).status_code == 302
    assert there.get("/").status_code == 302
    assert here.get(reverse("accounts:profile")).status_code == 200
    assert AuditEvent.objects.filter(action="password.change", outcome="done").exists()


def test_a_newer_link_ends_the_older(signed_in: Client, viewer: User) -> None:
    old = create_link(viewer)
    signed_in.post(reverse("users:link", kwargs={"account": "vera"}))
    assert Client().get(reverse("accounts:link", args=[old])).status_code == 410
    assert SignInLink.objects.filter(used_at=None).count() == 1


@pytest.mark.parametrize(
    ("peer", "forwarded_for", "address"),
    [
        ("10.0.0.1", "", "10.0.0.1"),
        ("10.0.0.1", "1.2.3.4", "1.2.3.4"),
        ("10.0.0.1", "6.6.6.6, 1.2.3.4, 10.0.0.2", "1.2.3.4"),
        ("10.0.0.1", "6.6.6.6, nonsense", "10.0.0.1"),
        ("9.9.9.9", "1.2.3.4", "9.9.9.9"),
        ("", "1.2.3.4", ""),
    ],
)
def test_only_a_trusted_proxy_says_whose_request_it_is(
    peer: str, forwarded_for: str, address: str
) -> None:
    proxies = parse_networks("X", "10.0.0.0/24")
    assert client_address(peer, forwarded_for, proxies) == address


@pytest.mark.parametrize("act", ["update", "delete"])
def test_audit_cannot_be_changed(signed_in: Client, viewer: User, act: str) -> None:
    signed_in.post(reverse("users:role", kwargs={"account": "vera"}), {"role": "operator"})
    rows = AuditEvent.objects.all()
    assert isinstance(rows, AuditQuerySet)
    with pytest.raises(Exception, match="append-only"):
        getattr(rows, act)()
    with pytest.raises(Exception, match="append-only"):
        getattr(rows[0], "save" if act == "update" else act)()
    assert rows.complete(rows[0].pk, {"outcome": "failed"}) == 0


def test_guesses_at_the_own_old_password_are_bounded_from_wherever_they_come(
    user_with_password: User, cluster: Cluster
) -> None:
    client = Client()
    client.force_login(user_with_password)
    address = reverse("accounts:password")
    new = {"new_password1": "another good one 7", "new_password2": "another good one 7"}
    for number in range(5):
        wrong = client.post(address, {**new, "old_password": "no"}, REMOTE_ADDR=f"10.0.{number}.1")
        assert wrong.status_code == 200
    locked = client.post(address, {**new, "old_password": PASSWORD}, REMOTE_ADDR="10.9.9.9")
    assert locked.status_code == 429
    assert int(locked["Retry-After"]) > 0
    assert "was wrong 5 times" in locked.content.decode()
    refused = AuditEvent.objects.filter(action="password.change", outcome="refused")
    assert refused.count() == 5
    assert sign_in(Client(), "admin", PASSWORD) == 302, "signing in is counted by itself"


def test_change_of_an_account_that_changed_meanwhile_is_refused_at_the_act(
    user: User, viewer: User, cluster: Cluster
) -> None:
    """The version is compared where nobody else can change the account any more, not before."""
    acting = system_actor("test")
    seen = accounts.account_json(viewer)

    def check(now: User) -> None:
        if accounts.account_json(now) != seen:
            raise Refused(412, "changed-meanwhile", "It changed.")

    stale = User.objects.get(pk=viewer.pk)
    accounts.disable(acting, viewer)
    with pytest.raises(Refused, match="It changed"):
        accounts.change_account(acting, stale, role=Role.OPERATOR, is_enabled=None, check=check)
    viewer.refresh_from_db()
    assert viewer.role == Role.VIEWER
    seen = accounts.account_json(viewer)
    accounts.change_account(acting, viewer, role=Role.OPERATOR, is_enabled=True, check=check)
    viewer.refresh_from_db()
    assert (viewer.role, viewer.is_active) == (Role.OPERATOR, True)
