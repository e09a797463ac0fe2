"""The dispatch table is complete, and each row says how its handler is called."""

import inspect

import pytest

from broker.server.dispatch import HANDLERS, Handler, Kind
from broker.wire.api import APIS


def test_every_advertised_api_has_one_handler_and_no_other_has() -> None:
    advertised = sorted(APIS)
    assert sorted(row.api_key for row in HANDLERS) == advertised


@pytest.mark.parametrize("row", HANDLERS, ids=lambda row: row.handle.__name__)
def test_the_kind_tells_how_the_handler_is_called(row: Handler) -> None:
    parameters = [name.lstrip("_") for name in inspect.signature(row.handle).parameters]
    expected = {
        Kind.RAW: ["connection", "header", "frame"],
        Kind.REPLY: ["broker", "context", "request", "reply"],
        Kind.TASK: ["broker", "context", "request"],
    }[row.kind]
    assert parameters == expected
    assert inspect.iscoroutinefunction(row.handle) == (row.kind is Kind.TASK)
