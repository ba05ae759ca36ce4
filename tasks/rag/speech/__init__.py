"""An answer as words to be spoken: without citation marks and Markdown; money, numbers and dates in words."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from tasks.language.sentences import Language, language_of, without_marks
from tasks.rag.speech import spoken_english, spoken_korean
from tasks.rag.speech.spoken_numbers import spoken

_MARKDOWN = (
    (re.compile(r"!?\[([^\]]*)\]\([^)]*\)"), r"\1"),  # links and pictures
    (re.compile(r"<?https?://\S+"), ""),
    (re.compile(r"^[ \t]*\|?[ \t]*:?-{3,}[-:| ]*$", re.MULTILINE), ""),  # below the head of a table
    (re.compile(r"^[ \t]*\|[ \t]*|[ \t]*\|[ \t]*$", re.MULTILINE), ""),
    (re.compile(r"[ \t]*\|[ \t]*"), ", "),
    (re.compile(r"^[ \t]*(?:#{1,6}|>|[-*•])[ \t]+", re.MULTILINE), ""),
    (re.compile(r"\*{1,3}|_{2,3}|`+|~~"), ""),
    (re.compile(r"(?<!\w)_(\w[^_]*)_(?!\w)"), r"\1"),
)
_SPACE_BEFORE_STOP = re.compile(r"\s+([.,!?])")


class Speech(NamedTuple):
    """Text to speak, and its language."""

    words: str
    language: Language


def to_speech(text: str) -> Speech:
    """The words of an answer; empty where it holds none."""
    plain = without_marks(unicodedata.normalize("NFC", text))
    for pattern, kept in _MARKDOWN:
        plain = pattern.sub(kept, plain)
    language = language_of(plain)
    said = spoken(plain, spoken_korean.RULES if language == "ko" else spoken_english.RULES)
    lines = (_SPACE_BEFORE_STOP.sub(r"\1", " ".join(line.split())) for line in said.splitlines())
    return Speech("\n".join(filter(None, lines)), language)
