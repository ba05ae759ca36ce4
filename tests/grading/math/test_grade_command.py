"""`trivet eval score --task math`: predictions beside their golds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.command import Done, run_here


def run(*arguments: str) -> Done:
    return run_here("eval", "score", *arguments, "--task", "math")


def written(folder: Path, *lines: str) -> str:
    path = folder / "cases.jsonl"
    path.write_text("\n".join(lines), "utf-8")
    return str(path)


CASES = (
    '{"id": 1, "gold": "\\\\frac12", "prediction": "$0.5$"}',
    "",
    '{"id": "b", "gold": "7", "prediction": "First 3, then 4.\\n\\nThe answer is 8."}',
    '{"id": null, "gold": 5, "prediction": null}',
)


def test_each_case_gets_a_line(tmp_path: Path) -> None:
    result = run(written(tmp_path, *CASES))
    assert result.code == 0
    assert result.json["verdicts"] == [
        {"id": 1, "equal": True, "stage": "numeric"},
        {"id": "b", "equal": False, "stage": "numeric"},
        {"id": None, "equal": False, "stage": "missing"},
    ]


def test_out_holds_the_lines(tmp_path: Path) -> None:
    result = run(written(tmp_path, *CASES), "--out", str(tmp_path / "graded.jsonl"))
    assert result.code == 0
    assert len((tmp_path / "graded.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "Expecting property name"),
        ("[1]", "valid dictionary"),
        ('{"id": 1, "gold": "5"}', "prediction"),
        ('{"id": 1, "gold": ["5"], "prediction": "5"}', "gold"),
    ],
)
def test_bad_line_is_named_and_nothing_is_written(line: str, said: str, tmp_path: Path) -> None:
    out = tmp_path / "graded.jsonl"
    result = run(written(tmp_path, CASES[0], line), "--out", str(out))
    assert result.code == 2
    assert said in result.stderr
    assert "cases.jsonl:2: expected {id, gold, prediction}" in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["cases.jsonl"]


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.jsonl"))
    assert (result.code, "there is no file" in result.stderr) == (2, True)


FORMS = (
    r"So \boxed{18}.",
    "The answer is 18.",
    "18",
    "Therefore, she makes 18 dollars every day.",
    "She makes **18** dollars.",
    "9*2=18\n\n18",
    "La respuesta es 18.",
    "It is 17, and not 18, or 19.",
    "I cannot say.",
)


@pytest.mark.parametrize("policy", ["published", "strict", "flexible"])
def test_a_pair_and_a_response_get_one_verdict(policy: str, tmp_path: Path) -> None:
    from tasks.evaluation.evaluation_records import Item, Reply, Response
    from tasks.grading.math.math_grader import MathGrader, grade_math
    from tasks.grading.reading import Rule, score_under

    lines = [json.dumps({"id": n, "gold": "18", "prediction": text}) for n, text in enumerate(FORMS)]
    result = run(written(tmp_path, *lines), "--extract", policy)
    pairs = [one["equal"] for one in result.json["verdicts"]]
    item = Item(id="a", prompts=("?",), gold="18")
    answered = [(item, Response(item="a", turns=(Reply(text=text),))) for text in FORMS]
    with MathGrader() as grader:
        samples = list(grade_math(answered, grader, Rule(("last_box",))))
    assert pairs == [bool(score_under(policy, sample)) for sample in samples]  # type: ignore[arg-type]
    assert sum(pairs) == {"published": 1, "strict": 3, "flexible": 7}[policy]


def test_halves_of_surrogate_pairs_are_compared_too(tmp_path: Path) -> None:
    result = run(written(tmp_path, '{"id": 1, "gold": "5", "prediction": "\\ud800\\n5"}'))
    assert (result.code, result.json["verdicts"][0]["equal"]) == (0, True)
