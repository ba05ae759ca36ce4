"""Files of answers are scored, and files that do not fit are refused by file and entry."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tasks.lever.data.vqa_files import VqaScores, score_files
from tasks.lever.lever_errors import DatasetUnusable, FileUnusable, LeverError
from tests.command import run_here
from tests.lever.second_vqa_accuracy import second_accuracy

YES = ["yes"] * 10
DOGS = ["dogs"] * 4 + ["dog"] * 3 + ["a cat"] * 2 + ["cow"]


class Files:
    """Three files that belong together, each to be spoilt at will."""

    def __init__(self, folder: Path) -> None:
        self.questions, self.annotations, self.results = (folder / f"{name}.json" for name in ("q", "a", "r"))
        self.write("questions", {"questions": [{"question_id": 7, "image_id": 1}, {"question_id": "8"}]})
        annotations = [
            {"question_id": 8, "answers": _people(DOGS), "answer_type": "other"},
            {"question_id": 7, "answers": _people(YES), "answer_type": "yes/no"},
            {"question_id": 9, "answers": _people(YES), "answer_type": "yes/no"},
        ]
        self.write("annotations", {"annotations": annotations, "license": {}})
        self.write("results", [{"question_id": 7, "answer": "yes"}, {"question_id": 8, "answer": "The cat."}])

    def write(self, name: str, content: object) -> None:
        path: Path = getattr(self, name)
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def score(self, *, stem: bool = False) -> VqaScores:
        return score_files(self.questions, self.annotations, self.results, stem=stem)


def _people(answers: list[str]) -> list[dict[str, Any]]:
    return [{"answer": one, "answer_id": n} for n, one in enumerate(answers, start=1)]


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def test_means_are_over_all_and_over_each_kind_of_answer(files: Files) -> None:
    # "The cat." is what 2 of 10 say: .6
    assert files.score() == VqaScores(
        overall=0.8, per_answer_type={"other": 0.6, "yes/no": 1.0}, per_question={"7": 1.0, "8": 0.6}
    )


def annotation(**fields: Any) -> dict[str, Any]:
    rows = [{"question_id": 7, "answers": _people(YES)}, {"question_id": 8, "answers": _people(YES)} | fields]
    return {"annotations": rows}


WRONG: list[tuple[str, object, type[LeverError], str]] = [
    ("questions", "{", DatasetUnusable, r"q\.json is no JSON"),
    ("questions", {"questions": [{"id": 7}]}, DatasetUnusable, r"questions\[0\]: `question_id` is null"),
    ("questions", {"questions": [{"question_id": 7}] * 2}, DatasetUnusable, r"questions\[1\] .*second time"),
    ("questions", {"questions": [{"question_id": 3}]}, DatasetUnusable, r"a\.json: question 3 has no annotation"),
    ("annotations", annotation(answers=[]), DatasetUnusable, r"question 8: `answers` is \[\]"),
    ("annotations", annotation(answers=[{"answer": 3}]), DatasetUnusable, r"`answers` is \[\{\"answer\": 3\}\]"),
    ("results", [{"question_id": 7, "answer": None}], FileUnusable, r"question 7: `answer` is null"),
    ("results", [{"question_id": 7, "answer": "a"}], FileUnusable, r"r\.json: question 8 has no answer"),
    (
        "results",
        [{"question_id": n, "answer": "a"} for n in (7, 8, 9, 10)],
        FileUnusable,
        r"question 9 \(and 1 more\) has an answer, and is not among the 2 questions",
    ),
]


@pytest.mark.parametrize(("name", "content", "error", "said"), WRONG, ids=[f"{row[0]}: {row[3]}" for row in WRONG])
def test_what_does_not_fit_is_refused_by_file_and_entry(
    files: Files, name: str, content: object, error: type[LeverError], said: str
) -> None:
    files.write(name, content)
    with pytest.raises(error, match=said):
        files.score()


def test_the_command_speaks_to_people(files: Files) -> None:
    scored = run_here("lever", "vqa-score", files.questions, files.annotations, files.results)
    assert scored.stdout.splitlines() == [
        "0.8000  VQA accuracy over 2 questions",
        "0.6000  other",
        "1.0000  yes/no",
    ]


@pytest.mark.shared
@pytest.mark.parametrize(("name", "count"), [("textvqa", 5000), ("vizwiz", 4319)])
def test_real_files_score_as_by_the_second_implementation(shared: Path, tmp_path: Path, name: str, count: int) -> None:
    def predict(people: list[str]) -> str:
        return Counter(people).most_common(1)[0][0]

    questions, annotations = (
        shared / "vqa" / f"{name}_val_{part}_vqa_format.json" for part in ("questions", "annotations")
    )
    rows = json.loads(annotations.read_text())["annotations"]
    people = {str(row["question_id"]): [one["answer"] for one in row["answers"]] for row in rows}
    results = tmp_path / "results.json"
    results.write_text(json.dumps([{"question_id": n, "answer": predict(given)} for n, given in people.items()]))

    scores = score_files(questions, annotations, results)
    assert len(scores.per_question) == count
    expected = {n: second_accuracy(predict(given), given) for n, given in people.items()}
    assert scores.per_question == pytest.approx(expected, abs=1e-12)
    assert scores.overall == pytest.approx(sum(expected.values()) / len(expected))
