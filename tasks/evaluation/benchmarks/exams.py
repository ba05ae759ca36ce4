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
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Any, ClassVar

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import PUBLISHED, BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, published_files
from tasks.grading.choice import LETTERS, grade_one
from tasks.grading.exact import are_same_words, read_answers
from tasks.grading.reading import FLEXIBLE, Readings, Rule, grade_readings

CHOICE = "multipleChoice"
PROMPTS: dict[str, str] = PUBLISHED["jeebench"]
TOLERANCE = Decimal("0.01")
"""Largest difference between a number and the gold of JEEBench, as in the authors' compute_metrics.py."""


class Examination(BaseBenchmark):
    """A benchmark of letters and of answers that a comparison of its own judges before mathematics decides."""

    family = "choice"
    format_checked_only = True
    reads_answers = True
    rule: ClassVar[Rule]
    """Rule by which answers are extracted from responses."""

    def read(self, response: str) -> Readings:
        """Return the answer that each policy extracts from a response to a question without options."""
        raise NotImplementedError

    def compare(self, gold: str, answer: str) -> tuple[bool, str] | None:
        """Return whether gold and answer are equal, and the name of the comparison; None leaves it to mathematics."""
        raise NotImplementedError

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        rule = self.rule._replace(headline=tools.extract)
        for item, response in answered:
            if "letters" in item.detail:
                yield grade_one(item, response, rule)
            else:
                outcome = partial(self._outcome, tools, str(item.gold))
                yield grade_readings(rule, self.read(response.text), item, response, outcome)

    def _outcome(self, tools: Tools, gold: str, answer: str | None) -> dict[str, Any]:
        """Return the fields of the sample for one reading of an answer: score, stage and what was compared."""
        equal, stage, failed = False, "no answer was found", None
        comparison = None if answer is None else self.compare(gold, answer)
        if comparison:
            equal, stage = comparison
        elif answer is not None:
            verdict = tools.math.compare(gold, answer)
            equal, stage, failed = verdict.equal, verdict.stage, verdict.failed
        return {
            "status": "unscored" if failed else "scored",
            "score": None if failed else float(equal),
            "extracted": answer,
            "gold": gold,
            "reason": failed or stage,
            "missing": answer is None,
        }


class HLE(Examination):
    """Humanity's Last Exam: letters and short answers; groups are categories."""

    name = "HLE"
    summary = "Humanity's Last Exam, questions without pictures; no judge, so a lower bound of the published figures"
    files = published_files("HLE")
    sampling = Sampling(temperature=0.0, max_tokens=32768)
    rule = FLEXIBLE

    def items(self, data: Data) -> Iterator[Item]:
        for row in data.rows(self.files[0]):
            with data.leave_out_odd(row):
                if row.get("image"):
                    continue
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

    def read(self, response: str) -> Readings:
        return read_answers(response, self.rule)

    def compare(self, gold: str, answer: str) -> tuple[bool, str] | None:
        """Return that both are equal where they are the same words; None leaves the others to mathematics."""
        return (True, "same words") if are_same_words(gold, answer) else None

    def gold_response(self, item: Item) -> str | None:
        return f"Explanation: it follows.\nAnswer: {item.gold}\nConfidence: 90%"


class JEEBench(Examination):
    """JEEBench with its four types of answer; groups are subjects."""

    name = "JEEBench"
    summary = "515 problems of JEE Advanced in mathematics, physics and chemistry"
    files = published_files("JEEBench")
    sampling = Sampling(temperature=0.7, max_tokens=32768)
    repeats = 3
    rule = Rule(("last_box",))
    """Source: extract_answer of evalchemy's eval/chat_benchmarks/JEEBench."""

    def items(self, data: Data) -> Iterator[Item]:
        for row in data.rows(self.files[0]):
            with data.leave_out_odd(row):
                row.require("question", "gold", "type", "subject")
                kind, gold = str(row["type"]), str(row["gold"]).strip()
                if kind not in PROMPTS:
                    row.unusable(f"type {kind!r} is none of {', '.join(PROMPTS)}")
                choice = kind.startswith("MCQ")
                if choice and not (gold and set(gold) <= set("ABCD")):
                    row.unusable(f"the gold {gold!r} of a question of type {kind} is not of the letters A to D")
                if not choice and _parse_number(gold) is None:
                    row.unusable(f"the gold {gold!r} of a question of type {kind} is no number")
                detail: dict[str, JsonValue] = {"type": kind}
                if choice:
                    detail |= {"letters": "ABCD", "several": kind == "MCQ(multiple)"}
                question = str(row["question"]).replace("\n\n", "\n").strip()
                yield Item(
                    id=str(row.number),
                    prompts=(f"{PROMPTS[kind]}\n\nProblem: {question}",),
                    gold=gold,
                    group=str(row["subject"]),
                    detail=detail,
                )

    def read(self, response: str) -> Readings:
        from tasks.grading.math.math_extraction import read_answers as read_mathematics

        return read_mathematics(response, self.rule)

    def compare(self, gold: str, answer: str) -> tuple[bool, str] | None:
        """Return whether two numbers differ by at most 0.01; None, as for 3/2, leaves it to mathematics."""
        number, right = _parse_number(answer), _parse_number(gold)
        return None if number is None or right is None else (abs(number - right) <= TOLERANCE, "number")


def _parse_number(text: str) -> Decimal | None:
    try:
        number = Decimal(text.strip().strip("$").replace(",", "").replace("−", "-").strip())
    except InvalidOperation:
        return None
    # a number of a thousand digits, or 1e999999, is not near any gold, and arithmetic with it is slow
    return number if number.is_finite() and abs(number.adjusted()) < 400 and len(text) < 400 else None


BENCHMARKS = (HLE(), JEEBench())
