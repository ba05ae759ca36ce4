"""Cuts a normalized answer into tokens: numbers, names, commands, brackets, words."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from tasks.grading.math.expressions import FUNCTIONS, Number
from tasks.grading.math.math_words import JOINING, is_word, word_list

MAX_TOKENS = 2_000
MAX_SHIFT = 2_000
"""Digits, and the exponent in scientific notation: 1e999999999 is not written out."""


class Token(NamedTuple):
    """A piece of an answer."""

    kind: str
    """`number`, `symbol`, `command`, `sign`, `text`."""
    text: str
    spaced: bool = False
    """True where a space stands before it."""


class NotUnderstood(Exception):
    """The answer is not in the part of LaTeX that is read here."""


_PIECE = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+(?![\d.]))?)"
    r"|\\(?P<command>[A-Za-z]+)"
    r"|\\(?P<escaped>[^A-Za-z])"
    r"|(?P<word>[A-Za-z]+)"
    r"|(?P<sign>.)",
    re.S,
)
_THOUSANDS = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:,\d{3})+|(?: \d{3})+)(?![\d,])(?! \d)")
_TEXT = frozenset(
    word_list("text mathrm mbox hbox textbf textit textrm textnormal textup textsf texttt operatorname mathop mathtt")
)
_FONTS = frozenset(
    word_list("mathbf boldsymbol bm mathcal mathit mathsf mathfrak vec overrightarrow bold pmb ensuremath")
)
_MARKS = frozenset(word_list("overline bar hat widehat tilde widetilde dot ddot underline"))
_SAME = {
    "varepsilon": "epsilon",
    "varphi": "phi",
    "vartheta": "theta",
    "varpi": "pi",
    "varrho": "rho",
    "lvert": "|",
    "rvert": "|",
    "vert": "|",
    "mid": "|",
    "lbrace": "{",
    "rbrace": "}",
    "lbrack": "[",
    "rbrack": "]",
    "cdot": "*",
    "times": "*",
    "ast": "*",
    "div": "/",
    "backslash": "setminus",
    "land": "and",
    "lor": "or",
    "tg": "tan",
    "ctg": "cot",
    "cotg": "cot",
    "arctg": "arctan",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "sh": "sinh",
    "ch": "cosh",
    "th": "tanh",
    "infinity": "infty",
    "inf": "infty",
    "empty": "emptyset",
    "varnothing": "emptyset",
    "wedge": "and",
    "vee": "or",
    "lparen": "(",
    "rparen": ")",
    "colon": ":",
    "rightarrow": "to",
    "dots": "ldots",
    "cdots": "ldots",
    "dotsc": "ldots",
    "dotsb": "ldots",
    "equal": "=",
    "arsinh": "arcsinh",
    "dbinom": "binom",
    "tbinom": "binom",
    "imath": "i",
    "jmath": "j",
    "Vert": "|",
    "prime": "'",
}
_SIGNS = frozenset("*/|{}[]():='")
_SILENT = frozenset(
    word_list("big bigl bigr tfrac mathstrut strut protect space nobreak allowbreak hline displaylines centering")
)
_GREEK = word_list(
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau "
    "upsilon phi chi psi omega Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega ell "
    "hbar odot oplus circ nabla partial mho aleph square triangle angle star dagger perp "
    "parallel"
)
GREEK = frozenset(_GREEK)
_NAMED = sorted(
    (
        *FUNCTIONS - {"re", "im", "arg", "max", "min", "abs"},
        "sqrt",
        "infty",
        "infinity",
        "frac",
        "asin",
        "acos",
        "atan",
    ),
    key=len,
)
_SPELLED = re.compile(rf"({'|'.join(reversed(_NAMED))}|alpha|beta|gamma|delta|theta|lambda|sigma|omega|pi)")
_SHAPES = frozenset(
    word_list("ell hbar odot oplus circ nabla partial mho aleph square triangle angle star dagger perp parallel")
)
_WHOLE_WORDS = (
    frozenset(
        (*_NAMED, "tg", "ctg", "inf", "pi", "mu", "nu", "xi", "abs", "max", "min", *(g for g in _GREEK if len(g) > 2))
    )
    - _SHAPES
)


def tokenize(normalized: str, *, thousands: bool = True) -> list[Token]:
    """Tokens of a normalized answer; `thousands`: `1,234` outside brackets is one number. Raises NotUnderstood."""
    tokens: list[Token] = []
    text = _join_thousands(normalized) if thousands else normalized
    _cut(text, tokens, depth=0)
    return tokens


def _join_thousands(text: str) -> str:
    """Commas and spaces between groups of three digits go, but not inside brackets, where they part values."""
    if not _THOUSANDS.search(text):
        return text

    def joined(found: re.Match[str]) -> str:
        before = text[: found.start()]
        if any(before.count(opening) > before.count(closing) for opening, closing in ("()", "[]")) or "{" in before:
            return found.group()
        return found.group().replace(",", "").replace(" ", "")

    return _THOUSANDS.sub(joined, text)


def _cut(text: str, tokens: list[Token], *, depth: int) -> None:
    position, spaced = 0, False
    while position < len(text):
        if len(tokens) > MAX_TOKENS or depth > 40:
            raise NotUnderstood("too long")
        found = _PIECE.match(text, position)
        assert found  # the last alternative takes any sign
        position = found.end()
        kind, piece = str(found.lastgroup), found.group(str(found.lastgroup))
        if kind == "space":
            spaced = True
            continue
        if kind == "command":
            position = _command(piece, text, position, tokens, spaced=spaced, depth=depth)
        elif kind == "word":
            tokens.extend(_letters(piece, spaced=spaced, after_number=bool(tokens) and tokens[-1].kind == "number"))
        elif kind == "escaped":
            tokens.append(_escaped(piece, spaced=spaced))
        else:
            tokens.append(Token(kind, piece, spaced))
        spaced = False


def _escaped(piece: str, *, spaced: bool) -> Token:
    if piece in "{}":
        return Token("sign", "\\" + piece, spaced)
    return (
        Token("command", {"|": "|", "\\": "newline"}.get(piece, piece), spaced)
        if piece != "|"
        else Token("sign", "|", spaced)
    )


def _command(name: str, text: str, position: int, tokens: list[Token], *, spaced: bool, depth: int) -> int:
    """Append what a command stands for; gives where the rest begins."""
    name = _SAME.get(name, name)
    if name in _SILENT:
        return position
    if name in _TEXT or name in _FONTS or name in _MARKS or name == "mathbb":
        content, position = braced(text, position)
        inner: list[Token] = []
        if name in _TEXT:
            _text(content, inner, spaced=True)
        elif name == "mathbb":
            inner.append(Token("symbol", f"set {content.strip()}", spaced))
        else:
            _cut(content, inner, depth=depth + 1)
            if name in _MARKS:
                inner = [Token("symbol", f"{name}({''.join(token.text for token in inner)})", spaced)]
        tokens.extend(inner)
        return position
    if name in ("begin", "end"):
        content, position = braced(text, position)
        if name == "begin" and content.strip("*") == "array" and text[position:].lstrip().startswith("{"):
            _, position = braced(text, position)
        tokens.append(Token("command", f"{name} {content.strip()}", spaced))
    elif name in _SIGNS:
        tokens.append(Token("sign", "\\" + name if name in "{}" else name, spaced))
    elif (name in GREEK and name != "circ") or name in ("i", "j"):
        tokens.append(Token("symbol", name, spaced))
    else:
        tokens.append(Token("command", name, spaced))
    return position


def braced(text: str, position: int) -> tuple[str, int]:
    """What stands in the braces at `position`, or the next sign without braces; and where the rest begins."""
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


def _text(content: str, tokens: list[Token], *, spaced: bool) -> None:
    """Tokens of upright text: a single letter or the name of a function is mathematics, all else is words."""
    content = content.replace("\\", " ").strip(" .,~")
    if not content:
        return
    if content.lower() in JOINING:
        tokens.append(Token("command", "and", spaced))
    elif len(content) == 1 and content.isalpha():
        tokens.append(Token("symbol", content, spaced))
    elif content in _WHOLE_WORDS:
        tokens.extend(_letters(content, spaced=spaced, after_number=False))
    elif re.fullmatch(r"[\d.,/+\-\s]+", content):
        _cut(content, tokens, depth=1)
    else:
        tokens.append(Token("text", " ".join(content.split()), spaced))


def _letters(run: str, *, spaced: bool, after_number: bool) -> list[Token]:
    """Letters in a row: a function, a word, or variables beside one another."""
    if run.lower() in JOINING:
        return [Token("command", "and", spaced)]
    if run not in _WHOLE_WORDS and (is_word(run) and (len(run) > 1 or (after_number and spaced))):
        return [Token("text", run, spaced)] if len(run) > 1 else [Token("symbol", run, spaced)]
    tokens: list[Token] = []
    for part in _SPELLED.split(run) if run not in _WHOLE_WORDS else [run]:
        name = _SAME.get(part, part)
        if part in _WHOLE_WORDS or (len(part) > 1 and _SPELLED.fullmatch(part)):
            tokens.append(Token("symbol" if name in GREEK else "command", name, spaced and not tokens))
        else:
            tokens.extend(
                Token("symbol", letter, spaced and not tokens and not index) for index, letter in enumerate(part)
            )
    return tokens


def literal(text: str) -> Number:
    """A number as it is written: `4.5e33`, `.5`, `12`, `3.`."""
    mantissa, _, exponent = text.lower().partition("e")
    whole, _, fraction = mantissa.partition(".")
    shift = int(exponent or 0)
    if abs(shift) > MAX_SHIFT or len(mantissa) > MAX_SHIFT:
        raise NotUnderstood("a number that large")
    value = Fraction(int((whole + fraction) or "0")) * Fraction(10) ** (shift - len(fraction))
    return Number(value, len(fraction) - shift if fraction or exponent else None)
