"""The ten questions of `make demo` to several indexes of the same documents: do all give the same answers?

    python -m tests.benchmarks.same_answers build/demo/index postgresql://…

Compared are the words of each answer, its citations with page and box, and the chunks that were found with their
ranks; scores within 1e-4. Exits with 1 where anything differs.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any

from flows.running.answer_models import open_assistant
from flows.running.configuring import configure_steps
from flows.running.index_places import index_place

QUESTIONS = (
    "가람시 지능형 교통신호 통합관제시스템 구축 최초 공고의 사업 예산은 얼마인가?",
    "What was Calder Ridge's inventory turnover in fiscal 2023?",
    "한누리소재의 제23기 매출액은 전년 대비 몇 % 늘었나?",
    "누리과학관, 새봄시립도서관, 늘푸른복지재단이 낸 사업의 예산을 각각 알려 줘.",
    "What is the budget of the Port Ellery fare collection system, and what is the fee for tide gauge maintenance in "
    "2026?",
    "가람시 교통신호 통합관제시스템 사업의 최초 공고와 재공고의 입찰 참여 마감을 비교해 줘.",
    "Compare the operating income of the Retail and Wholesale segments of Calder Ridge in fiscal 2023.",
    "누리과학관 전시 안내 로봇 사업의 예산은 얼마인가?",
    "What were the net sales of Calder Ridge in fiscal 2023?",
    "How many people live on the moon of Verdane?",
)


def main(indexes: Sequence[str]) -> int:
    """Ask each index, print what differs, and give the exit status."""
    configure_steps()
    told = [asked(index) for index in indexes]
    differing = 0
    for at, question in enumerate(QUESTIONS):
        first, *others = (answers[at] for answers, _ in told)
        same = all(told_alike(first, other) for other in others)
        differing += not same
        print(f"{'equal' if same else 'DIFFERS'}  {question}\n       {first['answer'].splitlines()[0]}")
    times = ", ".join(
        f"{index.partition(':')[0]} {milliseconds:,.0f}" for index, (_, milliseconds) in zip(indexes, told, strict=True)
    )
    print(f"{len(QUESTIONS) - differing} of {len(QUESTIONS)} equal in {len(told)} indexes; median ms: {times}")
    return int(differing > 0)


def asked(index: str) -> tuple[list[dict[str, Any]], float]:
    """The answers of an index, and the median of their milliseconds."""
    answers: list[dict[str, Any]] = []
    times: list[float] = []
    with open_assistant(index_place(index)) as assistant:
        for question in QUESTIONS:
            started = time.perf_counter()
            answers.append(assistant.ask(question).model_dump(mode="json", exclude={"timings", "calls"}))
            times.append((time.perf_counter() - started) * 1e3)
    return answers, statistics.median(times)


def told_alike(one: Any, other: Any) -> bool:
    """Whether two values are equal, numbers within 1e-4."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= 1e-4
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(told_alike(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(told_alike, one, other))
    return one == other


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
