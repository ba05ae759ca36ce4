"""A question that asks for several things becomes several, each looked up and answered by itself.

`What is the budget of A, and when does B begin?` has two parts, and so has a comparison of two descriptions:
`Compare the rate of the loan with the rate that the company pays.` Parts that cannot stand alone are left together.
"""

from __future__ import annotations

import re

MOST_PARTS = 4
FEWEST_WORDS = {"ko": 2, "en": 3}
"""A part of fewer words leans on the others."""

_ENGLISH_JOINT = re.compile(
    r"(?:,?\s+and\s+|;\s+(?:and\s+)?|\?\s+(?:and\s+)?)"
    r"(?=(?:what|how|when|where|who|whom|whose|which|why|does|do|did|is|are|was|were)\b)",
    re.IGNORECASE,
)
_ENGLISH_ASKS = re.compile(
    r"\b(?:what|how|when|where|who|whom|whose|which|why)\b|^(?:does|do|did|is|are|was|were)\b", re.IGNORECASE
)
_ENGLISH_SIDES = re.compile(
    r"^(?:please\s+)?(?:compare|contrast|set)\s+(?P<one>.+?)\s+(?:with|to|against|versus|vs\.?)\s+(?P<other>.+)$"
    r"|^(?:what\s+is\s+)?the\s+difference\s+between\s+(?P<first>.+?)\s+and\s+(?P<second>.+)$",
    re.IGNORECASE,
)
# 몇 명이고, · 얼마이며 · 언제인지: a predicate that goes on, in a clause that asks
_KOREAN_JOINT = re.compile(r"(?<=[이하인었았되나르]고)[,\s]\s*|(?<=[이하인]며)[,\s]\s*|(?<=[인는]지)[,\s]\s*|[?？]\s+")
_KOREAN_ASKS = re.compile(r"얼마|언제|누구|누가|어디|무엇|무슨|어느|어떤|어떻게|몇|왜|며칠")


def question_parts(question: str) -> tuple[str, ...]:
    """The parts, each a question of its own; the question itself where it has only one."""
    text = question.strip()
    korean = re.search("[가-힣]", text) is not None
    parts = _korean_parts(text) if korean else _sides(text) or _english_parts(text)
    fewest = FEWEST_WORDS["ko" if korean else "en"]
    if not 2 <= len(parts) <= MOST_PARTS or any(len(part.split()) < fewest for part in parts):
        return (text,)
    return parts


def _english_parts(text: str) -> tuple[str, ...]:
    parts = [part.strip(" ,;") for part in _ENGLISH_JOINT.split(text)]
    asking = all(_ENGLISH_ASKS.search(part) for part in parts)
    return tuple(part for part in parts if part) if asking else ()


def _sides(text: str) -> tuple[str, ...]:
    match = _ENGLISH_SIDES.match(text.rstrip(" .?!"))
    if not match:
        return ()
    one, other = (match["one"], match["other"]) if match["one"] else (match["first"], match["second"])
    return (one.strip(), other.strip())


def _korean_parts(text: str) -> tuple[str, ...]:
    """Cut where a clause that asks goes on into another that asks."""
    parts: list[str] = []
    start = 0
    for joint in _KOREAN_JOINT.finditer(text):
        head, rest = text[start : joint.start()], text[joint.end() :]
        if _KOREAN_ASKS.search(head) and _KOREAN_ASKS.search(rest):
            parts.append(head.strip(" ,"))
            start = joint.end()
    parts.append(text[start:].strip())
    return tuple(part for part in parts if part)
