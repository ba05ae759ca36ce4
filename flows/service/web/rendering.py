"""Templates in two languages, the stylesheet, and the headers of every page."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from fastapi.responses import HTMLResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from tasks.evaluation.results import ranking
from tasks.measure.page_style import LOOK
from tasks.measure.page_style import PARTS as SHARED
from tasks.nightly import night_report

HERE = Path(__file__).parent
TEMPLATES, STATIC, WORDS = HERE / "templates", HERE / "static", HERE / "words.toml"
Language = Literal["en", "ko"]
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


class StaticFile(NamedTuple):
    kind: str
    content: bytes
    address: str
    """Changes with the content, so that a browser may keep it for good."""


@cache
def static_files() -> dict[str, StaticFile]:
    """The files that pages load, by name."""
    made: dict[str, StaticFile] = {}
    for name, (kind, parts) in FILES.items():
        content = b"\n".join(part.read_bytes() for part in parts)
        made[name] = StaticFile(kind, content, f"/static/{name}?v={hashlib.sha256(content).hexdigest()[:12]}")
    return made


def static_file(name: str) -> Response:
    """One of these files; 404 for another name."""
    file = static_files().get(name)
    if file is None:
        return Response(status_code=404)
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}
    return Response(file.content, media_type=f"{file.kind}; charset=utf-8", headers=headers)


@cache
def korean() -> dict[str, str]:
    """English words of the pages → Korean ones."""
    return cast("dict[str, str]", tomllib.loads(WORDS.read_text("utf-8")))


def spoken(words: str, language: Language) -> str:
    """English words of the pages in a language."""
    return korean().get(words, words) if language == "ko" else words


def language_of(accepted: str, chosen: str | None) -> Language:
    """The language of a page: the chosen one, else the first of Accept-Language that there is."""
    for one in (chosen or "", *(part.partition(";")[0].strip().lower() for part in accepted.split(","))):
        if one[:2] in ("en", "ko"):
            return "ko" if one[:2] == "ko" else "en"
    return "en"


@cache
def _environment() -> Environment:
    # the frame of the workplace comes first: pages of reports extend it here
    return Environment(
        loader=FileSystemLoader([TEMPLATES, SHARED, ranking.PARTS, night_report.PARTS]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def fill(template: str, language: Language, values: Mapping[str, Any]) -> str:
    """The HTML of a template; every value is escaped."""
    files = {name: file.address for name, file in static_files().items()}
    own: dict[str, Any] = {"_": lambda said: spoken(said, language), "lang": language, "files": files}
    return _environment().get_template(template).render({**own, **values})


def html(content: str, status: int = 200) -> HTMLResponse:
    return HTMLResponse(content, status, headers=HEADERS)
