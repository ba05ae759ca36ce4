"""One request of a page under /ui: who may see it, what a page is, and the template that answers it in two languages.

A page is a function from a `Visit` to a response. It is called in a thread, and only for a browser that has signed in;
a form must carry the token of its page and come from this origin.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import time
import tomllib
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partialmethod
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, cast
from urllib.parse import quote, urlencode

from fastapi import HTTPException
from fastapi.requests import Request
from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from pydantic import SecretStr

from flows.service.answering import Asking
from flows.service.live_index import Indexing, LiveIndex
from flows.service.served_collections import Collection, Collections
from storage.evaluations import Evaluations
from storage.storage_errors import StorageError
from tasks.documents.archives import escape_unprintable
from tasks.evaluation.results import ranking
from tasks.measure.page_style import LOOK
from tasks.measure.page_style import PARTS as SHARED
from tasks.nightly import night_report

acts = logging.getLogger("trivet.acts")
"""Logger of what people do here, a line each."""

ROOT = "/ui"
COOKIE = "trivet"
LASTS_S = 7 * 24 * 3600
"""Seconds until a cookie of the sign-in ends."""
LONGEST_DELAY_S, MOST_ADDRESSES = 10.0, 10_000
"""Longest wait for the answer to a wrong secret, and most addresses that are remembered."""
MOST_ACT_CHARS = 1_000
"""Longest names in the line of an act: longer ones would push the lines of others out of the log."""
FOLDER = Path(__file__).parent
TEMPLATES, STATIC, WORDS = FOLDER / "templates", FOLDER / "static", FOLDER / "words.toml"
Language = Literal["en", "ko"]
PLURAL = re.compile(r"(\{\}(?: labelled| hidden)? [a-z]+)s\b", re.ASCII)
"""The plural ending of what is counted, in English words of the templates."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; object-src 'none'; frame-ancestors 'none'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
FILES: Mapping[str, tuple[str, tuple[Path, ...]]] = {
    "workplace.css": ("text/css", (LOOK, night_report.PARTS / "nightly.css", STATIC / "workplace.css")),
    "workplace.js": ("text/javascript", (STATIC / "workplace.js",)),
    "upload.js": ("text/javascript", (STATIC / "upload.js",)),
    "htmx.min.js": ("text/javascript", (STATIC / "htmx.min.js",)),
    "icon.svg": ("image/svg+xml", (STATIC / "icon.svg",)),
    "leaderboard.js": ("text/javascript", (ranking.PARTS / "leaderboard.js",)),
}
"""Name → type and parts of each file that pages load."""


class Keys:
    """Who may see the pages: a signed cookie, the token of every form, and links that carry their own permission.

    Two secrets sign in: the auth string of the pages, and that of the service, whose owner may do everything. Both see
    the same pages. All permissions are signatures under the auth string of the pages, so that a restart signs nobody
    out and nothing is kept.
    """

    def __init__(
        self, auth: SecretStr, *, owner: Callable[[], str | None] = lambda: None, clock: Callable[[], float] = time.time
    ) -> None:
        """owner: the auth string of the service; None where there is none."""
        self._auth = auth.get_secret_value()
        self._owner = owner
        self._clock = clock

    def is_bearer(self, header: str) -> bool:
        """Return whether an Authorization header carries the auth string of the pages."""
        return _are_equal(header, f"Bearer {self._auth}")

    def identify(self, cookie: str) -> str:
        """Return which secret signed a cookie, as `owner 3f2a9c01` (its nonce); empty if none did, or it has ended."""
        content, _, signature = cookie.rpartition(".")
        end, _, nonce = content.partition(".")
        for name, secret in (("owner", self._owner()), ("pages", self._auth)):
            is_signed = secret and _are_equal(signature, self._sign_cookie(content, secret))
            if is_signed and self._clock() < int(end):
                return f"{name} {nonce[:8]}"
        return ""

    def cookie(self, secret_word: str) -> str | None:
        """Return a cookie for a browser that sent one of the two secrets: its end, a nonce, a signature; else None."""
        secret = next(
            (secret for secret in (self._auth, self._owner()) if secret and _are_equal(secret_word, secret)), None
        )
        if secret is None:
            return None
        content = f"{int(self._clock()) + LASTS_S}.{secrets.token_hex(8)}"
        return f"{content}.{self._sign_cookie(content, secret)}"

    def form_token(self, cookie: str) -> str:
        """Return the token of the forms of a browser with this cookie."""
        return self._sign("form", cookie)

    def permission(self, path: str) -> str:
        """Return the signature that lets anybody read `path`."""
        return self._sign("path", path)[:32]  # 128 bits, since it stands in every link

    def permits(self, path: str, signature: str) -> bool:
        return _are_equal(signature, self.permission(path))

    def _sign_cookie(self, content: str, secret: str) -> str:
        """Sign a cookie with a hash of the secret that its browser sent, so that it ends when the secret changes."""
        return self._sign(f"cookie {hashlib.sha256(secret.encode()).hexdigest()}", content)

    def _sign(self, use: str, content: str) -> str:
        signed = f"{use}\0{content}".encode(errors="replace")
        return hmac.new(self._auth.encode(), signed, hashlib.sha256).hexdigest()


class WrongSignIns:
    """Wrong secrets by address: each is logged, and from the fourth on answered later than the one before."""

    def __init__(self, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep) -> None:
        self._sleep = sleep
        self._counts: dict[str, int] = {}

    async def delay(self, address: str) -> None:
        """Count a wrong secret and wait; who sends the right one waits for nothing."""
        count = self._counts.pop(address, 0) + 1
        self._counts[address] = count
        if len(self._counts) > MOST_ADDRESSES:
            del self._counts[next(iter(self._counts))]  # the one that was wrong longest ago
        acts.warning("wrong sign-in from=%s count=%d", address, count)
        await self._sleep(min(LONGEST_DELAY_S, 0.1 * 2.0 ** min(count - 3, 9)) if count > 3 else 0)

    def forget(self, address: str) -> None:
        self._counts.pop(address, None)


def sender_of(request: Request) -> str:
    """Return the address that a request comes from; behind `proxy:` the first word of what a proxy here says."""
    prefix = "proxy:" if "X-Forwarded-For" in request.headers else ""  # which any account of this machine may send
    return prefix + request.client.host.partition(" ")[0] if request.client else "unknown"


def _are_equal(text: str, expected: str) -> bool:
    return hmac.compare_digest(text.encode(errors="replace"), expected.encode())  # bytes: not only ASCII is said


class Problem(HTTPException):
    """A page cannot be shown, or a form not be taken: the status and a sentence that names the remedy."""


@dataclass(frozen=True)
class Workplace:
    """State that all pages and JSON routes share: collections, keys of the sign-in, evaluations, home."""

    asking: Asking
    collections: Collections
    keys: Keys
    wrong: WrongSignIns
    home: Path
    """Folder of the labelled questions."""
    evaluations: Callable[[], Evaluations]
    described: Callable[[], dict[str, Any]]
    """The OpenAPI description of the routes for programs."""

    async def authorize(self, request: Request) -> None:
        """Let a program pass that sent the auth string. Raises HTTPException 401, ever later for a wrong string."""
        header, address = request.headers.get("Authorization", ""), sender_of(request)
        if self.keys.is_bearer(header):
            self.wrong.forget(address)
            return
        if header:
            await self.wrong.delay(address)
        message = "send the server's auth string as `Authorization: Bearer …`; the server says where it is kept"
        raise HTTPException(401, message, {"WWW-Authenticate": "Bearer"})


class Visit(NamedTuple):
    """One request of a page, with the language and the collection that it is about."""

    workplace: Workplace
    request: Request
    language: Language
    form: Mapping[str, str]
    collection: Collection
    """The collection that the address names, else the first."""

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
        """Variable parts of the address, by name."""
        return self.request.path_params

    @property
    def address(self) -> str:
        """Path and query of the page, as links have it."""
        path, query = self.request.scope["path"].removeprefix(ROOT), self.request.url.query
        return quote(f"{ROOT}{path}", safe="/") + (f"?{query}" if query else "")

    @property
    def selected_documents(self) -> tuple[str, ...]:
        """Names of the documents that alone are asked; none: all are."""
        return tuple(self.request.query_params.getlist("documents"))

    @property
    def is_part(self) -> bool:
        """Whether htmx asks for a part of a page."""
        return self.request.headers.get("HX-Request") == "true"

    @property
    def cookie(self) -> str:
        return self.request.cookies.get(COOKIE, "")

    def number(self, name: str, default: int = 0) -> int:
        """Return a count in the query. Raises Problem."""
        text = self.query.get(name, str(default))
        if not text.isdecimal() or len(text) > 9:
            raise Problem(404, f"{name}={text[:20]} is no number of a row; rows count from 0")
        return int(text)

    def to(self, path: str, **query: Any) -> str:
        """Return the address of a page about the same collection."""
        collection = {"collection": self.collection.name} if self.workplace.collections.names else {}
        encoded = urlencode(query | collection, doseq=True)
        return f"{ROOT}{path}?{encoded}" if encoded else f"{ROOT}{path}"

    def where(self, holds: Callable[[Collection], bool]) -> Visit:
        """Return the visit in the first collection that `holds` accepts, the chosen one first; else unchanged."""
        for collection in (self.collection, *self.workplace.collections):
            with suppress(StorageError):
                if holds(collection):
                    return self._replace(collection=collection)
        return self

    def refuse_token(self, token: str) -> None:
        """Raise Problem unless this is the token of the forms of this browser."""
        if not _are_equal(token, self.workplace.keys.form_token(self.cookie)):
            raise Problem(403, "this form is of another sign-in; load the page again and send it once more")

    def note_act(self, act: str, *about: str, cookie: str = "") -> None:
        """Log in one line that somebody changed something: what, who, from where. cookie: that of a new sign-in."""
        identity = self.workplace.keys.identify(cookie or self.cookie)
        names = escape_unprintable(", ".join(about))[:MOST_ACT_CHARS] or "-"
        acts.info("%s by=%s from=%s about=%s", act, identity, sender_of(self.request), names)

    def say(self, words: str) -> str:
        """Return words of the pages in the language of the page."""
        return in_korean(words) if self.language == "ko" else words

    def say_count(self, words: str, number: int) -> str:
        """Return words such as `{} documents` with their number, `1 document` where there is one."""
        counted = self.say(words)
        return (PLURAL.sub(r"\1", counted) if number == 1 else counted).format(f"{number:,}")

    def fill(self, template: str, **values: Any) -> str:
        """Return the HTML of a template, with what every template has; every value is escaped."""
        frame: dict[str, Any] = {
            "_": self.say,
            "count": self.say_count,
            "lang": self.language,
            "files": {name: file.address for name, file in static_files().items()},
            "token": self.workplace.keys.form_token(self.cookie),
            "here": self.address,
            "root": ROOT,
            "part": self.is_part,
            "operates": self.indexing is not None,
            "collections": self.workplace.collections.names,
            "collection": self.collection.name,
            "stay": self.to,
            "chosen": self.selected_documents,
        }
        return _environment().get_template(template).render(frame | values)

    def page(self, template: str, *, status: int = 200, **values: Any) -> Response:
        return HTMLResponse(self.fill(template, **values), status, headers=HEADERS)


Handler = Callable[[Visit], Response | Awaitable[Response]]
PageHandler = TypeVar("PageHandler", bound=Handler)


class Page(NamedTuple):
    """A page, and who may see it."""

    method: Literal["GET", "POST"]
    path: str
    handler: Handler
    public: bool = False
    """A browser that has not signed in may see it too."""
    multipart: bool = False
    """The handler reads the form itself, and checks its token."""


class Pages(list[Page]):
    """The pages of a room, each named above the function that makes it; the first that fits an address is shown."""

    def get(
        self, path: str, *, method: Literal["GET", "POST"] = "GET", **options: bool
    ) -> Callable[[PageHandler], PageHandler]:
        """Decorate what shows a page; options: fields of Page."""

        def keep(handler: PageHandler) -> PageHandler:
            self.append(Page(method, path, handler, **options))
            return handler

        return keep

    post = partialmethod(get, method="POST")
    """Decorate what takes a form."""


class StaticFile(NamedTuple):
    """A stylesheet, script or font that pages load, with its address."""

    kind: str
    content: bytes
    address: str
    """Changes with the content, so that a browser may keep it for good."""


@cache
def static_files() -> dict[str, StaticFile]:
    """Return the files that pages load, by name."""
    static: dict[str, StaticFile] = {}
    for name, (kind, parts) in FILES.items():
        content = b"\n".join(part.read_bytes() for part in parts)
        static[name] = StaticFile(kind, content, f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}")
    return static


@cache
def korean() -> dict[str, str]:
    """Return the English words of the pages → Korean ones."""
    read = tomllib.loads(WORDS.read_text("utf-8"))
    return {words: translated for words, translated in read.items() if isinstance(translated, str)}


@cache
def _korean_sentences() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return patterns of whole English sentences, each `{}` any text, with the Korean sentence for each."""
    sentences = cast("dict[str, str]", tomllib.loads(WORDS.read_text("utf-8"))["sentences"])
    return tuple(
        (re.compile(re.escape(sentence).replace(r"\{\}", "(.+)"), re.DOTALL), translated)
        for sentence, translated in sorted(sentences.items(), key=lambda both: -len(both[0]))  # the closest comes first
    )


def in_korean(words: str) -> str:
    """Return words, a sentence or several of them in Korean; unchanged where there is no translation."""
    if words in korean():
        return korean()[words]
    for pattern, translated in _korean_sentences():
        if match := pattern.fullmatch(words):
            return translated.format(*match.groups())
    mark = next((mark for mark in (" · ", "; ") if mark in words), None)
    return mark.join(map(in_korean, words.split(mark))) if mark else words


def language_of(accepted: str, cookie: str | None) -> Language:
    """Return the language of a page: the chosen one, else the first of Accept-Language that there is, else English."""
    for tag in (cookie or "", *(part.partition(";")[0].strip().lower() for part in accepted.split(","))):
        if tag[:2] in ("en", "ko"):
            return "ko" if tag[:2] == "ko" else "en"
    return "en"


@cache
def _environment() -> Environment:
    """Return the environment of all templates."""
    # the frame of the workplace comes first: pages of reports extend it here
    return Environment(
        loader=FileSystemLoader([TEMPLATES, SHARED, ranking.PARTS, night_report.PARTS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
