"""Visual question answering: recorded answers against those of ten people, by the VQA accuracy.

Files as VQA v2 has them, and TextVQA and VizWiz in the packing of open_flamingo: questions {question_id, image_id,
question} and annotations {question_id, answers: [{answer}]}. The pictures are not here, so no model is asked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, cast

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading.reasoning import visible_answer
from tasks.grading.vqa_accuracy import vqa_accuracy


class VQA(BaseBenchmark):
    """Recorded short answers to questions about pictures."""

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
        answers = {_id(row): _answers(row) for row in data.rows(self.files[1])}
        for row in data.rows(self.files[0]):
            given = answers.get(_id(row)) or row.unusable(f"question {_id(row)} has no annotation")
            yield Item(
                id=_id(row),
                prompts=(str(row.get("question", "")),),
                gold=Counter(given).most_common(1)[0][0],
                detail={"answers": list(given), "image": str(row.get("image_id", ""))},
            )

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        del tools
        return (grade_vqa(item, response) for item, response in answered)

    def gold_response(self, item: Item) -> str | None:
        """Only if enough people agree; else no answer is entirely right."""
        gold = str(item.gold)
        return gold if vqa_accuracy(gold, _given(item)) == 1 else None


def grade_vqa(item: Item, response: Response) -> Sample:
    """Score from 0 to 1, by how many people gave this answer."""
    answer = visible_answer(response.text) or ""
    return Sample(
        item=item.id,
        repeat=response.repeat,
        score=vqa_accuracy(answer, _given(item)) if answer else 0.0,
        extracted=answer[:500] or None,
        gold=str(item.gold),
        reason="people who say the same" if answer else (response.missed or "no answer was given"),
        group=item.group,
        truncated=response.truncated,
        missing=not answer,
    )


def _given(item: Item) -> list[str]:
    return [str(one) for one in cast("list[Any]", item.detail["answers"])]


def _id(row: Row) -> str:
    if "question_id" not in row:
        row.unusable("there is no field 'question_id'")
    return str(row["question_id"])


def _answers(row: Row) -> tuple[str, ...]:
    listed = row.get("answers")
    if not isinstance(listed, list) or not listed:
        row.unusable("answers: expected a list with the answers of people")
    given = [cast("dict[str, Any]", one).get("answer") for one in listed if isinstance(one, dict)]
    texts = tuple(one for one in given if isinstance(one, str))
    if len(texts) != len(cast("list[Any]", listed)):
        row.unusable("answers: each needs a text under `answer`")
    return texts


BENCHMARKS = (
    VQA("TextVQA", "textvqa_val", summary="5,000 questions about text in pictures; recorded answers are graded"),
    VQA("VizWiz", "vizwiz_val", summary="4,319 questions of blind people about pictures; recorded answers are graded"),
)
