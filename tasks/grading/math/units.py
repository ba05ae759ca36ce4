"""Parts the number from its unit: `15 cm^2`, `3 \\text{ hours}`, `km/h`."""

from __future__ import annotations

import re

from tasks.grading.math.math_tokens import OTHER_UNITS, UNITS, Token, word_set

_SHORT = word_set("m s g h L N J K W V A C F T l")
"""Letters that are a unit only behind a number and a space, where the other answer has no variable."""


def without_unit(tokens: list[Token]) -> tuple[list[Token], str]:
    """A formula without the unit behind it, and that unit as it is compared; empty where none is known."""
    end, units = len(tokens), list[str]()
    while end:
        token = tokens[end - 1]
        if token.kind == "text":
            units = [*(word for word in re.split(r"[\s/^~\d{}.]+", token.text.lower()) if word), *units]
            end -= 1
        elif exponent := _exponent(tokens, end):
            units = [f"^{exponent}", *units]
            end -= 4 if token.text == "}" else 2
        elif _is_short(tokens, end) or (units and token.text in ("/", "*", "^") and _is_unit(tokens, end - 1)):
            units = [token.text, *units]
            end -= 1
        else:
            break
    if end == 0:  # words only before a formula, or nothing but words
        return tokens, ""
    start = 0
    while start < end and tokens[start].kind == "text":
        start += 1
    return tokens[start:end], _canonical_unit(units)


def _exponent(tokens: list[Token], end: int) -> str | None:
    """The exponent of the unit that ends at `end`, `cm^2` or `cm^{2}`; None where there is none."""
    written = [token.text for token in tokens[max(0, end - 4) : end]]
    bare = [written[-4], written[-2]] if len(written) == 4 and written[-3::2] == ["{", "}"] else written[-2:]
    if len(bare) < 2 or bare[0] != "^" or bare[1] not in ("2", "3"):
        return None
    return bare[1] if _is_unit(tokens, end - (4 if written[-1] == "}" else 2)) else None


def _is_unit(tokens: list[Token], end: int) -> bool:
    return end > 0 and (tokens[end - 1].kind == "text" or _is_short(tokens, end))


def _is_short(tokens: list[Token], end: int) -> bool:
    """`10 m`: one letter behind a number and a space; `km/h`: one behind a slash."""
    token = tokens[end - 1]
    if end < 2 or token.kind != "symbol" or token.text not in _SHORT:
        return False
    before = tokens[end - 2]
    if before.text == "/" and end > 3:
        return _is_unit(tokens, end - 2)
    return token.spaced and before.kind == "number" and end == 2 + (tokens[0].text == "-")


def _canonical_unit(words: list[str]) -> str:
    if any(word not in UNITS and word not in OTHER_UNITS and word[0] not in "^/" for word in words):
        return ""
    known = [UNITS.get(word, word) for word in words if word in UNITS or word not in OTHER_UNITS]
    if not known or known[0].startswith("^"):
        return ""
    squared = any(word in ("square", "sq") for word in words)
    cubed = any(word in ("cubic", "cu") for word in words)
    return "".join(known) + ("^2" if squared else "^3" if cubed else "")
