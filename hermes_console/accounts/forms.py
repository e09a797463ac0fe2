"""Signing in, and making an API token."""

from __future__ import annotations

from typing import Any, Final

from django import forms
from django.contrib.auth.forms import AuthenticationForm

from hermes_console.accounts.actor import Actor
from hermes_console.accounts.rights import MEANING_OF, Right
from hermes_console.accounts.tokens import LIFETIME_DAYS_DEFAULT, LIFETIME_DAYS_MAX
from hermes_console.clusters import Cluster

ONE_LINE: Final = r"^[^\x00-\x1f\x7f]*$"


class SignInForm(AuthenticationForm):
    """Django's, with one sentence for every refusal."""

    error_messages: dict[str, Any] = {
        "invalid_login": "This name and password do not belong together, or the account is closed.",
        "inactive": "This name and password do not belong together, or the account is closed.",
    }


class TokenForm(forms.Form):
    """A new token of the actor: what for, which of the actor's rights, which clusters, how long."""

    name = forms.RegexField(
        ONE_LINE,
        max_length=100,
        label="What for",
        help_text="For example: nightly offset report.",
        error_messages={"invalid": "One line, please."},
    )
    rights = forms.MultipleChoiceField(widget=forms.CheckboxSelectMultiple, label="Rights")
    clusters = forms.ModelMultipleChoiceField(
        Cluster.objects.none(),
        required=False,
        widget=forms.CheckboxSelectMultiple,
        label="Clusters",
        help_text="None chosen: all clusters, also those added later.",
    )
    days = forms.IntegerField(
        min_value=1,
        max_value=LIFETIME_DAYS_MAX,
        initial=LIFETIME_DAYS_DEFAULT,
        label="Valid for (days)",
    )

    def __init__(self, actor: Actor, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        rights = self.fields["rights"]
        clusters = self.fields["clusters"]
        assert isinstance(rights, forms.MultipleChoiceField), "as declared above"
        assert isinstance(clusters, forms.ModelMultipleChoiceField), "as declared above"
        rights.choices = [
            (right.value, MEANING_OF[right][:1].upper() + MEANING_OF[right][1:])
            for right in Right
            if right in actor.rights
        ]
        rights.initial = [Right.VIEW.value]
        clusters.queryset = Cluster.objects.all()
