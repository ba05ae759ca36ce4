from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.rag.planning.type_words import RULES, rules_fired, without_particles

FIRES = {
    "비교": [
        "가람시와 나래시의 예산을 비교해줘",
        "두 사업을 비교하면 어느 쪽이 싼가?",
        "비교표를 만들어줘",
        "두 공고의 비교를 부탁해",
        "서식을 비교했을 때 다른 점은?",
    ],
    "차이": ["예산의 차이는?", "두 공고의 차이점은 무엇인가?", "마감일이 얼마나 차이나는가?", "차이가 있는가?"],
    "서로": ["두 사업은 서로 무엇이 다른가?", "서로의 예산은?"],
    "vs": ["가람시 vs 나래시 예산", "Nike vs. Adidas revenue", "3M vs Amcor in FY2022"],
    "대비": ["가람시 대비 나래시의 예산은?", "원공고 대비 재공고의 예산은 얼마나 늘었나?"],
    "더 큰": [
        "가람시와 나래시 중 예산이 더 큰 곳은?",
        "두 사업 가운데 기간이 더 긴 것은?",
        "두 사업 중 예산이 큰 쪽은?",
    ],
    "어떻게 다른가": [
        "두 공고는 예산이 어떻게 다른가?",
        "원공고와 재공고는 무엇이 다릅니까?",
        "기간이 얼마나 달라졌나?",
    ],
    "versus": ["Calder Ridge versus Verdane: headcount"],
    "compare": ["Compare the budgets of the two projects.", "Give a comparison of both tenders."],
    "compared with": ["How large is Nike compared with Adidas?"],
    "difference": ["What is the difference between the notice and the re-notice?", "How do the two notices differ?"],
    "which … or": ["Which has the larger budget, Port Ellery or Lakeshore?"],
    "which is more": ["Nike and Adidas: which has higher sales?"],
    "그럼": ["그럼 마감일은?", "그럼, 예산은 얼마야?", "그러면 언제까지인가?"],
    "그렇다면": ["그렇다면 입찰 보증금은?"],
    "또": ["또 필요한 서류는?", "또 알려줘", "가람시에 또 다른 사업이 있나?"],
    "추가로": ["추가로 제출할 서류는?", "예산도 추가로 알려줘"],
    "더": ["더 자세히 알려줘", "더 있나요?", "조금 더 설명해줘", "더 필요한 서류는?", "그것만 더?"],
    "이어서": ["이어서 평가 기준은?", "이어서 설명해줘"],
    "방금": ["방금 말한 사업의 기간은?", "방금 그 문서의 쪽수는?"],
    "앞서": ["앞서 말한 예산에 부가세가 들어 있나?", "앞서의 답에서 마감일은?"],
    "then": ["Then what is the deadline?", "OK then: who evaluates?", "So then when?"],
    "also": ["Also, who pays for the permits?"],
    "and": ["And the deadline?", "And what is the penalty?"],
    "what about": ["What about 2022?", "How about the budget?", "And what about Nike?"],
    "more": ["What else is required?", "Tell me more.", "More details please"],
    "you said": ["Where is the amount you mentioned?", "Is that in your last answer?"],
    "여러": ["여러 사업의 예산은?", "여러 기관이 요구하는 것은?", "여러가지 서류를 정리해줘"],
    "모든": ["모든 문서의 마감일을 알려줘", "모든사업의 예산은?"],
    "각각": ["예산은 각각 얼마인가?", "각각의 마감일은?"],
    "기관": [
        "어느 기관이 발주하였는가?",
        "기관별로 예산을 정리해줘",
        "참여 기관들은 어디인가?",
        "발주 기관별 예산은?",
        "예산이 가장 큰 기관은?",
    ],
    "all": [
        "What are the deadlines of all projects?",
        "Summarise all of the tenders.",
        "Across the filings, who grew?",
    ],
    "every": ["Name the budget of every project.", "Name the issuer of each of the documents."],
    "each": ["What is the budget of each?"],
    "which of": ["Which companies report a loss?", "Which of the projects ends first?", "Which RFPs need a bond?"],
    "list all": ["List all deadlines."],
}
STAYS_SILENT = {
    "비교": ["비교적 큰 금액은 무엇인가?", "가격비교서를 제출하는가?", "비교적으로 싼 품목은?"],
    "차이": ["차이나타운의 예산은?", "차이나 지사의 매출은?", "차이잉원의 나이는?"],
    "서로": ["문서로 제출하는가?", "문서로서 효력이 있는가?", "서로마을의 인구는?", "순서로 적은 항목은?"],
    "vs": ["What was revenue in FY2022 vs FY2021?", "Sales in 2022 vs. the prior year?", "Which CVS stores closed?"],
    "대비": [
        "전년 대비 매출 증가율은?",
        "2022년 대비 영업이익은 얼마나 늘었나?",
        "예산 대비 집행률은?",
        "장애에 대비한 계획은?",
        "재난 대비 훈련은 몇 번인가?",
        "화재를 대비하여 둘 장비는?",
        "GDP 대비 비율은?",
        "우기 대비 점검은?",
    ],
    "더 큰": ["더 큰 글씨로 적을 항목은?"],
    "어떻게 다른가": ["다른 기관의 예산은?", "법이 달라도 되는가?", "이와 다른 방법은 무엇인가?"],
    "versus": ["Income versus the prior year?"],
    "compare": ["What are comparable sales?", "How does revenue compare to 2021?"],
    "compared with": ["How did margin change compared to last year?", "Sales compared with fiscal 2022?"],
    "difference": ["How are temporary differences taxed?", "Is there a different deadline?"],
    "which … or": ["Which segment had the highest sales?"],
    "which is more": ["Which segment grew more than planned?"],
    "그럼": ["그럼에도 불구하고 제출하지 못하면?", "그럼으로써 얻는 것은?"],
    "그렇다면": ["그렇다면서 거절한 까닭은?"],
    "또": [
        "또한 예산은 얼마인가?",
        "또는 대리인이 제출할 수 있는가?",
        "제안사는 보고서를 내고 또 발표를 해야 하는가?",
        "또래 상담의 예산은?",
    ],
    "추가로": ["계약 뒤 추가로 납품하는 수량은 몇 대인가?", "추가로금은 얼마인가?"],
    "더": [
        "더불어 사는 마을 사업의 예산은?",
        "더하기 배점은 몇 점인가?",
        "스피더 장비의 속도는?",
        "더 큰 글씨로 적을 항목은?",
        "하루 더 걸리는 작업은 무엇인가?",
        "리더 기관장은 누구인가?",
        "더 이상 쓰지 않는 장비는?",
    ],
    "이어서": ["착수 보고에 이어서 열리는 회의는?", "이어서기 행사는 언제인가?"],
    "방금": ["방금고의 수량은?", "지방금융의 규모는?"],
    "앞서": ["계약에 앞서 제출할 서류는?", "앞서가는 도시 사업의 예산은?"],
    "then": ["If the bid is late, then what happens?", "Who was the chief executive until then?"],
    "also": ["Which segment also grew?", "Alsobrook's fee?"],
    "and": ["And-gate budget?", "What are sales and profit?"],
    "what about": ["So what about-face did the board make?"],
    "more": ["Which segment has more employees?", "Nothing else matters?"],
    "you said": ["What did the chief executive say?"],
    "여러": ["여러분에게 드리는 글은 몇 쪽인가?", "여러해살이 식물은 몇 종인가?", "여러모로 쓰이는 장비는?"],
    "모든": ["모든사람이 쓰는 화면은?", "모든지 신청할 수 있는가?"],
    "각각": ["각각형 배선은 몇 m인가?", "시각각본의 쪽수는?"],
    "기관": [
        "주관기관은 어디인가?",
        "총괄기관의 역할은?",
        "발주기관은 어디인가?",
        "수행기관이 제출할 것은?",
        "발주 기관은 어디인가?",
        "이 기관의 주소는?",
        "기관장은 누구인가?",
        "기관지염 환자는 몇 명인가?",
        "기관차는 몇 대인가?",
        "전담기관별 역할은?",
    ],
    "all": ["What is the total of all employees?", "Overall, what changed?", "Do all company employees get shares?"],
    "every": ["How often does every employee train?", "Is everyone trained?"],
    "each": ["What does each share earn?", "How many hours does each shift take?"],
    "which of": ["Which of the following is true?", "Which of the segments grew?", "Which company has a loss?"],
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


@pytest.mark.parametrize(
    "question",
    ["나래시의 인구는 몇 명인가?", "What is the FY2018 capital expenditure amount for 3M?", "", "   ", "¿Qué?"],
)
def test_a_plain_question_fires_nothing(question: str) -> None:
    assert words(question) == set()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("question", [questions[0] for questions in FIRES.values()])
def test_decomposed_hangul_fires_alike(form: str, question: str) -> None:
    assert words(unicodedata.normalize(form, question)) == words(question)  # type: ignore[arg-type]


def test_a_word_at_the_end_of_a_long_question_is_read() -> None:
    assert "비교" in words("가" * 100_000 + " 두 사업을 비교해줘")


@pytest.mark.parametrize(
    ("word", "stem"), [("가람시의", "가람시"), ("기관들에서는", "기관"), ("구축은", "구축"), ("도서관입니다", "도서관")]
)
def test_a_korean_word_is_found_without_its_particles(word: str, stem: str) -> None:
    assert stem in without_particles(word)


@given(st.text(alphabet="가나은는이의에서로부터", min_size=1, max_size=12))
def test_stems_are_beginnings_of_the_word_longest_first(word: str) -> None:
    stems = without_particles(word)
    assert stems[0] == word
    assert all(word.startswith(stem) for stem in stems)
    assert [len(stem) for stem in stems] == sorted({len(stem) for stem in stems}, reverse=True)
