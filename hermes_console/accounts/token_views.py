"""The own API tokens: making one, which shows its secret once, and revoking one."""

from __future__ import annotations

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.forms import TokenForm
from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Right
from hermes_console.errors import Refused
from hermes_console.operations import tokens


@require_http_methods(["GET", "HEAD", "POST"])
def new_token(request: HttpRequest) -> HttpResponse:
    """The answer to the POST shows the secret; nobody can ask for it again."""
    user = request.user
    assert isinstance(user, User), "LoginRequiredMiddleware lets nobody else through"
    actor = actor_of(request)
    form = TokenForm(actor, request.POST or None)
    if request.method == "POST" and form.is_valid():
        chosen = list(form.cleaned_data["clusters"])
        try:
            token, secret = tokens.make_token(
                actor,
                user,
                name=form.cleaned_data["name"],
                rights=[Right(value) for value in form.cleaned_data["rights"]],
                clusters=chosen or None,
                days=form.cleaned_data["days"],
            )
        except Refused as refusal:
            form.add_error(None, refusal.detail)
        else:
            return render(request, "accounts/token_made.html", {"token": token, "secret": secret})
    status = 422 if form.is_bound else 200
    return render(request, "accounts/token_new.html", {"form": form}, status=status)


@require_POST
def revoke_token(request: HttpRequest, token: int) -> HttpResponse:
    user = request.user
    assert isinstance(user, User), "LoginRequiredMiddleware lets nobody else through"
    found = user.tokens.filter(pk=token).first()
    if found is None:
        raise Http404("There is no such token.")
    try:
        tokens.revoke_token(actor_of(request), found)
    except Refused as refusal:
        messages.error(request, refusal.detail)
    else:
        messages.success(request, f"Token {found.prefix}… is revoked: scripts with it get 401.")
    return redirect("accounts:profile")
