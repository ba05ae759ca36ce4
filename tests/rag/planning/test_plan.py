"""What a question becomes: its type, its strategy, its documents, and what a follow-up leaves to the conversation."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from hypothesis import strategies as st

from tasks.rag.answers import Answered, Citation, Filters, NameMatch, QueryType, RetrievalPlan, RouteMode, Turn
from tasks.rag.planning.plan import (
    LOOKS,
    Classified,
    classify_by_words,
    history_of,
    is_reset,
    make_plan,
    narrow_filters,
    parse_answers,
    parse_label,
    question_parts,
    standalone_question,
    turn_of,
)

LAST = Turn(question="가람시 교통신호 통합관제시스템 구축의 사업 예산은 얼마인가?", answer="…", documents=("d1", "d2"))


def named(*documents: str, mode: RouteMode = "only", confidence: float = 1.0, said: str = "나래시") -> Filters:
    match = NameMatch(field="issuer", value=said, said=said, confidence=confidence)
    return Filters(mode=mode, documents=documents, matches=(match,))


def short(plan: RetrievalPlan) -> tuple[Any, ...]:
    return plan.query_type, plan.strategy, plan.top_k, plan.needs_multi_doc, plan.decided_by


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("가람시와 나래시의 예산을 비교해줘", ("compare", "rrf", 12, True, "words")),
        ("어느 기관이 발주하였는가?", ("multi", "rrf", 10, True, "words")),
        ("그럼 마감일은?", ("followup", "similarity", 6, False, "words")),
        ("나래시의 인구는 몇 명인가?", ("single", "similarity", 8, False, "default")),
        ("Compare Nike with Adidas.", ("compare", "rrf", 12, True, "words")),
        ("List all deadlines.", ("multi", "rrf", 10, True, "words")),
        ("And the deadline?", ("followup", "similarity", 6, False, "words")),
        ("What is the FY2018 capital expenditure for 3M?", ("single", "similarity", 8, False, "default")),
    ],
)
def test_each_type_is_looked_up_in_its_way(question: str, expected: tuple[Any, ...]) -> None:
    assert short(make_plan(question)) == expected


@pytest.mark.parametrize(
    ("question", "query_type", "words"),
    [
        ("그럼 두 기관을 비교하면?", "compare", ("비교",)),
        ("그럼 각각의 마감일은?", "followup", ("그럼",)),
        ("모든 기관의 예산은 각각 얼마인가?", "multi", ("모든", "각각", "기관")),
    ],
    ids=["compare-first", "then-followup", "then-multi"],
)
def test_compare_comes_before_followup_before_multi(
    question: str, query_type: QueryType, words: tuple[str, ...]
) -> None:
    assert classify_by_words(question, history=()) == Classified(query_type, words, "words")


@pytest.mark.parametrize(
    ("question", "history", "expected"),
    [
        ("마감은 언제인가?", (LAST,), "followup"),
        ("마감은 언제인가?", (), "single"),
        ("입찰 참여 마감 일시와 제안서 제출 장소는 어디에 적혀 있는가?", (LAST,), "single"),
        ("", (LAST,), "single"),
        ("두 공고를 비교하면?", (LAST,), "compare"),
        ("어느 기관인가?", (LAST,), "followup"),
    ],
    ids=["short", "no-history", "long", "empty", "compare-wins", "before-multi"],
)
def test_a_short_question_in_a_conversation_follows_it(
    question: str, history: tuple[Turn, ...], expected: QueryType
) -> None:
    assert classify_by_words(question, history=history).query_type == expected


def test_a_short_question_that_names_documents_follows_nothing() -> None:
    plan = make_plan("나래시의 예산은?", history=(LAST,), filters=named("d9"))
    assert (plan.query_type, plan.filters.documents) == ("single", ("d9",))


def test_the_label_of_a_model_wins_over_words() -> None:
    plan = make_plan("두 사업을 비교해줘", label="multi")
    assert (plan.query_type, plan.decided_by, plan.words, plan.top_k) == ("multi", "model", (), 10)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("처음부터 다시 하자", True),
        ("새 질문: 나래시의 예산은?", True),
        ("주제를 바꿔서 물을게", True),
        ("reset", True),
        ("Let's change the subject.", True),
        ("비밀번호 초기화는 누가 하는가?", False),
        ("공사는 처음부터 다시 하는가?", False),
        ("How do I reset the controller?", False),
        ("", False),
    ],
)
def test_a_question_that_leaves_the_conversation_says_so_at_its_beginning(question: str, expected: bool) -> None:
    assert is_reset(question) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("single", "single"),
        ("follow-up", "followup"),
        ("비교입니다.", "compare"),
        ('```json\n{"type": "multi"}\n```', "multi"),
        ("single or multi", None),
        ('{"query_type": 3}', None),
    ],
)
def test_the_answer_of_a_classifier_is_read_or_left(text: str, expected: QueryType | None) -> None:
    assert parse_label(text) == expected


def test_a_followup_stays_with_the_documents_of_the_last_turn() -> None:
    filters = make_plan("그럼 마감일은?", history=(LAST,)).filters
    assert (filters.mode, filters.documents, filters.groups) == ("only", ("d1", "d2"), (("d1", "d2"),))


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (named("d9"), ("d9",)),
        (named("d9", mode="prefer", confidence=0.6), ("d9",)),
        (named("d2", "d9", mode="prefer", confidence=0.5), ("d2",)),
        (named("d9", mode="prefer", confidence=0.5), ("d1", "d2")),
        (Filters(mode="only", documents=("d7",)), ("d7",)),
    ],
    ids=["another", "a-place", "vague-chooses-among-them", "vague-elsewhere", "the-user's"],
)
def test_a_followup_leaves_the_last_documents_only_for_a_name(filters: Filters, expected: tuple[str, ...]) -> None:
    assert narrow_filters(filters, (LAST,)).documents == expected


ENGLISH = Turn(question="What is the budget of the fare collection system in Port Ellery?", answer="…")
PLAIN = Turn(question="새봄시립도서관 입찰 참여 마감 일시는?", answer="…")


@pytest.mark.parametrize(
    ("question", "last", "expected"),
    [
        ("그럼 마감일은?", LAST, "가람시 교통신호 통합관제시스템 구축의 그럼 마감일은?"),
        ("And when is the deadline?", ENGLISH, "fare collection system Port Ellery And when is the deadline?"),
        ("그럼 예산은?", PLAIN, "새봄시립도서관 입찰 참여 마감 그럼 예산은?"),
        ("가람시 구축의 마감은?", LAST, "교통신호 통합관제시스템 가람시 구축의 마감은?"),
    ],
    ids=["genitive", "english", "topic-marker", "nothing-twice"],
)
def test_a_followup_gets_the_topic_of_the_last_question(question: str, last: Turn, expected: str) -> None:
    assert standalone_question(question, (last,)) == expected


def test_a_bare_name_gets_what_was_asked_of_the_last_one() -> None:
    assert standalone_question("그럼 나래시는?", (LAST,), filters=named("d9")) == "그럼 나래시는? 사업 예산은 얼마인가"


def test_a_bare_round_gets_topic_and_point() -> None:
    match = NameMatch(field="round", value="2", said="2", confidence=0.6)
    asked = standalone_question(
        "그럼 2차 재공고는?", (LAST,), filters=Filters(mode="only", documents=("d1",), matches=(match,))
    )
    assert asked == "가람시 교통신호 통합관제시스템 구축의 그럼 2차 재공고는? 사업 예산은 얼마인가"


@given(st.text(max_size=200), st.lists(st.text(max_size=60), max_size=3), st.booleans())
def test_any_text_gives_a_plan(question: str, asked: list[str], reads: bool) -> None:
    history = tuple(Turn(question=one, answer="", documents=("d1",)) for one in asked)
    plan = make_plan(question, history=history, similarity_alone=reads)
    assert plan.top_k <= max(look.top_k for look in LOOKS.values())
    assert question in standalone_question(question, history)
    assert parse_label(question) in {None, "single", "multi", "compare", "followup"}


@pytest.mark.parametrize(
    ("last", "question", "moved"),
    [
        (
            "What were the net sales in fiscal 2023?",
            "And in the year before?",
            "What were the net sales in fiscal 2022?",
        ),
        ("What were sales in 2022 and 2021?", "What about the previous year?", "What were sales in 2021 and 2021?"),
        ("한누리소재의 제23기 배당금은?", "그 전 기에는?", "한누리소재의 제22기 배당금은?"),
        ("2023년 매출은 얼마인가?", "그럼 전년도는?", "2022년 매출은 얼마인가?"),
        ("What was net income in 2023?", "And in 2021?", "What was net income in 2021?"),
        ("What was net income in FY2023?", "What about fiscal year 2021, please?", "What was net income in FY2021?"),
        ("2023년 매출은 얼마인가?", "그럼 2021년에는?", "2021년 매출은 얼마인가?"),
        ("한누리소재의 제23기 배당금은?", "제21기는?", "한누리소재의 제21기 배당금은?"),
    ],
    ids=["year", "latest year", "term", "Korean year", "named", "named fiscal", "named Korean", "named term"],
)
def test_a_follow_up_for_another_period_asks_the_last_question_of_that_period(
    last: str, question: str, moved: str
) -> None:
    assert standalone_question(question, [Turn(question=last, answer="")]) == moved


SEVERAL = {
    "two whats": (
        "What is the budget of the ferry, and what is the fee for gauges in 2026?",
        ("What is the budget of the ferry", "what is the fee for gauges in 2026?"),
    ),
    "two sentences": (
        "When is the fair? How many people came to it?",
        ("When is the fair", "How many people came to it?"),
    ),
    "compare with": (
        "Compare the rate of the state loan with the rate that Calder pays.",
        ("the rate of the state loan", "the rate that Calder pays"),
    ),
    "몇 … 이고 … 얼마": (
        "하늬군의 인구는 몇 명이고, 약국 사업의 금액은 얼마인가?",
        ("하늬군의 인구는 몇 명이고", "약국 사업의 금액은 얼마인가?"),
    ),
    "언제이며 어디": (
        "현장 설명회는 언제 열리며 접수 장소는 어디이며 담당자는 누구인가?",
        ("현장 설명회는 언제 열리며 접수 장소는 어디이며", "담당자는 누구인가?"),
    ),
    "누구인지 … 얼마": (
        "사업의 담당자가 누구인지 그리고 사업 예산은 얼마인지 알려 줘.",
        ("사업의 담당자가 누구인지", "그리고 사업 예산은 얼마인지 알려 줘."),
    ),
}
ONE = {
    "a list": "What were the sales of shoes, and of shirts, in 2023?",
    "a difference": "What is the difference between the budget of 2022 and the budget of 2023?",
    "and in a name": "What does Research and Development cost?",
    "and between nouns": "Compare the operating income of Retail and Wholesale.",
    "a condition": "When the ferry is late, what is paid?",
    "a follow-up": "And when?",
    "고 in a noun": "재고 관리 시스템의 예산은 얼마인가?",
    "참고 문헌": "참고 문헌은 어디에 몇 개 있는가?",
    "고 without a question before": "접속 기록을 암호화하고 보관하는 기간은 얼마인가?",
}


@pytest.mark.parametrize(("question", "parts"), SEVERAL.values(), ids=SEVERAL)
def test_what_asks_for_several_things_is_parted(question: str, parts: tuple[str, ...]) -> None:
    assert question_parts(question) == parts


@pytest.mark.parametrize("question", ONE.values(), ids=ONE)
def test_what_asks_for_one_thing_stays_whole(question: str) -> None:
    assert question_parts(question) == (question,)


@given(some.text())
def test_nothing_but_signs_between_the_parts_is_lost(question: str) -> None:
    parts = question_parts(question)
    assert parts
    assert all(part in question for part in parts)


def answer(question: str, *, cites: str = "", within: str = "") -> Answered:
    filters = Filters(mode="only", documents=tuple(within)) if within else Filters()
    return Answered(
        question=question,
        answer=f"to {question}",
        citations=tuple(citation(n, digest) for n, digest in enumerate(cites, start=1)),
        plan=RetrievalPlan(query_type="single", strategy="rrf", top_k=5, needs_multi_doc=False, filters=filters),
        retrieved=(),
    )


def citation(n: int, digest: str) -> Citation:
    return Citation(n=n, document=f"{digest}.pdf", digest=digest, page=1, bbox=None, quote="q", chunk_id="c")


def asked(*questions: str) -> list[str]:
    return [turn.question for turn in history_of([answer(question) for question in questions])]


@pytest.mark.parametrize(
    ("cites", "within", "documents"),
    [("aba", "", ("a", "b")), ("", "ab", ("a", "b")), ("a", "ab", ("a",)), ("", "", ())],
    ids=["cited", "looked-in", "cited-first", "anywhere"],
)
def test_a_follow_up_is_about_what_was_cited_or_else_looked_in(
    cites: str, within: str, documents: tuple[str, ...]
) -> None:
    assert turn_of(answer("?", cites=cites, within=within)).documents == documents


def test_history_is_oldest_first() -> None:
    assert asked("one?", "two?") == ["one?", "two?"]


def test_history_begins_at_the_last_question_that_begins_anew() -> None:
    assert asked("one?", "새 질문: two?", "three?", "새 질문: four?", "five?") == ["새 질문: four?", "five?"]


def test_kept_answers_come_back() -> None:
    answers = (answer("one?", cites="a"), answer("two?"))
    assert parse_answers([each.model_dump(mode="json") for each in answers]) == (answers, 0)


def test_an_answer_of_another_version_is_left_out_and_counted() -> None:
    kept = answer("one?").model_dump(mode="json")
    assert parse_answers([kept | {"mood": "good"}, None, kept]) == ((answer("one?"),), 2)
