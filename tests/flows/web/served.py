"""The pages on a real server on loopback, over an index whose answers a test writes."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pymupdf
import uvicorn
from pydantic import SecretStr

from flows.running.answer_models import open_assistant
from flows.service.answering import Asking
from flows.service.live_index import Indexing, LiveIndex
from flows.service.served_collections import Collection
from flows.service.web.workplace import create_app
from storage.index import Index, open_index
from storage.segments import CatalogueEntry
from storage.sessions import Sessions
from storage.storage_errors import DatabaseUnavailable
from tasks.rag.answering.assistant import Answering, Event
from tasks.rag.answers import Answered, Citation, RetrievalPlan
from tasks.rag.indexing.chunks import Chunk
from tasks.resources import artifacts
from tests.flows.asks import digest
from tests.storage.publishing import publish

AUTH = "an-auth-string-of-the-tests"
OWNER = "trivet:secret-of-the-service"
PATIENCE_S = 60.0


class Told:
    """Answers each question with what the test wrote for it."""

    def __init__(self, index: Index, answers: Mapping[str, Answered], other: Answering | None = None) -> None:
        """other: answers the questions for which the test wrote nothing."""
        self.index = index
        self._answers = answers
        self._other = other

    def ask(self, question: str, *, on_event: Callable[[Event], None] | None = None, **more: Any) -> Answered:
        if self._other and question not in self._answers:
            return self._other.ask(question, on_event=on_event, **more)
        told = self._answers[question]
        if on_event:
            on_event(Event("stage", "retrieve"))
            on_event(Event("draft", told.answer[:10]))
        return told


def answer(question: str, text: str, *cited: Citation, **more: Any) -> Answered:
    plan = RetrievalPlan(query_type="single", strategy="bm25", top_k=3, needs_multi_doc=False)
    return Answered(question=question, answer=text, citations=cited, plan=plan, retrieved=(), **more)


def cited(
    n: int,
    quote: str,
    *,
    document: str = "tram.pdf",
    page: int | None = 1,
    of: str | None = None,
    cell: str | None = None,
) -> Citation:
    box = (10.0, 20.0, 110.0, 40.0) if page else None
    return Citation(n=n, document=document, digest=of or digest(document), page=page, bbox=box, quote=quote, cell=cell)


def away() -> str:
    """Where a database is that nobody reaches."""
    raise DatabaseUnavailable("the database is away; start it with `trivet db start`")


@dataclass
class Site:
    """A running server and a browser of it, which has signed in."""

    url: str
    home: Path
    browser: httpx.Client

    def get(self, path: str, **how: Any) -> httpx.Response:
        return self.browser.get(path, **how)

    def token(self) -> str:
        [token] = set(re.findall(r'name="token" value="(\w+)"', self.get("/ui/").text))
        return token

    def post(self, path: str, **fields: str) -> httpx.Response:
        return self.browser.post(path, data={"token": self.token(), **fields})

    def program(self, path: str, **how: Any) -> httpx.Response:
        """A request with the auth string in its header, and no cookie."""
        with httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {AUTH}"}, timeout=PATIENCE_S) as client:
            return client.request(how.pop("method", "GET"), path, **how)


@contextmanager
def site(
    index: Path,
    home: Path,
    answers: Mapping[str, Answered],
    *,
    sessions: Sessions | None = None,
    documents: Path | None = None,
    others: Sequence[Collection] = (),
) -> Generator[Site]:
    """The server, signed in to; with a folder of documents it indexes them, and answers other questions from them."""

    @contextmanager
    def open_current() -> Generator[Told]:
        with open_index(index) as opened, open_assistant(index, llm="none") if documents else nullcontext() as other:
            yield Told(opened, answers, other)

    indexing = Indexing(documents, index) if documents else None
    app = create_app(
        [Collection("texts", LiveIndex(index, open_current), indexing), *others],
        Asking(sessions or Sessions(away)),
        auth=SecretStr(AUTH),
        home=home,
        owner=lambda: OWNER,
    )
    config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        try:
            while not server.started:
                time.sleep(0.01)
            with httpx.Client(base_url=url, timeout=PATIENCE_S, follow_redirects=True) as browser:
                sign_in(browser)
                yield Site(url, home, browser)
        finally:
            server.should_exit = True
            thread.join()


def sign_in(browser: httpx.Client, auth: str = AUTH) -> None:
    [token] = re.findall(r'name="token" value="(\w+)"', browser.get("/ui/sign-in").text)
    browser.post("/ui/sign-in", data={"token": token, "auth": auth, "to": "/ui/"}).raise_for_status()


@dataclass(frozen=True)
class Drawn:
    """An index of one PDF, whose bytes are in the store of this home."""

    index: Path
    digest: str
    box: tuple[float, float, float, float]
    """Around the sentence that answers cite, in points."""


SENTENCE = "The bid price of the ferry is 7 won."


def publish_pdf(folder: Path) -> Drawn:
    """A PDF of three pages; the sentence is on the second one."""
    file = folder / "ferry.pdf"
    with pymupdf.open() as document:
        for text in ("First page", SENTENCE, "Last page"):
            document.new_page(width=400, height=500).insert_text((60, 200), text)
        [found] = document[1].search_for(SENTENCE)
        document.save(file)
    digest = artifacts().put_file("document", file).digest
    chunk = Chunk(id=f"{digest[:16]}-00000", document=digest, page=2, bbox=None, kind="text", text=SENTENCE)
    publish(
        folder / "index",
        chunks=[chunk],
        catalogue=[CatalogueEntry(document=digest, name="ferry.pdf", chunks=1, pages=3, format="pdf")],
        settings={"embedder": "minilm"},
    )
    return Drawn(folder / "index", digest, (found.x0, found.y0, found.x1, found.y1))


def ferry(drawn: Drawn, **more: Any) -> Answered:
    """An answer that cites the sentence."""
    place = Citation(n=1, document="ferry.pdf", digest=drawn.digest, page=2, bbox=drawn.box, quote=SENTENCE)
    return answer("What does the ferry cost?", "It costs 7 won [1].", place, **more)
