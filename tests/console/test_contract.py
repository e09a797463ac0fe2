"""The admin API against its own OpenAPI document, by Schemathesis: whatever fits the document or
does not, no answer is a failure of ours and each is one that the document promises.

CONTRACT_EXAMPLES raises the number of requests per operation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
import schemathesis
from django.core.cache import cache
from django.core.signals import request_finished, request_started
from django.core.wsgi import get_wsgi_application
from django.db import close_old_connections
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from broker.client.blocking import BlockingClient
from hermes_console.accounts.models import User
from hermes_console.accounts.rights import Right
from hermes_console.accounts.tokens import issue
from hermes_console.api.reference import make_schema
from hermes_console.clusters import Cluster
from tests.support.broker_process import BrokerProcess

pytestmark = [
    pytest.mark.django_db(databases="__all__"),
    pytest.mark.timeout(300),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
EXAMPLES = int(os.environ.get("CONTRACT_EXAMPLES", "6"))
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
PARTITIONS_MAX = 32  # thousands are made, and take longer than a request may
KNOWN = {"cluster": "local", "topic": "orders", "group": "app", "account": "vera", "node": "0"}
OPERATIONS = [
    (method.upper(), path, operation["operationId"])
    for path, methods in make_schema()["paths"].items()
    for method, operation in methods.items()
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as broker:
        with BlockingClient(f"127.0.0.1:{broker.kafka_port}") as client:
            client.create_topic("orders", partition_count=2)
            client.produce("orders", b'{"id": 1}', key=b"k", partition=0)
        yield broker


@pytest.fixture
def token(cluster: Cluster, user: User, viewer: User, broker: BrokerProcess) -> str:
    cluster.bootstrap_address = f"127.0.0.1:{broker.kafka_port}"
    cluster.save()
    _, secret = issue(
        user, name="contract", rights=list(Right), clusters=None, lifetime=timedelta(days=1)
    )
    return secret


@pytest.fixture(autouse=True)
def one_connection() -> Iterator[None]:
    """Requests share the test's transaction, as those of Django's own test client do."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


@pytest.mark.parametrize(("method", "path", "name"), OPERATIONS, ids=[one[2] for one in OPERATIONS])
def test_operation_keeps_its_promises(token: str, method: str, path: str, name: str) -> None:
    schema = schemathesis.openapi.from_dict(make_schema())
    schema.app = get_wsgi_application()
    operation = schema[path][method]

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(), is_known=st.booleans())
    def keeps(case: Any, is_known: bool) -> None:
        if is_known:
            for key in set(case.path_parameters or ()) & set(KNOWN):
                if method != "DELETE" or key != "topic":
                    case.path_parameters[key] = KNOWN[key]
        if name == "topic_grow" and isinstance(case.body, dict) and case.body.get("count"):
            case.body["count"] = min(case.body["count"], PARTITIONS_MAX)
        cache.clear()  # the bound on requests is not what is tested here
        case.call_and_validate(headers={"Authorization": f"Bearer {token}"}, checks=CHECKS)

    keeps()
