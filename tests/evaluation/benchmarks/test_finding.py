from __future__ import annotations

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks import benchmark_registry
from tasks.evaluation.benchmarks.base import is_whole
from tasks.evaluation.benchmarks.benchmark_registry import benchmarks, definition_digest, find_benchmark
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, UnknownTask

OURS = """AIME24 AIME25 AMC23 MATH500 HMMT GSM8K OlympiadBench Minerva GPQADiamond MMLUPro MMLUStem JEEBench HLE IFEval
RAGQuestions RAGReading TextVQA VizWiz AIW ZeroEvalMath ZeroEvalNumersense"""
CLASS = '''
from tasks.evaluation.benchmarks.base import BaseBenchmark
class {name}Benchmark(BaseBenchmark):
    """One."""
'''
EVALCHEMY = '''
from typing import Any, Dict, List, Optional
import logging
from lm_eval.api.instance import Instance
from tasks.evaluation.benchmarks.base import BaseBenchmark
from words import QUESTION
from .words import GOLD
class AdditionBenchmark(BaseBenchmark):
    """As evalchemy's benchmarks are written."""
    def __init__(self, debug: bool = False, seed: List[int] = [0, 1234, 1234, 1234],
                 logger: Optional[logging.Logger] = None, system_instruction: Optional[str] = None):
        super().__init__(logger=logger, system_instruction=system_instruction)
        self.seed = seed
        self.n_repeat = 2
    def generate_responses(self, model) -> Dict[str, Any]:
        outputs = []
        for i in range(self.n_repeat):
            messages = self._prepare_messages([{"role": "user", "content": QUESTION}], model)
            instance = Instance("generate_until", {}, (messages, {
                "do_sample": False, "max_new_tokens": 64, "temperature": 0.7, "seed": [s + i for s in self.seed]}), 0)
            instance.repeat_idx = i
            instance.metadata = {"problem_id": "0"}
            self.logger.info("Generating")
            outputs += self.compute(model, [instance])
        if model.rank != 0:
            return None
        return {"examples": [{"outputs": outputs}]}
    def evaluate_responses(self, results: Dict[str, Any]) -> Dict[str, float]:
        outputs = results["examples"][0]["outputs"]
        return {"accuracy": sum(GOLD in one for one in outputs) / len(outputs)}
'''


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_every_benchmark_of_the_specification_is_there() -> None:
    assert set(OURS.split()) <= set(benchmarks())


@pytest.mark.parametrize("name", OURS.split())
def test_a_benchmark_is_found_by_its_name(name: str) -> None:
    found = find_benchmark(name)
    assert (found.name, bool(found.summary)) == (name, True)
    assert len(definition_digest(found)) == 64


@pytest.mark.parametrize(
    ("wrong", "meant"), [("AIME2", "AIME24"), ("math500", "MATH500"), ("gpqa_diamond", "GPQADiamond")]
)
def test_an_unknown_name_lists_what_is_near_and_what_there_is(wrong: str, meant: str) -> None:
    with pytest.raises(UnknownTask) as caught:
        find_benchmark(wrong)
    near, _, listed = str(caught.value).partition("There are: ")
    assert meant in near
    assert "MMLUPro" in listed


def test_a_yaml_file_is_found_by_its_path(tmp_path: Path) -> None:
    text = "name: Mine\ndata: {file: x.jsonl}\nprompt: '{q}'\ngold: a\ngrader: {kind: math}\n"
    assert find_benchmark(str(written(tmp_path, "mine.yaml", text))).name == "Mine"


def test_a_class_is_found_in_a_file_and_named_after_itself(tmp_path: Path) -> None:
    path = written(tmp_path, "own.py", CLASS.format(name="One") + CLASS.format(name="Two"))
    assert find_benchmark(f"{path}:TwoBenchmark").name == "Two"


def test_a_file_with_one_class_needs_no_name(tmp_path: Path) -> None:
    assert find_benchmark(str(written(tmp_path, "single.py", CLASS.format(name="Single")))).name == "Single"


@pytest.mark.parametrize(
    ("text", "suffix", "why"),
    [
        (CLASS.format(name="A") + CLASS.format(name="B"), "", "there are ABenchmark, BBenchmark"),
        (CLASS.format(name="A"), ":C", "there is no C in it; there are ABenchmark"),
        ("X = 5\n", ":X", "expected a subclass"),
        ("", "", "there are none"),
        ("def f(:\n", "", "line 1: not Python"),
        ("\nimport no_such_thing\n", "", "line 2: cannot be imported"),
        (CLASS.format(name="A") + "    def __init__(self, needed): ...\n", ":ABenchmark", "without arguments"),
    ],
)
def test_a_file_that_holds_no_benchmark_says_why(tmp_path: Path, text: str, suffix: str, why: str) -> None:
    path = written(tmp_path, f"broken_{abs(hash(text))}.py", text)
    with pytest.raises(BenchmarkUnusable, match=why):
        find_benchmark(f"{path}{suffix}")


def test_entry_points_bring_benchmarks_and_a_broken_one_hurts_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    points = EntryPoints(
        [
            EntryPoint("HLE2", "tasks.evaluation.benchmarks.exams:HLE", benchmark_registry.ENTRY_POINTS),
            EntryPoint("Broken", "no.such.module:Thing", benchmark_registry.ENTRY_POINTS),
        ]
    )
    monkeypatch.setattr(benchmark_registry, "entry_points", lambda group: points)  # pyright: ignore[reportUnknownLambdaType]
    assert "AIME24" in benchmarks()
    assert find_benchmark("HLE2").name == "HLE"
    with pytest.raises(BenchmarkUnusable, match="entry point Broken"):
        find_benchmark("Broken")


def test_a_digest_changes_with_the_prompt_and_not_with_the_summary(tmp_path: Path) -> None:
    text = "name: Mine\nsummary: a\ndata: {file: x.jsonl, get: here}\nprompt: '{q}'\ngold: a\ngrader: {kind: math}\n"
    digests = [
        definition_digest(find_benchmark(str(written(tmp_path, f"{number}.yaml", changed))))
        for number, changed in enumerate([text, text.replace("summary: a", "summary: b"), text.replace("{q}", "{q}!")])
    ]
    assert digests[0] == digests[1] != digests[2]


class Model:
    """What evalchemy's benchmarks ask of an LM."""

    rank, world_size = 0, 1

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.seen: list[tuple[object, dict[str, object]]] = []

    def apply_chat_template(self, messages: list[dict[str, str]]) -> str:
        return " | ".join(f"{one['role']}: {one['content']}" for one in messages)

    def generate_until(self, instances: list[object]) -> list[str]:
        self.seen += [instance.args for instance in instances]  # pyright: ignore[reportAttributeAccessIssue]
        return [self.answers.pop(0) for _ in instances]


def test_a_benchmark_of_evalchemy_ports_over_with_one_changed_import(tmp_path: Path) -> None:
    written(tmp_path, "words.py", 'QUESTION = "17 + 25?"\nGOLD = "42"\n')
    benchmark = find_benchmark(f"{written(tmp_path, 'eval_instruct.py', EVALCHEMY)}:AdditionBenchmark")
    model = Model("It is 42.", "It is 41.")
    assert (benchmark.name, is_whole(benchmark)) == ("Addition", True)
    assert benchmark.run_benchmark(model) == {"accuracy": 0.5}
    assert model.seen[1] == (
        "user: 17 + 25?",
        {"do_sample": False, "max_new_tokens": 64, "temperature": 0.7, "seed": [1, 1235, 1235, 1235]},
    )
