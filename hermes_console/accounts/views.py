"""Signing in and out. No state changes on GET; every answer about a bad credential is the same
sentence.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import logout, update_session_auth_hash
from django.contrib.auth.decorators import login_not_required
from django.contrib.auth.forms import SetPasswordForm
from django.contrib.auth.views import LoginView
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.decorators import method_decorator
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from hermes_console.accounts.forms import SignInForm
from hermes_console.accounts.links import is_usable, use_link
from hermes_console.accounts.models import User
from hermes_console.accounts.sessions import begin_session, sessions_of


@method_decorator(login_not_required, name="dispatch")
class SignIn(LoginView):
    """Name and password; somebody already signed in goes on to where they wanted."""

    template_name = "accounts/sign_in.html"
    authentication_form = SignInForm
    redirect_authenticated_user = True


@require_POST
def sign_out(request: HttpRequest) -> HttpResponse:
    logout(request)
    return redirect(settings.LOGOUT_REDIRECT_URL)


@login_not_required
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def sign_in_link(request: HttpRequest, token: str) -> HttpResponse:
    """GET shows one button, POST uses the link up. A worthless link says how to get a new one
    (status 410).
    """
    if request.method == "POST":
        user = use_link(token)
        if user is not None:
            begin_session(request, user)
            return redirect(settings.LOGIN_REDIRECT_URL)
    elif is_usable(token):
        return render(request, "accounts/link.html")
    return render(request, "accounts/link_gone.html", status=410)


@require_safe
def profile(request: HttpRequest) -> HttpResponse:
    """The own account: role, sessions, tokens."""
    assert isinstance(request.user, User), "LoginRequiredMiddleware lets nobody else through"
    context = {"sessions": sessions_of(request.user), "tokens": request.user.tokens.all()}
    return render(request, "accounts/profile.html", context)


@sensitive_post_parameters()
@require_http_methods(["GET", "HEAD", "POST"])
def choose_password(request: HttpRequest) -> HttpResponse:
    """Set the own password; other sessions of the account end (their hash no longer fits)."""
    assert isinstance(request.user, User), "LoginRequiredMiddleware lets nobody else through"
    form = SetPasswordForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        form.save()
        update_session_auth_hash(request, request.user)
        messages.success(request, "Password saved. Sign in with it from now on.")
        return redirect(settings.LOGIN_REDIRECT_URL)
    return render(request, "accounts/password.html", {"form": form})
