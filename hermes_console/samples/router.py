"""Which database a model lives in: the `samples` app in settings.SAMPLES_DATABASE, everything else
in `default`.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.db.models import Model


class SamplesRouter:
    """Django's database router protocol."""

    def db_for_read(self, model: type[Model], **_hints: Any) -> str:
        return _database_of(_label(model))

    def db_for_write(self, model: type[Model], **_hints: Any) -> str:
        return _database_of(_label(model))

    def allow_relation(self, first: Model, second: Model, **_hints: Any) -> bool:
        return _database_of(_label(first)) == _database_of(_label(second))

    def allow_migrate(self, db: str, app_label: str, **_hints: Any) -> bool:
        return db == _database_of(app_label)


def _label(model: type[Model] | Model) -> str:
    return model._meta.app_label  # noqa: SLF001  documented by Django


def _database_of(app_label: str) -> str:
    return settings.SAMPLES_DATABASE if app_label == "samples" else "default"
