"""Reading the console's pages and its admin API in tests of topics and brokers."""

from __future__ import annotations

import html
import json
import os
import re
from typing import Any

from django.test import Client

from hermes_console.clusters import Cluster, ClusterKind
from hermes_console.operations.topics_catalogue import forget_catalogue

API = "/api/admin/v1/clusters/local/topics"
PAGE = "/clusters/local/topics"


def point_at(cluster: Cluster, bootstrap: str) -> Cluster:
    """The cluster's row leads to the broker of the test: ours, or Apache Kafka."""
    cluster.bootstrap_address = bootstrap
    is_foreign = bool(os.environ.get("CONSOLE_TEST_BOOTSTRAP"))
    cluster.kind = ClusterKind.KAFKA if is_foreign else ClusterKind.OURS
    cluster.save()
    forget_catalogue(cluster)
    return cluster


def text_of(answer: Any) -> str:
    return re.sub(r"\s+", " ", html.unescape(answer.content.decode()))


def words_of(answer: Any) -> str:
    """The page's text without its tags."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text_of(answer)))


def send(client: Client, method: str, path: str, body: object = None, **headers: str) -> Any:
    data = "" if body is None else json.dumps(body)
    return client.generic(method, path, data, content_type="application/json", headers=headers)


def fields_in(answer: Any) -> dict[str, str]:
    """The hidden fields of the page's last form that posts."""
    form = answer.content.decode().split('<form class="actions"')[-1]
    found = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form)
    return {name: html.unescape(value) for name, value in found}
