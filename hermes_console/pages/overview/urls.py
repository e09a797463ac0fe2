"""The overview of a cluster."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.overview import views

app_name = "overview"

urlpatterns = [
    path("", views.overview, name="overview"),
    path("history", views.history, name="history"),
]
