"""A tenant is known by its slug: `[a-z0-9-]+`, without a dot, so that the prefix `acme.` is exactly
acme's.
"""

from __future__ import annotations

from typing import Final

from django.core.validators import RegexValidator
from django.db import models

SLUG_PATTERN: Final = r"\A[a-z0-9-]+\Z"
SLUG_LENGTH_MAX: Final = 63


class Tenant(models.Model):
    """One row per tenant; principals are `<slug>.<application>`, names of its topics and groups
    begin with `<slug>.`.
    """

    slug = models.CharField(
        max_length=SLUG_LENGTH_MAX,
        unique=True,
        validators=[
            RegexValidator(
                SLUG_PATTERN, "Use only a-z, 0-9 and -; a dot would blur whose prefix it is."
            )
        ],
    )
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ("slug",)
        constraints = (
            models.CheckConstraint(
                condition=models.Q(slug__regex=SLUG_PATTERN), name="tenant_slug_rule"
            ),
        )

    def __str__(self) -> str:
        return self.slug
