"""Phrases that announce an answer in Korean, Chinese, Japanese, German, French and Spanish, and its JSON field.

They are sought from the end of a text, by patterns of which every match begins with one of a few words.

English phrases stand with each grader, since what may follow them differs: a number, a letter, or words.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Sequence

FIRST_WINDOW = 1_000
"""Characters at the end of a text, where answers stand, that are searched first."""
GROWTH = 8


class Anchored:
    """A regular expression of which every match begins with one of `words`, in whatever case."""

    def __init__(self, pattern: str, words: Sequence[str], flags: int = 0) -> None:
        self.pattern = re.compile(pattern, flags)
        self._words = tuple(word.lower() for word in words)
        self._ascii_words = tuple(word for word in self._words if word.isascii())
        self._overlap = max(map(len, self._words)) - 1

    def backwards(self, text: str) -> Iterator[re.Match[str]]:
        """The matches in `text`, the last first; those that overlap each count."""
        high, window = len(text), FIRST_WINDOW
        while high > 0:
            low = max(0, high - window)
            for at in reversed(self._starts(text, low, high)):
                if found := self.pattern.match(text, at):
                    yield found
            high, window = low, window * GROWTH

    def last(self, text: str) -> re.Match[str] | None:
        """The match that begins last."""
        return next(self.backwards(text), None)

    def _starts(self, text: str, low: int, high: int) -> Sequence[int]:
        """Where words begin from `low` to before `high`, in order."""
        part = text[low : high + self._overlap]
        folded = part.lower()
        if len(folded) != len(part):  # İ is two characters in lower case
            return range(low, high)
        starts: set[int] = set()
        for word in filter(folded.__contains__, self._ascii_words if part.isascii() else self._words):
            at = folded.find(word)
            while 0 <= at < high - low:
                starts.add(low + at)
                at = folded.find(word, at + 1)
        return sorted(starts)


_GERMAN = r"(?:[Aa]ntwort|Lösung|Ergebnis)(?:[ \t]+(?:auf|zu|für)\b[^.:\n]{0,80}?)?(?:[ \t]+(?:ist|lautet|beträgt)\b"
_FRENCH = (
    r"[Rr](?:éponse|ésultat|esultat)(?:[ \t]+(?:finale?|correcte?|exacte?|à|au|de)\b[^.:\n]{0,80}?)?(?:[ \t]+est\b"
)
_SPANISH = r"[Rr](?:espuesta|esultado)(?:[ \t]+(?:final|correcta|correcto|a|al|de)\b[^.:\n]{0,80}?)?(?:[ \t]+es\b"
_COLON = r"|[ \t]*\**[ \t]*[:：])"
_OTHERS = (
    rf"(?<![^\W_])(?:{_GERMAN}{_COLON}|{_FRENCH}{_COLON}|{_SPANISH}{_COLON})"
    r"|(?<![가-힣])(?:최종\s?)?(?:정답|답안|답)(?:[은는이]|[ \t]*\**[ \t]*[:：])"
    r"|(?:答案|答え|解答|正解)\**[ \t]*(?:(?:应该|應該)?[是为為]|は|[:：])"
    r"|(?<![^\s*])答[ \t]*[:：]"
)
_WORDS = ("Antwort", "Lösung", "Ergebnis", "Réponse", "Résultat", "Resulta", "Respuesta")
_SIGNS = ("최종", "정답", "답", "答", "解答", "正解")
"""With `_WORDS`, what the phrases above begin with."""


def announcements(english: str, words: Sequence[str], flags: int = 0) -> Anchored:
    """Finds what announces an answer, in English or another language; a match ends where the answer begins.

    english: the source of a regular expression without groups; words: its matches begin with one of them.
    """
    others = rf"(?-x:(?:{_OTHERS})\**[ \t]*:?[ \t]*)"
    return Anchored(rf"{english}|{others}", (*words, *_WORDS, *_SIGNS), flags)


_FIELD = re.compile(
    r'"(?:final_?|correct_?)?answer"\s{0,9}:\s{0,9}(?P<value>"(?:[^"\\\n]|\\.){0,2000}"|-?\d[\d.eE+-]{0,40})',
    re.IGNORECASE,
)


def json_field(text: str) -> str | None:
    """The value of the last JSON field `answer`, a text or a number, in `text`; None without one."""
    if not (found := deque(_FIELD.finditer(text), maxlen=1)):
        return None
    value = found[0]["value"]
    if not value.startswith('"'):
        return value
    try:
        return str(json.loads(value)).strip() or None
    except ValueError:  # LaTeX in it, whose backslashes are none of JSON's
        return value[1:-1].strip() or None
