"""Names of groups in addresses survive a browser, whatever they are."""

from __future__ import annotations

from urllib.parse import urljoin, urlsplit

import pytest
from django.urls import resolve, reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_console.names import decode_name, encode_name

NAMES = st.characters(exclude_characters="\0", codec="utf-8")


@given(st.text(NAMES, max_size=80))
def test_every_name_comes_back(name: str) -> None:
    assert decode_name(encode_name(name)) == name


@settings(deadline=None)  # the first call loads every address
@given(st.text(NAMES, max_size=40))
def test_address_of_a_group_resolves_to_it_after_a_browser_normalised_it(name: str) -> None:
    address = reverse("groups:detail", kwargs={"cluster": "local", "group": name})
    seen = urlsplit(urljoin("http://h/x", address)).path
    assert resolve(seen).kwargs["group"] == name


def test_usual_names_stay_readable() -> None:
    assert encode_name("risk-control.v2_a") == "risk-control.v2_a"


@pytest.mark.parametrize(
    "segment", ["..", ".", "~a~", "~YWJj", "~8", "~_____w", "a/b", "~7aCA", "~AA", "~YQBi"]
)
def test_segments_that_no_name_has_are_refused(segment: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_name(segment)
