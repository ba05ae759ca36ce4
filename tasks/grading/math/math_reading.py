"""Reads an answer from its tokens: what its brackets, separators and relations make of it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tasks.grading.math.expressions import symbols
from tasks.grading.math.math_answers import (
    Answer,
    Based,
    Bracketed,
    Formula,
    Joined,
    Listed,
    Matrix,
    Percentage,
    Ratio,
    Relation,
    Words,
)
from tasks.grading.math.math_parsing import parse_formula
from tasks.grading.math.math_tokens import NotUnderstood, Token, tokenize
from tasks.grading.math.math_words import LOGICAL, NUMBER_WORDS
from tasks.grading.math.units import without_unit

MAX_ITEMS = 200
_PAIRS = {"(": ")", "[": "]", "{": "}", "\\{": "\\}", "lfloor": "rfloor", "lceil": "rceil", "langle": "rangle"}
_OPENING = frozenset(_PAIRS)
_CLOSING = frozenset(_PAIRS.values())
_RELATIONS = frozenset(("=", "<", ">", "le", "ge", "ne", "in", "equiv", "approx", "to"))
_ALIGNED = ("aligned", "align", "alignat", "gather", "gathered", "split")
_CHOICE = re.compile(r"(?:\\(?:text\w*|mathrm|mathbf)\s*\{\s*)?(?:\(\s*([A-J])\s*\)|([A-J])\s*\))\s*\}?(?=$|[\s\\:.])")
_LISTED_CHOICE = re.compile(r"([A-J])\s*[.:]\s+\S")
_LETTER = re.compile(r"(?:\\(?:text\w*|mathrm|mathbf)\s*\{\s*)?\(?\s*([A-J])\s*\)?\s*\}?")
_PLAIN_WORDS = re.compile(r"[^\W\d_][\w\s.'’-]*", re.U)


def read_answer(normalized: str, *, thousands: bool = True) -> Answer:
    """What a normalized answer is. Raises NotUnderstood."""
    words = _words(normalized)
    if words is not None:
        return words
    return _read(_trimmed(tokenize(normalized, thousands=thousands)))


def choice_letter(normalized: str) -> str | None:
    """The letter of a choice, in a short answer that begins with it."""
    found = _LETTER.fullmatch(normalized) or _CHOICE.match(normalized) or _LISTED_CHOICE.match(normalized)
    return next((letter for letter in found.groups() if letter), None) if found else None


def _words(normalized: str) -> Answer | None:
    """Text without mathematics."""
    inner = re.sub(r"\\(?:text\w*|mathrm|mbox|operatorname)\s*\{([^{}]*)\}", r"\1", normalized).strip()
    if not _PLAIN_WORDS.fullmatch(inner):
        return None
    plain = " ".join(inner.lower().replace("’", "'").split()).rstrip(".")
    if plain in NUMBER_WORDS:
        return Formula(parse_formula([Token("number", NUMBER_WORDS[plain])]))
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


def _trimmed(tokens: list[Token]) -> list[Token]:
    """Without signs at the ends that say nothing, and without words before the formula."""
    while (
        tokens and tokens[-1].text in (".", ",", ";", ":", "newline", "ldots", "=", "!") and tokens[-1].kind != "text"
    ):
        if tokens[-1].text == "!" or (tokens[-1].text == "ldots" and len(tokens) == 1):
            break
        tokens = tokens[:-1]
    while len(tokens) > 1 and (tokens[0].text in (",", ";", ":", ".", "=", "therefore", "approx", "implies", "and")):
        tokens = tokens[1:]
    return tokens


def _split(tokens: Sequence[Token], at: frozenset[str] | set[str]) -> list[list[Token]]:
    """Parts of `tokens` between those outside brackets whose text is in `at`."""
    parts: list[list[Token]] = [[]]
    depth = 0
    for token in tokens:
        if token.kind in ("sign", "command"):
            depth += _depth_change(token.text)
            if depth == 0 and token.text in at:
                parts.append([])
                continue
        parts[-1].append(token)
    return parts


def _depth_change(text: str) -> int:
    if text.startswith("begin "):
        return 1
    if text.startswith("end "):
        return -1
    return (text in _OPENING) - (text in _CLOSING)


def _signs(tokens: Sequence[Token], among: frozenset[str]) -> list[str]:
    depth, found = 0, []
    for token in tokens:
        if token.kind in ("sign", "command"):
            depth += _depth_change(token.text)
            if depth == 0 and token.text in among:
                found.append(token.text)
    return found


def _read(tokens: list[Token]) -> Answer:
    if not tokens:
        raise NotUnderstood("nothing")
    tokens = _without_condition(tokens)
    for separators in ({";"}, {"and"}, {","}):
        items = _split(tokens, separators)
        if len(items) > 1:
            return _listed([item for item in (_trimmed(item) for item in items) if item])
    chain = _split(tokens, _RELATIONS)
    if len(chain) > 1:
        return _relation(chain, _signs(tokens, _RELATIONS))
    for sign in ("cup", "cap", "setminus"):
        parts = _split(tokens, {sign})
        if len(parts) > 1:
            return Joined(sign, tuple(_read(part) for part in parts))
    signs = _split(tokens, {"pm", "mp"})
    if len(signs) > 1:
        return _plus_and_minus(tokens)
    ratio = _split(tokens, {":"})
    if len(ratio) > 1:
        return _ratio(ratio)
    return _single(tokens)


def _without_condition(tokens: list[Token]) -> list[Token]:
    """`f(x) = ax + b, where …`, `2n for n > 1`: the answer stands before the condition."""
    for index, token in enumerate(tokens):
        if index and token.kind == "text" and token.text.lower().split()[0] in ("where", "for", "with", "if", "when"):
            return _trimmed(tokens[:index])
    return tokens


def _listed(items: list[list[Token]]) -> Answer:
    if not items or len(items) > MAX_ITEMS:
        raise NotUnderstood("a list of nothing, or too long")
    answers = [_read(item) for item in items]
    if len(answers) > 1 and len({_assigned(answer) for answer in answers}) == 1 and _assigned(answers[0]):
        answers = [_as_tuple(answer) for answer in answers]
    read: list[Answer] = []
    for answer in answers:
        read.extend(answer.items if isinstance(answer, Listed) else [answer])
    return read[0] if len(read) == 1 else Listed(tuple(read))


def _assigned(answer: Answer) -> tuple[str, ...]:
    """Names of `p = 5, q = 2`; nothing for all else."""
    if not isinstance(answer, Listed) or not all(
        isinstance(item, Relation) and set(item.signs) == {"="} for item in answer.items
    ):
        return ()
    return tuple(item.subject for item in answer.items if isinstance(item, Relation))


def _as_tuple(answer: Answer) -> Answer:
    """`p = 5, q = 2`, one of several such solutions, as (5, 2)."""
    assert isinstance(answer, Listed)
    return Bracketed("(", tuple(item.sides[-1] for item in answer.items if isinstance(item, Relation)), ")")


def _relation(chain: list[list[Token]], signs: list[str]) -> Answer:
    chain = [_trimmed(side) for side in chain]
    if not chain[0]:  # `= 5`
        chain, signs = chain[1:], signs[1:]
    if "approx" in signs and (signs[0] != "approx" or _is_value(chain[0])):  # 1/3 ≈ 0.33: the exact value comes first
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


def _is_value(tokens: list[Token]) -> bool:
    """True for a formula without variables."""
    try:
        answer = _read(tokens)
    except NotUnderstood:
        return False
    return isinstance(answer, Formula) and not symbols(answer.node)


def _plus_and_minus(tokens: list[Token]) -> Answer:
    upper = [
        Token("sign", {"pm": "+", "mp": "-"}.get(token.text, token.text), token.spaced)
        if token.text in ("pm", "mp")
        else token
        for token in tokens
    ]
    lower = [
        Token("sign", {"pm": "-", "mp": "+"}.get(token.text, token.text), token.spaced)
        if token.text in ("pm", "mp")
        else token
        for token in tokens
    ]
    return Listed((_read(upper), _read(lower)))


def _ratio(parts: list[list[Token]]) -> Answer:
    texts = ["".join(token.text for token in part) for part in parts]
    half = re.search(r"([ap])\.?m\.?$", texts[-1].lower())
    if half:
        return _half_day(parts, half.group(1))
    clock = all(text.isdigit() for text in texts) and len(texts) in (2, 3) and all(len(text) == 2 for text in texts[1:])
    return Ratio(tuple(_read(part) for part in parts), clock)


def _half_day(parts: list[list[Token]], half: str) -> Answer:
    """`8:34 P.M.` as 20:34."""
    parts = [[token for token in part if token.kind == "number"] for part in parts]
    if len(parts) != 2 or any(len(part) != 1 or not part[0].text.isdigit() for part in parts):
        raise NotUnderstood("a time of day")
    hour = int(parts[0][0].text) % 12 + (12 if half == "p" else 0)
    return _ratio([[Token("number", str(hour))], parts[1]])


def _single(tokens: list[Token]) -> Answer:
    """A value without separators outside its brackets."""
    first, last = tokens[0], tokens[-1]
    if first.text.startswith("begin "):
        return _matrix(tokens)
    if _encloses(tokens):
        inner = tokens[1:-1]
        if inner and inner[0].text.startswith("begin ") and inner[-1].text.startswith("end ") and first.text != "\\{":
            return _read(inner)
        if first.text in ("\\{", "{", "langle") or (first.text in "([" and _split(inner, {",", ";"}) != [inner]):
            return _bracketed(first.text, inner, last.text)
        if first.text == "[" or last.text == "]":
            return _bracketed(first.text, inner, last.text)
        if first.text == "(" and _signs(inner, _RELATIONS | {"cup", "pm", "mp"}):
            return _read(inner)
    if all(token.kind == "text" for token in tokens):
        return Words(" ".join(token.text.lower() for token in tokens))
    if last.text == "%":
        return Percentage(_formula(tokens[:-1]).node)
    if len(tokens) >= 3 and (based := _based(tokens)):
        return based
    if first.text in ("emptyset",) and len(tokens) == 1:
        return Bracketed("\\{", (), "\\}")
    if first.kind == "symbol" and first.text.startswith("set ") and len(tokens) == 1:
        return Words(first.text)
    return _formula(tokens)


def _encloses(tokens: Sequence[Token]) -> bool:
    """True where the first bracket is closed by the last."""
    if tokens[0].text not in _OPENING or tokens[-1].text not in _CLOSING or len(tokens) < 2:
        return False
    depth = 0
    for index, token in enumerate(tokens):
        if token.kind in ("sign", "command"):
            depth += _depth_change(token.text)
        if depth == 0:
            return index == len(tokens) - 1
    return False


def _bracketed(opening: str, inner: list[Token], closing: str) -> Answer:
    if opening == "{":  # braces that LaTeX does not draw
        return _read(inner)
    if opening == "\\{":
        conditions = _split(inner, {"|", ":"})
        if len(conditions) == 2 and _signs(conditions[1], _RELATIONS):
            return _read(conditions[1])
    parts = [_trimmed(part) for part in _split(inner, {",", ";"})]
    if len(parts) > MAX_ITEMS:
        raise NotUnderstood("too many items")
    items: list[Answer] = []
    for part in parts:
        if not part and len(parts) == 1:
            break
        answer = _read(part)
        items.extend(answer.items if isinstance(answer, Listed) else [answer])
    return Bracketed(opening, tuple(items), closing)


def _matrix(tokens: list[Token]) -> Answer:
    kind = tokens[0].text.removeprefix("begin ").rstrip("*")
    if kind in (*_ALIGNED, "cases", "array") and tokens[-1].text == "end " + tokens[0].text[6:]:
        lines = [[token for token in row if token.text != "&"] for row in _split(tokens[1:-1], {"newline"})]
        if kind in _ALIGNED:
            lines = _derivation(lines)
        if all(_signs(line, _RELATIONS) for line in lines if line):  # a system of equations
            return _listed([trimmed for line in lines if (trimmed := _trimmed(line))])
    if tokens[-1].text != tokens[0].text.replace("begin ", "end ") or not tokens[0].text.endswith(("matrix", "array")):
        raise NotUnderstood(tokens[0].text)
    rows: list[tuple[Answer, ...]] = []
    for row in _split(tokens[1:-1], {"newline"}):
        if row:
            rows.append(tuple(_read(cell) for cell in _split(row, {"&"})))
    if not rows or len({len(row) for row in rows}) != 1:
        raise NotUnderstood("rows of different length")
    return Matrix(tuple(rows))


def _derivation(lines: list[list[Token]]) -> list[list[Token]]:
    """Rows that go on with `= …` as one chain; of several values for one name the last."""
    chains: list[list[Token]] = []
    for line in lines:
        if line and chains and line[0].text in _RELATIONS:
            chains[-1] = [*chains[-1], *line]
        elif line:
            chains.append(line)
    last = {_subject(chain): chain for chain in chains}
    return list(last.values()) if all(last) else chains


def _subject(chain: list[Token]) -> str:
    """What stands before the first `=`."""
    names = _split(chain, {"="})
    return "".join(token.text for token in names[0]) if len(names) > 1 else ""


def _based(tokens: list[Token]) -> Based | None:
    """`204_5`, `(204)_{5}`, `A3_{16}`."""
    split = _split(tokens, {"_"})
    if len(split) != 2:
        return None
    digits, base = ("".join(token.text for token in part).strip("(){}") for part in split)
    base = base.removeprefix("text").strip("{}")
    base = NUMBER_WORDS.get(base, base)
    written = re.fullmatch(r"[0-9A-F.]+", digits) and any(sign.isdigit() for sign in digits)
    return Based(digits.lstrip("0") or "0", base) if written and base.isdigit() else None


def _formula(tokens: list[Token]) -> Formula:
    """A formula, and the unit behind it."""
    kept, unit = without_unit(tokens)
    if not kept:
        raise NotUnderstood("a unit without a number")
    return Formula(parse_formula(kept), unit)
