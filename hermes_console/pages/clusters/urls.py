"""The list of clusters, below `/clusters/`."""

from __future__ import annotations

from django.urls import path

from hermes_console.pages.clusters import views

app_name = "clusters"

urlpatterns = [
    path("", views.cluster_list, name="list"),
    path("new", views.add, name="new"),
    path("<slug:cluster>/connection", views.connection, name="connection"),
    path("<slug:cluster>/connection/change", views.change, name="change"),
    path("<slug:cluster>/connection/remove", views.remove, name="remove"),
]
