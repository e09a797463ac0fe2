"""The audit, below `/audit/`."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.audit import views

app_name = "audit"

urlpatterns = [
    path("", views.audit_list, name="list"),
    path("export.csv", views.export, name="export"),
    path("<int:event>", views.audit_detail, name="detail"),
]
