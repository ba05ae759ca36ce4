"""Paragraph numbers and bullets."""

from __future__ import annotations

import pytest

from tasks.documents.hwp.hwp_model import ListCounters, ListHead, ListStyles, NumberingLevel, number_text


@pytest.mark.parametrize(
    ("number", "style", "text"),
    [
        (7, "DIGIT", "7"),
        (21, "CIRCLED_DIGIT", "㉑"),
        (51, "CIRCLED_DIGIT", "51"),
        (1994, "ROMAN_CAPITAL", "MCMXCIV"),
        (27, "LATIN_CAPITAL", "AA"),
        (15, "HANGUL_SYLLABLE", "거"),
        (3, "CIRCLED_HANGUL_SYLLABLE", "㉰"),
        (230, "HANGUL_PHONETIC", "이백삼십"),
        (10, "CIRCLED_IDEOGRAPH", "㊉"),
        (10, "DECAGON_CIRCLE_HANJA", "癸"),
        (0, "ROMAN_CAPITAL", "0"),
        (5, "A STYLE OF TOMORROW", "5"),
    ],
)
def test_numbers_are_spelled_in_their_style(number: int, style: str, text: str) -> None:
    assert number_text(number, style) == text


def marks(styles: ListStyles, *heads: ListHead, outline_id: int = 1) -> list[str]:
    counters = ListCounters(styles)
    return [counters.mark(head, outline_id=outline_id) for head in heads]


def numbered(*patterns: str, start: int = 1) -> ListStyles:
    return ListStyles({1: tuple(NumberingLevel(pattern, "DIGIT", start) for pattern in patterns)}, {}, {})


def test_a_new_upper_number_restarts_the_lower_ones() -> None:
    heads = [ListHead("number", 1, level) for level in (0, 1, 1, 0, 1)]
    assert marks(numbered("^1.", "^1.^2"), *heads) == ["1.", "1.1", "1.2", "2.", "2.1"]


def test_path_codes_write_all_levels() -> None:
    heads = [ListHead("number", 1, level) for level in (0, 1, 2)]
    assert marks(numbered("^n", "^n", "^N"), *heads) == ["1", "1.1", "1.1.1."]


def test_outline_follows_the_numbering_of_its_section() -> None:
    styles = ListStyles({2: (NumberingLevel("제^1장", "DIGIT", 1),)}, {}, {})
    assert marks(styles, ListHead("outline", 0, 0), outline_id=2) == ["제1장"]


def test_bullets_of_the_symbol_font_become_the_signs_that_it_shows() -> None:
    styles = ListStyles({}, {1: "\uf06c", 2: "▶"}, {})
    assert marks(styles, ListHead("bullet", 1, 0), ListHead("bullet", 2, 0)) == ["●", "▶"]
