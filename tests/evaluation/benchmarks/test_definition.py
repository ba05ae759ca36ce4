from __future__ import annotations

from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.simple import open_yaml
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.running.benchmark_data import Data

GOOD = """\
name: Mine
data: {file: mine.jsonl}
prompt: "{q}"
gold: a
grader: {kind: math}
"""


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.yaml"
    path.write_text(text, "utf-8")
    return path


def items_of(folder: Path, yaml: str, *rows: str) -> list[dict[str, object]]:
    (folder / "mine.jsonl").write_text("\n".join(rows), "utf-8")
    return [item.model_dump() for item in open_yaml(written(folder, yaml)).items(Data(None))]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("name: [\n", 2, "not YAML"),
        ("- 1\n", 1, "expected `name`"),
        (GOOD.replace("gold: a\n", ""), 1, "a math grader needs `gold`"),
        (GOOD + "grder: 5\n", 6, "grder: there is no such key; there are name, version"),
        (GOOD.replace("{kind: math}", "\n  kind: math\n  fuzz: 1"), 7, "there are kind, several"),
        (GOOD + "sampling:\n  temperature: hot\n", 7, "sampling.temperature: "),
        (GOOD + "repeats: 1\nrepeats: 2\n", 7, "'repeats' stands there twice"),
        (GOOD + "options: {answer: letter}\n", 6, "name the options"),
        (GOOD.replace("math", "rules"), 1, "a rules grader needs `detail`"),
        ("name: !!python/object/apply:os.system ['true']\n", 1, "not YAML"),
    ],
)
def test_a_mistake_is_named_with_file_and_line(tmp_path: Path, text: str, line: int, why: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(BenchmarkUnusable) as caught:
        open_yaml(path)
    assert f"{path}, line {line}: " in str(caught.value)
    assert why in str(caught.value)


def test_only_fields_of_the_row_are_replaced_in_a_prompt(tmp_path: Path) -> None:
    yaml = GOOD.replace('"{q}"', r"""'Solve {q} with \boxed{} and \frac{x}{y}, {nothing}, {{q}}.'""")
    (item,) = items_of(tmp_path, yaml, r'{"q": "\\sqrt{q}", "a": 1}')
    assert item["prompts"] == (r"Solve \sqrt{q} with \boxed{} and \frac{x}{y}, {nothing}, {\sqrt{q}}.",)


@pytest.mark.parametrize(
    ("gold", "row", "expected"),
    [
        ("a", '{"q": "", "a": 27}', "27"),
        ("a", '{"q": "", "a": ["1", "2"]}', ["1", "2"]),
        ("{field: a, pattern: '#### (.*)'}", '{"q": "", "a": "x\\n#### 18 "}', "18"),
        ("{field: a, boxed: true}", '{"q": "", "a": "so \\\\boxed{\\\\frac{1}{2}} m"}', r"\frac{1}{2}"),
    ],
)
def test_the_gold_is_a_field_or_what_is_found_in_it(tmp_path: Path, gold: str, row: str, expected: object) -> None:
    (item,) = items_of(tmp_path, GOOD.replace("gold: a", f"gold: {gold}"), row)
    assert item["gold"] == expected


@pytest.mark.parametrize(
    ("change", "row", "why"),
    [
        (("gold: a", "gold: b"), '{"q": "", "a": 1}', "there is no field 'b'; there are q, a"),
        (
            ("kind: math}", "kind: choice}\noptions: {field: o}"),
            '{"q": "", "a": "E", "o": [1, 2]}',
            "'E' is none of the 2",
        ),
        (("kind: math}", "kind: choice}\noptions: {field: o}"), '{"q": "", "a": "A", "o": "no"}', "expected a list"),
        (
            ("kind: math}", "kind: choice}\noptions: {field: o, answer: index}"),
            '{"q": "", "a": -1, "o": [1, 2]}',
            "as index",
        ),
    ],
)
def test_a_row_that_does_not_fit_is_named(tmp_path: Path, change: tuple[str, str], row: str, why: str) -> None:
    (tmp_path / "mine.yaml").write_text(GOOD.replace(*change), "utf-8")
    (tmp_path / "mine.jsonl").write_text(row + "\n", "utf-8")
    data = Data(None)
    assert list(open_yaml(tmp_path / "mine.yaml").items(data)) == []
    (said,) = data.left_out.values()
    assert said.startswith(f"{tmp_path / 'mine.jsonl'}, line 1: ")
    assert why in said


CHOICE = """\
name: Mine
data: {file: mine.jsonl}
prompt: "{q} {options} ({letters})"
gold: a
options: {field: o, answer: text, shuffle: true, layout: line}
grader: {kind: choice}
"""


def test_options_are_shuffled_for_each_item_and_the_same_each_time(tmp_path: Path) -> None:
    rows = [f'{{"id": {number}, "q": "", "a": "x", "o": ["x", "y", "z", "w"]}}' for number in range(40)]
    first, second = items_of(tmp_path, CHOICE, *rows), items_of(tmp_path, CHOICE, *reversed(rows))
    assert first == second[::-1]
    assert {item["gold"] for item in first} == set("ABCD")


def test_a_gold_is_the_letter_under_which_it_is_shown(tmp_path: Path) -> None:
    (item,) = items_of(tmp_path, CHOICE, '{"id": 1, "q": "?", "a": "x", "o": ["x", "y", "z"]}')
    (prompt,) = item["prompts"]  # pyright: ignore[reportGeneralTypeIssues]
    assert f"{item['gold']}) x" in prompt
    assert prompt.endswith("(ABC)")
