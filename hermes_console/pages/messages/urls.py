"""Addresses of messages: topics to choose from, a topic's messages, one of them, searches."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.messages import searches, views

app_name = "messages"

urlpatterns = [
    path("", views.choose_topic, name="topics"),
    path("<name:topic>/", views.browse_topic, name="browse"),
    path("<name:topic>/export", views.export_topic, name="export"),
    path("<name:topic>/produce", views.produce, name="produce"),
    path("<name:topic>/<int:partition>/<int:offset>/", views.one_message, name="one"),
    path("<name:topic>/<int:partition>/<int:offset>/<slug:part>", views.raw, name="raw"),
    path("<name:topic>/searches/", searches.search_list, name="searches"),
    path("<name:topic>/searches/<slug:key>/", searches.search, name="search"),
    path("<name:topic>/searches/<slug:key>/progress", searches.progress, name="progress"),
    path("<name:topic>/searches/<slug:key>/found", searches.found, name="found"),
    path("<name:topic>/searches/<slug:key>/cancel", searches.cancel, name="cancel"),
    path("<name:topic>/searches/<slug:key>/resume", searches.resume, name="resume"),
]
