"""What every operation of the OpenAPI document has without its view saying so: the header that
makes a POST repeatable, and problems that come from before the view.
"""

from __future__ import annotations

from typing import Any, Final

from drf_spectacular.openapi import AutoSchema
from drf_spectacular.utils import OpenApiParameter

from hermes_console.api.examples import add_missing_examples
from hermes_console.api.idempotency import HEADER, MARK
from hermes_console.api.problems import CONTENT_TYPE

WITH_BODY: Final = ("413", "415")
WRITING: Final = ("503",)
WRITES: Final = frozenset({"post", "put", "patch", "delete"})


class ConsoleSchema(AutoSchema):
    """Adds the Idempotency-Key to what `@idempotent` decorates."""

    def get_override_parameters(self) -> list[Any]:
        found = list(super().get_override_parameters())
        handler = getattr(self.view, self.method.lower(), None)
        if getattr(handler, MARK, False):
            found.append(
                OpenApiParameter(
                    HEADER,
                    str,
                    OpenApiParameter.HEADER,
                    required=False,
                    description=(
                        "A name for this one act, of your choice: sent again, it gets the first "
                        "answer and acts no second time (24 hours)."
                    ),
                )
            )
        return found


def complete(
    result: dict[str, Any],
    generator: Any,
    request: Any,
    public: bool,  # noqa: FBT001  the hook's form
) -> dict[str, Any]:
    """drf-spectacular's hook: 413 and 415 where there is a body, 503 where the audit is
    written, an example where a view shows none."""
    problem = {
        "content": {CONTENT_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
        "description": "",
    }
    for path_item in result["paths"].values():
        for method, operation in path_item.items():
            wanted: tuple[str, ...] = WRITING if method in WRITES else ()
            if "requestBody" in operation:
                wanted += WITH_BODY
            for status in wanted:
                operation["responses"].setdefault(status, problem)
    add_missing_examples(result)
    return result
