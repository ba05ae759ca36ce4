"""Phrases that announce an answer in Korean, Chinese, Japanese, German, French and Spanish, and its JSON field.

English phrases stand with each grader, since what may follow them differs: a number, a letter, or words.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator

_GERMAN = r"(?:[Aa]ntwort|Lösung|Ergebnis)(?:[ \t]+(?:auf|zu|für)\b[^.:\n]{0,80}?)?(?:[ \t]+(?:ist|lautet|beträgt)\b"
_FRENCH = (
    r"[Rr](?:éponse|ésultat|esultat)(?:[ \t]+(?:finale?|correcte?|exacte?|à|au|de)\b[^.:\n]{0,80}?)?(?:[ \t]+est\b"
)
_SPANISH = r"[Rr](?:espuesta|esultado)(?:[ \t]+(?:final|correcta|correcto|a|al|de)\b[^.:\n]{0,80}?)?(?:[ \t]+es\b"
_COLON = r"|[ \t]*\**[ \t]*[:：])"
_NOUNS = ("답", "答", "正解", "ntwort", "ösung", "rgebnis", "éponse", "sultat", "espuesta", "esultado")
"""One stands in every phrase below."""
_OTHERS = (
    rf"(?<![^\W_])(?:{_GERMAN}{_COLON}|{_FRENCH}{_COLON}|{_SPANISH}{_COLON})"
    r"|(?<![가-힣])(?:최종\s?)?(?:정답|답안|답)(?:[은는이]|[ \t]*\**[ \t]*[:：])"
    r"|(?:答案|答え|解答|正解)\**[ \t]*(?:(?:应该|應該)?[是为為]|は|[:：])"
    r"|(?m:^)[ \t*]*答[ \t]*[:：]"
)


class Announcements:
    """Finds what announces an answer: English phrases, given, and those of the other languages.

    What is found ends where the answer begins, colons aside.
    """

    def __init__(self, english: str, flags: int = 0) -> None:
        """english: the source of a regular expression without groups."""
        self._english = re.compile(english, flags)
        self._all = re.compile(rf"{english}|(?-x:(?:{_OTHERS})\**[ \t]*:?[ \t]*)", flags)

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        """The announcements in `text`, in order."""
        return (self._all if any(noun in text for noun in _NOUNS) else self._english).finditer(text)


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
