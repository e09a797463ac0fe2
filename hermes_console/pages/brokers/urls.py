"""Brokers: the list, one broker, its live settings."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.brokers import views

app_name = "brokers"

urlpatterns = [
    path("", views.broker_list, name="list"),
    path("<int:node>/", views.broker_detail, name="detail"),
    path("<int:node>/settings", views.settings, name="settings"),
]
