"""Errors of the API as problem+json (RFC 9457): title, status, detail, and per field what was
wrong.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any, Final

from rest_framework import exceptions, serializers
from rest_framework.response import Response
from rest_framework.views import exception_handler

CONTENT_TYPE: Final = "application/problem+json"


class ProblemSerializer(serializers.Serializer[Any]):
    """RFC 9457; `parameters` is there for a bad parameter: its name and what was wrong with it."""

    title = serializers.CharField()
    status = serializers.IntegerField()
    detail = serializers.CharField()
    parameters = serializers.DictField(
        child=serializers.ListField(child=serializers.CharField()), required=False
    )


def problem_handler(error: Exception, context: dict[str, Any]) -> Response | None:
    """Django REST framework's hook; None for what is not an answer but a failure of ours (a 500
    without a trace).
    """
    response = exception_handler(error, context)
    if response is None:
        return None
    status = HTTPStatus(response.status_code)
    problem: dict[str, Any] = {"title": status.phrase, "status": status.value}
    if isinstance(error, exceptions.ValidationError) and isinstance(error.detail, dict):
        problem["detail"] = "A parameter was refused; see parameters."
        problem["parameters"] = error.detail
    else:
        problem["detail"] = str(getattr(error, "detail", status.description))
    return Response(
        problem, status=status.value, headers=dict(response.headers), content_type=CONTENT_TYPE
    )
