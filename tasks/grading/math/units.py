"""Parts the number from its unit: `15 cm^2`, `3 \\text{ hours}`, `km/h`."""

from __future__ import annotations

import re

from tasks.grading.math.math_tokens import Token
from tasks.grading.math.math_words import OTHER_UNITS, SHORT_UNITS, UNITS


def without_unit(tokens: list[Token]) -> tuple[list[Token], str]:
    """A formula without the unit behind it, and that unit as it is compared; empty where none is known."""
    end, units = len(tokens), list[str]()
    while end:
        token = tokens[end - 1]
        if token.kind == "text":
            words = [word for word in re.split(r"[\s/^~\d{}.]+", token.text.lower()) if word]
            units = [*words, *units]
            end -= 1
        elif units_power := _unit_power(tokens, end):
            end, units = (
                units_power,
                [f"^{tokens[end - 1].text if tokens[end - 1].text != '}' else tokens[end - 2].text}", *units],
            )
        elif _short_unit(tokens, end) or (
            units
            and token.text in ("/", "*", "^")
            and end > 1
            and (tokens[end - 2].kind == "text" or _short_unit(tokens, end - 1))
        ):
            end, units = end - 1, [token.text, *units]
        else:
            break
    if end == 0:  # words only before a formula, or nothing but words
        return tokens, ""
    start = 0
    while start < end and tokens[start].kind == "text":
        start += 1
    return tokens[start:end], _canonical_unit(units)


def _unit_power(tokens: list[Token], end: int) -> int | None:
    """Where a unit with an exponent, `cm^2`, begins its exponent."""
    for length in (4, 2):
        if end < length + 1:
            continue
        tail = [token.text for token in tokens[end - length : end]]
        exponent = tail[1:] if length == 2 else tail[2:-1]
        closed = length == 2 or (tail[1], tail[-1]) == ("{", "}")
        before = tokens[end - length - 1]
        if (
            tail[0] == "^"
            and closed
            and exponent[0] in ("2", "3")
            and (before.kind == "text" or _short_unit(tokens, end - length))
        ):
            return end - length
    return None


def _short_unit(tokens: list[Token], end: int) -> bool:
    """`10 m`: one letter behind a number and a space."""
    token = tokens[end - 1]
    before = tokens[end - 2] if end > 1 else None
    if token.kind != "symbol" or not before:
        return False
    if token.text in SHORT_UNITS and before.text in ("/",) and end > 3:
        return tokens[end - 3].kind == "text" or _short_unit(tokens, end - 2)
    return token.text in SHORT_UNITS and token.spaced and before.kind == "number" and end == 2 + (tokens[0].text == "-")


def _canonical_unit(words: list[str]) -> str:
    known = [
        UNITS.get(word, word)
        for word in words
        if word in UNITS or word.startswith("^") or word == "/" or word in SHORT_UNITS
    ]
    squared = any(word in ("square", "sq") for word in words)
    cubed = any(word in ("cubic", "cu") for word in words)
    other = [
        word
        for word in words
        if word not in UNITS and word not in OTHER_UNITS and not word.startswith("^") and word != "/"
    ]
    if other or not known or known[0].startswith("^"):
        return ""
    return "".join(known) + ("^2" if squared else "^3" if cubed else "")
