"""Consumer groups: the list, one group, the points of its chart, and what can be done to it."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.groups import acts, views

app_name = "groups"

urlpatterns = [
    path("", views.group_list, name="list"),
    path("<name:group>/", views.group_detail, name="detail"),
    path("<name:group>/history", views.history, name="history"),
    path("create", acts.create, name="create"),
    path("<name:group>/reset", acts.reset, name="reset"),
    path("<name:group>/state", acts.state, name="state"),
    path("<name:group>/undo/<int:change>", acts.undo, name="undo"),
    path("<name:group>/delete", acts.delete, name="delete"),
    path("<name:group>/offsets/<name:topic>/delete", acts.delete_offsets, name="delete_offsets"),
]
