"""Reads tokens as a formula, by recursive descent; nothing is ever evaluated here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction

from tasks.grading.math.cursor import Cursor
from tasks.grading.math.expressions import FUNCTIONS, Apply, Node, Number, Symbol
from tasks.grading.math.math_tokens import NotUnderstood, Token, literal

MAX_DEPTH = 60
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
_TRIGONOMETRIC = frozenset(["sin", "cos", "tan", "cot", "sec", "csc"])
_INVERSE = {"sin": "arcsin", "cos": "arccos", "tan": "arctan", "cot": "arccot", "sec": "arcsec", "csc": "arccsc"}
_FUNCTION_LETTERS = frozenset("fgFG")
_STOPS = frozenset(("sign", sign) for sign in [")", "]", "}", "\\}", ",", ";", "=", "<", ">", ":"])
INFINITY = Symbol("infinity")


def parse_formula(tokens: Sequence[Token]) -> Node:
    """The formula that all of `tokens` make. Raises NotUnderstood."""
    reader = _Reader(tokens)
    node = reader.sum()
    if reader.position != len(reader.tokens):
        raise NotUnderstood(f"`{reader.peek().text}` in a formula")
    return node


class _Reader(Cursor):
    def __init__(self, tokens: Sequence[Token]) -> None:
        super().__init__(tokens)
        self.depth = 0
        self.in_trigonometric = False
        self.bars = 0

    def sum(self) -> Node:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotUnderstood("too deep")
        terms = [self.term()]
        while self.at("+", "-"):
            negative = self.next().text == "-"
            term = self.term()
            terms.append(Apply("neg", (term,)) if negative else term)
        self.depth -= 1
        return terms[0] if len(terms) == 1 else Apply("add", tuple(terms))

    def term(self) -> Node:
        negative = False
        while self.at("+", "-"):
            negative ^= self.next().text == "-"
        node = self.product()
        return Apply("neg", (node,)) if negative else node

    def product(self) -> Node:
        node = self.factors()
        while True:
            if self.take("*"):
                node = Apply("mul", (node, self.signed_factors()))
            elif self.take("/"):
                node = Apply("div", (node, self.denominator(node)))
            elif self.take("bmod", "mod", "pmod"):
                node = Apply("mod", (node, self.factors()))
            elif self.starts_factor():  # behind a denominator: 3/4 x
                node = Apply("mul", (node, self.factors()))
            else:
                return node

    def signed_factors(self) -> Node:
        if self.at("-", "+"):
            return Apply("neg", (self.signed_factors(),)) if self.next().text == "-" else self.signed_factors()
        return self.factors()

    def denominator(self, above: Node) -> Node:
        """What a slash divides by: 1/2 x is a half of x, but a/bc divides by both."""
        if self.at("-"):
            self.next()
            return Apply("neg", (self.denominator(above),))
        if isinstance(above, Number) and self.peek().kind == "number":
            return self.postfixed()
        return self.factors()

    def starts_factor(self) -> bool:
        token = self.peek()
        if token.kind in ("number", "symbol"):
            return True
        if token.kind == "sign":
            return token.text in ("(", "[", "{") or (token.text == "|" and not self.bars)
        return token.kind == "command" and (
            token.text in FUNCTIONS
            or token.text in ("frac", "sqrt", "binom", "lfloor", "lceil", "infty", "derivative", "pi")
        )

    def factors(self) -> Node:
        """Factors beside one another."""
        parts = [self.postfixed()]
        while self.starts_factor():
            if self.peek().kind == "number" and isinstance(parts[-1], Number) and not self._mixed_ahead():
                raise NotUnderstood("two numbers side by side")
            mixed = self._mixed_number(parts)
            if mixed:
                parts[-1] = mixed
                continue
            parts.append(self.postfixed())
        return parts[0] if len(parts) == 1 else Apply("mul", tuple(parts))

    def _mixed_ahead(self) -> bool:
        """`1 1/2`: behind a whole number a space and a fraction of whole numbers below 1."""
        above, slash, below = self.peek(), self.peek(1), self.peek(2)
        whole = above.kind == below.kind == "number" and above.text.isdigit() and below.text.isdigit()
        return whole and slash.text == "/" and above.spaced and int(above.text) < int(below.text)

    def _mixed_number(self, parts: list[Node]) -> Node | None:
        whole = parts[-1]
        if len(parts) != 1 or not isinstance(whole, Number) or whole.places is not None or whole.value.denominator != 1:
            return None
        if self.tokens[self.position - 1].kind != "number":
            return None
        start = self.position
        if self.peek().kind == "number" and self._mixed_ahead():
            above, below = literal(self.next().text), literal((self.next(), self.next())[1].text)
            return Apply("add", (whole, Apply("div", (above, below))))
        if self.take("frac"):
            fraction = self.fraction()
            ends = self.position == len(self.tokens) or not self.at("^", "!")
            if isinstance(fraction, Apply) and all(isinstance(part, Number) for part in fraction.args) and ends:
                return Apply("add", (whole, fraction))
            self.position = start
        return None

    def postfixed(self) -> Node:
        node = self.atom()
        while True:
            if self.take("!"):
                node = Apply("factorial", (node,))
            elif self.at("^"):
                node = self.raised(node)
            elif self.take("degree"):
                if self.in_trigonometric:
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
        self.need("^")
        if isinstance(base, Symbol) and self._only_primes():
            return Symbol(base.name + self._primes())
        exponent = self.argument()
        if isinstance(exponent, Symbol) and exponent.name in ("*", "circ"):
            raise NotUnderstood("a star as an exponent")
        if self.at("^"):
            exponent = self.raised(exponent)
        return Apply("pow", (base, exponent))

    def _only_primes(self) -> bool:
        if self.at("'"):
            return True
        return self.at("{") and self.peek(1).text == "'"

    def _primes(self) -> str:
        group, count = self.take("{"), 0
        while self.take("'"):
            count += 1
        if group:
            self.need("}")
        return "'" * count

    def argument(self) -> Node:
        """What a command takes: a group in braces, or the next piece; of `\\frac12` single digits."""
        if self.take("{"):
            node = self.sum()
            self.need("}")
            return node
        token = self.peek()
        if token.kind == "number" and not token.text.isdigit():
            return literal(self.next().text)
        if self.at("-", "+"):
            negative = self.next().text == "-"
            node = self.argument()
            return Apply("neg", (node,)) if negative else node
        return self.atom()

    def fraction(self) -> Node:
        return Apply("div", (self._digit_or_argument(), self._digit_or_argument()))

    def _digit_or_argument(self) -> Node:
        """An argument of `\\frac`: without braces it is one digit, as in `\\frac12`."""
        token = self.peek()
        if token.kind == "number" and token.text.isdigit() and len(token.text) > 1:
            rest = Token("number", token.text[1:])
            self.tokens = [
                *self.tokens[: self.position],
                Token("number", token.text[0]),
                rest,
                *self.tokens[self.position + 1 :],
            ]
        return self.argument()

    def atom(self) -> Node:
        token = self.next()
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise NotUnderstood("too deep")
        try:
            if token.kind == "number":
                if self.at("_"):
                    raise NotUnderstood("a number to a base in a formula")
                return literal(token.text)
            if token.kind == "symbol":
                return self.symbol(token)
            if token.kind == "sign":
                return self.bracketed(token)
            if token.kind == "command":
                return self.command(token)
            raise NotUnderstood(f"`{token.text}` in a formula")
        finally:
            self.depth -= 1

    def symbol(self, token: Token) -> Node:
        name = token.text
        if self.at("_"):
            name = self._indexed(name)
        opens = self.at("(") and not self.peek().spaced
        if opens and (name[0] in _FUNCTION_LETTERS or (self.peek(1).kind == "number" and self.peek(2).text == ")")):
            return self._called(name)
        return Symbol("e" if name == "mathe" else name)

    def _indexed(self, name: str) -> str:
        self.need("_")
        if not self.take("{"):
            return f"{name}_{self.next().text}"
        index = ""
        while not self.take("}"):
            if self.peek().kind == "end":
                raise NotUnderstood("an open index")
            index += self.next().text
        return f"{name}_{index}"

    def _called(self, name: str) -> Node:
        self.need("(")
        node = self.sum()
        self.need(")")
        return Symbol(f"{name}({_written(node)})")

    def bracketed(self, token: Token) -> Node:
        if token.text == "|":
            self.bars += 1
            node = self.sum()
            self.bars -= 1
            self.need("|")
            return Apply("abs", (node,))
        closing = _CLOSING.get(token.text)
        if closing is None or token.text == "\\{":
            raise NotUnderstood(f"`{token.text}` in a formula")
        bars, self.bars = self.bars, 0
        trigonometric, self.in_trigonometric = self.in_trigonometric, self.in_trigonometric
        node = self.sum()
        self.bars, self.in_trigonometric = bars, trigonometric
        self.need(closing)
        return node

    def command(self, token: Token) -> Node:
        name = token.text
        if name == "frac":
            return self.fraction()
        if name == "sqrt":
            return self.root()
        if name == "binom":
            return Apply("binomial", (self._digit_or_argument(), self._digit_or_argument()))
        if name in ("lfloor", "lceil"):
            node = self.sum()
            self.need("r" + name[1:])
            return Apply(name[1:], (node,))
        if name == "infty":
            return INFINITY
        if name == "pi":
            return Symbol("pi")
        if name == "derivative":
            return self.derivative()
        if name in FUNCTIONS:
            return self.function(name)
        raise NotUnderstood(f"`\\{name}` in a formula")

    def derivative(self) -> Node:
        parts = []
        for _ in range(3):
            self.need("{")
            words: list[str] = []
            while not self.take("}"):
                if self.peek().kind == "end":
                    raise NotUnderstood("an open derivative")
                words.append(self.next().text)
            parts.append("".join(words))
        return Symbol("d" + "/".join(parts))

    def root(self) -> Node:
        degree: Node | None = None
        if self.take("["):
            degree = self.sum()
            self.need("]")
        if degree is None and self.peek().kind == "sign" and self.peek().text == "(":
            radicand = self.atom()
        elif (
            self.peek().kind == "number"
            and self.peek().text.isdigit()
            and len(self.peek().text) > 1
            and self.peek().spaced
        ):
            radicand = self.atom()  # people write `sqrt 13`
        else:
            radicand = (
                self.argument()
                if self.at("{") or self.tokens[self.position - 1].text == "sqrt"
                else self._digit_or_argument()
            )
        half = Number(Fraction(1, 2))
        return Apply("root", (radicand, degree)) if degree else Apply("pow", (radicand, half))

    def function(self, name: str) -> Node:
        base: Node | None = None
        exponent: Node | None = None
        while self.at("_", "^"):
            if self.take("_"):
                base = self._digit_or_argument() if self.peek().kind == "number" else self.argument()
            else:
                self.need("^")
                exponent = self.argument()
        if isinstance(exponent, Apply) and exponent == Apply("neg", (Number(Fraction(1)),)) and name in _INVERSE:
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
        if self.at("(", "{", "[", "\\{"):
            opening = self.next().text
            args = [self.sum()]
            while self.take(","):
                args.append(self.sum())
            self.need(_CLOSING[opening])
            node = args[0]
            while len(args) == 1 and self.at("^", "!", "degree") and opening == "{":
                break
            return (node, *args[1:])
        if self.at("-"):
            self.next()
            return (Apply("neg", self.function_arguments()),)
        parts = [self.postfixed()]
        while self.starts_factor() and not (self.peek().kind == "command" and self.peek().text in FUNCTIONS):
            if self.at("(", "["):
                break
            parts.append(self.postfixed())
        node = parts[0] if len(parts) == 1 else Apply("mul", tuple(parts))
        while self.take("/"):
            node = Apply("div", (node, self.postfixed()))
        return (node,)


def _written(node: Node) -> str:
    """`node` as a name, for the argument of a function that nothing is known of."""
    if isinstance(node, Number):
        return str(node.value)
    if isinstance(node, Symbol):
        return node.name
    return re.sub(r"\s", "", f"{node.name}[{','.join(_written(arg) for arg in node.args)}]")
