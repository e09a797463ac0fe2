"""Django's settings, derived from the environment (`environment.py`) and from nothing else.

Embedded by default: SQLite in WAL mode, in-memory channel layer, Celery on the file system.
HERMES_DATABASE_URL and HERMES_REDIS_URL move the console to PostgreSQL and Redis. There is no DEBUG
switch: errors never show a trace.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

from hermes_console.caching import ask_for_modules
from hermes_console.environment import Environment, read_environment
from hermes_console.secret import load_or_create_secret

BASE_DIR = Path(__file__).resolve().parent.parent
ENVIRONMENT: Environment = read_environment(os.environ, Path.cwd())

SECRET_KEY: str = ENVIRONMENT.secret_key or load_or_create_secret(
    ENVIRONMENT.console_directory / "secret.key"
)
DEBUG = False
ALLOWED_HOSTS: list[str] = list(ENVIRONMENT.allowed_hosts)
CSRF_TRUSTED_ORIGINS: list[str] = list(ENVIRONMENT.trusted_origins)

INSTALLED_APPS: list[str] = [
    "django.contrib.contenttypes",
    "django.contrib.auth",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "channels",
    "csp",
    "django_htmx",
    "django_prometheus",
    "drf_spectacular",
    "rest_framework",
    "hermes_console",
    "hermes_console.accounts",
    "hermes_console.api",
    "hermes_console.audit",
    "hermes_console.samples",
    "hermes_console.searches",
    "hermes_console.undo",
    "tenants",
]

# Whoever is not signed in is refused by LoginRequiredMiddleware; a public view says so with
# @login_not_required.
MIDDLEWARE: list[str] = [
    "hermes_console.middleware.RequestId",
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "csp.middleware.CSPMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "hermes_console.middleware.NeverCachePages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "hermes_console.middleware.NotedSessions",
    "django.contrib.auth.middleware.LoginRequiredMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "hermes_console.zone.PageTimeZone",
    "hermes_console.middleware.RefusalPages",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

ROOT_URLCONF = "hermes_console.urls"
ASGI_APPLICATION = "hermes_console.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": False,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "hermes_console.navigation.navigation",
                "hermes_console.zone.times_context",
            ],
            "builtins": ["hermes_console.templatetags.hermes"],
        },
    }
]


def _sqlite(name: str) -> dict[str, Any]:
    return {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": ENVIRONMENT.console_directory / name,
        # Opening a file anew for each request costs more than most requests ask of it.
        "CONN_MAX_AGE": 60,
        "OPTIONS": {
            "transaction_mode": "IMMEDIATE",
            "timeout": 10,
            "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
        },
    }


# Samples are many and cheap to lose: embedded, they have a file of their own; on PostgreSQL, tables
# of their own.
SAMPLES_DATABASE = "samples" if ENVIRONMENT.database is None else "default"
DATABASES: dict[str, Any] = (
    {"default": _sqlite("console.sqlite3"), "samples": _sqlite("samples.sqlite3")}
    if ENVIRONMENT.database is None
    else {"default": dict(ENVIRONMENT.database)}
)
DATABASE_ROUTERS = ["hermes_console.samples.router.SamplesRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CHANNEL_LAYERS: dict[str, Any] = {
    "default": (
        {"BACKEND": "channels.layers.InMemoryChannelLayer"}
        if ENVIRONMENT.redis_url is None
        else {
            "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
            "CONFIG": {"hosts": [ENVIRONMENT.redis_url]},
        }
    )
}

AUTH_USER_MODEL = "accounts.User"
# New passwords are hashed by the first; a hash of another kind is read once and then replaced.
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
    "django.contrib.auth.hashers.ScryptPasswordHasher",
]
AUTH_PASSWORD_VALIDATORS: list[dict[str, Any]] = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 12},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "accounts:sign_in"
LOGIN_REDIRECT_URL = "home"
LOGOUT_REDIRECT_URL = "accounts:sign_in"

# Browsers do not tell ports apart in cookies: two consoles on one host would sign each other out
# without the suffix.
_INSTALLATION = hashlib.sha256(SECRET_KEY.encode()).hexdigest()[:8]
SESSION_COOKIE_NAME = f"hermes_session_{_INSTALLATION}"
CSRF_COOKIE_NAME = f"hermes_csrf_{_INSTALLATION}"
SESSION_COOKIE_AGE = 12 * 60 * 60
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = ENVIRONMENT.is_secure
CSRF_COOKIE_HTTPONLY = True
CSRF_COOKIE_SAMESITE = "Lax"
CSRF_COOKIE_SECURE = ENVIRONMENT.is_secure
CSRF_FAILURE_VIEW = "hermes_console.error_pages.csrf_failure"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if ENVIRONMENT.is_secure else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if ENVIRONMENT.is_secure else None
X_FRAME_OPTIONS = "DENY"
DATA_UPLOAD_MAX_MEMORY_SIZE = 1_048_576

CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "form-action": ["'self'"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
    }
}

LANGUAGE_CODE = "en"
USE_I18N = False
USE_TZ = True
TIME_ZONE = "UTC"

STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STORAGES: dict[str, Any] = {
    "default": {"BACKEND": "django.core.files.storage.InMemoryStorage"},
    "staticfiles": {"BACKEND": "hermes_console.assets.VersionedStaticStorage"},
}
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = False
WHITENOISE_MAX_AGE = 3600
WHITENOISE_ADD_HEADERS_FUNCTION = ask_for_modules

REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "hermes_console.api.authentication.BearerToken",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_THROTTLE_CLASSES": ["hermes_console.api.throttle.PerCaller"],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["hermes_console.api.parsing.BoundedJsonParser"],
    "DEFAULT_SCHEMA_CLASS": "hermes_console.api.schema.ConsoleSchema",
    "EXCEPTION_HANDLER": "hermes_console.api.problems.problem_handler",
    "COERCE_DECIMAL_TO_STRING": True,
    "UNAUTHENTICATED_USER": "django.contrib.auth.models.AnonymousUser",
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "HermesMQ admin API",
    "DESCRIPTION": (
        "What the console's pages show and do, for scripts. "
        "Offsets and every other 64-bit integer are strings."
    ),
    "VERSION": "1",
    "ENUM_GENERATE_CHOICE_DESCRIPTION": False,
    "SERVE_INCLUDE_SCHEMA": False,
    "ENUM_NAME_OVERRIDES": {"TokenStateEnum": ["active", "expired", "revoked"]},
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "hermes_console.api.schema.complete",
    ],
    "SCHEMA_PATH_PREFIX": "/api/admin/v1",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.IsAuthenticated"],
}

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}},
    "filters": {"expected": {"()": "hermes_console.logs.ExpectedRefusals"}},
    "handlers": {
        "stderr": {
            "class": "logging.StreamHandler",
            "formatter": "line",
            "filters": ["expected"],
        }
    },
    "root": {"handlers": ["stderr"], "level": "WARNING"},
    "loggers": {"hermes_console": {"level": "INFO"}, "django": {"level": "WARNING"}},
}
