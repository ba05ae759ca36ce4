"""Reads the names of a document, from its path, title and metadata, and the years and rounds that a text names."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Literal, NamedTuple

from storage.segments import CatalogueEntry
from tasks.language.number_words import ORDINALS
from tasks.rag.rag_errors import UnknownDocument


class Period(NamedTuple):
    """A year, or a business term of a Korean company (제23기)."""

    kind: Literal["year", "term"]
    number: int


class Qualifiers(NamedTuple):
    """The years, terms and rounds that a text names."""

    periods: tuple[Period, ...] = ()
    """Years and business terms, in the order of the text."""
    rounds: tuple[int, ...] = ()
    """Rounds of a notice: 0 is the original notice, 1 the first again."""


_PLAIN = re.compile(r"[\x00-\x7f가-힣]*")
_ACCENTS = re.compile("[\u0300-\u036f]+")


def fold_text(text: str) -> str:
    """Return the text in NFC without case, accents and forms of width: ㈜ becomes (주), Ö becomes o."""
    if _PLAIN.fullmatch(text):
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.replace("’", "'"))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", letters)).lower()


_YEAR = r"(?:19[89]\d|20[0-4]\d)"
_FISCAL = r"(?:fy|cy|fiscal(?:\s+year)?|the\s+year)\s*['’]?\s*"
_COUNTED = "(?:명|건|개|원|곳|대|톤|억|만|백만|천|kg|km|employees|stores|units)"
_PERIODS = re.compile(
    rf"""
    (?<![\d.,$₩€£\#a-z-])(?:{_FISCAL})?(?P<year>{_YEAR})(?![\d%]|[.,]\d|\s?{_COUNTED})
    | (?<![a-z\d]){_FISCAL}(?P<short>\d\d)(?![\d%]|[.,]\d)
    | 제?(?P<term>\d{{1,3}})기(?!\s?[가-힣]?(?:간|준|한))
    """,
    re.VERBOSE,
)
_NOTICE = r"(?:notice|tender|rfp|announcement|invitation)"
_AGAIN = r"재\s?(?:입찰\s?공고|공고|입찰|발주)"
_AT_END = r"(?=\s*(?:[)\]]|$))"
_ROUNDS = re.compile(
    rf"""
    (?P<again>\d{{1,2}})\s?[차회]\s?{_AGAIN}
    | {_AGAIN}\s?[(\[]?\s?제?(?P<again_after>\d{{1,2}})\s?[차회](?![가-힣])
    | (?P<original>(?:최초|첫|첫\s?번째)\s?(?:입찰\s?)?공고|[원본]\s?공고|(?:original|first|1st|initial)\s+{_NOTICE})
    | (?:공고\s?)?차수\s?(?:는|가|:)?\s?(?P<number>\d{{1,2}})
    | 제?(?P<nth>\d{{1,2}})\s?[차회]\s?(?:입찰\s?)?공고
    | (?<![가-힣\d.])제?(?P<nth_alone>\d{{1,2}})\s?차{_AT_END}
    | (?P<word>first|second|third|fourth|1st|2nd|3rd|4th)\s+re-?(?:notice|tender|bid|issue|announcement)
    | (?P<nth_word>second|third|fourth|2nd|3rd|4th)\s+{_NOTICE}
    | (?<![a-z])(?:notice|round)\s?(?P<nth_after>\d{{1,2}}){_AT_END}
    | (?P<once>{_AGAIN}|(?<![a-z])re-?(?:notice|tender|bid(?:ding)?|issued?|announcement|advertise(?:ment|d)))
    """,
    re.VERBOSE,
)
_OF_A_ROUND = re.compile(rf"(?:최초|첫|[원본재])?(?:입찰)?공고[가-힣]{{0,2}}|(?:re-?)?{_NOTICE}s?")

PERIOD_TOKEN = re.compile(
    rf"(?:fy)?{_YEAR}(?:q[1-4]|h[12])?|{_YEAR}\d{{4}}|q[1-4]|[1-4]q(?:\d\d|{_YEAR})?|fy\d\d|제?\d+기|dated.*"
)
FORM_TOKEN = re.compile(
    r"10-?[kq]a?|8-?ka?|20-?f|6-?k|40-?f|s-?1|def14a|earnings|annual|quarterly|사업보고서|분기보고서|반기보고서"
)


def read_qualifiers(text: str) -> Qualifiers:
    """Return the years, terms and rounds that a question or a name holds, each once, in the order of the text."""
    plain = re.sub(r"_+", " ", fold_text(text))
    periods = [
        Period("term", int(match["term"]))
        if match["term"]
        else Period("year", int(match["year"] or f"20{match['short']}"))
        for match in _PERIODS.finditer(plain)
    ]
    return Qualifiers(tuple(dict.fromkeys(periods)), tuple(dict.fromkeys(map(_round, _ROUNDS.finditer(plain)))))


def without_qualifiers(text: str) -> str:
    """Return the folded text without what `read_qualifiers` finds in it."""
    plain = re.sub(r"_+", " ", fold_text(text))
    for pattern in (_ROUNDS, _PERIODS):
        plain = pattern.sub(" ", plain)
    return plain


def _round(match: re.Match[str]) -> int:
    """Return the round that a match of `_ROUNDS` names: 0 for the original notice, 1 for the first one after it."""
    if match["original"]:
        return 0
    if nth := match["nth"] or match["nth_alone"] or match["nth_after"]:
        return max(int(nth) - 1, 0)
    if match["nth_word"]:
        return ORDINALS[match["nth_word"]] - 1
    if match["word"]:
        return ORDINALS[match["word"]]
    return int(match["again"] or match["again_after"] or match["number"] or 1)


def is_of_a_round(word: str) -> bool:
    """Return whether a folded word says a round (최초 공고, re-notice) and is no part of a name."""
    return _OF_A_ROUND.fullmatch(word) is not None


def fit_of(question: Qualifiers, document: Qualifiers, *, rounds: bool) -> float:
    """Return how well a document fits the periods and rounds of the question, 0 … 1.

    Of several years in the question the last one counts, whose report repeats the earlier ones. A report of the year
    after repeats it too; a document without years fits by half. rounds: whether the candidate documents have rounds.
    """
    share = 0.2 if rounds and question.rounds and not set(question.rounds) & set(document.rounds) else 1.0
    if not question.periods:
        return share
    last = max(question.periods)
    apart = [period.number - last.number for period in document.periods if period.kind == last.kind]
    return share * max((_SHARES_BY_YEARS.get(years, 0.1) for years in apart), default=0.5)


_SHARES_BY_YEARS = {0: 1.0, 1: 0.5, 2: 0.4, -1: 0.2}
"""Fit of a document by how many years later it is than the question asks for."""


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
    """A word of a text, with where it stands."""

    form: str
    """The word without case and accents."""
    spelling: str
    """The word as written."""
    start: int
    end: int


class DocumentNames(NamedTuple):
    """The names and qualifiers of one document."""

    entities: tuple[tuple[str, str], ...]
    """(field, name) for each organisation that issued the document or that it is about."""
    titles: tuple[tuple[str, str], ...]
    """(field, name) for each name of the document itself."""
    folders: tuple[str, ...]
    qualifiers: Qualifiers
    stem: str
    """The name of its file without folder and ending."""


def words_of(text: str) -> list[Word]:
    """Return the words of a text: runs of Hangul, and runs of other letters and digits."""
    text = unicodedata.normalize("NFKC", text)
    return [Word(fold_text(match.group()), match.group(), *match.span()) for match in _TOKEN.finditer(text)]


@lru_cache(maxsize=20_000)
def name_words(name: str) -> tuple[str, ...]:
    """Return the words of a name without its legal form: `Calder Ridge Outfitters, Inc.` has three."""
    spaced = _KOREAN_LEGAL.sub(" ", unicodedata.normalize("NFKC", name))
    words = [word.form.replace("'", "") for word in words_of(_CAMEL.sub(" ", spaced))]
    while len(words) > 1 and _LEGAL_WORD.fullmatch(words[-1]):
        words.pop()
    return tuple(words[1:] if len(words) > 1 and words[0] == "the" else words)


@lru_cache(maxsize=20_000)
def core_words(name: str) -> tuple[str, ...]:
    """Return the words of a name that are no period, form or round: they say whom or what it is about."""
    spaced = _CAMEL.sub(" ", unicodedata.normalize("NFKC", name))
    words = name_words(without_qualifiers(spaced))
    return tuple(
        word for word in words if not (word.isdigit() or PERIOD_TOKEN.fullmatch(word) or FORM_TOKEN.fullmatch(word))
    )


def compact(words: Sequence[str]) -> str:
    """Return the words as one, equal for all spacings: `best`, `buy` and BESTBUY are bestbuy."""
    return "".join(word for word in words if word not in CONNECTIVES) or "".join(words)


CONNECTIVES = frozenset(["and"])
"""Words that compact names leave out, as they do `&`: Johnson and Johnson."""

_SUFFIX = re.compile(r"\.(?:pdf|hwpx?|docx?|docm|txt|md|markdown|html?|zip)$", re.IGNORECASE)
_COMPANY = re.compile(rf"^(?P<name>[^,:;()|–—]{{2,60}}?),?\s+(?:{_LEGAL})\b\.?", re.IGNORECASE)
_KOREAN_COMPANY = re.compile(
    r"^(?:(?:주식회사|\(주\))\s?(?P<after>[가-힣A-Za-z]{2,20})|(?P<before>[가-힣A-Za-z]{2,20})\s?(?:주식회사|\(주\)))"
)

FIELDS = ("name", "alias", "project_name", "title", "issuer", "notice_id")
"""The fields of a document from which its names come."""
LEAF_CHUNKS = 12
"""Most chunks of a document that may be a single page of something longer."""


def document_names(entry: CatalogueEntry) -> DocumentNames:
    """Return the names and qualifiers of a document, from its path, title and metadata."""
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
            # the company that a title begins with, which its legal form shows
            plain = unicodedata.normalize("NFKC", title or "")
            if match := _COMPANY.match(plain) or _KOREAN_COMPANY.match(plain):
                _add(entities, "issuer", next(filter(None, match.groups())))
    for _, name in [title for title in titles if title[0] in {"name", "alias"}]:
        # whose it is stands before its first underscore, or before its period or form
        segments = _segments(name)
        parts = [part for part in re.split(r"[_\s]+", name) if part]
        kinds = (PERIOD_TOKEN, FORM_TOKEN)
        ends = (at for at, part in enumerate(parts) if any(kind.fullmatch(part.lower()) for kind in kinds))
        _add(entities, "name", name.split("_")[0] if segments else " ".join(parts[: next(ends, 0)]))
        for segment in segments:
            _add(titles, "name", segment)
    # stem and title may count fiscal years differently; the metadata tell where neither has any
    of_stem, of_title = read_qualifiers(stem), read_qualifiers(entry.title or entry.metadata.get("title") or "")
    periods = tuple(dict.fromkeys((*of_stem.periods, *of_title.periods)))
    periods = periods or read_qualifiers(entry.metadata.get("period_end", "")).periods
    digits = re.search(r"\d{1,3}", entry.metadata.get("notice_round", ""))
    rounds = of_stem.rounds or of_title.rounds or ((int(digits.group()),) if digits else (0,))
    return DocumentNames(tuple(entities), tuple(titles), folders, Qualifiers(periods, rounds), stem)


def find_named_documents(names: Collection[str], catalogue: Sequence[CatalogueEntry]) -> dict[str, str]:
    """Return the documents that the names mean: digest → the name by which it was asked for.

    names: paths in the indexed folder, paths that end with one or with which one ends, and patterns (`2023/*.pdf`).
    Names of equal bytes are all known. Raises UnknownDocument, also for a file name of several documents.
    """
    paths = {path: entry.document for entry in catalogue for path in (entry.name, *entry.aliases)}
    named: dict[str, str] = {}
    for name in names:
        for path in _find_paths(unicodedata.normalize("NFC", name).strip(), paths):
            named.setdefault(paths[path], path)
    return named


MOST_NEAREST, MOST_NAME_CHARS = 3, 200
"""Most names, and most characters of a wrong name, that a message holds."""


def _find_paths(name: str, paths: Mapping[str, str]) -> list[str]:
    """Return the paths that a name means, surest reading first. Raises UnknownDocument."""
    if name in paths:
        return [name]
    asked = name.casefold()
    folded = {path: unicodedata.normalize("NFC", path).casefold() for path in paths}
    inside = [path for path, plain in folded.items() if f"/{plain}".endswith(f"/{asked}")]
    outside = [path for path, plain in folded.items() if asked.endswith(f"/{plain}")]
    if matches := inside or [path for path in outside if len(path) == max(map(len, outside))]:
        if len({paths[path] for path in matches}) > 1:
            some = ", ".join(sorted(matches)[:MOST_NEAREST])
            raise UnknownDocument(f"{name!r} names {len(matches)} documents ({some} …); write the folder before it")
        return matches
    by_file = {path: plain.rsplit("/", 1)[-1] for path, plain in folded.items()}
    if matches := [path for path in paths if fnmatchcase(folded[path], asked) or fnmatchcase(by_file[path], asked)]:
        return matches
    close = get_close_matches(asked.rsplit("/", 1)[-1], by_file.values(), n=MOST_NEAREST, cutoff=0.5)
    nearest = [path for file in dict.fromkeys(close) for path in paths if by_file[path] == file] or list(paths)
    some = ", ".join(nearest[:MOST_NEAREST])
    raise UnknownDocument(f"the index has no document {name[:MOST_NAME_CHARS]!r}; nearest: {some}")


def _is_leaf(entry: CatalogueEntry) -> bool:
    """Return whether a document may be one page of something longer: its headings are its text, not its names.

    Of 54 English questions over 330 pages kept as files of their own, 14 were sent to a cover page, none rightly; with
    titles as names, 582 of 827 Korean questions over 985 pages preferred a page for a common word of its heading.
    """
    of_table = "file_name" in entry.metadata
    return not of_table and (entry.pages or 1) == 1 and 0 < entry.chunks <= LEAF_CHUNKS


def _add(names: list[tuple[str, str]], field: str, name: str | None) -> None:
    if name and name.strip() and (field, name) not in names:
        names.append((field, name.strip()))


def stem_of(path: str) -> str:
    """Return the name of a file without folders and ending, as people call the document."""
    return _SUFFIX.sub("", unicodedata.normalize("NFC", path).split("/")[-1])


def _segments(stem: str) -> list[str]:
    """Return the parts behind underscores, without brackets; none unless spaces show that underscores separate.

    `나래시_교통신호 구축(재공고)` → 교통신호 구축.
    """
    if "_" not in stem or " " not in stem:
        return []
    return [re.sub(r"\([^)]*\)|\[[^\]]*\]", " ", part).strip() for part in stem.split("_")[1:]]
