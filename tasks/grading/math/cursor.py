"""A place in a row of tokens, and steps from it."""

from __future__ import annotations

from collections.abc import Sequence

from tasks.grading.math.math_tokens import NotUnderstood, Token


class Cursor:
    """Reads tokens one by one; signs and commands are told by their text."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.position = 0

    def peek(self, ahead: int = 0) -> Token:
        index = self.position + ahead
        return self.tokens[index] if index < len(self.tokens) else Token("end", "")

    def next(self) -> Token:
        token = self.peek()
        self.position += 1
        return token

    def at(self, *texts: str) -> bool:
        token = self.peek()
        return token.kind in ("sign", "command") and token.text in texts

    def take(self, *texts: str) -> bool:
        if not self.at(*texts):
            return False
        self.position += 1
        return True

    def need(self, text: str) -> None:
        if not self.take(text):
            raise NotUnderstood(f"`{text}` is missing")
