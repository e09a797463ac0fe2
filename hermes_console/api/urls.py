"""Addresses below `/api/`."""

from __future__ import annotations

from django.urls import path
from drf_spectacular.views import SpectacularJSONAPIView

from hermes_console.api import (
    accounts,
    audit,
    brokers,
    clusters,
    groups,
    groups_acts,
    messages,
    reference,
    tokens,
    topics,
)

app_name = "api"

urlpatterns = [
    path("admin/v1/schema", SpectacularJSONAPIView.as_view(), name="schema"),
    path("admin/v1/groups", groups.GroupList.as_view(), name="groups"),
    *accounts.urlpatterns,
    *tokens.urlpatterns,
    *audit.urlpatterns,
    *clusters.urlpatterns,
    *brokers.urlpatterns,
    *topics.urlpatterns,
    *messages.urlpatterns,
    *groups_acts.urlpatterns,
    path("admin/v1/docs", reference.reference, name="reference"),
]
