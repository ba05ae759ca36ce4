"""One request of a page under /ui, and what a page says of itself: who may see it, and what it answers with.

A page is a function from a `Visit` to a response. It is called in a thread, and only for a browser that has signed in;
a form must carry the token of its page and come from this origin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple
from urllib.parse import quote, urlencode

from fastapi.requests import Request
from fastapi.responses import Response

from flows.service.answering import Asking
from flows.service.indexing import Indexing
from flows.service.live_index import LiveIndex
from flows.service.served_collections import Collection, Collections
from flows.service.web.rendering import Language, fill, html, spoken
from flows.service.web.signing_in import COOKIE, Keys
from storage.evaluations import Evaluations
from storage.storage_errors import StorageError

ROOT = "/ui"
Method = Literal["GET", "POST"]


class Problem(Exception):
    """A page cannot be shown, or a form not be taken; the sentence names the remedy."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


@dataclass(frozen=True)
class Workplace:
    """What the pages are about."""

    asking: Asking
    collections: Collections
    keys: Keys
    home: Path
    """Folder of the labelled questions."""
    evaluations: Callable[[], Evaluations]
    described: Callable[[], dict[str, Any]]
    """The OpenAPI description of the routes for programs."""


class Visit(NamedTuple):
    """One request of a page."""

    workplace: Workplace
    request: Request
    language: Language
    form: Mapping[str, str]
    collection: Collection
    """The one that is chosen, or the first."""

    @property
    def live(self) -> LiveIndex:
        return self.collection.live

    @property
    def indexing(self) -> Indexing | None:
        return self.collection.indexing

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query_params

    @property
    def path(self) -> Mapping[str, str]:
        """Variable parts of the address."""
        return self.request.path_params

    @property
    def is_part(self) -> bool:
        """Whether htmx asks for a part of a page."""
        return self.request.headers.get("HX-Request") == "true"

    @property
    def cookie(self) -> str:
        return self.request.cookies.get(COOKIE, "")

    def to(self, path: str, **query: Any) -> str:
        """The address of a page about the same collection."""
        chosen = {"collection": self.collection.name} if self.workplace.collections.names else {}
        asked = urlencode(query | chosen)
        return f"{ROOT}{path}?{asked}" if asked else f"{ROOT}{path}"

    def where(self, holds: Callable[[Collection], bool]) -> Visit:
        """The same visit in the first collection of which this is so, the chosen one before others; else unchanged."""
        for one in (self.collection, *self.workplace.collections):
            with suppress(StorageError):
                if holds(one):
                    return self._replace(collection=one)
        return self

    def refuse_token(self, said: str) -> None:
        """Raise Problem unless this is the token of the forms of this browser."""
        if not self.workplace.keys.is_form_token(said, self.cookie):
            raise Problem(403, "this form is of another sign-in; load the page again and send it once more")

    def say(self, words: str) -> str:
        """Words of the pages in the language of the page."""
        return spoken(words, self.language)

    def fill(self, template: str, **values: Any) -> str:
        """The HTML of a template, with what every template has."""
        place = quote(f"{ROOT}{self.request.scope['path'].removeprefix(ROOT)}", safe="/")
        here = f"{place}?{self.request.url.query}" if self.request.url.query else place
        token = self.workplace.keys.form_token(self.cookie)
        frame = {"token": token, "here": here, "root": ROOT, "part": self.is_part}
        names = self.workplace.collections.names
        frame |= {
            "operates": self.indexing is not None,
            "collections": names,
            "collection": self.collection.name,
            "stay": self.to,
        }
        return fill(template, self.language, frame | values)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return html(self.fill(template, **values), status)


Handler = Callable[[Visit], Response | Awaitable[Response]]


class Page(NamedTuple):
    """A page, and who may see it."""

    method: Method
    path: str
    handler: Handler
    public: bool = False
    """A browser that has not signed in may see it too."""
    needs_folder: bool = False
    """Shown where there is a folder of documents to change."""
    multipart: bool = False
    """The handler reads the form itself, and checks its token."""
