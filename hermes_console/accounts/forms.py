"""The sign-in form."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm


class SignInForm(AuthenticationForm):
    """Django's, with one sentence for every refusal."""

    error_messages: dict[str, Any] = {
        "invalid_login": "This name and password do not belong together, or the account is closed.",
        "inactive": "This name and password do not belong together, or the account is closed.",
    }
