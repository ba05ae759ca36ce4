"""Judgments that people labelled, as questions to a judge: how far its reply to each agrees with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args

from pydantic import Field, ValidationError

from models.protocols import ChatRequest
from storage.records import FiniteRecord
from tasks.grading.grading_records import GradingError
from tasks.grading.judge_grading import judge_request, label, rating
from tasks.grading.reasoning import visible_answer

LOWEST, HIGHEST = 0, 10
STEPS = 9
"""From the lowest to the highest rating of MT-Bench, 1 to 10."""
EXPECTED = "{prompt, human}"
Preference = Literal["A", "B", "C"]


class LabelsUnusable(GradingError):
    """A file of labels that cannot be read, or in which a figure has no basis."""


class JudgeQuestion(FiniteRecord):
    """A line of the file: what the judge is asked, and what a person says."""

    id: str | int | None = None
    """Name of the judgment; its line number where there is none."""
    prompt: str = Field(min_length=1)
    """The whole prompt of the judge, as it stood in the run that was labelled."""
    system: str = ""
    human: Preference | Annotated[float, Field(ge=LOWEST, le=HIGHEST, strict=True)]
    """A, B or C (tie) where the judge is to write `[[A]]`, a number where it is to write `[[7]]`."""

    @property
    def name(self) -> str:
        return str(self.id)

    def request(self, *, draw: int, max_tokens: int) -> ChatRequest:
        """The judge's request. draw: another number asks anew what the response store holds."""
        asked = judge_request(self.prompt, system=self.system, max_tokens=max_tokens)
        return asked.model_copy(update={"draw": draw})


def read_questions(path: Path) -> tuple[JudgeQuestion, ...]:
    """The labelled judgments of a JSONL file, by names of their own. Raises LabelsUnusable with file and line."""
    found: dict[str, int] = {}
    questions: list[JudgeQuestion] = []
    for line, one in _questions(path):
        question = one if one.id is not None else one.model_copy(update={"id": line})
        if question.name in found:
            where = f"{path}, line {line}: id"
            raise LabelsUnusable(f"{where}: {question.name!r} is in line {found[question.name]} too; give another")
        found[question.name] = line
        questions.append(question)
    if not questions:
        raise LabelsUnusable(f"{path} holds no judgment; give lines of {EXPECTED}")
    return tuple(questions)


def _questions(path: Path) -> Iterator[tuple[int, JudgeQuestion]]:
    """Records of a JSONL file with their line numbers; other fields are left out.

    Raises LabelsUnusable with file and line.
    """
    try:
        lines = path.read_text("utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LabelsUnusable(f"{path} cannot be read ({error}); give a JSONL file of {EXPECTED}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            plain = json.loads(line)
            if isinstance(plain, dict):
                known = cast("dict[str, Any]", plain)
                plain = {name: value for name, value in known.items() if name in JudgeQuestion.model_fields}
            yield number, JudgeQuestion.model_validate(plain)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"][:1])
            raise LabelsUnusable(f"{path}, line {number}: {where}: {first['msg']}") from error
        except ValueError as error:
            raise LabelsUnusable(f"{path}, line {number}: not JSON ({error})") from error


def verdict_in(reply: str, human: Preference | float) -> Preference | float | None:
    """The judge's verdict, of the kind of the person's; None where the reply has none."""
    text = visible_answer(reply) or ""
    if isinstance(human, float):
        return rating(text, low=LOWEST, high=HIGHEST)
    return cast("Preference | None", label(text, labels=get_args(Preference)))


def agreement(human: Preference | float, judge: Preference | float | None) -> float:
    """1 for the same label, 0 for another or none; of ratings 1 less a ninth for each point between them.

    Source of the weights: linear ones of weighted kappa over ten categories, Cohen 1968,
    doi:10.1037/h0026256.
    """
    if isinstance(human, float) and isinstance(judge, float):
        return max(0.0, 1 - abs(human - judge) / STEPS)
    return float(human == judge)
