"""Idempotency-Key: a POST that is sent twice acts once, and its sender gets the first answer twice.

The key is the caller's, one per act: of the account's sessions, or of one token, as another token
may not reach what this one does. Its row is written before the act: a copy that arrives
meanwhile gets 409, one with another body 422. Answers are kept KEPT_FOR; those from before the act
(bad request, no right) are not.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection
from datetime import timedelta
from functools import wraps
from typing import Any, Final, TypeVar, cast

from django.db import IntegrityError, transaction
from django.utils import timezone
from rest_framework.request import Request
from rest_framework.response import Response

from hermes_console.api.models import StoredAnswer
from hermes_console.errors import Refused

HEADER: Final = "Idempotency-Key"
KEY_PATTERN: Final = re.compile(r"[\x21-\x7e]{1,255}")
KEPT_FOR: Final = timedelta(hours=24)
NOT_KEPT: Final = frozenset({400, 401, 403, 404, 405, 406, 413, 415, 428, 429, 503})
MARK: Final = "is_idempotent"
"""Attribute of a method that is: the OpenAPI document asks for it."""
REPLAYED: Final = "Idempotency-Replayed"
PURGED_PER_CALL_MAX: Final = 100

M = TypeVar("M", bound=Callable[..., Response])


def idempotent(*, without: Collection[str] = ()) -> Callable[[M], M]:
    """For the `post` of an AdminView. Fields named in `without` (secrets that are shown once) are
    null in a repeated answer.
    """

    def decorate(method: M) -> M:
        @wraps(method)
        def post(view: Any, request: Request, *args: Any, **kwargs: Any) -> Response:
            key = request.headers.get(HEADER)
            if key is None:
                return method(view, request, *args, **kwargs)
            if not KEY_PATTERN.fullmatch(key):
                raise Refused(
                    400, "bad-idempotency-key", f"{HEADER} has 1 to 255 visible ASCII characters."
                )
            row, is_new = _claim(request, key)
            if not is_new:
                return _replay(row, request)
            return _act_once(view, method, row, (request, *args), kwargs, without)

        setattr(post, MARK, True)
        return cast("M", post)

    return decorate


def _act_once(
    view: Any, method: Any, row: StoredAnswer, args: Any, kwargs: Any, without: Collection[str]
) -> Response:
    """The act; its answer, or that of its exception, is kept."""
    try:
        response: Response = method(view, *args, **kwargs)
    except Exception as error:  # noqa: BLE001  what is no answer is raised again below
        response = view.handle_exception(error)  # raises what is a bug of ours: the row stays
    if response.status_code in NOT_KEPT:
        row.delete()
        return response
    body = response.data
    if isinstance(body, dict):
        body = {name: None if name in without else value for name, value in body.items()}
    row.status = response.status_code
    row.content_type = response.content_type or ""
    row.headers = {
        name: response[name] for name in ("ETag", "Location") if response.has_header(name)
    }
    row.body = body
    row.save()
    return response


def _claim(request: Request, key: str) -> tuple[StoredAnswer, bool]:
    """The key's row, and whether this request made it."""
    oldest = timezone.now() - KEPT_FOR
    expired = StoredAnswer.objects.filter(created_at__lt=oldest).values("pk")[:PURGED_PER_CALL_MAX]
    StoredAnswer.objects.filter(pk__in=list(expired.values_list("pk", flat=True))).delete()
    token_id = 0 if request.auth is None else int(request.auth.pk)
    name = {"user_id": int(request.user.pk or 0), "token_id": token_id, "key": key}
    StoredAnswer.objects.filter(**name, created_at__lt=oldest).delete()
    try:
        with transaction.atomic():
            return StoredAnswer.objects.create(
                **name, path=request.path[:1024], body_hash=_hash(request)
            ), True
    except IntegrityError:
        return StoredAnswer.objects.get(**name), False


def _replay(row: StoredAnswer, request: Request) -> Response:
    if row.path != request.path[:1024] or row.body_hash != _hash(request):
        raise Refused(
            422,
            "idempotency-key-reused",
            "This Idempotency-Key was used for another request. Use a new key for a new act.",
        )
    if row.status is None:
        raise Refused(
            409,
            "in-flight",
            "The first request with this Idempotency-Key is still in work, or its end was never "
            "recorded. Look at what it did before you use a new key.",
        )
    headers = {**row.headers, REPLAYED: "true"}
    return Response(
        row.body, status=row.status, headers=headers, content_type=row.content_type or None
    )


def _hash(request: Request) -> str:
    """Of the body as it was parsed: neither formatting nor the order of fields matters."""
    parsed = json.dumps(request.data, sort_keys=True)
    return hashlib.sha256(parsed.encode()).hexdigest()
