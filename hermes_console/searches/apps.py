"""Registers the app."""

from __future__ import annotations

from django.apps import AppConfig


class SearchesConfig(AppConfig):
    name = "hermes_console.searches"
    label = "searches"
