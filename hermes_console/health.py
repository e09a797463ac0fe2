"""`/healthz` (the process answers), `/readyz` (its databases answer and are migrated), `/metrics`
(Prometheus text).
"""

from __future__ import annotations

from django.contrib.auth.decorators import login_not_required
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django_prometheus import exports

_migrated: set[str] = set()


@login_not_required
@never_cache
@require_safe
def healthz(_request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


@login_not_required
@never_cache
@require_safe
def readyz(_request: HttpRequest) -> HttpResponse:
    """200 when requests can be served, else 503 with one line per problem."""
    problems = find_problems()
    if problems:
        return HttpResponse(
            "".join(f"{problem}\n" for problem in problems), status=503, content_type="text/plain"
        )
    return HttpResponse("ready\n", content_type="text/plain")


@login_not_required
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    response: HttpResponse = exports.ExportToDjangoView(request)
    return response


def find_problems() -> list[str]:
    """What keeps the console from serving, one sentence each; [] when nothing does."""
    problems = []
    for alias in connections:
        try:
            with connections[alias].cursor() as cursor:
                cursor.execute("SELECT 1")
            if alias not in _migrated:
                executor = MigrationExecutor(connections[alias])
                if executor.migration_plan(executor.loader.graph.leaf_nodes()):
                    problems.append(
                        f"database {alias}: migrations are missing; run: manage.py prepare"
                    )
                else:
                    _migrated.add(alias)
        except DatabaseError as error:
            problems.append(f"database {alias}: {type(error).__name__}")
    return problems
