"""Parses an answer: a list, set, tuple, interval, relation, matrix, ratio, percentage, text, or a single formula."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from tasks.grading.math.expressions import Node, find_symbols
from tasks.grading.math.math_parsing import parse_formula
from tasks.grading.math.math_tokens import (
    UNITS,
    Amount,
    Formula,
    NotUnderstood,
    Token,
    join_amount,
    split_unit,
    tokenize,
)
from tasks.grading.math.normalization import read_spelled

MAX_ITEMS = 200  # sets are compared pair by pair
_PAIRS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "lfloor": "rfloor", "lceil": "rceil", "langle": "rangle"}
_OPENING = frozenset(_PAIRS)
_CLOSING = frozenset(_PAIRS.values())
_RELATIONS = frozenset(("=", "<", ">", "le", "ge", "ne", "in", "equiv", "approx", "to"))
_CONDITIONS = ("where", "for", "with", "if", "when")
_ALIGNED = ("aligned", "align", "alignat", "gather", "gathered", "split")
_CHOICE = re.compile(r"(?:\\(?:text\w*|mathrm|mathbf)\s*\{\s*)?(?:\(\s*([A-J])\s*\)|([A-J])\s*\))\s*\}?(?=$|[\s\\:.])")
_LISTED_CHOICE = re.compile(r"([A-J])\s*[.:]\s+\S")
_LETTER = re.compile(r"(?:\\(?:text\w*|mathrm|mathbf)\s*\{\s*)?\(?\s*([A-J])\s*\)?\s*\}?")
_PLAIN_WORDS = re.compile(r"[^\W\d_][\w\s.'’-]*", re.U)
LOGICAL = {"true": "true", "yes": "true", "false": "false", "no": "false"}
"""Word → the word of the same meaning that stands for it."""


class Percentage(NamedTuple):
    """`28\\%`: compared as 28 or 0.28, whichever fits the other side."""

    node: Node


class Words(NamedTuple):
    """An answer that is text, in lower case."""

    text: str


class Based(NamedTuple):
    """A number in a given base, such as `204_5`."""

    digits: str
    base: str


class Ratio(NamedTuple):
    """`3:4`, or a time of day `12:05`."""

    parts: tuple[Answer, ...]
    clock: bool


class Bracketed(NamedTuple):
    """A tuple, point, interval or set, told apart by its brackets."""

    opening: str
    items: tuple[Answer, ...]
    closing: str


class Listed(NamedTuple):
    """Values separated by commas, `and` or `or`, in any order."""

    items: tuple[Answer, ...]


class SetOperation(NamedTuple):
    """Sets with `\\cup`, `\\cap` or `\\setminus` between them."""

    sign: str
    parts: tuple[Answer, ...]


class Matrix(NamedTuple):
    """A matrix or a column vector by its rows."""

    rows: tuple[tuple[Answer, ...], ...]


class Relation(NamedTuple):
    """Sides with signs between them: `a = b`, `a < x <= b`."""

    sides: tuple[Answer, ...]
    signs: tuple[str, ...]
    subject: str = ""
    """The left side as it was written."""


Answer: TypeAlias = (
    Formula | Amount | Percentage | Words | Based | Ratio | Bracketed | Listed | SetOperation | Matrix | Relation
)


def read_answer(normalized: str, *, thousands: bool = True) -> Answer:
    """Parse a normalized answer; `thousands`: 1,234 is one number. Raises NotUnderstood outside the grammar."""
    words = _read_words(normalized)
    return _read(_trim(tokenize(normalized, thousands=thousands))) if words is None else words


def choice_letter(normalized: str) -> str | None:
    """Return the letter of the choice with which a short answer begins; None without one."""
    match = _LETTER.fullmatch(normalized) or _CHOICE.match(normalized) or _LISTED_CHOICE.match(normalized)
    return next((letter for letter in match.groups() if letter), None) if match else None


def _read_words(normalized: str) -> Answer | None:
    """Return an answer that is text without mathematics; None for any other."""
    inner = re.sub(r"\\(?:text\w*|mathrm|mbox|operatorname)\s*\{([^{}]*)\}", r"\1", normalized).strip()
    if not _PLAIN_WORDS.fullmatch(inner) or any(map(str.isdigit, inner)):
        return None
    if spelled := read_spelled(inner):
        return _read(tokenize(spelled))
    plain = " ".join(inner.lower().replace("’", "'").split()).rstrip(".")
    if plain in LOGICAL or plain in ("odd", "all", "none"):
        return Words(plain)
    if len(plain) < 3 or (len(plain) == 3 and normalized == inner) or plain in ("infinity", "infty"):
        return None
    try:
        tokens = tokenize(inner)
    except NotUnderstood:
        return Words(plain)
    mathematical = not any(token.kind == "text" for token in tokens)
    return None if mathematical and "\\text" not in normalized and len(plain) < 6 else Words(plain)


def _trim(tokens: list[Token]) -> list[Token]:
    """Return `tokens` without punctuation and `=` at the ends, and `therefore`, `implies` and kin at the beginning."""
    while tokens and tokens[-1].kind != "text" and tokens[-1].text in (".", ",", ";", ":", "newline", "ldots", "="):
        if len(tokens) == 1 and tokens[0].text == "ldots":
            break
        tokens = tokens[:-1]
    while len(tokens) > 1 and tokens[0].text in (",", ";", ":", ".", "=", "therefore", "approx", "implies", "and"):
        tokens = tokens[1:]
    return tokens


def _split(tokens: Sequence[Token], at: frozenset[str] | set[str]) -> list[list[Token]]:
    """Return the parts of `tokens` between those outside brackets whose text is in `at`."""
    cuts = [index for index in _outside_brackets(tokens) if tokens[index].text in at]
    return [list(tokens[before + 1 : end]) for before, end in pairwise((-1, *cuts, len(tokens)))]


def _signs(tokens: Sequence[Token], among: frozenset[str]) -> list[str]:
    return [tokens[index].text for index in _outside_brackets(tokens) if tokens[index].text in among]


def _outside_brackets(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield indices of signs and commands outside brackets, and of the brackets that close the outermost ones."""
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind in ("sign", "command"):
            depth += token.text in _OPENING or token.text.startswith("begin ")
            depth -= token.text in _CLOSING or token.text.startswith("end ")
            if depth == 0:
                yield index


def _read(tokens: list[Token]) -> Answer:
    """Parse tokens by the loosest sign first: conditions, lists, relations, unions, ±, ratios, then a single answer."""
    if not tokens:
        raise NotUnderstood("nothing")
    for index, token in enumerate(tokens):  # what precedes a condition: `f(x) = ax + b, where …`, `2n for n > 1`
        if index and token.kind == "text" and token.text.lower().split()[0] in _CONDITIONS:
            tokens = _trim(tokens[:index])
            break
    for separators in ({";"}, {"and"}, {","}):
        items = _split(tokens, separators)
        if len(items) > 1:
            return _read_list([item for item in (_trim(item) for item in items) if item])
    chain = _split(tokens, _RELATIONS)
    if len(chain) > 1:
        return _read_relation(chain, _signs(tokens, _RELATIONS))
    for sign in ("cup", "cap", "setminus"):
        parts = _split(tokens, {sign})
        if len(parts) > 1:
            return SetOperation(sign, tuple(_read(part) for part in parts))
    if len(_split(tokens, {"pm", "mp"})) > 1:
        return Listed((_read(_replace_signs(tokens, pm="+", mp="-")), _read(_replace_signs(tokens, pm="-", mp="+"))))
    ratio = _split(tokens, {":"})
    if len(ratio) > 1:
        texts = ["".join(token.text for token in part) for part in ratio]
        clock = all(map(str.isdigit, texts)) and len(texts) in (2, 3) and all(len(text) == 2 for text in texts[1:])
        return Ratio(tuple(map(_read, ratio)), clock)
    return _read_single(tokens)


def _read_list(items: list[list[Token]]) -> Answer:
    """Return the answer that items make: one, an amount, solutions as tuples, or a list. Raises NotUnderstood."""
    if not items or len(items) > MAX_ITEMS:
        raise NotUnderstood("a list of nothing, or too long")
    answers = [_read(item) for item in items]
    # `p = 5, q = 2` and others for the same names are several solutions: (5, 2), …
    solutions: list[list[Relation]] = []
    for answer in answers:
        parts = answer.items if isinstance(answer, Listed) else ()
        equations = [part for part in parts if isinstance(part, Relation) and set(part.signs) == {"="}]
        solutions.append(equations if len(equations) == len(parts) else [])
    names = {tuple(equation.subject for equation in solution) for solution in solutions}
    if len(answers) > 1 and len(names) == 1 and names != {()}:
        answers = [Bracketed("(", tuple(item.sides[-1] for item in solution), ")") for solution in solutions]
    values = _flatten(answers)
    return values[0] if len(values) == 1 else join_amount(values) or Listed(values)


def _flatten(answers: Sequence[Answer]) -> tuple[Answer, ...]:
    """Return the answers, with lists among them replaced by their items."""
    return tuple(item for answer in answers for item in (answer.items if isinstance(answer, Listed) else (answer,)))


def _read_relation(chain: list[list[Token]], signs: list[str]) -> Answer:
    """Return a chain of relations, or the side of it that is the answer. Raises NotUnderstood."""
    chain = [_trim(side) for side in chain]
    if not chain[0]:  # `= 5`
        chain, signs = chain[1:], signs[1:]
    if "approx" in signs:
        left: Answer | None = None
        with suppress(NotUnderstood):
            left = _read(chain[0]) if signs[0] == "approx" else None
        is_value = isinstance(left, Formula) and not find_symbols(left.node)
        if signs[0] != "approx" or is_value:  # 1/3 ≈ 0.33: the exact value comes first
            cut = signs.index("approx")
            chain, signs = chain[: cut + 1], signs[:cut]
    signs = ["=" if sign == "approx" else sign for sign in signs]
    if not signs:
        return _read(chain[0])
    if any(not side for side in chain):
        raise NotUnderstood("a relation without a side")
    if "in" in signs:
        if len(signs) != 1:
            raise NotUnderstood("a chain with `in`")
        return _read(chain[1])
    subject = "".join(token.text for token in chain[0])
    sides: list[Answer] = []
    for index, side in enumerate(chain):
        try:
            sides.append(_read(side))
        except NotUnderstood:
            if index or signs[0] != "=":
                raise
            sides.append(Words(subject))
    return Relation(tuple(sides), tuple(signs), subject)


def _replace_signs(tokens: list[Token], **signs: str) -> list[Token]:
    return [Token("sign", signs[token.text], token.spaced) if token.text in signs else token for token in tokens]


def _read_single(tokens: list[Token]) -> Answer:
    """Return the answer of tokens without commas or relations outside brackets. Raises NotUnderstood."""
    first, last = tokens[0], tokens[-1]
    if first.text.startswith("begin "):
        return _read_matrix(tokens)
    brackets = first.kind in ("sign", "command") and first.text in _OPENING and last.text in _CLOSING
    if brackets and next(_outside_brackets(tokens), None) == len(tokens) - 1:  # the last closes the first
        inner = tokens[1:-1]
        if inner and inner[0].text.startswith("begin ") and inner[-1].text.startswith("end ") and first.text != "\\{":
            return _read(inner)
        if first.text in ("\\{", "{", "langle") or (first.text in "([" and _split(inner, {",", ";"}) != [inner]):
            return _read_bracketed(first.text, inner, last.text)
        if first.text == "[" or last.text == "]":
            return _read_bracketed(first.text, inner, last.text)
        if first.text == "(" and _signs(inner, _RELATIONS | {"cup", "pm", "mp"}):
            return _read(inner)
    if all(token.kind == "text" for token in tokens):
        return _as_words(tokens)
    if len(amounts := _split_amounts(tokens)) > 1:  # `4 h 20 min`, `12 remainder 5`
        return _read_list(amounts)
    if last.text == "%":
        formula = _read_formula(tokens[:-1])
        return Percentage(formula.node) if isinstance(formula, Formula) else formula
    if len(tokens) >= 3 and (based := _read_based(tokens)):
        return based
    if len(tokens) == 1 and first.text == "emptyset":
        return Bracketed("\\{", (), "\\}")
    if len(tokens) == 1 and first.kind == "symbol" and first.text.startswith("set "):
        return Words(first.text)
    return _read_formula(tokens)


def _read_bracketed(opening: str, inner: list[Token], closing: str) -> Answer:
    """Return an interval, tuple or set; of a set its condition, if it has one. Raises NotUnderstood."""
    if opening == "{":  # braces that LaTeX does not draw
        return _read(inner)
    if opening == "\\{":
        conditions = _split(inner, {"|", ":"})  # {x | x > 2} is its condition
        if len(conditions) == 2 and _signs(conditions[1], _RELATIONS):
            return _read(conditions[1])
    parts = [_trim(part) for part in _split(inner, {",", ";"})]
    if len(parts) > MAX_ITEMS:
        raise NotUnderstood("too many items")
    return Bracketed(opening, _flatten([_read(part) for part in parts if parts != [[]]]), closing)


def _read_matrix(tokens: list[Token]) -> Answer:
    """Return a matrix, or the list of a system of equations. Raises NotUnderstood for other environments."""
    kind = tokens[0].text.removeprefix("begin ").rstrip("*")
    if kind in (*_ALIGNED, "cases", "array") and tokens[-1].text == "end " + tokens[0].text[6:]:
        lines = [[token for token in row if token.text != "&"] for row in _split(tokens[1:-1], {"newline"})]
        if kind in _ALIGNED:
            lines = _join_derivation(lines)
        if all(_signs(line, _RELATIONS) for line in lines if line):  # a system of equations
            return _read_list([trimmed for line in lines if (trimmed := _trim(line))])
    if tokens[-1].text != tokens[0].text.replace("begin ", "end ") or not tokens[0].text.endswith(("matrix", "array")):
        raise NotUnderstood(tokens[0].text)
    rows = [tuple(_read(cell) for cell in _split(row, {"&"})) for row in _split(tokens[1:-1], {"newline"}) if row]
    if not rows or len({len(row) for row in rows}) != 1:
        raise NotUnderstood("rows of different length")
    return Matrix(tuple(rows))


def _join_derivation(lines: list[list[Token]]) -> list[list[Token]]:
    """Return rows continued by `= …` as one chain; of several values for one name the last."""
    chains: list[list[Token]] = []
    for line in lines:
        if line and chains and line[0].text in _RELATIONS:
            chains[-1] = [*chains[-1], *line]
        elif line:
            chains.append(line)
    sides = [_split(chain, {"="}) for chain in chains]
    subjects = ["".join(token.text for token in side[0]) if len(side) > 1 else "" for side in sides]
    last = dict(zip(subjects, chains, strict=True))
    return list(last.values()) if all(last) else chains


def _read_based(tokens: list[Token]) -> Based | None:
    """Return a number with its base: `204_5`, `(204)_{5}`, `A3_{16}`; None for any other answer."""
    split = _split(tokens, {"_"})
    if len(split) != 2:
        return None
    digits, base = ("".join(token.text for token in part).strip("(){}") for part in split)
    base = base.removeprefix("text").strip("{}")
    base = read_spelled(base) or base
    is_written = re.fullmatch(r"[0-9A-F.]+", digits) and any(sign.isdigit() for sign in digits)
    return Based(digits.lstrip("0") or "0", base) if is_written and base.isdigit() else None


def _read_formula(tokens: list[Token]) -> Formula | Words:
    """Return a formula with its unit, or Words where words change or interrupt it. Raises NotUnderstood."""
    split = split_unit(tokens)
    if split is None:
        return _as_words(tokens)
    without_words, unit = split
    if not without_words:
        raise NotUnderstood("a unit without a number")
    try:
        return Formula(parse_formula(without_words), unit)
    except NotUnderstood:
        if any(token.kind == "text" for token in without_words):
            return _as_words(tokens)
        raise


def _as_words(tokens: Sequence[Token]) -> Words:
    return Words(" ".join(token.text.lower() for token in tokens))


def _split_amounts(tokens: list[Token]) -> list[list[Token]]:
    """Return the parts of `tokens` that begin with a number behind another and a word or a unit."""
    depth, parts = 0, [list[Token]()]
    for index, token in enumerate(tokens):
        depth += (token.text in _OPENING) - (token.text in _CLOSING) if token.kind in ("sign", "command") else 0
        if token.kind == "number" and not depth and any(earlier.kind == "number" for earlier in parts[-1]):
            if tokens[index - 2].kind == "number" and tokens[index - 1].text in UNITS:  # the h of `6 h 30 min`
                parts[-1][-1] = Token("text", tokens[index - 1].text)
            if parts[-1][-1].kind == "text":
                parts.append([])
        parts[-1].append(token)
    return parts
