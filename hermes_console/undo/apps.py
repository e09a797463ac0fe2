"""Registers the app."""

from __future__ import annotations

from django.apps import AppConfig


class UndoConfig(AppConfig):
    name = "hermes_console.undo"
    label = "undo"
