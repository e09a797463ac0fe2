"""The OpenAPI document against the code and against the running gateway."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from broker.config.gateway import GatewaySettings
from broker.gateway.api import COMMIT_FIELDS, FETCH_FIELDS, ROUTES
from broker.gateway.message import BATCH_FIELDS, FIELDS, TOPIC_PATTERN
from broker.gateway.openapi import (
    COMMIT_CODES,
    FETCH_CODES,
    HTTP_CODES,
    PUT_CODES,
    document,
)
from broker.gateway.problem import KINDS
from tests.gateway.gateway_process import GatewayProcess

DOCUMENT = document(GatewaySettings())
SCHEMAS = DOCUMENT["components"]["schemas"]
EXAMPLES_MAX = 60
"""Generated requests of each operation."""


def operations() -> dict[str, dict[str, Any]]:
    return {
        operation["operationId"]: operation
        for methods in DOCUMENT["paths"].values()
        for operation in methods.values()
    }


def test_it_has_the_routes_that_the_gateway_has() -> None:
    described = {
        (operation["operationId"], method.upper(), path)
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }
    assert described == {(route.operation, route.method, route.path) for route in ROUTES}


def test_it_has_the_fields_that_the_handlers_take() -> None:
    assert tuple(SCHEMAS["Message"]["properties"]) == FIELDS
    assert set(SCHEMAS["Batch"]["properties"]) == set(BATCH_FIELDS)
    assert tuple(SCHEMAS["Commit"]["properties"]) == COMMIT_FIELDS
    names = [row["name"] for row in operations()["fetchMessages"]["parameters"] if "name" in row]
    assert tuple(names) == FETCH_FIELDS


def test_every_code_is_described_with_its_status() -> None:
    described = {*PUT_CODES, *FETCH_CODES, *COMMIT_CODES, *HTTP_CODES}
    assert described == set(KINDS)
    for name, codes in (
        ("putMessages", PUT_CODES),
        ("fetchMessages", FETCH_CODES),
        ("commitOffset", COMMIT_CODES),
    ):
        answers = operations()[name]["responses"]
        for code in codes:
            answer = answers[str(KINDS[code].status)]
            assert code in answer["content"]["application/problem+json"]["examples"]
            retries = KINDS[code].retry_after_s is not None
            assert not retries or "Retry-After" in answer["headers"]


def validate(value: Any, schema: Any) -> None:
    schema = {**schema, "components": DOCUMENT["components"]}
    jsonschema.Draft202012Validator(schema).validate(value)


def test_every_example_fits_its_schema() -> None:
    count = 0
    for operation in operations().values():
        bodies = [operation["requestBody"]] if "requestBody" in operation else []
        for body in [*bodies, *operation["responses"].values()]:
            for content in body.get("content", {}).values():
                for example in content.get("examples", {}).values():
                    validate(example["value"], content["schema"])
                    count += 1
    assert count > 40


def test_the_gateway_serves_it_and_takes_its_examples(
    gateway: GatewayProcess, new_topic: Callable[..., str]
) -> None:
    served = gateway.call("GET", "/api/v1/openapi.json")
    assert served.json == json.loads(json.dumps(DOCUMENT))
    topic = new_topic(4)
    for name, path in (
        ("putMessages", "/api/v1/messages"),
        ("commitOffset", "/api/v1/offsets/commit"),
    ):
        method = {"putMessages": "PUT", "commitOffset": "POST"}[name]
        operation = operations()[name]
        for example in operation["requestBody"]["content"]["application/json"]["examples"].values():
            reply = gateway.call(method, path, {**example["value"], "topic": topic})
            assert reply.status == 200, reply.body
            validate(
                reply.json, operation["responses"]["200"]["content"]["application/json"]["schema"]
            )
    fetched = gateway.fetch(topic, 3, "earliest")
    assert fetched.status == 200
    validate(fetched.json, SCHEMAS["Fetched"])


@pytest.mark.parametrize("name", list(operations()))
def test_generated_requests_find_no_server_error_and_no_other_answer_than_described(
    gateway: GatewayProcess, new_topic: Callable[..., str], name: str
) -> None:
    topic = new_topic(4)
    schema = schemathesis.openapi.from_dict(DOCUMENT)
    schema.config.base_url = f"http://127.0.0.1:{gateway.port}"
    route = next(route for route in ROUTES if route.operation == name)
    operation = schema[route.path][route.method]
    checks = [
        not_a_server_error,
        status_code_conformance,
        content_type_conformance,
        response_schema_conformance,
    ]

    @settings(
        max_examples=EXAMPLES_MAX,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @_given(operation)
    def check(case: Any) -> None:
        for fields in (case.body, case.query):
            if isinstance(fields, dict):  # every name that a topic can have leads to one
                if re.fullmatch(TOPIC_PATTERN.strip("^$"), str(fields.get("topic"))):
                    fields["topic"] = topic
                if fields.get("waitMs"):
                    fields["waitMs"] = 10
        case.call_and_validate(checks=checks)

    check()


def _given(operation: Any) -> Any:
    from hypothesis import given
    from hypothesis import strategies as st

    modes = schemathesis.GenerationMode
    cases = st.one_of(
        operation.as_strategy(generation_mode=modes.POSITIVE),
        operation.as_strategy(generation_mode=modes.NEGATIVE),
    )
    return given(case=cases)
