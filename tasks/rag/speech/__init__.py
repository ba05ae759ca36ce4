"""An answer as words to be spoken: without marks and Markdown, money, numbers and dates in words."""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from tasks.language.sentences import Language, language_of, without_marks
from tasks.rag.speech.spoken_english import in_english
from tasks.rag.speech.spoken_korean import in_korean

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
    """What is said, and the language to say it in."""

    words: str
    language: Language


def to_speech(text: str) -> Speech:
    """The words of an answer; empty where it holds none."""
    plain = _without_markdown(without_marks(unicodedata.normalize("NFC", text)))
    language = language_of(plain)
    said = in_korean(plain) if language == "ko" else in_english(plain)
    lines = (_SPACE_BEFORE_STOP.sub(r"\1", " ".join(line.split())) for line in said.splitlines())
    return Speech("\n".join(filter(None, lines)), language)


def _without_markdown(text: str) -> str:
    for pattern, kept in _MARKDOWN:
        text = pattern.sub(kept, text)
    return text
