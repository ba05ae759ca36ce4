"""Cuts a normalized answer into tokens, and reads amounts: `15 cm^2`, `3 \\text{ hours}`, `40개`, `6 h 30 min`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from tasks.grading.math.expressions import FUNCTIONS, Apply, Node, Number

MAX_TOKENS = 2_000
MAX_SHIFT = 2_000
"""Most digits, and the largest exponent in scientific notation."""

WORDS: dict[str, Any] = json.loads(Path(__file__).with_name("math_words.json").read_text("utf-8"))


def listed_words(kind: str) -> frozenset[str]:
    """Return the words of one kind in math_words.json."""
    return word_set(" ".join(WORDS[kind]))


def word_set(words: str) -> frozenset[str]:
    """Return the words of a text that spaces separate."""
    return frozenset(words.split())


CJK = "\u3005\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3"
"""Letters of Chinese, Japanese and Korean, for the inside of a class of a pattern."""
_PIECE = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![\d.]))?)"
    r"|\\(?P<command>[A-Za-z]+)"
    r"|\\(?P<escaped>[^A-Za-z])"
    r"|(?P<word>[A-Za-z]+)"
    rf"|(?P<text>[{CJK}]+)"
    r"|(?P<sign>.)",
    re.S,
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)(?![\d,])(?! \d)")
_TEXT = listed_words("text")
_FONTS = word_set("mathbf boldsymbol bm mathcal mathit mathsf mathfrak vec overrightarrow bold pmb ensuremath")
_MARKS = word_set("overline bar hat widehat tilde widetilde dot ddot underline")
_SYNONYMS: dict[str, str] = dict(pair.split("→") for pair in listed_words("same"))
_SIGNS = frozenset("*/|{}[]():='")
_SILENT = word_set("big bigl bigr tfrac mathstrut strut protect space nobreak allowbreak hline displaylines centering")
_LETTERS = listed_words("letters")
_SYMBOLS = _LETTERS | listed_words("symbols")
_COMMAND_NAMES = sorted(
    (FUNCTIONS - word_set("re im arg max min abs")) | word_set("sqrt infty infinity frac asin acos atan"), key=len
)
_SPELLED = re.compile(rf"({'|'.join(reversed(_COMMAND_NAMES))}|alpha|beta|gamma|delta|theta|lambda|sigma|omega|pi)")
_WHOLE_WORDS = word_set("tg ctg inf pi mu nu xi abs max min").union(
    _COMMAND_NAMES, (letter for letter in _LETTERS if len(letter) > 2)
)
"""Letters in a row that are always one name."""


class Unit(NamedTuple):
    """A unit by its name, with its size in the base unit of its dimension."""

    name: str
    dimension: str
    size: Fraction


UNITS = {
    word: Unit(name, dimension, Fraction(size))
    for dimension, names in WORDS["units"].items()
    for name, (size, *words) in ((name, listed.split()) for name, listed in names.items())
    for word in (name.lower(), *words)
}
"""Word of a unit in English, Korean, Chinese or Japanese → the unit."""
OTHER_UNITS = listed_words("other_units")
_BY_NAME = {unit.name: unit for unit in UNITS.values()}
_SHORT = word_set("m s g h L N J K W V A C F T l")
"""Letters that are a unit only behind a number and a space, where the other answer has no variable."""
_LIMITS = listed_words("limits")
"""Words beside a number that make another one of it: `at least 5`, `5개 이상`, `not 5`."""
_GLUED_LIMIT = re.compile("|".join(word for word in _LIMITS if len(word) > 1 and not word.isascii()))
"""A limit as it stands in a word of Korean, Chinese or Japanese: `5人以下`."""
_JOINTS = listed_words("joints") | {"and", "or"}
_JOINT = re.compile(rf"(?:^|\s)({'|'.join(_JOINTS)})(?=\s|$)", re.I)
_PROSE = listed_words("prose")


class Token(NamedTuple):
    """A token of an answer: a number, a symbol, a command, a sign or text."""

    kind: str
    """`number`, `symbol`, `command`, `sign` or `text`."""
    text: str
    spaced: bool = False
    """Whether a space stands before it."""


class NotUnderstood(Exception):
    """The answer is outside the part of LaTeX that is parsed here."""


def tokenize(normalized: str, *, thousands: bool = True) -> list[Token]:
    """Return the tokens of a normalized answer. Raises NotUnderstood. thousands: `1,234` is one number."""

    def join(group: re.Match[str]) -> str:
        before = normalized[: group.start()]
        if any(before.count(opening) > before.count(closing) for opening, closing in ("()", "[]")) or "{" in before:
            return group.group()  # inside brackets commas and spaces separate values
        return group.group().replace(",", "").replace(" ", "")

    tokens: list[Token] = []
    _append_tokens(_THOUSANDS.sub(join, normalized) if thousands else normalized, tokens, depth=0)
    return tokens


def _append_tokens(text: str, tokens: list[Token], *, depth: int) -> None:
    """Append the tokens of `text`, which is nested in `depth` commands. Raises NotUnderstood."""
    position, spaced = 0, False
    while position < len(text):
        if len(tokens) > MAX_TOKENS or depth > 40:
            raise NotUnderstood("too long")
        match = _PIECE.match(text, position)
        assert match  # the last alternative takes any sign
        position = match.end()
        kind, piece = str(match.lastgroup), match.group(str(match.lastgroup))
        if kind == "space":
            spaced = True
            continue
        if kind == "command":
            position = _append_command(piece, text, position, tokens, spaced=spaced, depth=depth)
        elif kind == "word":
            tokens.extend(_cut_letters(piece, spaced=spaced, after_number=bool(tokens) and tokens[-1].kind == "number"))
        elif kind == "text":
            _append_upright(piece, tokens)
        elif kind == "escaped" and piece in "{}|":
            tokens.append(Token("sign", piece if piece == "|" else "\\" + piece, spaced))
        elif kind == "escaped":
            tokens.append(Token("command", "newline" if piece == "\\" else piece, spaced))
        else:
            tokens.append(Token(kind, piece, spaced))
        spaced = False


def _append_command(name: str, text: str, position: int, tokens: list[Token], *, spaced: bool, depth: int) -> int:
    """Append the tokens of a command and return where the rest begins."""
    name = _SYNONYMS.get(name, name)
    if name in _SILENT:
        return position
    if name in _TEXT or name in _FONTS or name in _MARKS or name in ("mathbb", "begin", "end"):
        content, position = _braced(text, position)
        inner: list[Token] = []
        if name in _TEXT:
            _append_upright(content, tokens)
        elif name == "mathbb":
            tokens.append(Token("symbol", f"set {content.strip()}", spaced))
        elif name in ("begin", "end"):
            if name == "begin" and content.strip("*") == "array" and text[position:].lstrip().startswith("{"):
                _, position = _braced(text, position)
            tokens.append(Token("command", f"{name} {content.strip()}", spaced))
        else:
            _append_tokens(content, inner, depth=depth + 1)
            if name in _MARKS:
                inner = [Token("symbol", f"{name}({''.join(token.text for token in inner)})", spaced)]
            tokens.extend(inner)
    elif name in _SIGNS:
        tokens.append(Token("sign", "\\" + name if name in "{}" else name, spaced))
    elif (name in _SYMBOLS and name != "circ") or name in ("i", "j"):
        tokens.append(Token("symbol", name, spaced))
    else:
        tokens.append(Token("command", name, spaced))
    return position


def _braced(text: str, position: int) -> tuple[str, int]:
    """Return what the braces at `position`, or the next sign, hold; where the rest begins. Raises NotUnderstood."""
    while position < len(text) and text[position].isspace():
        position += 1
    if position >= len(text):
        return "", position
    if text[position] != "{":
        return text[position], position + 1
    depth = 0
    for index in range(position, len(text)):
        depth += (text[index] == "{") - (text[index] == "}")
        if depth == 0:
            return text[position + 1 : index], index + 1
    raise NotUnderstood("an open brace")


def _append_upright(content: str, tokens: list[Token]) -> None:
    """Append tokens of upright text: single letters and names of functions are mathematics, all else is words."""
    content = content.replace("\\", " ").strip(" .,~")
    if content.lower() in _JOINTS:
        tokens.append(Token("command", "and", True))
    elif len(parts := _JOINT.split(content)) > 1:  # `\text{ red and }`
        for part in parts:
            _append_upright(part, tokens)
    elif len(content) == 1 and content.isalpha() and content.isascii():
        tokens.append(Token("symbol", content, True))
    elif content in _WHOLE_WORDS and not (content in UNITS and tokens and tokens[-1].kind == "number"):  # 20 min
        tokens.extend(_cut_letters(content, spaced=True, after_number=False))
    elif re.fullmatch(r"[\d.,/+\-\s]+", content):
        inner: list[Token] = []
        _append_tokens(content, inner, depth=1)
        tokens.extend(inner)
    elif content:
        tokens.append(Token("text", " ".join(content.split()), True))


def _cut_letters(run: str, *, spaced: bool, after_number: bool) -> list[Token]:
    """Return the tokens of letters in a row: a function, a word, or adjacent variables."""
    if run.lower() in _JOINTS:
        return [Token("command", "and", spaced)]
    lower = run.lower()
    is_word = lower in UNITS or lower in OTHER_UNITS or lower in _PROSE
    is_word = is_word or (len(run) >= 4 and run[1:].islower() and bool(set("aeiouy") & set(lower)))
    if after_number and run == "min":
        return [Token("text", run, spaced)]
    if run not in _WHOLE_WORDS and is_word and (len(run) > 1 or (after_number and spaced)):
        return [Token("text" if len(run) > 1 else "symbol", run, spaced)]
    tokens: list[Token] = []
    for part in [run] if run in _WHOLE_WORDS else _SPELLED.split(run):
        name = _SYNONYMS.get(part, part)
        if part in _WHOLE_WORDS or (len(part) > 1 and _SPELLED.fullmatch(part)):
            tokens.append(Token("symbol" if name in _SYMBOLS else "command", name, spaced and not tokens))
        else:
            for letter in part:
                tokens.append(Token("symbol", letter, spaced and not tokens))
    return tokens


def parse_literal(text: str) -> Number:
    """Return the number of a literal: `4.5e33`, `.5`, `12`, `3.`. Raises NotUnderstood for one too large."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    shift = int(exponent or 0)
    if abs(shift) > MAX_SHIFT or len(mantissa) > MAX_SHIFT:
        raise NotUnderstood("a number that large")
    value = Fraction(int((whole + fraction) or "0")) * Fraction(10) ** (shift - len(fraction))
    return Number(value, len(fraction) - shift if fraction or exponent else None)


class Formula(NamedTuple):
    """A number or an expression, with its unit."""

    node: Node
    unit: str = ""
    """Unit in canonical form; empty where there is none, or an unknown one."""


class Amount(NamedTuple):
    """A number written in several units of one dimension: `6 h 30 min`, which is 6.5 h and 390 min, and never 6."""

    parts: tuple[Formula, ...]


def join_amount(parts: Sequence[object]) -> Amount | None:
    """Return parts in ever smaller units of one dimension as one amount; None for any others."""
    formulas = [part for part in parts if isinstance(part, Formula) and part.unit in _BY_NAME]
    units = [_BY_NAME[formula.unit] for formula in formulas]
    descending = all(larger.size > smaller.size for larger, smaller in pairwise(units))
    one = len(parts) == len(formulas) > 1 and len({unit.dimension for unit in units}) == 1
    return Amount(tuple(formulas)) if one and descending else None


def same_dimension(first: str, second: str) -> bool:
    """Return whether amounts in two units can be converted into each other."""
    return first in _BY_NAME and second in _BY_NAME and _BY_NAME[first].dimension == _BY_NAME[second].dimension


def convert(amount: Amount | Formula, unit: str) -> Node:
    """Return the number of an amount in a unit of its dimension. Raises KeyError for an unknown unit."""
    parts = amount.parts if isinstance(amount, Amount) else (amount,)
    size = _BY_NAME[unit].size
    terms = [Apply("mul", (part.node, Number(_BY_NAME[part.unit].size / size))) for part in parts]
    return terms[0] if len(terms) == 1 else Apply("add", tuple(terms))


def split_unit(tokens: list[Token]) -> tuple[list[Token], str] | None:
    """Return a formula and its unit in canonical form, empty if not known; None where words make it another number."""
    end, units = len(tokens), list[str]()
    while end:
        token = tokens[end - 1]
        if token.kind == "text":
            units = [*_words(token), *units]
            end -= 1
        elif exponent := _unit_exponent(tokens, end):
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
    words_beside = (*units, *(word for token in tokens[:start] for word in _words(token)))
    if any(word in _LIMITS or (word not in UNITS and _GLUED_LIMIT.search(word)) for word in words_beside):
        return None
    formula = tokens[start:end]
    if any(unit not in UNITS and unit not in OTHER_UNITS and unit[0] not in "^/" for unit in units):
        return formula, ""
    unit_names = [UNITS[unit].name if unit in UNITS else unit for unit in units if unit not in OTHER_UNITS]
    if not unit_names or unit_names[0].startswith("^"):
        return formula, ""
    squared, cubed = {"square", "sq"} & set(units), {"cubic", "cu"} & set(units)
    return formula, "".join(unit_names) + ("^2" if squared else "^3" if cubed else "")


def _words(token: Token) -> list[str]:
    return [word for word in re.split(r"[\s/^~\d{}.]+", token.text.lower()) if word]


def _unit_exponent(tokens: list[Token], end: int) -> str | None:
    """Return the exponent of the unit that ends at `end`, `cm^2` or `cm^{2}`; None where there is none."""
    texts = [token.text for token in tokens[max(0, end - 4) : end]]
    power = [texts[-4], texts[-2]] if len(texts) == 4 and texts[-3::2] == ["{", "}"] else texts[-2:]
    if len(power) < 2 or power[0] != "^" or power[1] not in ("2", "3"):
        return None
    return power[1] if _is_unit(tokens, end - (4 if texts[-1] == "}" else 2)) else None


def _is_unit(tokens: list[Token], end: int) -> bool:
    return end > 0 and (tokens[end - 1].kind == "text" or _is_short(tokens, end))


def _is_short(tokens: list[Token], end: int) -> bool:
    """Return whether the letter before `end` is a unit: behind nothing but a number and space, `10 m`, or in `km/h`."""
    token = tokens[end - 1]
    if end < 2 or token.kind != "symbol" or token.text not in _SHORT:
        return False
    before = tokens[end - 2]
    if before.text == "/" and end > 3:
        return _is_unit(tokens, end - 2)
    return token.spaced and before.kind == "number" and end == 2 + (tokens[0].text == "-")
