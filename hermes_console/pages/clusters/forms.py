"""A cluster's name and address. Both are judged by the operation, as the API's are."""

from __future__ import annotations

from django import forms


class ClusterForm(forms.Form):
    """For a new cluster and for a changed one."""

    name = forms.CharField(
        max_length=63,
        help_text="1 to 63 of a-z, 0-9 and -; it stands in addresses of pages.",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false"}),
    )
    bootstrap_address = forms.CharField(
        max_length=1024,
        label="Bootstrap address",
        help_text="host:port of one of its brokers, several joined by commas.",
        widget=forms.TextInput(
            attrs={"autocomplete": "off", "spellcheck": "false", "placeholder": "kafka-1:9092"}
        ),
    )
