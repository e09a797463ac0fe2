"""Refusals: whoever has no right is told so first, once, and without a trace in the log."""

from __future__ import annotations

import logging
import sys

import pytest
from django.core.exceptions import DisallowedHost
from django.http import Http404
from django.test import Client

from hermes_console.accounts.models import User
from hermes_console.clusters import Cluster
from hermes_console.errors import sentence
from hermes_console.logs import ExpectedRefusals


@pytest.mark.django_db(databases="__all__")
@pytest.mark.parametrize(
    "path",
    [
        "topics/new",
        "topics/orders/grow",
        "topics/orders/settings",
        "topics/orders/delete",
        "topics/orders/delete-records",
        "brokers/0/settings",
        "messages/orders/produce",
        "groups/create",
        "groups/app/reset",
        "groups/app/delete",
    ],
)
def test_viewer_who_posts_nonsense_is_told_of_the_right_not_of_the_field(
    client: Client, viewer: User, cluster: Cluster, path: str
) -> None:
    """Nor of a cluster that does not answer: nothing runs at the address of `cluster`."""
    client.force_login(viewer)
    answer = client.post(f"/clusters/local/{path}", {"name": "/", "partitions": "x", "to": "x"})
    assert answer.status_code == 403, path
    assert "vera is a viewer" in answer.content.decode()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("topic 'x': Topic 'x' already exists.", "Topic 'x' already exists."),
        ("topic 'x': topic x already exists", "Topic x already exists."),
        ("topic 'orders': topic orders.v2 is there", "topic 'orders': topic orders.v2 is there."),
        ("topic 'x': 0 is no number of partitions", "topic 'x': 0 is no number of partitions."),
        ("the cluster is away", "the cluster is away."),
    ],
)
def test_what_an_error_is_about_is_named_once(text: str, told: str) -> None:
    assert sentence(text) == told


@pytest.mark.parametrize("kind", [DisallowedHost, Http404])
def test_expected_refusal_is_a_line_in_the_log(kind: type[Exception]) -> None:
    record = logged(kind("the host is not ours"))
    assert ExpectedRefusals().filter(record)
    text = logging.Formatter().format(record)
    assert "Traceback" not in text
    assert "the host is not ours" in text
    assert record.levelno == logging.WARNING


def test_failure_of_ours_keeps_its_trace() -> None:
    record = logged(ZeroDivisionError("ours"))
    assert ExpectedRefusals().filter(record)
    assert "Traceback" in logging.Formatter().format(record)
    assert record.levelno == logging.ERROR


def logged(error: Exception) -> logging.LogRecord:
    try:
        raise error
    except type(error):
        trace = sys.exc_info()
    return logging.LogRecord("django", logging.ERROR, __file__, 1, "Refused: %s", ("/",), trace)
