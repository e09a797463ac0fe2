"""People who sign in, their sessions and tokens, and the one-time links that let them in.

Of tokens and links the database knows only SHA-256 hashes: both are 32 random bytes.
"""

from __future__ import annotations

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone

from hermes_console.accounts.rights import Right, Role
from hermes_console.clusters import Cluster


class User(AbstractUser):
    """Our own user model from the first migration on: tenants can be added without replacing it."""

    role = models.CharField(
        max_length=16, choices=[(role.value, role.value) for role in Role], default=Role.VIEWER
    )

    @property
    def is_operator(self) -> bool:
        return self.role == Role.OPERATOR


class SignInLink(models.Model):
    """A one-time link, known only by its token's SHA-256; a used or expired one is worthless."""

    token_hash = models.CharField(max_length=64, unique=True)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True, blank=True)

    def __str__(self) -> str:
        return f"link for {self.user_id}, expires {self.expires_at:%Y-%m-%d %H:%M:%S}"


class UserSession(models.Model):
    """A browser that is signed in: what its owner needs to recognise it. Ends with Django's session
    of the same key.
    """

    session_key = models.CharField(max_length=40, unique=True)
    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="sign_ins"
    )
    address = models.CharField(max_length=45, blank=True)
    browser = models.CharField(max_length=200, blank=True)
    began_at = models.DateTimeField(default=timezone.now)
    seen_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ("-seen_at", "pk")

    def __str__(self) -> str:
        return f"session of {self.user_id} from {self.address}"


class ApiToken(models.Model):
    """A script's credential: at most its owner's rights, on some clusters or all, until it expires
    or is revoked.
    """

    user = models.ForeignKey(
        settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="tokens"
    )
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    token_hash = models.CharField(max_length=64, unique=True)
    rights = models.JSONField(default=list)
    is_for_all_clusters = models.BooleanField(default=True)
    clusters = models.ManyToManyField(Cluster, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, blank=True)
    used_at = models.DateTimeField(null=True, blank=True)
    used_from = models.CharField(max_length=45, blank=True)

    class Meta:
        ordering = ("-created_at", "-pk")

    def __str__(self) -> str:
        return f"{self.prefix}… of {self.user_id}"

    @property
    def right_set(self) -> frozenset[Right]:
        """What the token asks for; a right that no longer exists gives nothing."""
        return frozenset(right for right in Right if right.value in self.rights)

    @property
    def cluster_keys(self) -> frozenset[int] | None:
        """None: all. A token for clusters that are all removed reaches none."""
        if self.is_for_all_clusters:
            return None
        return frozenset(self.clusters.values_list("pk", flat=True))

    @property
    def state(self) -> str:
        """active, expired or revoked."""
        if self.revoked_at is not None:
            return "revoked"
        return "active" if self.expires_at > timezone.now() else "expired"


class SignInFailures(models.Model):
    """Failed attempts on one account from one address, or (account "") on any account from it."""

    account = models.CharField(max_length=64)
    address = models.CharField(max_length=45)
    failure_count = models.PositiveIntegerField(default=0)
    began_at = models.DateTimeField(default=timezone.now)
    locked_until = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["account", "address"], name="one_count_per_pair")
        ]

    def __str__(self) -> str:
        return f"{self.failure_count} failures from {self.address}"
