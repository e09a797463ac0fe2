"""Registers the app."""

from __future__ import annotations

from django.apps import AppConfig


class SamplesConfig(AppConfig):
    name = "hermes_console.samples"
    label = "samples"
