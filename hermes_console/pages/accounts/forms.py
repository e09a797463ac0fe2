"""A new account, and a typed name."""

from __future__ import annotations

from typing import Any

from django import forms

from hermes_console.accounts.rights import Role


class NewAccountForm(forms.Form):
    """The name is judged by the operation, as the API's is."""

    name = forms.CharField(
        max_length=150, help_text="Letters, digits and @ . + - _ , for example an e-mail address."
    )
    role = forms.ChoiceField(
        choices=[(role.value, role.value.capitalize()) for role in (Role.VIEWER, Role.OPERATOR)]
    )
    password = forms.CharField(
        required=False,
        strip=False,
        max_length=4_096,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text="Leave it empty to get a one-time sign-in link to hand over instead.",
    )


class ConfirmedNameForm(forms.Form):
    """Bound only to see the name typed."""

    confirmation = forms.CharField(max_length=255, strip=False)

    def __init__(self, name: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._name = name

    def clean_confirmation(self) -> str:
        typed: str = self.cleaned_data["confirmation"]
        if typed != self._name:
            raise forms.ValidationError(f"Type exactly: {self._name}")
        return typed
