"""What is said of a number that other numbers contradict, in the words of a row and of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from tasks.language.sentences import Language
from tasks.rag.numbers.cell_facts import IdentityKind

GIVE: Mapping[Language, Mapping[IdentityKind, str]] = {
    "en": {
        "total": "the rows above give {expected}",
        "balance sheet": "the other side of the balance sheet is {expected}",
        "columns": "the columns before it give {expected}",
        "cash": "cash at the beginning and its change give {expected}",
    },
    "ko": {
        "total": "위 행들을 더하면 {expected}입니다",
        "balance sheet": "대차대조표의 다른 쪽은 {expected}입니다",
        "columns": "앞의 열들을 더하면 {expected}입니다",
        "cash": "기초 현금에 증감을 더하면 {expected}입니다",
    },
}
OF_ANSWER: Mapping[Language, str] = {
    "en": "[{n}] does not add up: {why}.",
    "ko": "[{n}]은(는) 합이 맞지 않습니다: {why}.",
}
OTHERWISE: Mapping[Language, str] = {
    "en": "{said} [{n}] is {shown} in {document}: it may have been restated.",
    "ko": "{said} [{n}]은(는) {document}에 {shown}(으)로 다르게 적혀 있습니다.",
}


class Broken(NamedTuple):
    """An identity that a number breaks."""

    kind: IdentityKind
    expected: Decimal
    """What its other numbers give, in whole units."""


def doubt_of(broken: Broken, scale: Decimal, language: Language = "en") -> str:
    """`the rows above give 530`, in the unit of the table."""
    return GIVE[language][broken.kind].format(expected=f"{(broken.expected / scale).normalize():,f}")


def said_in_answer(n: int, broken: Broken, scale: Decimal, language: Language) -> str:
    """`[2] does not add up: the rows above give 530.`; n: of the citation."""
    return OF_ANSWER[language].format(n=n, why=doubt_of(broken, scale, language))
