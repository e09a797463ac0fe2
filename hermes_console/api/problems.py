"""Errors of the API as problem+json (RFC 9457): title, status, code, detail, and per field what was
wrong.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.http import Http404, HttpRequest, JsonResponse
from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.views import exception_handler, set_rollback

from hermes_console.errors import trouble_of

CONTENT_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = {429: 10, 503: 1}
CODES: Final = {
    400: "bad-request",
    401: "not-signed-in",
    403: "not-allowed",
    404: "not-found",
    405: "method-not-allowed",
    406: "not-acceptable",
    413: "too-large",
    415: "unsupported-media-type",
    429: "too-many-requests",
    500: "failed",
}


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457; `parameters` is there for a bad parameter: its name and what was wrong with it."""

    title = serializers.CharField()
    status = serializers.IntegerField()
    code = serializers.CharField(help_text="Stable, for programs.")
    detail = serializers.CharField(help_text="For people: what was wrong and what to do.")
    request_id = serializers.CharField(
        allow_blank=True, help_text="As in the X-Request-Id header, the log and the audit."
    )
    parameters = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), required=False
    )


def problem_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Django REST framework's hook; None for what is not an answer but a failure of ours (a 500
    without a trace).
    """
    request = context["request"]
    request_id = getattr(request, "request_id", "")
    if isinstance(error, RequestDataTooBig):
        error = exceptions.APIException("The body is too large: send less at once.")
        error.status_code = 413
    trouble = None if isinstance(error, exceptions.APIException) else trouble_of(error)
    if trouble is not None and not isinstance(error, PermissionDenied | Http404):
        set_rollback()
        problem = problem_json(trouble.status, trouble.detail, request_id, code=trouble.code)
        retry_after_s = RETRY_AFTER_S.get(trouble.status)
        headers = {} if retry_after_s is None else {"Retry-After": str(retry_after_s)}
        return Response(problem, status=trouble.status, headers=headers, content_type=CONTENT_TYPE)
    response = exception_handler(error, context)
    if response is None:
        return None
    detail = str(getattr(error, "detail", "")) or (trouble.detail if trouble else "")
    parameters = None
    if isinstance(error, exceptions.ValidationError):
        detail = "A parameter was refused; see parameters."
        parameters = _parameters(error.detail)
    problem = problem_json(response.status_code, detail, request_id, parameters=parameters)
    headers = {
        name: response[name]
        for name in ("WWW-Authenticate", "Retry-After", "Allow")
        if response.has_header(name)
    }
    return Response(
        problem, status=response.status_code, headers=headers, content_type=CONTENT_TYPE
    )


def problem_json(
    status: int,
    detail: str,
    request_id: str,
    *,
    code: str | None = None,
    parameters: dict[str, list[str]] | None = None,
) -> dict[str, Any]:
    """The body of a problem."""
    meaning = HTTPStatus(status)
    problem: dict[str, Any] = {
        "title": meaning.phrase,
        "status": status,
        "code": code or CODES.get(status, meaning.phrase.lower().replace(" ", "-")),
        "detail": detail or meaning.description or meaning.phrase,
        "request_id": request_id,
    }
    if parameters is not None:
        problem["parameters"] = parameters
    return problem


def problem_answer(request: HttpRequest, status: int, detail: str) -> JsonResponse:
    """A problem from outside of Django REST framework: no view, no right, a failure of ours."""
    request_id = getattr(request, "request_id", "")
    return JsonResponse(
        problem_json(status, detail, request_id), status=status, content_type=CONTENT_TYPE
    )


def _parameters(detail: Any) -> dict[str, list[str]]:
    """Per parameter its complaints as texts, however deep they were nested."""
    if not isinstance(detail, dict):
        return {"body": _texts(detail)}
    return {str(name): _texts(complaint) for name, complaint in detail.items()}


def _texts(complaint: Any) -> list[str]:
    if isinstance(complaint, dict):
        return [f"{name}: {text}" for name, inner in complaint.items() for text in _texts(inner)]
    if isinstance(complaint, list):
        return [text for inner in complaint for text in _texts(inner)]
    return [str(complaint)]
