"""Programs that a model wrote, through the whole flow: executed, counted, kept; what broke is executed again."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tasks.evaluation.running import generation
from tasks.sandbox import Execution, Program, Sandbox, shared_sandbox
from tasks.sandbox.inside import Frame
from tasks.sandbox.languages import Language
from tasks.sandbox.sandbox_records import SandboxUnavailable
from tasks.sandbox.sandbox_worker import Worker
from tests.command import Done, run_here

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

SAMPLES = Path(__file__).parents[1] / "samples" / "benchmarks"
RIGHT = {
    ("python", "HumanEval/0"): "    return max((abs(b - a) for a, b in zip(readings, readings[1:])), default=0.0)\n",
    ("python", "HumanEval/1"): "    return ord(code[0]) - 65, int(code[1:])\n",
    ("python", "HumanEval/2"): "    return math.ceil(width / side) * math.ceil(height / side)\n",
    ("js", "HumanEval_900_countdown"): "  return Array.from({length: n}, (_, place) => n - place);\n}\n",
    ("js", "HumanEval_904_longest"): "  return words.reduce((a, b) => (b.length > a.length ? b : a), '');\n}\n",
    ("sh", "HumanEval_900_countdown"): '  echo $(seq "$1" -1 1)\n',
    ("sh", "HumanEval_902_file_stem"): '  echo "${1%.*}"\n',
}
"""Language, item → a body that passes."""
FOREVER = "    while True:\n        pass\n"
OUT_OF_TIME = r"it used more than 3 s of processor time|killed after 3 s"
"""Both limits count the time that a program had a processor: whichever is looked at first ends it."""
BREAKS = "    return 'its zygote dies'"


@pytest.fixture(autouse=True, scope="module")
def _executes() -> None:
    """Where nothing walls programs in, nothing is executed."""
    try:
        shared_sandbox().start()
    except SandboxUnavailable as why:
        pytest.skip(str(why))


@pytest.fixture
def evaluate(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Done]:
    """`trivet eval run` of recorded programs, under a name that no other test has: they share a database."""
    model = ("--model", "replay", "--model_name", f"model-of-{request.node.name}")
    recorded = ("--model_args", f"path={tmp_path / 'recorded'}", "--output_path", tmp_path / "out", "--json")

    def run(*options: object, data: Path = SAMPLES) -> Done:
        return run_here("eval", "run", *model, *recorded, "--tasks", "HumanEval", "--data_dir", data, *options)

    return run


@pytest.fixture
def executed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Sources of the programs that were executed, as they come."""
    sources: list[str] = []
    run = Sandbox.run

    def seen(sandbox: Sandbox, program: Program) -> Execution:
        sources.append(program.source)
        return run(sandbox, program)

    monkeypatch.setattr(Sandbox, "run", seen)
    return sources


@pytest.fixture
def breaking(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """The zygote that is to execute BREAKS is killed before, each time."""
    ask = Worker.ask

    def killed(worker: Worker, program: Program, language: Language) -> tuple[Frame, int]:
        if BREAKS in program.source:
            os.killpg(worker.pid, signal.SIGKILL)
        return ask(worker, program, language)

    with monkeypatch.context() as patched:
        patched.setattr(Worker, "ask", killed)
        yield patched


def record(folder: Path, *programs: tuple[str, str, str]) -> None:
    """Language, item, completion; in the order of the file."""
    lines = [{"task_id": f"{tag}/{item}".removeprefix("python/"), "completion": text} for tag, item, text in programs]
    (folder / "recorded").mkdir()
    (folder / "recorded" / "HumanEval.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def kept(run: str, item: str) -> list[dict[str, Any]]:
    """The samples of an item, from the database."""
    shown = run_here("eval", "show", run, "--item", item, "--json")
    assert shown.code == 0, shown.stderr
    return [one["sample"] for one in shown.json["samples"]]


def test_programs_in_three_languages_are_scored_and_kept(evaluate: Callable[..., Done], tmp_path: Path) -> None:
    wrong = {"python": "    pass\n", "js": "}\n", "sh": "  :\n"}
    both = [(*place, text) for place, right in RIGHT.items() for text in (right, wrong[place[0]])]
    record(tmp_path, *both, ("python", "HumanEval/2", RIGHT["python", "HumanEval/2"]))
    done = evaluate("--k", "1,2,3")
    assert done.code == 0, done.stderr
    [result] = done.json["results"]
    assert result["metrics"] == {
        "pass@1": pytest.approx((6 / 2 + 2 / 3) / 7),
        "pass@2": 1.0,
        "python_pass@1": pytest.approx((1 + 2 / 3) / 3),
        "python_pass@2": 1.0,
        **{f"{language}_pass@{k}": value for language in ("js", "sh") for k, value in ((1, 0.5), (2, 1.0))},
        "num_total": 7,
        "k_left_out": {
            "pass@3": "HumanEval/0 has 2 samples",
            "python_pass@3": "HumanEval/0 has 2 samples",
            "js_pass@3": "js/HumanEval_900_countdown has 2 samples",
            "sh_pass@3": "sh/HumanEval_900_countdown has 2 samples",
        },
    }
    sandbox = shared_sandbox()
    assert f"programs were executed behind bubblewrap, with Python {sandbox.python.version}" in result["notes"]
    [file] = (tmp_path / "out").glob("*/results_*.json")
    assert json.loads(file.read_text())["results"] == {"HumanEval": result["metrics"]}

    found = kept(done.json["run"]["id"], "js/HumanEval_900_countdown")
    assert [(one["repeat"], one["score"], one["group"]) for one in found] == [(0, 1, "js"), (1, 0, "js")]
    assert found[1]["reason"].startswith("AssertionError")


def test_programs_that_were_scored_are_not_executed_again(
    evaluate: Callable[..., Done], executed: list[str], tmp_path: Path
) -> None:
    record(tmp_path, *((*place, text) for place, text in RIGHT.items()))
    first = evaluate()
    assert first.code == 0, first.stderr
    executed.clear()
    again = evaluate()
    assert (again.code, again.json["results"]) == (0, [])
    assert again.json["skipped"] == {"HumanEval": first.json["run"]["id"]}
    assert executed == []
    over = evaluate("--overwrite")
    assert over.json["results"][0]["metrics"] == first.json["results"][0]["metrics"]
    assert not [source for source in executed if RIGHT["python", "HumanEval/2"] in source], "only checks are executed"


def test_a_sandbox_that_breaks_leaves_programs_to_the_next_run(
    evaluate: Callable[..., Done],
    executed: list[str],
    breaking: pytest.MonkeyPatch,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(generation, "SHARD_RESPONSES", 2)
    right = RIGHT["python", "HumanEval/0"]
    record(
        tmp_path,
        *(("python", "HumanEval/0", f"    # answer {number}\n{right}") for number in range(3)),
        ("python", "HumanEval/1", f"    # answer 3\n{BREAKS}"),
        ("python", "HumanEval/2", "    # answer 4\n    pass\n"),
    )
    first = evaluate()
    assert first.code == 1
    assert "1 not finished (HumanEval HumanEval/1: sandbox: " in first.stderr
    assert "Traceback" not in first.stderr
    [result] = first.json["results"]
    assert (result["counts"]["scored"], result["counts"]["unscored"]) == (4, 1)
    assert (result["metrics"]["pass@1"], result["metrics"]["num_unscored"]) == (0.5, 1)
    assert first.json["run"]["status"] == "failed"
    [sample] = kept(first.json["run"]["id"], "HumanEval/1")
    assert (sample["status"], sample["score"]) == ("unscored", None)

    breaking.undo()
    executed.clear()
    second = evaluate()
    assert second.code == 0, second.stderr
    answers = sorted(source.partition("# answer ")[2][0] for source in executed if "# answer " in source)
    assert answers == ["2", "3"], "the shard that was left, and no other"
    [result] = second.json["results"]
    assert (result["counts"]["unscored"], result["metrics"]["pass@1"]) == (0, pytest.approx(1 / 3))


def test_a_program_that_a_limit_ends_is_wrong(evaluate: Callable[..., Done], tmp_path: Path) -> None:
    hungry = "    return bytearray(1 << 40)\n"
    record(tmp_path, ("python", "HumanEval/0", FOREVER), ("python", "HumanEval/1", hungry))
    done = evaluate()
    assert done.code == 0, done.stderr
    [result] = done.json["results"]
    assert (result["counts"]["scored"], result["counts"]["unscored"]) == (2, 0)
    reasons = [kept(done.json["run"]["id"], item)[0]["reason"] for item in ("HumanEval/0", "HumanEval/1")]
    assert re.fullmatch(OUT_OF_TIME, reasons[0])
    assert reasons[1] == "MemoryError"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("    import no_such_library\n    return 1\n", "No module named 'no_such_library'"),
        ("    return len(bytearray(1 << 40))\n", "MemoryError"),
        (FOREVER, OUT_OF_TIME),
        ("    return 0\n", "AssertionError"),
    ],
    ids=["import", "memory", "time", "wrong"],
)
def test_canonical_solutions_that_fail_here_stop_the_run(
    evaluate: Callable[..., Done], executed: list[str], body: str, said: str, tmp_path: Path
) -> None:
    row = {"task_id": "HumanEval/0", "prompt": "def one():\n", "entry_point": "one", "canonical_solution": body}
    data = tmp_path / "data"
    data.mkdir()
    test = "def check(candidate):\n    assert candidate() == 1\n"
    (data / "HumanEval.jsonl").write_text(json.dumps(row | {"test": test}) + "\n")
    record(tmp_path, ("python", "HumanEval/0", "    # answer\n    return 1\n"))
    done = evaluate(data=data)
    assert (done.code, done.stdout) == (2, ""), done.stderr
    assert "HumanEval does not pass its own checks: item HumanEval/0: " in done.stderr
    assert re.search(said, done.stderr)
    assert not [source for source in executed if "# answer" in source]
    assert not (tmp_path / "out").exists()
