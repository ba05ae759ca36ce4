"""Parses tokens as a formula, by recursive descent; nothing is evaluated."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from fractions import Fraction

from tasks.grading.math.expressions import FUNCTIONS, Apply, Node, Number, Symbol
from tasks.grading.math.math_tokens import NotUnderstood, Token, parse_literal

_CLOSING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
_TRIGONOMETRIC = frozenset(["sin", "cos", "tan", "cot", "sec", "csc"])
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec", "csc": "arccsc"}
_FUNCTION_LETTERS = frozenset("fgFG")
_BEGIN_FACTORS = FUNCTIONS | {"frac", "sqrt", "binom", "lfloor", "lceil", "infty", "derivative"}
INFINITY = Symbol("infinity")


def parse_formula(tokens: Sequence[Token]) -> Node:
    """Return the formula of all `tokens`. Raises NotUnderstood."""
    reader = _Reader(tokens)
    node = reader.sum()
    if reader.position != len(reader.tokens):
        raise NotUnderstood(f"`{reader.peek().text}` in a formula")
    return node


class _Reader:
    """A parser at a position in the tokens, which are told by their text; what it cannot read raises NotUnderstood."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.in_trigonometric = False
        self.bars = 0

    def peek(self, ahead: int = 0) -> Token:
        """Return the token `ahead` places further on without consuming it; behind the last one, of the kind `end`."""
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else Token("end", "")

    def next(self) -> Token:
        """Consume a token and return it."""
        token = self.peek()
        self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        """Return whether the next token is a sign or command with one of the texts."""
        token = self.peek()
        return token.kind in ("sign", "command") and token.text in texts

    def take(self, *texts: str) -> bool:
        """Consume the next token if it has one of the texts; return whether it had."""
        matches = self.at(*texts)
        self.position += matches
        return matches

    def need(self, text: str) -> None:
        """Consume a token with this text. Raises NotUnderstood if another follows."""
        if not self.take(text):
            raise NotUnderstood(f"`{text}` is missing")

    def sum(self) -> Node:
        """Read terms with `+` or `-` between them."""
        terms = [self.signed(self.product)]
        while self.at("+", "-"):
            terms.append(self.signed(self.product))
        return terms[0] if len(terms) == 1 else Apply("add", tuple(terms))

    def signed(self, read: Callable[[], Node]) -> Node:
        """Return what `read` reads, negated by the signs before it."""
        negative = False
        while self.at("+", "-"):
            negative ^= self.next().text == "-"
        return Apply("neg", (read(),)) if negative else read()

    def product(self) -> Node:
        """Read factors with `*`, `/` or `mod` between them, or with nothing."""
        node = self.factors()
        while True:
            if self.take("*"):
                node = Apply("mul", (node, self.signed(self.factors)))
            elif self.take("/"):
                node = Apply("div", (node, self.denominator(node)))
            elif self.take("bmod", "mod", "pmod"):
                node = Apply("mod", (node, self.factors()))
            elif self.starts_factor():  # behind a denominator: 3/4 x
                node = Apply("mul", (node, self.factors()))
            else:
                return node

    def denominator(self, above: Node) -> Node:
        """Read the divisor after a slash: 1/2 x is a half of x, but a/bc divides by both."""
        if self.take("-"):
            return Apply("neg", (self.denominator(above),))
        if isinstance(above, Number) and self.peek().kind == "number":
            return self.postfixed()
        return self.factors()

    def starts_factor(self) -> bool:
        """Return whether the next token can begin a factor."""
        token = self.peek()
        if token.kind == "sign":
            return token.text in ("(", "[", "{") or (token.text == "|" and not self.bars)
        return token.kind in ("number", "symbol") or (token.kind == "command" and token.text in _BEGIN_FACTORS)

    def factors(self) -> Node:
        """Read factors side by side, which are multiplied, or a mixed number. Raises NotUnderstood."""
        parts = [self.postfixed()]
        while self.starts_factor():
            if self.peek().kind == "number" and isinstance(parts[-1], Number) and not self._mixed_ahead():
                raise NotUnderstood("two numbers side by side")
            if mixed := self._mixed_number(parts):
                parts = [mixed]
            else:
                parts.append(self.postfixed())
        return parts[0] if len(parts) == 1 else Apply("mul", tuple(parts))

    def _mixed_ahead(self) -> bool:
        """Return whether a space and a fraction of whole numbers below 1 follow a whole number, as in `1 1/2`."""
        above, slash, below = self.peek(), self.peek(1), self.peek(2)
        whole = above.kind == below.kind == "number" and above.text.isdigit() and below.text.isdigit()
        return whole and slash.text == "/" and above.spaced and int(above.text) < int(below.text)

    def _mixed_number(self, parts: list[Node]) -> Node | None:
        """Return a whole number, the only part so far, plus the fraction after it; None for no mixed number."""
        whole = parts[-1]
        if len(parts) != 1 or not isinstance(whole, Number) or whole.places is not None or whole.value.denominator != 1:
            return None
        if self.tokens[self.position - 1].kind != "number":
            return None
        start = self.position
        if self.peek().kind == "number" and self._mixed_ahead():
            above, _, below = self.next(), self.next(), self.next()
            return Apply("add", (whole, Apply("div", (parse_literal(above.text), parse_literal(below.text)))))
        if self.take("frac"):
            fraction = self.fraction()
            ends = self.position == len(self.tokens) or not self.at("^", "!")
            if isinstance(fraction, Apply) and all(isinstance(part, Number) for part in fraction.args) and ends:
                return Apply("add", (whole, fraction))
            self.position = start
        return None

    def postfixed(self) -> Node:
        """Read an atom with its factorials, powers, degrees and primes. Raises NotUnderstood."""
        node = self.atom()
        while True:
            if self.take("!"):
                node = Apply("factorial", (node,))
            elif self.at("^"):
                node = self.raised(node)
            elif self.take("degree"):
                if self.in_trigonometric:  # sin 30° takes radians; elsewhere degrees are a unit, which is left out
                    node = Apply("div", (Apply("mul", (node, Symbol("pi"))), Number(Fraction(180))))
            elif self.take("'"):
                if not isinstance(node, Symbol):
                    raise NotUnderstood("a prime behind a formula")
                node = Symbol(node.name + "'")
            elif self.at("_"):
                raise NotUnderstood("an index behind a formula")
            else:
                return node

    def raised(self, base: Node) -> Node:
        """Return `base` to the exponent that follows; towers associate to the right. Raises NotUnderstood."""
        self.need("^")
        if isinstance(base, Symbol) and (self.at("'") or (self.at("{") and self.peek(1).text == "'")):
            group, start = self.take("{"), self.position
            while self.take("'"):
                pass
            primes = "'" * (self.position - start)
            if group:
                self.need("}")
            return Symbol(base.name + primes)
        exponent = self.argument()
        if isinstance(exponent, Symbol) and exponent.name in ("*", "circ"):
            raise NotUnderstood("a star as an exponent")
        if self.at("^"):
            exponent = self.raised(exponent)
        return Apply("pow", (base, exponent))

    def argument(self) -> Node:
        """Read the argument of a command: a group in braces, or the next piece."""
        if self.take("{"):
            node = self.sum()
            self.need("}")
            return node
        token = self.peek()
        if token.kind == "number" and not token.text.isdigit():
            return parse_literal(self.next().text)
        return self.signed(self.argument) if self.at("-", "+") else self.atom()

    def fraction(self) -> Node:
        """Read the two arguments of `\\frac`."""
        return Apply("div", (self._digit_or_argument(), self._digit_or_argument()))

    def _digit_or_argument(self) -> Node:
        """Read an argument of `\\frac`: without braces it is one digit, as in `\\frac12`."""
        token = self.peek()
        if token.kind == "number" and token.text.isdigit() and len(token.text) > 1:
            # the tokens have `12` in one piece, which is cut behind its first digit
            digits = [Token("number", token.text[0]), Token("number", token.text[1:])]
            self.tokens = [*self.tokens[: self.position], *digits, *self.tokens[self.position + 1 :]]
        return self.argument()

    def atom(self) -> Node:
        """Read a number, a symbol, a group in brackets, or a command. Raises NotUnderstood."""
        token = self.next()
        match token.kind:
            case "number":
                if self.at("_"):
                    raise NotUnderstood("a number to a base in a formula")
                return parse_literal(token.text)
            case "symbol":
                return self.symbol(token)
            case "sign":
                return self.bracketed(token)
            case "command":
                return self.command(token.text)
            case _:
                raise NotUnderstood(f"`{token.text}` in a formula")

    def symbol(self, token: Token) -> Node:
        """Read a variable with its index, or an unknown function with its argument, `f(x)`."""
        name = token.text
        if self.take("_"):
            name += "_" + (self._braced() if self.at("{") else self.next().text)
        opens = self.at("(") and not self.peek().spaced
        if opens and (name[0] in _FUNCTION_LETTERS or (self.peek(1).kind == "number" and self.peek(2).text == ")")):
            self.need("(")
            inside = self.sum()
            self.need(")")
            return Symbol(f"{name}({_spell(inside)})")
        return Symbol("e" if name == "mathe" else name)

    def bracketed(self, token: Token) -> Node:
        """Read a group in brackets or an absolute value, opened by `token`. Raises NotUnderstood."""
        if token.text == "|":
            self.bars += 1
            node = self.sum()
            self.bars -= 1
            self.need("|")
            return Apply("abs", (node,))
        if token.text not in ("(", "[", "{"):
            raise NotUnderstood(f"`{token.text}` in a formula")
        bars, self.bars = self.bars, 0  # within brackets a bar opens an absolute value of its own
        node = self.sum()
        self.bars = bars
        self.need(_CLOSING[token.text])
        return node

    def command(self, name: str) -> Node:
        """Read what follows the command `name`. Raises NotUnderstood."""
        match name:
            case "frac":
                return self.fraction()
            case "sqrt":
                return self.root()
            case "binom":
                return Apply("binomial", (self._digit_or_argument(), self._digit_or_argument()))
            case "lfloor" | "lceil":
                node = self.sum()
                self.need("r" + name[1:])
                return Apply(name[1:], (node,))
            case "infty":
                return INFINITY
            case "derivative":
                return Symbol("d" + "/".join(self._braced() for _ in range(3)))
            case _ if name in FUNCTIONS:
                return self.function(name)
            case _:
                raise NotUnderstood(f"`\\{name}` in a formula")

    def _braced(self) -> str:
        """Return the text within the next braces. Raises NotUnderstood where they stay open."""
        self.need("{")
        texts = ""
        while not self.take("}"):
            if self.peek().kind == "end":
                raise NotUnderstood("an open brace")
            texts += self.next().text
        return texts

    def root(self) -> Node:
        """Read the degree in brackets, if any, and the radicand of `\\sqrt`; without a degree a power of 1/2."""
        degree: Node | None = None
        if self.take("["):
            degree = self.sum()
            self.need("]")
        # `\sqrt[3]27` is a root of the 2 alone to LaTeX; who writes `\sqrt[3] 27` means one of 27
        radicand = self._digit_or_argument() if degree and not self.peek().spaced else self.argument()
        return Apply("root", (radicand, degree)) if degree else Apply("pow", (radicand, Number(Fraction(1, 2))))

    def function(self, name: str) -> Node:
        """Read base, exponent and arguments of a known function. Raises NotUnderstood."""
        base: Node | None = None
        exponent: Node | None = None
        while self.at("_", "^"):
            if self.take("_"):
                base = self._digit_or_argument() if self.peek().kind == "number" else self.argument()
            else:
                self.need("^")
                exponent = self.argument()
        # \sin^{-1} x is the inverse function, not 1/sin x
        if exponent == Apply("neg", (Number(Fraction(1)),)) and name in _INVERSE:
            name, exponent = _INVERSE[name], None
        trigonometric, self.in_trigonometric = self.in_trigonometric, name in _TRIGONOMETRIC
        args = self.function_arguments()
        self.in_trigonometric = trigonometric
        if name == "lg":
            node = Apply("log", (Number(Fraction(10)), *args))
        elif name == "log":
            # without a base: natural, as in mathematics
            node = Apply("log", (base, *args)) if base else Apply("ln", args)
        elif base:
            raise NotUnderstood(f"an index of {name}")
        else:
            node = Apply(name, args)
        return Apply("pow", (node, exponent)) if exponent else node

    def function_arguments(self) -> tuple[Node, ...]:
        """Read arguments in brackets, or the factors behind a function without brackets."""
        if self.at("(", "{", "[", "\\{"):
            opening = self.next().text
            args = [self.sum()]
            while self.take(","):
                args.append(self.sum())
            self.need(_CLOSING[opening])
            return tuple(args)
        if self.take("-"):
            return (Apply("neg", self.function_arguments()),)
        parts = [self.postfixed()]
        while self.starts_factor() and not self.at("(", "[") and self.peek().text not in FUNCTIONS:
            parts.append(self.postfixed())
        node = parts[0] if len(parts) == 1 else Apply("mul", tuple(parts))
        while self.take("/"):
            node = Apply("div", (node, self.postfixed()))
        return (node,)


def _spell(node: Node) -> str:
    """Return `node` as part of a name: the argument of an unknown function."""
    if isinstance(node, Number):
        return str(node.value)
    if isinstance(node, Symbol):
        return node.name
    return re.sub(r"\s", "", f"{node.name}[{','.join(_spell(arg) for arg in node.args)}]")
