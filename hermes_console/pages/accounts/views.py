"""Accounts, for operators: the list, a new one, one account with what can be done to it."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from hermes_console.accounts.actor import Actor, actor_of
from hermes_console.accounts.gate import needs
from hermes_console.accounts.links import INVITATION_LIFETIME
from hermes_console.accounts.lockout import locked_addresses
from hermes_console.accounts.models import User
from hermes_console.accounts.rights import MEANING_OF, RIGHTS_OF, Right, Role
from hermes_console.accounts.sessions import sessions_of
from hermes_console.errors import Refused
from hermes_console.operations import accounts, tokens
from hermes_console.pages.accounts.forms import ConfirmedNameForm, NewAccountForm

PAGE_SIZE = 50
NAME_LENGTH_MAX = 150


@require_safe
@needs(Right.ACCOUNTS_WRITE)
def account_list(request: HttpRequest) -> HttpResponse:
    search = request.GET.get("q", "").strip()[:NAME_LENGTH_MAX].replace("\0", "")
    found = User.objects.filter(username__icontains=search).order_by("username")
    page = Paginator(found, PAGE_SIZE).get_page(request.GET.get("page"))
    context = {"page": page, "search": search, "roles": _role_rows()}
    return render(request, "accounts/users.html", context)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ACCOUNTS_WRITE)
def new_account(request: HttpRequest) -> HttpResponse:
    """Without a password the answer shows a one-time link, once."""
    form = NewAccountForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        try:
            user, link = accounts.create_account(
                actor_of(request),
                name=form.cleaned_data["name"],
                role=Role(form.cleaned_data["role"]),
                password=form.cleaned_data["password"] or None,
            )
        except Refused as refusal:
            form.add_error(
                "password" if refusal.code == "weak-password" else "name", refusal.detail
            )
        else:
            if link is None:
                messages.success(request, f"Account {user.username} was created.")
                return redirect("users:detail", account=user.username)
            return _show_link(request, user, link, is_new=True)
    status = 422 if form.is_bound else 200
    context = {"form": form, "roles": _role_rows()}
    return render(request, "accounts/user_new.html", context, status=status)


@require_safe
@needs(Right.ACCOUNTS_WRITE)
def account_detail(request: HttpRequest, account: str) -> HttpResponse:
    return _detail(request, _user(account))


@require_POST
@needs(Right.ACCOUNTS_WRITE)
def change_role(request: HttpRequest, account: str) -> HttpResponse:
    wanted = request.POST.get("role", "")
    if wanted not in {role.value for role in Role}:
        raise Http404("There is no such role.")
    return _act(
        request,
        account,
        lambda actor, user: accounts.change_role(actor, user, Role(wanted)),
        f"{account} is {'an' if wanted == Role.OPERATOR else 'a'} {wanted} now, "
        "from the next request on.",
    )


@require_http_methods(["GET", "HEAD", "POST"])
@needs(Right.ACCOUNTS_WRITE)
def disable(request: HttpRequest, account: str) -> HttpResponse:
    """What disabling ends, and the name typed."""
    user = _user(account)
    form = ConfirmedNameForm(user.username, request.POST or None)
    trouble = None
    if request.method == "POST" and form.is_valid():
        try:
            accounts.disable(actor_of(request), user)
        except Refused as refusal:
            trouble = refusal
        else:
            messages.success(
                request, f"{user.username} is disabled: signed out everywhere, all tokens refused."
            )
            return redirect("users:detail", account=user.username)
    context = {
        "person": user,
        "sessions": sessions_of(user),
        "tokens": [token for token in user.tokens.all() if token.state == "active"],
        "form": form,
        "trouble": trouble,
        "cancel": reverse("users:detail", kwargs={"account": user.username}),
        "may_write": True,
    }
    status = trouble.status if trouble else 422 if form.is_bound else 200
    return render(request, "accounts/user_disable.html", context, status=status)


@require_POST
@needs(Right.ACCOUNTS_WRITE)
def enable(request: HttpRequest, account: str) -> HttpResponse:
    return _act(request, account, accounts.enable, f"{account} is enabled again.")


@require_POST
@needs(Right.ACCOUNTS_WRITE)
def unlock(request: HttpRequest, account: str) -> HttpResponse:
    return _act(request, account, accounts.unlock, f"{account} may try to sign in again.")


@require_POST
@needs(Right.ACCOUNTS_WRITE)
def sign_in_link(request: HttpRequest, account: str) -> HttpResponse:
    """The link is shown in the answer itself: nobody keeps it."""
    user = _user(account)
    try:
        link = accounts.make_link(actor_of(request), user)
    except Refused as refusal:
        return _detail(request, user, refusal)
    return _show_link(request, user, link, is_new=False)


@require_POST
@needs(Right.ACCOUNTS_WRITE)
def revoke_token(request: HttpRequest, account: str, token: int) -> HttpResponse:
    user = _user(account)
    found = user.tokens.filter(pk=token).first()
    if found is None:
        raise Http404("There is no such token.")
    try:
        tokens.revoke_token(actor_of(request), found)
    except Refused as refusal:
        return _detail(request, user, refusal)
    messages.success(request, f"Token {found.prefix}… is revoked.")
    return redirect("users:detail", account=user.username)


def _act(
    request: HttpRequest, account: str, act: Callable[[Actor, User], object], done: str
) -> HttpResponse:
    user = _user(account)
    try:
        act(actor_of(request), user)
    except Refused as refusal:
        return _detail(request, user, refusal)
    messages.success(request, done)
    return redirect("users:detail", account=user.username)


def _detail(request: HttpRequest, user: User, trouble: Refused | None = None) -> HttpResponse:
    context = {
        "person": user,
        "roles": _role_rows(),
        "sessions": sessions_of(user),
        "tokens": user.tokens.prefetch_related("clusters"),
        "locked": locked_addresses(user.username),
        "trouble": trouble,
        "may_write": True,
    }
    status = trouble.status if trouble else 200
    return render(request, "accounts/user.html", context, status=status)


def _show_link(request: HttpRequest, user: User, token: str, *, is_new: bool) -> HttpResponse:
    address = request.build_absolute_uri(reverse("accounts:link", args=[token]))
    context = {
        "person": user,
        "link": address,
        "is_new": is_new,
        "hours": int(INVITATION_LIFETIME.total_seconds() // 3600),
    }
    return render(request, "accounts/user_link.html", context)


def _user(name: str) -> User:
    found = User.objects.filter(username=name).first() if "\0" not in name else None
    if found is None:
        raise Http404("There is no such account.")
    return found


def _role_rows() -> list[tuple[str, list[str]]]:
    """Each role with what it may do."""
    return [
        (role.value, [MEANING_OF[right] for right in Right if right in RIGHTS_OF[role]])
        for role in Role
    ]
