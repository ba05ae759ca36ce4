"""`trivet eval grade`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from flows.cli.evaluation.score_command import grade


def run(*arguments: str) -> Result:
    app = typer.Typer()
    app.command("grade")(grade)
    app.callback()(lambda: None)
    return CliRunner().invoke(app, ["grade", *arguments])


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
    assert result.exit_code == 0
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"id": 1, "equal": True, "stage": "numeric"},
        {"id": "b", "equal": False, "stage": "numeric"},
        {"id": None, "equal": False, "stage": "missing"},
    ]


def test_out_holds_the_lines(tmp_path: Path) -> None:
    result = run(written(tmp_path, *CASES), "--kind", "math", "--out", str(tmp_path / "graded.jsonl"))
    assert (result.exit_code, result.stdout) == (0, "")
    assert len((tmp_path / "graded.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[1]", "expected an object"),
        ('{"id": 1, "gold": "5"}', "prediction missing"),
        ('{"id": 1, "gold": ["5"], "prediction": "5"}', "`gold` is list"),
    ],
)
def test_bad_line_is_named_and_nothing_is_written(line: str, said: str, tmp_path: Path) -> None:
    out = tmp_path / "graded.jsonl"
    result = run(written(tmp_path, CASES[0], line), "--out", str(out))
    assert result.exit_code == 2
    assert said in result.output
    assert "cases.jsonl:2" in result.output.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["cases.jsonl"]


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    result = run(str(tmp_path / "none.jsonl"))
    assert result.exit_code == 2
    assert "none.jsonl is not there" in result.output.replace("\n", "")
