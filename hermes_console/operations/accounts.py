"""What can be done to accounts, for pages and API alike. Every act is recorded; the last operator
stays one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from hermes_console.accounts import lockout
from hermes_console.accounts.actor import Actor
from hermes_console.accounts.links import INVITATION_LIFETIME, create_link
from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Right, Role
from hermes_console.accounts.sessions import end_sessions
from hermes_console.audit.record import Act, audited
from hermes_console.errors import Refused

ACCOUNTS_MAX: Final = 10_000
Check: TypeAlias = Callable[[User], object]
"""Is given the account as it is, before it is changed; raises Refused when that is not what was
looked at.
"""


def account_json(user: User) -> dict[str, Any]:
    """What the audit and the API say of an account; never a password or a link."""
    return {
        "name": user.username,
        "role": user.role,
        "is_enabled": user.is_active,
        "has_password": user.has_usable_password(),
    }


def create_account(
    actor: Actor, *, name: str, role: Role, password: str | None
) -> tuple[User, str | None]:
    """A new account, and without a password the token of the one-time link that lets its owner in.

    Raises Refused for a name that is bad or taken and for a weak password; NotAllowed.
    """
    with audited(actor, Right.ACCOUNTS_WRITE, "account.create", cluster=None, target=name) as act:
        user = User(username=User.normalize_username(name), role=role)
        _check_name(user)
        if User.objects.filter(username__iexact=user.username).exists():
            raise _taken(user.username)
        if User.objects.count() >= ACCOUNTS_MAX:
            act.refuse(f"There are {ACCOUNTS_MAX:,} accounts: more than the console keeps.")
        if password is None:
            user.set_unusable_password()
        else:
            check_password_strength(password, user)
            user.set_password(password)
        try:
            with transaction.atomic():
                user.save()
        except IntegrityError as error:
            raise _taken(user.username) from error
        act.after = account_json(user)
        link = None if password is not None else create_link(user, INVITATION_LIFETIME)
    return user, link


def change_account(
    actor: Actor, user: User, *, role: Role | None, is_enabled: bool | None, check: Check
) -> User:
    """The account with another role, opened or closed; None stays. `check` is given the account as
    it is at the change, while nobody else can change it. Raises what `check` raises, Refused,
    NotAllowed.
    """
    acts: list[Callable[[User, Check], User]] = []
    if role is not None and role != user.role:
        acts.append(lambda now, checked: change_role(actor, now, role, check=checked))
    if is_enabled is not None and is_enabled != user.is_active:
        turn = enable if is_enabled else disable
        acts.append(lambda now, checked: turn(actor, now, check=checked))
    if not acts:
        check(user)
    for act in acts:
        user = act(user, check)
        check = _as_left(user)
    return user


def _as_left(user: User) -> Check:
    """For the second act of one change: nobody came in between."""
    left = account_json(user)

    def check(now: User) -> None:
        if account_json(now) != left:
            raise Refused(
                412,
                "changed-meanwhile",
                f"{now.username} was changed by somebody else just now: look at it again.",
            )

    return check


def change_role(actor: Actor, user: User, role: Role, *, check: Check = lambda _: None) -> User:
    """The account with its new role, which counts from its next request on."""
    with (
        audited(
            actor,
            Right.ACCOUNTS_WRITE,
            "account.change-role",
            cluster=None,
            target=user.username,
            before=account_json(user),
        ) as act,
        transaction.atomic(),
    ):
        current = _locked(user)
        check(current)
        act.before = account_json(current)
        if role != Role.OPERATOR:
            _refuse_if_last_operator(act, current, "made a viewer")
        current.role = role
        current.save(update_fields=["role"])
        act.after = account_json(current)
    return current


def disable(actor: Actor, user: User, *, check: Check = lambda _: None) -> User:
    """Close the account: its sessions end, its tokens and links are worth nothing from now on."""
    with audited(
        actor,
        Right.ACCOUNTS_WRITE,
        "account.disable",
        cluster=None,
        target=user.username,
        before=account_json(user),
    ) as act:
        with transaction.atomic():
            current = _locked(user)
            check(current)
            act.before = account_json(current)
            _refuse_if_last_operator(act, current, "disabled")
            current.is_active = False
            current.save(update_fields=["is_active"])
            current.signinlink_set.filter(used_at=None).update(used_at=timezone.now())
            ended_count = end_sessions(current)
        act.after = {**account_json(current), "sessions_ended": ended_count}
    return current


def enable(actor: Actor, user: User, *, check: Check = lambda _: None) -> User:
    """Open the account again, with the password and the tokens that it had."""
    with (
        audited(
            actor,
            Right.ACCOUNTS_WRITE,
            "account.enable",
            cluster=None,
            target=user.username,
            before=account_json(user),
        ) as act,
        transaction.atomic(),
    ):
        current = _locked(user)
        check(current)
        current.is_active = True
        current.save(update_fields=["is_active"])
        act.after = account_json(current)
    return current


def make_link(actor: Actor, user: User) -> str:
    """The token of a new one-time link for the account; earlier unused links end."""
    with audited(
        actor, Right.ACCOUNTS_WRITE, "account.sign-in-link", cluster=None, target=user.username
    ) as act:
        if not user.is_active:
            act.refuse(f"{user.username} is disabled: enable the account first.")
        user.signinlink_set.filter(used_at=None).update(used_at=timezone.now())
        token = create_link(user, INVITATION_LIFETIME)
        act.after = {"valid_for_hours": int(INVITATION_LIFETIME.total_seconds() // 3600)}
    return token


def unlock(actor: Actor, user: User) -> int:
    """Forget failed sign-ins of the account; at how many addresses there were some."""
    with audited(
        actor, Right.ACCOUNTS_WRITE, "account.unlock", cluster=None, target=user.username
    ) as act:
        count = lockout.unlock(user.username)
        act.after = {"addresses": count}
    return count


def check_password_strength(password: str, user: User) -> None:
    """Raises Refused that says what is missing."""
    try:
        validate_password(password, user)
    except ValidationError as error:
        raise Refused(422, "weak-password", " ".join(error.messages)) from error


def _check_name(user: User) -> None:
    field = User._meta.get_field("username")  # noqa: SLF001  Django's documented interface
    try:
        field.clean(user.username, user)
    except ValidationError as error:
        raise Refused(422, "bad-account-name", " ".join(error.messages)) from error


def _taken(name: str) -> Refused:
    return Refused(409, "account-exists", f"There is an account named {name} already.")


def _locked(user: User) -> User:
    """The account as it is now, and nobody else changes an operator meanwhile."""
    list(User.objects.select_for_update().filter(role=Role.OPERATOR).order_by("pk"))
    return User.objects.select_for_update().get(pk=user.pk)


def _refuse_if_last_operator(act: Act, user: User, what: str) -> None:
    if not user.is_operator or not user.is_active:
        return
    others = User.objects.filter(role=Role.OPERATOR, is_active=True).exclude(pk=user.pk)
    if not others.exists():
        act.refuse(
            f"{user.username} is the last operator and cannot be {what}: "
            "nobody could manage accounts any more. Make somebody else an operator first.",
            code="last-operator",
        )
