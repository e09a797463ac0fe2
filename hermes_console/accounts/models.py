"""People who sign in, and the one-time links that let the first administrator in."""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    """Our own user model from the first migration on: roles and tenants can be added without
    replacing it.
    """


class SignInLink(models.Model):
    """A one-time link, known only by its token's SHA-256; a used or expired one is worthless."""

    token_hash = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"link for {self.user_id}, expires {self.expires_at:%Y-%m-%d %H:%M:%S}"
