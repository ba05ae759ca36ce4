"""Humanity's Last Exam, the questions without pictures.

Fields as in the data set card of cais/hle: id, question, image (empty, or a data URI), answer, answer_type
(multipleChoice or exactMatch), raw_subject, category. System message and greedy decoding as in the authors'
hle_eval/run_model_predictions.py. The authors use a judge; here letters are compared, and short answers must equal the
gold as mathematics or as text, so figures are lower bounds of theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.choice import LETTERS, grade_one
from tasks.grading.exact import read, same_words
from tasks.grading.reading import FLEXIBLE, graded_by

SYSTEM = (
    "Your response should be in the following format:\n"
    "Explanation: {your explanation for your answer choice}\n"
    "Answer: {your chosen answer}\n"
    "Confidence: {your confidence score between 0% and 100% for your answer}"
)
FIELDS = ("id", "question", "answer", "answer_type")
CHOICE = "multipleChoice"


class HLE(BaseBenchmark):
    """Letters and short answers; groups are categories."""

    name = "HLE"
    summary = "Humanity's Last Exam, questions without pictures; no judge, so a lower bound of the published figures"
    family = "choice"
    files = (
        DataFile(
            file="hle.jsonl",
            hub="cais/hle",
            hub_split="test",
            get="Its authors ask that its terms be accepted on the hub first, and that it is not passed on.",
        ),
    )
    sampling = Sampling(temperature=0.0, max_tokens=32768)
    format_checked_only = True
    reads_answers = True

    def items(self, data: Data) -> Iterator[Item]:
        return (_item(row) for row in data.rows(self.files[0]) if not row.get("image"))

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        for item, response in answered:
            if "letters" in item.detail:
                yield grade_one(item, response, FLEXIBLE._replace(headline=tools.extract))
            else:
                yield grade_short(item, response, tools)

    def gold_response(self, item: Item) -> str | None:
        return f"Explanation: it follows.\nAnswer: {item.gold}\nConfidence: 90%"


def _item(row: Row) -> Item:
    missing = [name for name in FIELDS if name not in row]
    if missing:
        row.unusable(f"there is no field {missing[0]!r}")
    choice = row["answer_type"] == CHOICE
    detail: dict[str, JsonValue] = {"answer_type": str(row["answer_type"])}
    gold = str(row["answer"]).strip()
    if choice and not (len(gold) == 1 and gold in LETTERS):
        row.unusable(f"the answer {gold[:60]!r} to a {CHOICE} question is no letter")
    return Item(
        id=str(row["id"]),
        prompts=(str(row["question"]),),
        system=SYSTEM,
        gold=gold,
        group=str(row["category"]) if row.get("category") else None,
        detail=detail | ({"letters": LETTERS} if choice else {}),
    )


def grade_short(item: Item, response: Response, tools: Tools) -> Sample:
    """Right if equal as text or as mathematics."""
    readings = read(response.text, FLEXIBLE)
    rule = FLEXIBLE._replace(headline=tools.extract)
    return graded_by(rule, readings, item, response, lambda said: _short(item, response, tools, said))


def _short(item: Item, response: Response, tools: Tools, answer: str | None) -> dict[str, Any]:
    gold = str(item.gold)
    equal, failed, stage = False, None, "no answer was found"
    if answer is not None:
        equal, stage = same_words(gold, answer), "same words"
        if not equal:
            verdict = tools.math.equal(gold, answer)
            equal, failed, stage = verdict.equal, verdict.failed, verdict.stage
    return {
        "status": "unscored" if failed else "scored",
        "score": None if failed else float(equal),
        "extracted": answer,
        "gold": gold,
        "reason": failed or (f"no response: {response.missed}" if response.missed else stage),
        "missing": answer is None,
    }


BENCHMARK = HLE()
