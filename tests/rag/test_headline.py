"""The short answer of a question in one line."""

from typing import Any

import pytest

from tasks.rag.answers import Answered, RetrievalPlan, Short, headline_of

THOUSAND = {"value": "2298514000", "unit": "USD", "scale": "thousand", "display": "2,298,514"}


@pytest.mark.parametrize(
    ("question", "fields", "headline"),
    [
        ("What were sales?", THOUSAND, "USD 2,298,514 thousand"),
        ("매출은 얼마인가?", THOUSAND | {"unit": "KRW"}, "2,298,514천 원"),
        ("By how much?", {"value": "12.4", "unit": "%", "display": "12.4"}, "12.4%"),
        ("How many people?", {"value": "310", "unit": "people", "display": "310"}, "310 people"),
        ("Which two?", {"short": Short(values=("North", "South"))}, "North; South"),
        ("What share?", {"short": Short(values=("8.1",), scale="percent")}, "8.1%"),
        ("Why?", {}, ""),
    ],
    ids=["scale", "Korean", "percent", "count", "names", "share", "none"],
)
def test_a_short_answer_keeps_the_digits_and_the_scale_of_its_source(
    question: str, fields: dict[str, Any], headline: str
) -> None:
    plan = RetrievalPlan(query_type="single", strategy="bm25", top_k=1, needs_multi_doc=False)
    answered = Answered(question=question, answer="…", citations=(), plan=plan, retrieved=(), **fields)
    assert headline_of(answered) == headline
