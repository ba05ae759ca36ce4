"""Answers to questions about documents and pictures, graded as `rag eval` and the lever grade them.

About documents: answers must contain the gold's numbers or words, or abstain if there is no answer. The file is a
questions file of `trivet rag eval`: {id, question, document, pages, answer, answerable}. RAGQuestions grades recorded
answers of any system; RAGReading asks a model, and needs the passages in a field `context`.

About pictures: recorded answers against those of ten people, by the VQA accuracy. Files as VQA v2 has them, and TextVQA
and VizWiz in the packing of open_flamingo: questions {question_id, image_id, question} and annotations {question_id,
answers: [{answer}]}. The pictures are not here, so no model is asked.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.grading_records import make_sample
from tasks.grading.reading import visible_answer
from tasks.grading.vqa_accuracy import vqa_accuracy

GET = "It is a questions file of `trivet rag eval`, of your own documents."
UNSURE = re.compile(
    r"(?i)\bI\s(?:do\snot|don['’]t)\sknow\b|\b(?:cannot|can['’]t)\s(?:tell|say|answer)\b|모르|모릅니다|알\s?수\s?없"
)
"""Matches abstentions in other words than those of `trivet rag`, in English and Korean."""
BRIEF_CHARS = 200
"""Most characters of an answer that counts as an abstention by the words of UNSURE alone."""
READING = (
    "Answer the question from the passages below, briefly. If they do not tell, say that you do not know.\n\n"
    "Passages:\n{context}\n\nQuestion: {question}\nAnswer:"
)


class RAGQuestions(BaseBenchmark):
    """Questions about documents whose recorded answers are graded; lines without an answer to check are left out."""

    name = "RAGQuestions"
    summary = "questions about documents: recorded answers hold the gold, or say that nothing tells"
    family = "rag"
    files = (DataFile(file="questions.jsonl", get=GET),)
    score_only = True

    def read_row(self, row: Row) -> Iterator[Item]:
        if row.get("answer") is not None or row.get("answerable") is False:
            yield self._item(row)

    def _item(self, row: Row) -> Item:
        return _build_item(row, row.text("question"))

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """Yield a sample for each response, in order.

        An answer is right if it has all numbers of the gold, in any spelling, or all words of a gold without numbers;
        where there is no gold, it must abstain.
        """
        from tasks.grading.cited_answers import abstains, has_numbers, has_words
        from tasks.language.numbers import read_numbers
        from tasks.language.sentences import strip_marks

        del tools
        for item, response in answered:
            answer, gold = visible_answer(response.text) or "", item.gold
            abstained = abstains(answer) or (len(answer) <= BRIEF_CHARS and UNSURE.search(answer) is not None)
            right, reason = False, "it says that nothing tells"
            if gold is None and answer:
                right, reason = abstained, reason if abstained else "it answers what nothing tells"
            elif answer and not abstained:
                by_number = bool(read_numbers(str(gold)))
                has_gold, reason = (has_numbers, "numbers") if by_number else (has_words, "words")
                right = has_gold(strip_marks(answer), str(gold))
            yield _build_sample(item, response, answer, score=float(right), reason=reason)

    def gold_response(self, item: Item) -> str | None:
        return f"The documents say: {item.gold}." if item.gold is not None else "I do not know."


class RAGReading(RAGQuestions):
    """Questions that a model answers from the passages of the same line."""

    name = "RAGReading"
    summary = "questions about passages that stand beside them: does a model find the gold in its context"
    files = (DataFile(file="reading.jsonl", get=f"{GET} Each line has its passages in `context`."),)
    sampling = Sampling(temperature=0.0, max_tokens=1024)
    score_only = False

    def _item(self, row: Row) -> Item:
        """Return the question of a row behind its passages."""
        context = row.get("context")  # of what nothing was found for it is blank
        passages = "\n\n".join(map(str, context)) if isinstance(context, list) else context
        if not isinstance(passages, str):
            row.unusable("`context` must hold text")
        # the passages come last, so that braces in them are not filled
        prompt = READING.replace("{question}", row.text("question")).replace("{context}", passages)
        return _build_item(row, prompt)


def _build_item(row: Row, prompt: str) -> Item:
    """Return the question of a row with its gold, None where the documents do not tell."""
    return Item(
        id=row.id,
        prompts=(prompt,),
        gold=row.text("answer") if row.get("answerable") is not False else None,
        group=str(row["lang"]) if row.get("lang") else None,
        detail={"answerable": row.get("answerable") is not False},
    )


def _build_sample(item: Item, response: Response, answer: str, *, score: float, reason: str) -> Sample:
    """Return the sample of an answer, which keeps 500 characters of it; it is missing where it is empty."""
    return make_sample(
        item,
        response,
        score=score,
        extracted=answer[:500] or None,
        gold=None if item.gold is None else str(item.gold),
        reason=reason if answer else "no answer was given",
        missing=not answer,
    )


class VQA(BaseBenchmark):
    """Questions about pictures whose recorded short answers are graded by the VQA accuracy."""

    version = 2
    family = "vqa"
    score_only = True

    def __init__(self, name: str, stem: str, *, summary: str) -> None:
        super().__init__()
        self.name = name
        self.summary = summary
        get = "open_flamingo packs it; the annotations of ten people for each question."
        self.files = tuple(
            DataFile(file=f"{stem}_{part}_vqa_format.json", get=get) for part in ("questions", "annotations")
        )

    def items(self, data: Data) -> Iterator[Item]:
        """Yield questions about pictures, the commonest answer as gold. Raises DataUnusable for an odd annotation."""
        answers = dict[str, list[str]]()
        for row in data.rows(self.files[1]):
            listed: Any = row.get("answers")
            if not isinstance(listed, list) or not listed:
                row.unusable("answers: expected a list with the answers of people")
            texts = [cast("dict[str, Any]", entry).get("answer") for entry in listed if isinstance(entry, dict)]
            human_answers = [text for text in texts if isinstance(text, str)]
            if len(human_answers) != len(cast("list[Any]", listed)):
                row.unusable("answers: each needs a text under `answer`")
            row.require("question_id")
            answers[str(row["question_id"])] = human_answers
        for row in data.rows(self.files[0]):
            with data.leave_out_odd(row):
                row.require("question_id")
                question = str(row["question_id"])
                human_answers = answers.get(question) or row.unusable(f"question {question} has no annotation")
                yield Item(
                    id=question,
                    prompts=(str(row.get("question", "")),),
                    gold=Counter(human_answers).most_common(1)[0][0],
                    detail={"answers": list[JsonValue](human_answers), "image": str(row.get("image_id", ""))},
                )

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """Yield a sample for each response, in order, scored from 0 to 1 by how many people gave the same answer."""
        del tools
        for item, response in answered:
            answer = visible_answer(response.text) or ""
            score = vqa_accuracy(answer, _gold_answers(item)) if answer else 0.0
            yield _build_sample(item, response, answer, score=score, reason="people who say the same")

    def gold_response(self, item: Item) -> str | None:
        """Return the most frequent answer of people if it scores 1; None where too few agree for that."""
        gold = str(item.gold)
        return gold if vqa_accuracy(gold, _gold_answers(item)) == 1 else None


def _gold_answers(item: Item) -> list[str]:
    return [str(answer) for answer in cast("list[Any]", item.detail["answers"])]


BENCHMARKS = (
    RAGQuestions(),
    RAGReading(),
    VQA("TextVQA", "textvqa_val", summary="5,000 questions about text in pictures; recorded answers are graded"),
    VQA("VizWiz", "vizwiz_val", summary="4,319 questions of blind people about pictures; recorded answers are graded"),
)
