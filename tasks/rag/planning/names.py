"""The names of a document, by its path, its title and its metadata."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import NamedTuple

from storage.catalogue import CatalogueEntry
from tasks.rag.planning.qualifiers import (
    FORM_TOKEN,
    PERIOD_TOKEN,
    Qualifiers,
    folded,
    qualifiers,
    without_qualifiers,
)
from tasks.rag.rag_errors import UnknownDocument

_LEGAL = (
    "inc|incorporated|corp|corporation|co|company|companies|ltd|limited|plc|llc|lp|llp|nv|sa|ag|se|gmbh|spa|bv|oyj|ab"
)
_KOREAN_LEGAL = re.compile(
    r"\((?:주|유|재|사|합|주식회사)\)"
    r"|(?<![가-힣])(?:주식회사|유한회사|재단법인|사단법인|합자회사|유한책임회사|학교법인|의료법인)(?![가-힣]{2})"
)
_LEGAL_WORD = re.compile(rf"(?:{_LEGAL})")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z][a-z])")
_TOKEN = re.compile(r"[가-힣]+|[^\W_가-힣]+(?:['’]s(?![^\W_]))?")


class Word(NamedTuple):
    """A word of a text."""

    form: str
    """Without case and accents."""
    said: str
    start: int
    end: int


class DocumentNames(NamedTuple):
    """The names of one document."""

    entities: tuple[tuple[str, str], ...]
    """(field, name) of the organisations that issued it or that it is about."""
    titles: tuple[tuple[str, str], ...]
    """(field, name) of the document itself."""
    folders: tuple[str, ...]
    said: Qualifiers
    stem: str


def words_of(text: str) -> list[Word]:
    """Runs of Hangul, and runs of other letters and digits."""
    text = unicodedata.normalize("NFKC", text)
    return [Word(folded(match.group()), match.group(), *match.span()) for match in _TOKEN.finditer(text)]


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """The words of a name without its legal form: `Calder Ridge Outfitters, Inc.` has three."""
    spaced = _KOREAN_LEGAL.sub(" ", unicodedata.normalize("NFKC", name))
    words = [word.form.replace("'", "") for word in words_of(_CAMEL.sub(" ", spaced))]
    while len(words) > 1 and _LEGAL_WORD.fullmatch(words[-1]):
        words.pop()
    return tuple(words[1:] if len(words) > 1 and words[0] == "the" else words)


@lru_cache(maxsize=20_000)
def core_words(name: str) -> tuple[str, ...]:
    """The words of a name that are no period, form or round: what tells whom or what it is about."""
    spaced = _CAMEL.sub(" ", unicodedata.normalize("NFKC", name))
    words = name_words(without_qualifiers(spaced))
    known = (PERIOD_TOKEN, FORM_TOKEN)
    return tuple(word for word in words if not word.isdigit() and not any(one.fullmatch(word) for one in known))


def compact(words: Sequence[str]) -> str:
    """One word for all spacings: `best`, `buy` and BESTBUY are bestbuy."""
    return "".join(word for word in words if word not in CONNECTIVES) or "".join(words)


CONNECTIVES = frozenset(["and"])
"""Left out of compact names, as & is: Johnson and Johnson."""

_SUFFIX = re.compile(r"\.(?:pdf|hwpx?|docx?|docm|txt|md|markdown|html?|zip)$", re.IGNORECASE)
_COMPANY = re.compile(rf"^(?P<name>[^,:;()|–—]{{2,60}}?),?\s+(?:{_LEGAL})\b\.?", re.IGNORECASE)
_KOREAN_COMPANY = re.compile(
    r"^(?:(?:주식회사|\(주\))\s?(?P<after>[가-힣A-Za-z]{2,20})|(?P<before>[가-힣A-Za-z]{2,20})\s?(?:주식회사|\(주\)))"
)

FIELDS = ("name", "alias", "project_name", "title", "issuer", "notice_id")
"""Where names come from."""
LEAF_CHUNKS = 12
"""Maximum number of chunks of a document that may be a single page."""


def document_names(entry: CatalogueEntry) -> DocumentNames:
    """Names and qualifiers of a document: of its path, its title and its metadata."""
    stem = stem_of(entry.name)
    *above, _ = unicodedata.normalize("NFC", entry.name).split("/")
    folders = tuple(_SUFFIX.sub("", folder) for folder in above)
    entities: list[tuple[str, str]] = []
    titles: list[tuple[str, str]] = [("name", stem)]
    for alias in entry.aliases:
        titles.append(("alias", stem_of(alias)))
    if not _is_leaf(entry):
        _add(entities, "issuer", entry.metadata.get("issuer"))
    _add(titles, "project_name", entry.metadata.get("project_name"))
    for title in dict.fromkeys((entry.title, entry.metadata.get("title"))):
        _add(titles, "title", title)
        if not _is_leaf(entry):
            _add(entities, "issuer", _company_of(title))
    for _, name in [title for title in titles if title[0] in {"name", "alias"}]:
        _add(entities, "name", _entity_of(name))
        for part in _segments(name):
            _add(titles, "name", part)
    return DocumentNames(tuple(entities), tuple(titles), folders, _document_qualifiers(entry, stem), stem)


def entity_of(entry: CatalogueEntry) -> str | None:
    """One word for the organisation that a document is of, however its name is spaced; None where nothing tells."""
    named = sorted(document_names(entry).entities, key=lambda entity: entity[0] != "name")
    return next((word for _, name in named if (word := compact(core_words(name)))), None)


def documents_named(names: Collection[str], catalogue: Sequence[CatalogueEntry]) -> set[str]:
    """Digests of the documents of these paths. Raises UnknownDocument."""
    known = {name: entry.document for entry in catalogue for name in (entry.name, *entry.aliases)}
    if unknown := [name for name in names if name not in known]:
        some = ", ".join(sorted(known)[:5])
        raise UnknownDocument(f"the index has no document {unknown[0]!r}; it has {some} …")
    return {known[name] for name in names}


def _is_leaf(entry: CatalogueEntry) -> bool:
    """Whether it may be one page of something longer: that it names an organisation then says little.

    Of 54 English questions over 330 pages kept as files of their own, 14 were sent to a cover page, none rightly.
    """
    of_table = "file_name" in entry.metadata
    return not of_table and (entry.pages or 1) == 1 and 0 < entry.chunks <= LEAF_CHUNKS


def _add(names: list[tuple[str, str]], field: str, name: str | None) -> None:
    if name and name.strip() and (field, name) not in names:
        names.append((field, name.strip()))


def stem_of(path: str) -> str:
    """The name of a file without folders and ending, as people call the document."""
    return _SUFFIX.sub("", unicodedata.normalize("NFC", path).split("/")[-1])


def _segments(stem: str) -> list[str]:
    """`나래시_교통신호 구축(재공고)` → 나래시, 교통신호 구축; only where spaces show that underscores separate."""
    if "_" not in stem or " " not in stem:
        return []
    return [re.sub(r"\([^)]*\)|\[[^\]]*\]", " ", part).strip() for part in stem.split("_")[1:]]


def _entity_of(stem: str) -> str | None:
    """What stands before the period or the form of a stem, or before its first underscore."""
    if _segments(stem):
        return stem.split("_")[0]
    parts = [part for part in re.split(r"[_\s]+", stem) if part]
    for at, part in enumerate(parts):
        if PERIOD_TOKEN.fullmatch(part.lower()) or FORM_TOKEN.fullmatch(part.lower()):
            return " ".join(parts[:at])
    return None


def _company_of(title: str | None) -> str | None:
    """The company that a title begins with, which its legal form shows."""
    plain = unicodedata.normalize("NFKC", title or "")
    if match := _COMPANY.match(plain):
        return match["name"]
    match = _KOREAN_COMPANY.match(plain)
    return (match["after"] or match["before"]) if match else None


def _document_qualifiers(entry: CatalogueEntry, stem: str) -> Qualifiers:
    """Qualifiers of stem and title, which may count fiscal years differently; of the metadata where neither has any."""
    of_stem, of_title = qualifiers(stem), qualifiers(entry.title or entry.metadata.get("title") or "")
    periods = tuple(dict.fromkeys((*of_stem.periods, *of_title.periods)))
    periods = periods or qualifiers(entry.metadata.get("period_end", "")).periods
    digits = re.search(r"\d{1,3}", entry.metadata.get("notice_round", ""))
    return Qualifiers(periods, of_stem.rounds or of_title.rounds or ((int(digits.group()),) if digits else (0,)))
