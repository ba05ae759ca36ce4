"""Answers to a whole dataset against those of people: official VQA files in, shares of points out.

questions:   {"questions": [{"question_id", …}]}
annotations: {"annotations": [{"question_id", "answers": [{"answer"}], "answer_type"}]}
results:     [{"question_id", "answer"}]
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeVar, cast

from storage.records import Record
from tasks.grading.vqa_accuracy import vqa_accuracy
from tasks.lever.lever_errors import DatasetUnusable, FileUnusable, LeverError

ANSWER_TYPE = "other"
"""Where the annotations say none, as those of TextVQA and VizWiz."""
SHOWN_CHARS = 80

Value = TypeVar("Value")


class VqaScores(Record):
    """Mean VQA accuracies, as shares from 0 to 1; the authors' program prints them in per cent, rounded."""

    overall: float
    per_answer_type: dict[str, float]
    """`yes/no`, `number`, `other`."""
    per_question: dict[str, float]
    """By question id, in the order of the questions."""


class Annotation(NamedTuple):
    """What people answered to a question."""

    answers: tuple[str, ...]
    """One for each person."""
    answer_type: str


def score_files(questions: Path, annotations: Path, results: Path, *, stem: bool = False) -> VqaScores:
    """The VQA accuracy of recorded answers. Each question has one answer; annotations may hold further questions.

    stem: as in tasks.grading.vqa_accuracy. Raises DatasetUnusable, and FileUnusable for the results.
    """
    asked = read_question_ids(questions)
    given = read_annotations(annotations)
    _refuse_missing(asked, given, annotations, DatasetUnusable, "annotation; give the annotations of these questions")
    answers = read_results(results)
    _refuse_missing(asked, answers, results, FileUnusable, "answer; give an empty one where there is none")
    _refuse_strangers(answers, asked, results)
    return scored({one: vqa_accuracy(answers[one], given[one].answers, stem=stem) for one in asked}, given)


def scored(per_question: dict[str, float], given: Mapping[str, Annotation]) -> VqaScores:
    """Means of what single questions got."""
    by_type: dict[str, list[float]] = defaultdict(list)
    for question, accuracy in per_question.items():
        by_type[given[question].answer_type].append(accuracy)
    return VqaScores(
        overall=_mean(per_question.values()),
        per_answer_type={name: _mean(found) for name, found in sorted(by_type.items())},
        per_question=per_question,
    )


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / len(found)


class Row(NamedTuple):
    """An entry of a file, which can say where it stands."""

    path: Path
    place: str
    fields: dict[str, Any]
    error: type[LeverError]

    @property
    def id(self) -> str:
        """The question id, as text. Raises `error`."""
        found = self.fields.get("question_id")
        if not isinstance(found, str | int) or isinstance(found, bool):
            self.refuse(f"`question_id` is {_shown(found)}; expected a number or a text")
        return str(found)

    def text(self, name: str) -> str:
        """A field with a text in it. Raises `error`."""
        found = self.fields.get(name)
        if not isinstance(found, str):
            self.refuse(f"`{name}` is {_shown(found)}; expected a text")
        return found

    def refuse(self, problem: str) -> NoReturn:
        """Raises `error`."""
        known = f" (question {self.fields['question_id']})" if "question_id" in self.fields else ""
        raise self.error(f"{self.path}: {self.place}{known}: {problem}")


def read_question_ids(path: Path) -> list[str]:
    """In the order of the file, each once. Raises DatasetUnusable."""
    return list(_by_id(read_rows(path, under="questions"), lambda _: None))


def read_annotations(path: Path) -> dict[str, Annotation]:
    """By question id. Raises DatasetUnusable."""
    return _by_id(read_rows(path, under="annotations"), annotation_of)


def annotation_of(row: Row) -> Annotation:
    """What people answered. Raises DatasetUnusable where nobody did."""
    listed = row.fields.get("answers")
    if not isinstance(listed, list) or not listed:
        row.refuse(f"`answers` is {_shown(listed)}; expected a list with an entry for each person")
    people = cast("list[Any]", listed)
    texts = tuple(cast("dict[str, Any]", one).get("answer") if isinstance(one, dict) else None for one in people)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            shown = _shown(people[number])
            row.refuse(f"`answers[{number}]` is {shown}; expected an object with a text under `answer`")
    return Annotation(cast("tuple[str, ...]", texts), _answer_type(row))


def _answer_type(row: Row) -> str:
    return ANSWER_TYPE if row.fields.get("answer_type") is None else row.text("answer_type")


def read_results(path: Path) -> dict[str, str]:
    """Answers by question id. Raises FileUnusable."""
    return _by_id(read_rows(path, under=None, error=FileUnusable), lambda row: row.text("answer"))


def read_rows(path: Path, *, under: str | None, error: type[LeverError] = DatasetUnusable) -> Iterator[Row]:
    """The entries of a file: of the list under a key, or of the list that it is. Raises `error`."""
    content = _read(path, error)
    found = content
    if under is not None:
        found = cast("dict[str, Any]", content).get(under) if isinstance(content, dict) else None
    if not isinstance(found, list) or not found:
        wanted = "a list of entries" if under is None else f"an object with a list of entries under `{under}`"
        raise error(f"{path}: expected {wanted}, at least one; found {_shown(content)}")
    for number, fields in enumerate(cast("list[Any]", found)):
        place = f"entry {number}" if under is None else f"{under}[{number}]"
        if not isinstance(fields, dict):
            raise error(f"{path}: {place} is {_shown(fields)}; expected an object")
        yield Row(path, place, cast("dict[str, Any]", fields), error)


def _read(path: Path, error: type[LeverError]) -> Any:
    try:
        return json.loads(path.read_bytes())
    except OSError as problem:
        raise error(f"{path} cannot be read ({problem.strerror}); name a JSON file") from problem
    except (ValueError, RecursionError) as problem:
        raise error(f"{path} is no JSON ({problem}); download or write it again") from problem


def _by_id(rows: Iterator[Row], read: Callable[[Row], Value]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for row in rows:
        if row.id in found:
            row.refuse("this question is here a second time; keep one of the two")
        found[row.id] = read(row)
    return found


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


def _refuse_missing(
    asked: Collection[str], there: Container[str], path: Path, error: type[LeverError], of: str
) -> None:
    missing = [one for one in asked if one not in there]
    if missing:
        raise error(f"{path}: question {missing[0]}{_and_more(missing)} has no {of}")


def _refuse_strangers(answered: Iterable[str], asked: Collection[str], path: Path) -> None:
    known = set(asked)
    strangers = [one for one in answered if one not in known]
    if strangers:
        raise FileUnusable(
            f"{path}: question {strangers[0]}{_and_more(strangers)} has an answer, and is not among the "
            f"{len(known):,} questions; give the results of these questions only"
        )


def _and_more(found: Sequence[str]) -> str:
    return f" (and {len(found) - 1:,} more)" if len(found) > 1 else ""
