"""A page that could not be made, or an act that was refused: the reason as a page, with the way
back.
"""

from __future__ import annotations

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render

from broker.client.blocking import ClientError
from hermes_console.clusters import Cluster
from hermes_console.errors import Refused, Trouble, trouble_of

TROUBLES = (Refused, PermissionDenied, ClientError)
"""What a view answers in words; anything else is a bug of ours."""
TITLES = {
    403: "Not allowed",
    404: "Nothing here",
    409: "Not as it is now",
    412: "Changed meanwhile",
    501: "This cluster cannot do it",
    502: "The cluster cannot be reached",
    503: "Not now",
    504: "The cluster did not answer in time",
}


def trouble_page(
    request: HttpRequest, cluster: Cluster, error: BaseException, *, back: str, back_word: str
) -> HttpResponse:
    """The whole page in place of the one that was asked for."""
    trouble = known_trouble(error)
    context = {
        "cluster": cluster,
        "title": TITLES.get(trouble.status, "Refused"),
        "trouble": trouble,
        "back": back,
        "back_word": back_word,
    }
    return render(request, "parts/trouble.html", context, status=trouble.status)


def known_trouble(error: BaseException) -> Trouble:
    """The error's answer. Raises it again when it is a bug of ours."""
    if isinstance(error, Http404):
        raise error
    trouble = trouble_of(error)
    if trouble is None:
        raise error
    return trouble
