"""What lines of statements and ratios are called: `concepts.toml`, found in questions and in the labels of rows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

from tasks.rag.planning.type_words import without_particles

Statement = Literal["income", "balance", "cash_flow", "equity", "budget"]

SMALL_WORDS = frozenset(["a", "an", "the", "of", "and", "for", "from", "to", "in", "on", "by", "at", "as", "or"])
"""Words in which two spellings of one name may differ."""
FREE_WORDS = frozenset(("total", "net", "consolidated"))
"""Words that a label may hold beside a name and still mean the same line."""
NEARLY = 0.9
"""A label that fits a concept less may be of another line."""
MOST_EXTRA_WORDS = 2
ASIDE = re.compile(
    r"\([^)]*\)?|\[[^\]]*\]|(?:,\s*|\s)(?:net of|less|including|excluding|at cost)\b.*|[—–]\s.*", re.DOTALL
)
"""What labels say beside the name of their line: brackets, allowances."""
JOINS = re.compile(r"\b(?:and|or)\b|&|/", re.IGNORECASE)
NUMBERED = re.compile(r"^\s*(?:[ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ]+|[IVX]+|\d{1,2}|[가-하])\s?[.)]\s*")
"""The counter of a line in a Korean statement."""
JOINED = re.compile(r"(?<=[a-z])[&/](?=[a-z])")
HANGUL = re.compile("[가-힣]")


class Concept(NamedTuple):
    """A line of statements, or a ratio of lines."""

    key: str
    names: tuple[str, ...]
    """The preferred label first."""
    statement: Statement | None = None
    never: tuple[str, ...] = ()
    """Words that the label of another line holds."""
    formula: str = ""
    """Of a ratio; of a line, how it is worked out where no row shows it."""
    outflow: bool = False
    """A payment or a cost: statements may show it as a negative amount, and people name it as a positive one."""
    unit: str = ""
    """Of a ratio: `%`, `times`, `days`, `currency`, `per share`; empty for a plain number."""
    source: str = ""
    """Where the formula is defined."""


class Mention(NamedTuple):
    """A concept that a text names."""

    concept: Concept
    start: int
    """Offset in the text."""
    end: int


class _Name(NamedTuple):
    words: tuple[str, ...]
    rank: int
    """Among the concept's names in its script."""
    concept: Concept
    joined: bool
    """Whether it names two things, as "plant and equipment" does."""
    hangul: bool
    """Whether it is Korean, and one word."""


@cache
def concepts() -> Mapping[str, Concept]:
    """All concepts by key."""
    read: dict[str, dict[str, Any]] = tomllib.loads((files("tasks.rag.numbers") / "concepts.toml").read_text("utf-8"))
    for fields in read.values():
        fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return {key: Concept(key, **fields) for key, fields in read.items()}


@lru_cache(maxsize=65_536)
def words_of(text: str) -> tuple[str, ...]:
    """Words without case, plural and small words: "Cost of Revenues" → cost, revenue; "SG&A" → sga."""
    return tuple(word for word, _, _ in _tokens(text))


def label_of(path: Sequence[str]) -> str:
    """The label of a row; a bare "Total" is that of its heading."""
    own = path[-1] if path else ""
    if len(path) > 1 and not set(words_of(own)) - FREE_WORDS:
        return f"{path[-2]} {own}"
    return own


def score_label(concept: Concept, label: str) -> float:
    """How well the label of a row names a concept: 1 for its preferred name, 0 for another line."""
    return score_concepts(label).get(concept.key, 0.0)


@lru_cache(maxsize=65_536)
def score_concepts(label: str) -> Mapping[str, float]:
    """Concept → how well the label names it, where it does."""
    cut = NUMBERED.sub("", label)
    plain = ASIDE.sub(" ", cut)
    found: dict[str, float] = {}
    for text, share in ((plain, 1.0), (cut, 0.98)):
        ordered = list(_label_words(text))
        said = frozenset(ordered)
        joined = JOINS.search(text) is not None
        # in their order, so that of two concepts that fit alike the same one is found in every process
        for name in dict.fromkeys(name for word in ordered for name in _names_by_word().get(word, ())):
            words = frozenset(name.words)
            if not words <= said or any(word in said for one in name.concept.never for word in words_of(one)):
                continue
            extra = len(said - words - FREE_WORDS)
            if extra > MOST_EXTRA_WORDS or extra >= len(words) + 1 or (extra and joined and not name.joined):
                continue  # "publishing and advertising" is more than advertising
            likeness = (1.0 - 0.004 * min(name.rank, 20) - (0.02 if said != words else 0.0)) * 0.8**extra
            score = share * likeness
            found[name.concept.key] = max(score, found.get(name.concept.key, 0.0))
    return found


def _label_words(text: str) -> Iterator[str]:
    """Words of a label; of Korean, which joins and parts words freely, one word in all."""
    if HANGUL.search(text):
        yield "".join(re.findall(r"[가-힣A-Za-z]+", text)).lower()
    else:
        yield from words_of(text)


@cache
def _names() -> Sequence[_Name]:
    return [
        _Name(tuple(_label_words(name)), rank, concept, JOINS.search(name) is not None, bool(HANGUL.search(name)))
        for concept in concepts().values()
        for names in (
            [name for name in concept.names if not HANGUL.search(name)],
            [name for name in concept.names if HANGUL.search(name)],
        )
        for rank, name in enumerate(names)
    ]


@cache
def _names_by_word() -> Mapping[str, Sequence[_Name]]:
    found: dict[str, list[_Name]] = {}
    for name in _names():
        for word in frozenset(name.words):
            found.setdefault(word, []).append(name)
    return found


@cache
def _names_by_first() -> Mapping[str, Sequence[_Name]]:
    found: dict[str, list[_Name]] = {}
    for name in _names():
        found.setdefault(name.words[0], []).append(name)
    return found


def mentions(text: str) -> list[Mention]:
    """The concepts that a text names, in order; of names that overlap the longest."""
    tokens = list(_tokens(text))
    words = [word for word, _, _ in tokens]
    found: list[Mention] = []
    for at, word in enumerate(words):
        for name in _names_by_first().get(word, ()):
            last = at + len(name.words)
            if tuple(words[at:last]) == name.words:
                found.append(Mention(name.concept, tokens[at][1], tokens[last - 1][2]))
    if HANGUL.search(text):
        run = "".join(text.lower().split())
        for name in _names():
            if name.hangul and name.words[0] in run:
                found += [Mention(name.concept, *span) for span in _hangul_spans(name.words[0], text)]
    kept: list[Mention] = []
    for one in sorted(found, key=lambda mention: mention.start - mention.end):
        if all(one.end <= other.start or one.start >= other.end for other in kept):
            kept.append(one)
    return sorted(kept, key=lambda mention: mention.start)


def _hangul_spans(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Places of a Korean name, which may be written with spaces and end in a particle, as a whole word."""
    pattern = r"\s?".join(map(re.escape, name))
    for match in re.finditer(rf"(?<![가-힣A-Za-z]){pattern}(?P<rest>[가-힣]*)", text, re.IGNORECASE):
        word = f"{name}{match['rest']}"
        if not match["rest"] or name in without_particles(word.lower()):
            yield match.start(), match.end("rest") - len(match["rest"])


def _tokens(text: str) -> Iterator[tuple[str, int, int]]:
    """Words with their place."""
    lowered = text.lower().replace("’", "'")
    kept = JOINED.sub("\ufffc", lowered).replace("'s", "  ").replace("'", " ")
    for match in re.finditer(r"(?:[a-z]\ufffc?)+(?<!\ufffc)|[가-힣]+|\d+", kept):
        word = match.group().replace("\ufffc", "")
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):  # a plural
            if word.endswith("ies"):
                word = f"{word[:-3]}y"
            else:
                word = word[:-2] if word.endswith(("sses", "xes")) else word[:-1]
        if word not in SMALL_WORDS:
            yield word, *match.span()
