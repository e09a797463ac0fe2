"""Accounts, below `/accounts/users/`."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.accounts import views

app_name = "users"

urlpatterns = [
    path("", views.account_list, name="list"),
    path("new", views.new_account, name="new"),
    path("<name:account>/", views.account_detail, name="detail"),
    path("<name:account>/role", views.change_role, name="role"),
    path("<name:account>/disable", views.disable, name="disable"),
    path("<name:account>/enable", views.enable, name="enable"),
    path("<name:account>/unlock", views.unlock, name="unlock"),
    path("<name:account>/link", views.sign_in_link, name="link"),
    path("<name:account>/tokens/<int:token>/revoke", views.revoke_token, name="revoke_token"),
]
