"""The admin API: contract, paging, problems, and a schema that says exactly what it does."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from django.test import Client

from hermes_console.api.cursor import make_cursor, read_cursor, slice_after
from hermes_console.api.reference import make_schema, operations
from hermes_console.clusters import Cluster
from hermes_console.samples.snapshot import ClusterSnapshot, Verdict
from tests.console.conftest import group
from tests.console.routes import all_routes

pytestmark = pytest.mark.django_db(databases="__all__")
GROUPS = "/api/admin/v1/groups"
Store = Callable[..., ClusterSnapshot]


def test_whoever_is_not_signed_in_gets_a_problem(client: Client, cluster: Cluster) -> None:
    answer = client.get(GROUPS)
    assert answer.status_code == 401
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 401


def test_numbers_of_64_bits_are_text_and_unknown_is_null(
    signed_in: Client, store_groups: Store
) -> None:
    store_groups(group("app", lag=2**61 + 1), group("new", lag=None))
    first, second = signed_in.get(GROUPS).json()["groups"]
    assert first["lag"] == str(2**61 + 1)
    assert second["lag"] is None
    assert second["lag_seconds"] is None


def test_cursor_walks_through_all_groups_once(signed_in: Client, store_groups: Store) -> None:
    names = sorted([f"g-{n}" for n in range(25)] + ["ü", "A/b", "%"])
    store_groups(*(group(name) for name in reversed(names)))
    seen, cursor = [], ""
    while cursor is not None:
        page = signed_in.get(
            GROUPS, {"limit": "7", **({"cursor": cursor} if cursor else {})}
        ).json()
        seen += [one["name"] for one in page["groups"]]
        cursor = page["next_cursor"]
    assert seen == names


def test_filters_by_name_and_verdict(signed_in: Client, store_groups: Store) -> None:
    store_groups(group("a-1", verdict=Verdict.STALLED), group("a-2"), group("b-1"))
    found = signed_in.get(GROUPS, {"q": "A-", "verdict": "fine"}).json()["groups"]
    assert [one["name"] for one in found] == ["a-2"]


@pytest.mark.parametrize(
    ("query", "parameter"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "501"}, "limit"),
        ({"limit": "x"}, "limit"),
        ({"verdict": "bad"}, "verdict"),
        ({"cursor": "%%%"}, "cursor"),
        ({"cursor": "a"}, "cursor"),
        ({"q": "x" * 256}, "q"),
    ],
)
def test_bad_parameter_is_named(
    signed_in: Client, store_groups: Store, query: dict[str, str], parameter: str
) -> None:
    store_groups(group("app"))
    answer = signed_in.get(GROUPS, query)
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert list(answer.json()["parameters"]) == [parameter]


def test_unknown_cluster_is_a_problem(signed_in: Client, cluster: Cluster) -> None:
    answer = signed_in.get(GROUPS, {"cluster": "nope"})
    assert (answer.status_code, answer.json()["title"]) == (404, "Not Found")


def test_cluster_without_a_sample_is_not_an_empty_list(signed_in: Client, cluster: Cluster) -> None:
    assert signed_in.get(GROUPS).status_code == 404


def test_writing_is_refused(signed_in: Client, cluster: Cluster) -> None:
    assert signed_in.post(GROUPS, {}, content_type="application/json").status_code == 405


def test_stale_data_says_so(signed_in: Client, store_groups: Store) -> None:
    stored = store_groups(group("app"), trouble="Tried x.", reached_at_ms=5)
    page = signed_in.get(GROUPS).json()
    assert (page["trouble"], page["sampled_at_ms"]) == ("Tried x.", "5")
    assert page["sequence"] == str(stored.sequence)


def test_schema_names_every_address_of_the_api() -> None:
    documented = set(make_schema()["paths"])
    undocumented = {"api:schema", "api:reference"}
    routes = [route for route in all_routes() if route.name.startswith("api:")]
    values = {name: 7 if "Int" in kind else "x" for route in routes
              for name, kind in route.parameters.items()}  # fmt: skip
    for route in routes:
        if route.name not in undocumented:
            address = route.address(values)
            shapes = [re.sub(r"\{\w+\}", "[^/]+", path) for path in documented]
            assert any(re.fullmatch(shape, address) for shape in shapes), route.name


def test_every_operation_says_what_it_does_with_an_example_and_its_problems() -> None:
    schema = make_schema()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            name = f"{method} {path}"
            assert operation.get("summary"), name
            answers = operation["responses"]
            assert {"400", "401", "403", "406", "429"} <= set(answers), name
            problem = answers["401"]["content"]["application/problem+json"]["schema"]["$ref"]
            assert problem.endswith("/Problem"), name
            shown = [
                content
                for status, answer in answers.items()
                if status.startswith("2")
                for kind, content in answer.get("content", {}).items()
                if kind == "application/json"
            ]
            assert all(content.get("examples") for content in shown), name
            assert operation["security"] == [{"token": []}, {"cookieAuth": []}], name


def test_schema_is_made_without_a_warning(capfd: pytest.CaptureFixture[str]) -> None:
    schema = make_schema()
    assert schema["openapi"].startswith("3.0")
    assert "arning" not in capfd.readouterr().err


def test_answers_fit_the_schema(signed_in: Client, store_groups: Store) -> None:
    store_groups(group("app"), group("new", lag=None), group("idle", drain_seconds=0.0))
    schema = make_schema()
    check(schema, "200", "application/json", signed_in.get(GROUPS).json())
    check(schema, "400", "application/problem+json", signed_in.get(GROUPS, {"limit": "0"}).json())
    check(schema, "404", "application/problem+json", signed_in.get(GROUPS, {"cluster": "x"}).json())
    check(schema, "401", "application/problem+json", Client().get(GROUPS).json())


def check(schema: dict[str, Any], status: str, content: str, answer: Any) -> None:
    """The answer has exactly the fields that the schema describes, of its types."""
    shape = schema["paths"][GROUPS]["get"]["responses"][status]["content"][content]["schema"]
    document = {"components": strict(schema["components"]), **strict(shape)}
    jsonschema.validate(answer, document)


def strict(shape: Any) -> Any:
    """OpenAPI 3.0 as JSON schema: nullable as a type, no undescribed fields."""
    if isinstance(shape, list):
        return [strict(one) for one in shape]
    if not isinstance(shape, dict):
        return shape
    made = {key: strict(value) for key, value in shape.items() if key != "nullable"}
    if shape.get("nullable") and "allOf" in made:
        return {"anyOf": [made, {"type": "null"}]}
    if shape.get("nullable") and "type" in made:
        made["type"] = [made["type"], "null"]
    if "properties" in made:
        made["additionalProperties"] = False
    return made


def test_every_example_of_the_schema_fits_it() -> None:
    schema = make_schema()
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
            for content in (one for body in bodies for one in body.get("content", {}).values()):
                document = {
                    "components": strict(schema["components"]),
                    **strict(content["schema"]),
                }
                for example in content.get("examples", {}).values():
                    try:
                        jsonschema.validate(example["value"], document)
                    except jsonschema.ValidationError as error:
                        pytest.fail(f"{method} {path}: {error.message} in {example['value']}")


def test_schema_and_its_page_are_served_to_the_signed_in(
    signed_in: Client, cluster: Cluster
) -> None:
    paths = signed_in.get("/api/admin/v1/schema").json()["paths"]
    named = {path for path in paths if path.startswith("/api/admin/v1/")}
    assert {GROUPS} < named == set(paths)
    page = signed_in.get("/api/admin/v1/docs").content.decode()
    for operation in operations(make_schema()):
        assert operation.path in page
        for field in operation.fields:
            assert f"<code>{field.name}</code>" in page


def test_cursor_goes_on_behind_an_item_that_is_gone() -> None:
    items = [group(name) for name in ("a", "c", "d")]
    page, cursor = slice_after(items, make_cursor("b"), 1)
    assert [one.name for one in page] == ["c"]
    assert cursor is not None
    assert read_cursor(cursor) == "c"
