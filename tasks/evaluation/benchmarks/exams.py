"""Examinations whose answers are letters, numbers or short texts: Humanity's Last Exam and JEEBench.

HLE, the questions without pictures. Fields as in the data set card of cais/hle: id, question, image (empty, or a data
URI), answer, answer_type (multipleChoice or exactMatch), raw_subject, category. System message and greedy decoding as
in the authors' hle_eval/run_model_predictions.py. The authors use a judge; here letters are compared, and short answers
must equal the gold as mathematics or as text, so scores are lower bounds of theirs.

JEEBench: 515 problems of India's JEE Advanced; one letter, several letters, an integer or a number is the answer.
Fields as the data set card of daman1209arora/jeebench lists them: subject, description, gold, index, question, type.
`index` counts anew in each paper, so the id is the row number. Words to the model, temperature, length and repeats as
mlfoundations/evalchemy has them (eval/chat_benchmarks/JEEBench); scores as the authors' compute_metrics.py: a quarter
for each right letter of several when none is wrong and some are missing, numbers within 0.01.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import PUBLISHED, BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Row, published_files
from tasks.grading.choice import LETTERS, grade_one
from tasks.grading.exact import are_same_words, read_answers
from tasks.grading.math.math_grader import Verdict, grade_math, parse_number
from tasks.grading.reading import FLEXIBLE, Rule, grade_readings, why_missing

CHOICE = "multipleChoice"
PROMPTS: dict[str, str] = PUBLISHED["jeebench"]
TOLERANCE = 0.01
"""Largest difference between a number and the gold of JEEBench, as in the authors' compute_metrics.py."""


class Examination(BaseBenchmark):
    """A benchmark whose questions have options, or answers of other kinds, which a subclass grades."""

    family = "choice"
    format_checked_only = True
    reads_answers = True
    rule: ClassVar[Rule]
    """Rule by which answers are extracted from responses."""

    def grade_other(self, item: Item, response: Response, rule: Rule, tools: Tools) -> Sample:
        """Return the sample of a response to a question without options."""
        raise NotImplementedError

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        rule = self.rule._replace(headline=tools.extract)
        for item, response in answered:
            has_options = "letters" in item.detail
            yield grade_one(item, response, rule) if has_options else self.grade_other(item, response, rule, tools)


class HLE(Examination):
    """Humanity's Last Exam: letters and short answers; groups are categories."""

    name = "HLE"
    summary = "Humanity's Last Exam, questions without pictures; no judge, so a lower bound of the published figures"
    files = published_files("HLE")
    sampling = Sampling(temperature=0.0, max_tokens=32768)
    rule = FLEXIBLE

    def read_row(self, row: Row) -> Iterator[Item]:
        """Yield the question of a row, none where it shows a picture."""
        if row.get("image"):
            return
        row.require("id", "question", "answer", "answer_type")
        kind, gold = str(row["answer_type"]), str(row["answer"]).strip()
        if kind == CHOICE and not (len(gold) == 1 and gold in LETTERS):
            row.unusable(f"the answer {gold[:60]!r} to a {CHOICE} question is no letter")
        detail: dict[str, JsonValue] = {"answer_type": kind}
        if kind == CHOICE:
            detail["letters"] = LETTERS
        yield Item(
            id=str(row["id"]),
            prompts=(str(row["question"]),),
            system=PUBLISHED["hle"]["system"],
            gold=gold,
            group=str(row["category"]) if row.get("category") else None,
            detail=detail,
        )

    def grade_other(self, item: Item, response: Response, rule: Rule, tools: Tools) -> Sample:
        """Return the sample of a short answer, which is right in the same words or as mathematics."""
        gold = str(item.gold)

        def grade(answer: str | None) -> dict[str, Any]:
            """Return the fields of the sample for an answer; without one, it is missing and wrong."""
            if answer is None:
                return {"score": 0.0, "extracted": None, "gold": gold, "reason": why_missing(response), "missing": True}
            same_words = are_same_words(gold, answer)
            verdict = Verdict(True, "same words") if same_words else tools.math.compare(gold, answer)
            fields = {"extracted": answer, "gold": gold, "reason": verdict.failed or verdict.stage}
            return fields | ({"status": "unscored"} if verdict.failed else {"score": float(verdict.equal)})

        return grade_readings(rule, read_answers(response.text, rule), item, response, grade)

    def gold_response(self, item: Item) -> str | None:
        return f"Explanation: it follows.\nAnswer: {item.gold}\nConfidence: 90%"


class JEEBench(Examination):
    """JEEBench with its four types of answer; groups are subjects."""

    name = "JEEBench"
    version = 2
    summary = "515 problems of JEE Advanced in mathematics, physics and chemistry"
    files = published_files("JEEBench")
    sampling = Sampling(temperature=0.7, max_tokens=32768)
    repeats = 3
    rule = Rule(("last_box",))
    """Source: extract_answer of evalchemy's eval/chat_benchmarks/JEEBench."""

    def read_row(self, row: Row) -> Iterator[Item]:
        """Yield the question of a row, with its letters or the tolerance of its number."""
        row.require("question", "gold", "type", "subject")
        kind, gold = str(row["type"]), str(row["gold"]).strip()
        if kind not in PROMPTS:
            row.unusable(f"type {kind!r} is none of {', '.join(PROMPTS)}")
        choice = kind.startswith("MCQ")
        if choice and not (gold and set(gold) <= set("ABCD")):
            row.unusable(f"the gold {gold!r} of a question of type {kind} is not of the letters A to D")
        if not choice and parse_number(gold) is None:
            row.unusable(f"the gold {gold!r} of a question of type {kind} is no number")
        letters: dict[str, JsonValue] = {"letters": "ABCD", "several": kind == "MCQ(multiple)"}
        question = str(row["question"]).replace("\n\n", "\n").strip()
        yield Item(
            id=str(row.number),
            prompts=(f"{PROMPTS[kind]}\n\nProblem: {question}",),
            gold=gold,
            group=str(row["subject"]),
            detail={"type": kind, **(letters if choice else {"tolerance": TOLERANCE})},
        )

    def grade_other(self, item: Item, response: Response, rule: Rule, tools: Tools) -> Sample:
        return next(grade_math([(item, response)], tools.math, rule))


BENCHMARKS = (HLE(), JEEBench())
