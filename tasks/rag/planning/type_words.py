"""The words by which a question shows its type; `기관` does not match 주관기관.

A pattern matches the question in NFC and lower case. A Korean word may be followed by particles and by those endings
that keep its meaning: 비교하면 but not 비교적.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from importlib.resources import files
from typing import NamedTuple

from tasks.rag.answers import QueryType

MOST_CHARS = 4_000
"""Characters of a longer question that are read: half from its beginning, half from its end."""


class Rule(NamedTuple):
    """A word that indicates a type, with its pattern."""

    query_type: QueryType
    word: str
    """The word as the plan names it."""
    pattern: re.Pattern[str]


_WORDS = tomllib.loads((files("tasks.rag.planning") / "type_words.toml").read_text("utf-8"))
CONVERSATION: dict[str, str] = _WORDS["conversation"]
"""Words by which a question continues a conversation or leaves it."""
PARTICLES = frozenset[str](_WORDS["particles"].split())
_PARTS: dict[str, str] = {
    **_WORDS["parts"],
    "PARTICLE": "|".join(sorted(PARTICLES, key=lambda particle: (-len(particle), particle))),
}


def compile_filled(pattern: str, parts: Mapping[str, str] = _PARTS, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    """Compile a pattern of a list of words with the parts that it names filled in, as in `비교<TAIL>`."""
    while (filled := re.sub("<([A-Z]+)>", lambda part: parts[part[1]], pattern)) != pattern:
        pattern = filled
    return re.compile(pattern, flags)


def _rule(
    query_type: QueryType,
    *,
    word: str,
    pattern: str = "",
    korean: str = "",
    before: str = "<WORD>",
    not_after: str = "",
    tail: str = "<TAIL>",
    after: str = "",
    english: str = "",
    opens: str = "",
) -> Rule:
    """Return a rule of `type_words.toml`, which explains the parameters."""
    if korean:
        apart = "".join(f"(?<!{word_before} )" for word_before in not_after.split())
        pattern = f"{before}{apart}(?:{korean})(?:{tail})<END>{after}"
    elif english:
        pattern = rf"(?<![\w'’-])(?:{english})(?![\w'’-])"
    elif opens:
        pattern = rf"<OPENING>(?:{opens})(?![\w가-힣'’-])"
    return Rule(query_type, word, compile_filled(pattern))


PRECEDENCE: tuple[QueryType, ...] = ("compare", "followup", "multi")
RULES = tuple(_rule(query_type, **fields) for query_type in PRECEDENCE for fields in _WORDS[query_type])
_STEM = compile_filled("(?P<stem>[가-힣]{2,}?)(?:<TAIL>)")


def normalise(question: str) -> str:
    """Return the question as the patterns expect it: NFC, lower case, single spaces, a long one without its middle."""
    if len(question) > MOST_CHARS:
        question = f"{question[: MOST_CHARS // 2]} {question[-MOST_CHARS // 2 :]}"
    return " ".join(unicodedata.normalize("NFC", question).lower().split())


def match_rules(question: str) -> list[Rule]:
    """Return the rules whose word the question holds, in the order of the table."""
    text = normalise(question)
    return [rule for rule in RULES if rule.pattern.search(text)]


def without_particles(word: str) -> tuple[str, ...]:
    """Return what a Korean word may be without its particles, longest first: 가람시의 → 가람시의, 가람시."""
    forms, shortest = [word], word
    while len(shortest) > 2:  # a stem of one syllable is not worth looking up
        ends = [size for size in (3, 2, 1) if len(shortest) - size >= 2 and shortest[-size:] in PARTICLES]
        if not ends:
            break
        forms += [shortest[:-size] for size in reversed(ends)]
        shortest = forms[-1]
    if match := _STEM.fullmatch(word):
        forms.append(match["stem"])
    return tuple(sorted(set(forms), key=lambda form: (-len(form), form)))
