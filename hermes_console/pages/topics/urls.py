"""Topics: the list, one topic, what changes them."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.topics import changes, cuts, views

app_name = "topics"

urlpatterns = [
    path("", views.topic_list, name="list"),
    path("new", changes.create, name="create"),
    path("<name:topic>/", views.topic_detail, name="detail"),
    path("<name:topic>/rates", views.rates, name="rates"),
    path("<name:topic>/grow", changes.grow, name="grow"),
    path("<name:topic>/settings", changes.settings, name="settings"),
    path("<name:topic>/delete", changes.delete, name="delete"),
    path("<name:topic>/delete-records", cuts.delete_records, name="delete_records"),
]
