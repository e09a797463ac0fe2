"""Signing in and out, and what everybody may do to their own account. No state changes on GET;
every answer about a bad credential is the same sentence.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm, SetPasswordForm
from django.contrib.auth.views import LoginView
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from hermes_console.accounts import signin
from hermes_console.accounts.actor import actor_of
from hermes_console.accounts.forms import SignInForm
from hermes_console.accounts.links import owner_of, use_link
from hermes_console.accounts.models import User, UserSession
from hermes_console.accounts.rights import MEANING_OF, Right
from hermes_console.accounts.sessions import end_session, end_sessions, sessions_of
from hermes_console.audit.record import audited
from hermes_console.errors import Refused


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    """Name and password; somebody already signed in goes on to where they wanted."""

    template_name = "accounts/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        """429 for whoever failed too often; their password is not even looked at."""
        until = signin.try_begin(request, request.POST.get("username", ""))
        if until is None:
            return super().post(request, *args, **kwargs)
        context = {
            "form": SignInForm(request, initial={"username": request.POST.get("username", "")}),
            "next": request.POST.get("next", ""),
            "locked": signin.locked_sentence(until),
        }
        answer = render(request, self.template_name, context, status=429)
        answer["Retry-After"] = str(max(1, int((until - timezone.now()).total_seconds())))
        return answer

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        user = form.get_user()
        assert isinstance(user, User), "the form has looked it up"
        try:
            signin.complete(self.request, user)
        except Refused as refusal:
            form.add_error(None, refusal.detail)
            return self.render_to_response(self.get_context_data(form=form), status=refusal.status)
        return HttpResponseRedirect(self.get_success_url())

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        name = self.request.POST.get("username", "")
        if name and self.request.POST.get("password"):
            signin.note_failure(self.request, name)
        return super().form_invalid(form)


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    UserSession.objects.filter(session_key=request.session.session_key).delete()
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows one button, POST uses the link up. A worthless link says how to get a new one
    (status 410).
    """
    owner = owner_of(token)
    if owner is not None and request.method == "POST":
        with transaction.atomic():  # a sign-in that cannot be recorded leaves the link unused
            user = use_link(token)
            if user is not None:
                signin.complete(request, user, by_link=True)
                return redirect(settings.LOGIN_REDIRECT_URL)
    elif owner is not None:
        return render(request, "accounts/link.html", {"owner": owner})
    return render(request, "accounts/link_gone.html", status=410)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def choose_password(request: HttpRequest) -> HttpResponse:
    """Set the own password; other sessions of the account end. Who has one types it first, unless a
    one-time link signed them in: they may have forgotten it. Guesses at the old one are bounded:
    429, and the typed one is not even looked at.
    """
    user = _me(request)
    is_free = not user.has_usable_password() or request.session.get(signin.BY_LINK) is True
    kind = SetPasswordForm if is_free else PasswordChangeForm
    if request.method == "POST" and not is_free:
        until = signin.try_begin_own_check(user)
        if until is not None:
            return _password_locked(request, kind(user), until)
    form: SetPasswordForm[User] = kind(user, request.POST or None)
    if request.method == "POST" and not is_free:
        signin.end_own_check(request, user, is_right="old_password" not in form.errors)
    if request.method == "POST" and form.is_valid():
        with audited(
            actor_of(request), Right.VIEW, "password.change", cluster=None, target=user.username
        ) as act:
            form.save()
            update_session_auth_hash(request, user)
            request.session.pop(signin.BY_LINK, None)
            ended_count = end_sessions(user, but=request.session.session_key)
            act.after = {"sessions_ended": ended_count}
        messages.success(request, "Password saved. Sign in with it from now on.")
        return redirect("accounts:profile")
    return render(request, "accounts/password.html", {"form": form})


def _password_locked(
    request: HttpRequest, form: SetPasswordForm[User], until: datetime
) -> HttpResponse:
    context = {"form": form, "locked": signin.own_locked_sentence(until)}
    answer = render(request, "accounts/password.html", context, status=429)
    answer["Retry-After"] = str(max(1, int((until - timezone.now()).total_seconds())))
    return answer


@require_safe
def profile(request: HttpRequest) -> HttpResponse:
    """The own account: role and rights, sessions, tokens."""
    user = _me(request)
    actor = actor_of(request)
    context = {
        "rights": [meaning for right, meaning in MEANING_OF.items() if actor.may(right)],
        "sessions": sessions_of(user),
        "current_key": request.session.session_key,
        "tokens": user.tokens.prefetch_related("clusters"),
    }
    return render(request, "accounts/profile.html", context)


@require_POST
def end_own_session(request: HttpRequest, session: int) -> HttpResponse:
    """End one other session of the own account."""
    user = _me(request)
    row = UserSession.objects.filter(user=user, pk=session).first()
    if row is None:
        raise Http404("This session has ended already.")
    with audited(
        actor_of(request), Right.VIEW, "session.end", cluster=None, target=user.username
    ) as act:
        act.before = {"address": row.address, "browser": row.browser}
        end_session(row)
    messages.success(request, "The session has ended.")
    return redirect("accounts:profile")


@require_POST
def end_other_sessions(request: HttpRequest) -> HttpResponse:
    """End all sessions of the own account but this one."""
    user = _me(request)
    with audited(
        actor_of(request), Right.VIEW, "session.end-others", cluster=None, target=user.username
    ) as act:
        ended_count = end_sessions(user, but=request.session.session_key)
        act.after = {"sessions_ended": ended_count}
    messages.success(
        request, f"{ended_count} other session{' has' if ended_count == 1 else 's have'} ended."
    )
    return redirect("accounts:profile")


def _me(request: HttpRequest) -> User:
    assert isinstance(request.user, User), "LoginRequiredMiddleware lets nobody else through"
    return request.user
