from __future__ import annotations

import tomllib
import unicodedata
from pathlib import Path

import pytest

from tasks.rag.planning.type_words import RULES, match_rules, without_particles

QUESTIONS = tomllib.loads((Path(__file__).parent / "type_word_questions.toml").read_text("utf-8"))
FIRES: dict[str, list[str]] = QUESTIONS["fires"]
STAYS_SILENT: dict[str, list[str]] = QUESTIONS["silent"]


def words(question: str) -> set[str]:
    return {rule.word for rule in match_rules(question)}


def cases(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(word, question) for word, questions in table.items() for question in questions]


@pytest.mark.parametrize(("word", "question"), cases(FIRES))
def test_a_word_fires_where_it_stands_as_a_word(word: str, question: str) -> None:
    assert word in words(question)


@pytest.mark.parametrize(("word", "question"), cases(STAYS_SILENT))
def test_a_word_is_silent_inside_others_and_where_it_means_something_else(word: str, question: str) -> None:
    assert word not in words(question)


def test_every_word_of_the_table_is_tried_both_ways() -> None:
    assert set(FIRES) == set(STAYS_SILENT) == {rule.word for rule in RULES}


@pytest.mark.parametrize(
    "particles", ["", "은", "들은", "에서는", "마다", "별로", "으로부터는", "인가요", "입니까", "이라면"]
)
def test_any_particles_may_follow_a_noun(particles: str) -> None:
    assert "기관" in words(f"어느 기관{particles} 그런가?")


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("question", [questions[0] for questions in FIRES.values()])
def test_decomposed_hangul_fires_alike(form: str, question: str) -> None:
    assert words(unicodedata.normalize(form, question)) == words(question)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("word", "stem"), [("가람시의", "가람시"), ("기관들에서는", "기관"), ("구축은", "구축"), ("도서관입니다", "도서관")]
)
def test_a_korean_word_is_found_without_its_particles(word: str, stem: str) -> None:
    assert stem in without_particles(word)
