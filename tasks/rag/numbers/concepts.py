"""Names of statement lines and ratios (`concepts.toml`), found in questions and in the labels of rows."""

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
"""Words that two spellings of one name may have or lack."""
FREE_WORDS = frozenset(("total", "net", "consolidated"))
"""Words that a label may hold beside a name and still mean the same line."""
NEARLY = 0.9
"""Score below which a label may be that of another line."""
MOST_EXTRA_WORDS = 2
QUALIFIERS = re.compile(
    r"\([^)]*\)?|\[[^\]]*\]|(?:,\s*|\s)(?:net of|less|including|excluding|at cost)\b.*|[—–]\s.*", re.DOTALL
)
"""The parts of a label that do not name its line: brackets, allowances."""
JOINS = re.compile(r"\b(?:and|or)\b|&|/", re.IGNORECASE)
NUMBERED = re.compile(r"^\s*(?:[ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ]+|[IVX]+|\d{1,2}|[가-하])\s?[.)]\s*")
"""The number or letter before the label of a line in a Korean statement."""
JOINED = re.compile(r"(?<=[a-z])[&/](?=[a-z])")
HANGUL = re.compile("[가-힣]")


class Concept(NamedTuple):
    """A line of financial statements, or a ratio of such lines."""

    key: str
    names: tuple[str, ...]
    """All names that it has in documents and questions, the preferred one first."""
    statement: Statement | None = None
    never: tuple[str, ...] = ()
    """Words that a label of this line never holds: with one of them it is another line's."""
    formula: str = ""
    """The formula of a ratio; of a line, how it is worked out where no row shows it."""
    outflow: bool = False
    """Whether it is a payment or cost, which statements may show as negative and people name as positive."""
    unit: str = ""
    """Unit of a ratio: `%`, `times`, `days`, `currency`, `per share`; empty for a plain number."""
    source: str = ""
    """Reference for the formula."""


class Mention(NamedTuple):
    """A place in a text that names a concept."""

    concept: Concept
    start: int
    """Offset of its first character in the text."""
    end: int


class _Name(NamedTuple):
    words: tuple[str, ...]
    rank: int
    """0-based place among the concept's names in its script."""
    concept: Concept
    joined: bool
    """Whether it names two things, as "plant and equipment" does."""
    hangul: bool
    """Whether it is Korean, and one word."""


@cache
def concepts() -> Mapping[str, Concept]:
    """Return all concepts of `concepts.toml` by their keys."""
    read: dict[str, dict[str, Any]] = tomllib.loads((files("tasks.rag.numbers") / "concepts.toml").read_text("utf-8"))
    for fields in read.values():
        fields |= {name: tuple(value) for name, value in fields.items() if isinstance(value, list)}
    return {key: Concept(key, **fields) for key, fields in read.items()}


@lru_cache(maxsize=65_536)
def words_of(text: str) -> tuple[str, ...]:
    """Split a text into words without case, plural and small words: "Cost of Revenues" is cost, revenue; "SG&A" sga."""
    return tuple(word for word, _, _ in _tokenize(text))


def label_of(path: Sequence[str]) -> str:
    """Return the label of a row, together with its heading where it is a bare "Total"; empty for no path."""
    own = path[-1] if path else ""
    if len(path) > 1 and not set(words_of(own)) - FREE_WORDS:
        return f"{path[-2]} {own}"
    return own


def score_label(concept: Concept, label: str) -> float:
    """Return how well the label of a row names a concept: 1 for its preferred name, 0 for another line."""
    return score_concepts(label).get(concept.key, 0.0)


@lru_cache(maxsize=65_536)
def score_concepts(label: str) -> Mapping[str, float]:
    """Return how well a label names each concept, by the concept's key, 0 to 1; concepts of score 0 are left out."""
    cut = NUMBERED.sub("", label)
    plain = QUALIFIERS.sub(" ", cut)
    scores: dict[str, float] = {}
    for text, share in ((plain, 1.0), (cut, 0.98)):
        ordered = list(_label_words(text))
        label_words = frozenset(ordered)
        joined = JOINS.search(text) is not None
        # in their order, so that of two concepts that fit alike the same one is found in every process
        for name in dict.fromkeys(name for word in ordered for name in _names_by_word().get(word, ())):
            words = frozenset(name.words)
            if not words <= label_words or any(
                word in label_words for excluded in name.concept.never for word in words_of(excluded)
            ):
                continue
            extra = len(label_words - words - FREE_WORDS)
            if extra > MOST_EXTRA_WORDS or extra >= len(words) + 1 or (extra and joined and not name.joined):
                continue  # "publishing and advertising" is more than advertising
            # an earlier name fits better, by so little that it only decides between names that fit alike
            likeness = (1.0 - 0.004 * min(name.rank, 20) - (0.02 if label_words != words else 0.0)) * 0.8**extra
            score = share * likeness
            scores[name.concept.key] = max(score, scores.get(name.concept.key, 0.0))
    return scores


def _label_words(text: str) -> Iterator[str]:
    """Yield the words of a label; a Korean label is one word, since Korean joins and parts words freely."""
    if HANGUL.search(text):
        yield "".join(re.findall(r"[가-힣A-Za-z]+", text)).lower()
    else:
        yield from words_of(text)


@cache
def _all_names() -> Sequence[_Name]:
    """Return the names of all concepts as words, each with its rank among those of its language."""
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
    """Return the names of concepts by each word that they hold."""
    by_word: dict[str, list[_Name]] = {}
    for name in _all_names():
        for word in frozenset(name.words):
            by_word.setdefault(word, []).append(name)
    return by_word


def mentions(text: str) -> list[Mention]:
    """Return the places where a text names concepts, in order; of names that overlap the longest counts."""
    tokens = list(_tokenize(text))
    words = [word for word, _, _ in tokens]
    candidates: list[Mention] = []
    for at, word in enumerate(words):
        for name in _names_by_word().get(word, ()):
            last = at + len(name.words)
            if tuple(words[at:last]) == name.words:
                candidates.append(Mention(name.concept, tokens[at][1], tokens[last - 1][2]))
    if HANGUL.search(text):
        run = "".join(text.lower().split())
        for name in _all_names():
            if name.hangul and name.words[0] in run:
                candidates += [Mention(name.concept, *span) for span in _find_hangul(name.words[0], text)]
    chosen_mentions: list[Mention] = []
    for candidate in sorted(candidates, key=lambda mention: mention.start - mention.end):
        if all(candidate.end <= longer.start or candidate.start >= longer.end for longer in chosen_mentions):
            chosen_mentions.append(candidate)
    return sorted(chosen_mentions, key=lambda mention: mention.start)


def _find_hangul(name: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end, its particle left out, of a Korean name as a whole word; spaces may be in it."""
    pattern = r"\s?".join(map(re.escape, name))
    for match in re.finditer(rf"(?<![가-힣A-Za-z]){pattern}(?P<rest>[가-힣]*)", text, re.IGNORECASE):
        word = f"{name}{match['rest']}"
        if not match["rest"] or name in without_particles(word.lower()):
            yield match.start(), match.end("rest") - len(match["rest"])


def _tokenize(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the words of a text, as words_of returns them, with start and end of each."""
    lowered = text.lower().replace("’", "'")
    marked = JOINED.sub("\ufffc", lowered).replace("'s", "  ").replace("'", " ")  # offsets stay
    for match in re.finditer(r"(?:[a-z]\ufffc?)+(?<!\ufffc)|[가-힣]+|\d+", marked):
        word = match.group().replace("\ufffc", "")
        if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):  # a plural
            if word.endswith("ies"):
                word = f"{word[:-3]}y"
            else:
                word = word[:-2] if word.endswith(("sses", "xes")) else word[:-1]
        if word not in SMALL_WORDS:
            yield word, *match.span()
