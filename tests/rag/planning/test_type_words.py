from __future__ import annotations

import unicodedata

import pytest

from tasks.rag.planning.type_words import RULES, rules_fired, without_particles

FIRES = {
    "비교": ["가람시와 나래시의 예산을 비교해줘", "두 사업을 비교하면 어느 쪽이 싼가?"],
    "차이": ["예산의 차이는?"],
    "서로": ["두 사업은 서로 무엇이 다른가?"],
    "vs": ["가람시 vs 나래시 예산"],
    "대비": ["가람시 대비 나래시의 예산은?"],
    "더 큰": ["가람시와 나래시 중 예산이 더 큰 곳은?"],
    "어떻게 다른가": ["두 공고는 예산이 어떻게 다른가?"],
    "versus": ["Calder Ridge versus Verdane: headcount"],
    "compare": ["Compare the budgets of the two projects."],
    "compared with": ["How large is Nike compared with Adidas?"],
    "difference": ["What is the difference between the notice and the re-notice?"],
    "which … or": ["Which has the larger budget, Port Ellery or Lakeshore?"],
    "which is more": ["Nike and Adidas: which has higher sales?"],
    "그럼": ["그럼 마감일은?"],
    "그렇다면": ["그렇다면 입찰 보증금은?"],
    "또": ["또 필요한 서류는?"],
    "추가로": ["추가로 제출할 서류는?"],
    "더": ["더 자세히 알려줘"],
    "이어서": ["이어서 평가 기준은?"],
    "방금": ["방금 말한 사업의 기간은?"],
    "앞서": ["앞서 말한 예산에 부가세가 들어 있나?"],
    "then": ["Then what is the deadline?"],
    "also": ["Also, who pays for the permits?"],
    "and": ["And the deadline?"],
    "what about": ["What about 2022?"],
    "more": ["What else is required?"],
    "you said": ["Where is the amount you mentioned?"],
    "여러": ["여러 사업의 예산은?"],
    "모든": ["모든 문서의 마감일을 알려줘"],
    "각각": ["예산은 각각 얼마인가?"],
    "기관": ["어느 기관이 발주하였는가?", "기관별로 예산을 정리해줘"],
    "all": ["What are the deadlines of all projects?"],
    "every": ["Name the budget of every project."],
    "each": ["What is the budget of each?"],
    "which of": ["Which companies report a loss?"],
    "list all": ["List all deadlines."],
}
STAYS_SILENT = {
    "비교": ["비교적 큰 금액은 무엇인가?"],
    "차이": ["차이나타운의 예산은?"],
    "서로": ["문서로 제출하는가?"],
    "vs": ["What was revenue in FY2022 vs FY2021?"],
    "대비": ["전년 대비 매출 증가율은?", "2022년 대비 영업이익은 얼마나 늘었나?", "예산 대비 집행률은?"],
    "더 큰": ["더 큰 글씨로 적을 항목은?"],
    "어떻게 다른가": ["다른 기관의 예산은?"],
    "versus": ["Income versus the prior year?"],
    "compare": ["What are comparable sales?"],
    "compared with": ["How did margin change compared to last year?"],
    "difference": ["How are temporary differences taxed?"],
    "which … or": ["Which segment had the highest sales?"],
    "which is more": ["Which segment grew more than planned?"],
    "그럼": ["그럼에도 불구하고 제출하지 못하면?"],
    "그렇다면": ["그렇다면서 거절한 까닭은?"],
    "또": ["또한 예산은 얼마인가?"],
    "추가로": ["계약 뒤 추가로 납품하는 수량은 몇 대인가?"],
    "더": ["더불어 사는 마을 사업의 예산은?"],
    "이어서": ["착수 보고에 이어서 열리는 회의는?"],
    "방금": ["방금고의 수량은?"],
    "앞서": ["계약에 앞서 제출할 서류는?"],
    "then": ["If the bid is late, then what happens?"],
    "also": ["Which segment also grew?"],
    "and": ["And-gate budget?"],
    "what about": ["So what about-face did the board make?"],
    "more": ["Which segment has more employees?"],
    "you said": ["What did the chief executive say?"],
    "여러": ["여러분에게 드리는 글은 몇 쪽인가?"],
    "모든": ["모든사람이 쓰는 화면은?"],
    "각각": ["각각형 배선은 몇 m인가?"],
    "기관": ["주관기관은 어디인가?", "총괄기관의 역할은?", "발주기관은 어디인가?"],
    "all": ["What is the total of all employees?"],
    "every": ["How often does every employee train?"],
    "each": ["What does each share earn?"],
    "which of": ["Which of the following is true?"],
    "list all": ["What is the list price?"],
}


def words(question: str) -> set[str]:
    return {rule.word for rule in rules_fired(question)}


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
