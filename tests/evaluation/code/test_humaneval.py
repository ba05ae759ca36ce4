"""HumanEval in three languages and HumanEval+, on items of our own and on the published ones."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import Tools
from tasks.evaluation.benchmarks.code.humaneval import BENCHMARKS, read_own_solutions
from tasks.evaluation.evaluation_records import Item
from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.code.answered import graded

SAMPLES = Path(__file__).parents[2] / "samples" / "benchmarks"
BENCHMARK, INSTRUCT, PLUS, *_ = BENCHMARKS
ITEMS = {item.id: item for item in BENCHMARK.items(Data(SAMPLES))}
GAP = "HumanEval/0"
COUNTDOWN, INITIALS, STEM = "sh/HumanEval_900_countdown", "sh/HumanEval_901_initials", "sh/HumanEval_902_file_stem"
COUNTDOWN_JS, TALLY, LONGEST = "js/HumanEval_900_countdown", "js/HumanEval_903_tally", "js/HumanEval_904_longest"


def score(item: str, answer: str, tools: Tools) -> float | None:
    return graded(BENCHMARK, [ITEMS[item]], {item: answer}, tools)[item].score


def test_the_prompt_is_the_seeds_and_evalchemys_stands_beside() -> None:
    asked, instructed = ITEMS[COUNTDOWN], next(iter(INSTRUCT.items(Data(SAMPLES))))
    assert asked.prompts[0].startswith("Please provide a Bash solution to the following problem:\n#!/bin/bash\n# All")
    assert asked.prompts[0].endswith("\ncountdown() {\n")
    assert ITEMS[TALLY].prompts[0].startswith("Please provide a JavaScript solution to")
    assert "Here is the given code to do completion:\n```python\nfrom typing import List\n" in instructed.prompts[0]
    assert instructed.prompts[0].endswith('    3.5\n    """\n```')


def test_it_is_asked_as_evalchemy_does() -> None:
    assert (BENCHMARK.sampling.temperature, BENCHMARK.sampling.max_tokens, BENCHMARK.repeats) == (0.0, 1024, 1)
    assert (BENCHMARK.name, INSTRUCT.name) == ("HumanEval", "HumanEvalInstruct")


def test_items_of_each_language_are_a_group_and_keep_their_published_id() -> None:
    assert [item.group for item in ITEMS.values()] == ["python"] * 4 + ["sh"] * 3 + ["js"] * 3
    assert ITEMS[COUNTDOWN].detail["task_id"] == ITEMS[COUNTDOWN_JS].detail["task_id"] == "HumanEval_900_countdown"


def test_canonical_solutions_pass(tools: Tools) -> None:
    assert list(BENCHMARK.check(list(ITEMS.values()), tools)) == []


EQUAL = "def largest_gap(readings):\n    return Gap(0)\n"
GAP_BODY = "    return max((abs(b - a) for a, b in zip(readings, readings[1:])), default=0.0)\n"
TALLY_BODY = "  const t = {};\n  for (const w of words) t[w] = (t[w] || 0) + 1;\n  return t;\n"


@pytest.mark.parametrize(
    ("item", "answer", "right"),
    [
        (GAP, GAP_BODY, True),
        (GAP, f"```python\ndef largest_gap(readings: List[float]) -> float:\n{GAP_BODY}```", True),
        (GAP, f"<think>```python\nwrong\n```</think>\n```python\ndef largest_gap(readings):\n{GAP_BODY}```", True),
        (GAP, f"```python\nclass Gap(float):\n    __eq__ = lambda self, _: True\n{EQUAL}```", False),
        (GAP, "```python\ndef widest_gap(readings):\n    return 3.5\n```", False),
        (GAP, f"{GAP_BODY}\nimport sys\nsys.exit(0)\n", False),
        (COUNTDOWN, "    seq -s ' ' $1 -1 1\n}\n\n# as asked", True),
        (COUNTDOWN, "```bash\n#!/bin/bash\ncountdown() {\n    seq -s ' ' $1 -1 1\n}\ncountdown 3\n```", True),
        (COUNTDOWN, "```bash\ncountdown() {\n    seq -s ' ' $1 -1 1\n}\nexit 0\n}\n```", False),
        (INITIALS, '    local w; for w in $1; do printf "%s" "${w:0:1}"; done | tr a-z A-Z\n', True),
        (STEM, '```sh\nfile_stem() { echo "${1%.*}"; }\n```', True),
        (COUNTDOWN_JS, "```js\nconst countdown = (n) => n ? [n, ...countdown(n - 1)] : [];\n```", True),
        (TALLY, f"```javascript\nfunction tally(words) {{\n{TALLY_BODY}}}\nmodule.exports = tally;\n```", True),
        (TALLY, "```javascript\nfunction tally(words) {\n  return {};\n}\n```", False),
        (LONGEST, "  process.exit(0);\n}\n", False),
    ],
)
def test_an_answer_is_executed_with_its_tests(item: str, answer: str, right: bool, tools: Tools) -> None:
    assert score(item, answer, tools) == right


@pytest.fixture(scope="module")
def published(shared: Path) -> list[Item]:
    return list(BENCHMARK.items(Data(shared / "benchmarks")))


def passed(items: Sequence[Item], answer: Callable[[Item], str | None], tools: Tools) -> dict[str, float]:
    """Group → items whose answer passes."""
    answers = {item.id: text for item in items if (text := answer(item)) is not None}
    found = graded(BENCHMARK, items, answers, tools)
    groups = dict.fromkeys(str(item.group) for item in items)
    return {group: sum(one.score or 0 for one in found.values() if one.group == group) for group in groups}


@pytest.mark.shared
def test_all_published_solutions_pass(published: list[Item], tools: Tools) -> None:
    assert passed(published, BENCHMARK.gold_response, tools) == {"python": 164, "sh": len(read_own_solutions("sh"))}
    assert len(read_own_solutions("sh")) >= 24


PLUS_ITEMS = {item.id: item for item in PLUS.items(Data(SAMPLES))}
REVERSED, SHARES, _ = PLUS_ITEMS


def test_of_plus_canonical_solutions_pass(tools: Tools) -> None:
    assert list(PLUS.check(list(PLUS_ITEMS.values()), tools)) == []


@pytest.mark.parametrize(
    ("item", "body", "score"),
    [
        (REVERSED, "    return int(str(number)[::-1])\n", 0),  # right on the inputs of HumanEval
        (REVERSED, "    return int(str(abs(number))[::-1]) * (1 if number > 0 else -1)\n", 1),
        (SHARES, "    return [amount / sum(amounts) for amount in amounts]\n", 1),
        (SHARES, "    return [round(amount / sum(amounts), 4) for amount in amounts]\n", 0),
    ],
)
def test_of_plus_all_inputs_decide(item: str, body: str, score: int, tools: Tools) -> None:
    answer = f"{PLUS_ITEMS[item].detail['prompt']}{body}"
    assert graded(PLUS, [PLUS_ITEMS[item]], {item: answer}, tools)[item].score == score


def test_evalpluss_own_file_is_refused_by_name(tmp_path: Path) -> None:
    row = {"task_id": "HumanEval/0", "prompt": "def f():\n", "base_input": [[1]], "plus_input": [[2]]}
    (tmp_path / "HumanEvalPlus.jsonl").write_text(json.dumps(row))
    data = Data(tmp_path)
    assert list(PLUS.items(data)) == []
    assert "take the hub's evalplus/humanevalplus instead" in data.left_out["HumanEval/0"]
