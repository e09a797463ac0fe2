"""Registers the app."""

from __future__ import annotations

from django.apps import AppConfig


class AdminApiConfig(AppConfig):
    name = "hermes_console.api"
    label = "admin_api"
