"""Consumer groups: the list, one group, the points of its chart."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.groups import views

app_name = "groups"

urlpatterns = [
    path("", views.group_list, name="list"),
    path("<name:group>/", views.group_detail, name="detail"),
    path("<name:group>/history", views.history, name="history"),
]
