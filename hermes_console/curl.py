"""A call of the admin API as a line for a POSIX shell. Pure."""

from __future__ import annotations

import shlex
from typing import Final

TOKEN: Final = "$HERMES_TOKEN"  # noqa: S105  the name of a variable
WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})


def curl(method: str, address: str, body: str = "", *, with_if_match: bool = False) -> str:
    """`curl …` with the token taken from HERMES_TOKEN. Whatever `address` and `body` hold stays one
    word of the shell.
    """
    words = ["curl"]
    if method != "GET":
        words += ["-X", method]
    words += ["-H", f'"Authorization: Bearer {TOKEN}"']
    if with_if_match:
        words += ["-H", "'If-Match: \"…\"'"]
    if method == "POST":
        words += ["-H", '"Idempotency-Key: $(date +%s%N)"']
    if body:
        words += ["-H", "'Content-Type: application/json'", "-d", shlex.quote(body)]
    return " ".join([*words, shlex.quote(address)])
