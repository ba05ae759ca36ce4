"""What holds for every benchmark whose answers are programs, shown on a small one that is executed for real."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.base import CodeBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.grading.code.code_grading import EXTRACTED_CHARS, STDERR_CHARS, Verdict, verdict_of
from tasks.grading.math.math_grader import MathGrader
from tasks.sandbox import Execution, Program, Sandbox, sandbox_records
from tasks.sandbox.sandbox_records import SandboxUnavailable

RIGHT = "def double(x):\n    return 2 * x\n"
WRONG = "def double(x):\n    return x\n"


class Doubling(CodeBenchmark):
    """The answer is the program itself; a line `# silent` hides it, as if no code had been found."""

    name = "Doubling"

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        verdict = verdict_of(sandbox.run(Program(answer, tests=str(item.detail["tests"]))), answer)
        return verdict._replace(code="", values={"lines": 1.0}) if "# silent" in answer else verdict

    def gold_response(self, item: Item) -> str | None:
        return str(item.gold)


BENCHMARK = Doubling()


@pytest.fixture(scope="module")
def math() -> Iterator[MathGrader]:
    with MathGrader() as grader:
        yield grader


@pytest.fixture(scope="module")
def tools(math: MathGrader, sandbox: Sandbox) -> Tools:
    return Tools(math, sandbox=sandbox)


@pytest.fixture
def broken(math: MathGrader) -> Tools:
    """A sandbox that breaks at every program."""

    class Broken(Sandbox):
        def run(self, program: Program) -> Execution:
            return sandbox_records.Execution("broken", reason="the sandbox broke: on purpose")

    return Tools(math, sandbox=Broken(workers=1))


def item(name: str = "double/0", *, gold: str = RIGHT, tests: str = "assert double(21) == 42") -> Item:
    return Item(id=name, prompts=("Double it.",), gold=gold, group="python", detail={"tests": tests})


def response(text: str = RIGHT, **more: object) -> Response:
    return Response.model_validate({"item": "double/0", "turns": (Reply(text=text),), **more})


def graded(given: Response, tools: Tools) -> Sample:
    return next(BENCHMARK.grade([(item(), given)], tools))


def test_a_program_that_passes_its_tests_is_right(tools: Tools) -> None:
    sample = graded(response(), tools)
    assert (sample.status, sample.score, sample.reason, sample.missing) == ("scored", 1.0, "ok", False)
    assert sample.extracted == RIGHT.strip()


def test_a_program_that_fails_them_says_why(tools: Tools) -> None:
    sample = graded(response(WRONG), tools)
    assert (sample.score, sample.reason) == (0.0, "AssertionError")
    assert "Traceback" in str(sample.detail["stderr"])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (response(""), "no answer was found"),
        (response(" \n"), "no answer was found"),
        (response(f"<think>{RIGHT}</think>"), "no answer was found"),
        (response(f"<think>{RIGHT}"), "no answer was found: the reasoning was never closed"),
    ],
    ids=["nothing", "blank", "thought only", "never closed"],
)
def test_no_answer_is_missing_and_scores_0(given: Response, why: str, tools: Tools) -> None:
    sample = graded(given, tools)
    assert (sample.status, sample.score, sample.missing, sample.extracted) == ("scored", 0.0, True, None)
    assert sample.reason == why


def test_an_answer_without_code_is_missing(tools: Tools) -> None:
    sample = graded(response("# silent"), tools)
    assert (sample.score, sample.missing, sample.extracted, sample.values) == (0.0, True, None, {"lines": 1.0})


@pytest.mark.parametrize("text", [RIGHT, "", "<think>"])
def test_a_sample_carries_what_its_response_has(text: str, tools: Tools) -> None:
    turns = (Reply(text="first", key="k1"), Reply(text=text, key="k2", finish_reason="length"))
    sample = graded(Response(item="double/0", repeat=3, turns=turns), tools)
    assert (sample.item, sample.repeat, sample.group) == ("double/0", 3, "python")
    assert (sample.keys, sample.truncated) == (("k1", "k2"), True)
    assert not graded(response(text), tools).truncated


def test_long_programs_and_long_messages_are_cut(tools: Tools) -> None:
    long = f"{WRONG}import sys\nsys.stderr.write('e' * {STDERR_CHARS} + 'end')\n# {'x' * EXTRACTED_CHARS}"
    sample = graded(response(long), tools)
    assert sample.extracted == long[:EXTRACTED_CHARS]
    stderr = str(sample.detail["stderr"])
    assert len(stderr) == STDERR_CHARS
    assert stderr.endswith("AssertionError\n")


def test_a_sandbox_that_breaks_leaves_a_program_unscored(broken: Tools) -> None:
    samples = list(BENCHMARK.grade([(item(), response()), (item(), response(WRONG)), (item(), response(""))], broken))
    assert [(sample.status, sample.score) for sample in samples] == [("unscored", None)] * 2 + [("scored", 0.0)]
    assert all(sample.reason.startswith("sandbox: the sandbox broke: ") for sample in samples[:2])
    assert samples[0].extracted == RIGHT.strip()


def test_what_is_unscored_is_in_no_figure(tools: Tools, broken: Tools) -> None:
    passed = list(BENCHMARK.grade([(item("double/0"), response())], tools))
    lost = list(BENCHMARK.grade([(item("double/1"), response().model_copy(update={"item": "double/1"}))], broken))
    summary = BENCHMARK.summarise([*passed, *lost])
    assert (summary.metrics["pass@1"], summary.metrics["num_unscored"]) == (1.0, 1)
    assert BENCHMARK.summarise(lost).metrics["pass@1"] is None


def test_without_any_sandbox_nothing_is_graded(math: MathGrader, tmp_path: Path) -> None:
    with (
        Sandbox(workers=1, python=tmp_path / "python") as sandbox,
        pytest.raises(SandboxUnavailable, match="python is no Python that can execute programs"),
    ):
        graded(response(), Tools(math, sandbox=sandbox))


@pytest.mark.parametrize(
    ("checked", "problem"),
    [
        (item(gold=WRONG), "item double/0: its own gold 'def double(x):\\n    return x\\n' is graded as wrong"),
        (item(gold="import no_such_library"), "No module named 'no_such_library'"),
    ],
    ids=["wrong gold", "missing import"],
)
def test_a_check_names_each_problem(checked: Item, problem: str, tools: Tools) -> None:
    problems = list(BENCHMARK.check([checked], tools))
    assert len(problems) == 1
    assert problem in problems[0]


def test_a_check_finds_nothing_wrong_with_sound_items(tools: Tools) -> None:
    assert list(BENCHMARK.check([item("double/0"), item("double/1")], tools)) == []


def test_a_check_stops_where_the_sandbox_breaks(broken: Tools) -> None:
    (problem,) = BENCHMARK.check([item()], broken)
    assert "could not be graded: sandbox: the sandbox broke: " in problem
