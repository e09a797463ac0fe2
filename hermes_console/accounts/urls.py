"""Signing in and out, the one-time link, the own account."""

from __future__ import annotations

from django.urls import path

from hermes_console.accounts import token_views, views

app_name = "accounts"

urlpatterns = [
    path("sign-in", views.SignIn.as_view(), name="sign_in"),
    path("sign-out", views.sign_out, name="sign_out"),
    path("link/<str:token>", views.sign_in_link, name="link"),
    path("password", views.choose_password, name="password"),
    path("profile", views.profile, name="profile"),
    path("sessions/<int:session>/end", views.end_own_session, name="end_session"),
    path("sessions/end-others", views.end_other_sessions, name="end_other_sessions"),
    path("tokens/new", token_views.new_token, name="new_token"),
    path("tokens/<int:token>/revoke", token_views.revoke_token, name="revoke_token"),
]
