"""Signing in and out, the one-time link, the own password."""

from __future__ import annotations

from django.urls import path

from hermes_console.accounts import views

app_name = "accounts"

urlpatterns = [
    path("sign-in", views.SignIn.as_view(), name="sign_in"),
    path("sign-out", views.sign_out, name="sign_out"),
    path("link/<str:token>", views.sign_in_link, name="link"),
    path("password", views.choose_password, name="password"),
    path("profile", views.profile, name="profile"),
]
