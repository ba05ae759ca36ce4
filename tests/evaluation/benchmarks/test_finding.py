"""Benchmarks are found by name, path and entry point, and known by a digest of what defines them."""

from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from tasks.evaluation.benchmarks import benchmark_registry
from tasks.evaluation.benchmarks.benchmark_registry import definition_digest, find_benchmark, list_benchmarks
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, UnknownTask

OURS = """AIME24 AIME25 AMC23 MATH500 HMMT GSM8K OlympiadBench Minerva GPQADiamond MMLUPro MMLUStem JEEBench HLE IFEval
RAGQuestions RAGReading TextVQA VizWiz AIW ZeroEvalMath ZeroEvalNumersense"""
CLASS = '''
from tasks.evaluation.benchmarks.base import BaseBenchmark
class {name}Benchmark(BaseBenchmark):
    """One."""
'''


def written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_every_benchmark_of_the_specification_is_there() -> None:
    assert set(OURS.split()) <= set(list_benchmarks())


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


@pytest.mark.parametrize(
    ("text", "suffix", "why"),
    [
        (CLASS.format(name="A") + CLASS.format(name="B"), "", "there are ABenchmark, BBenchmark"),
        (CLASS.format(name="A"), ":C", "there is no C in it; there are ABenchmark"),
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
    assert "AIME24" in list_benchmarks()
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


OWN = """\
from tasks.evaluation.benchmarks.base import BaseBenchmark


class Own(BaseBenchmark):
    words = "How many?"
"""


def test_every_benchmark_has_a_digest_of_its_own() -> None:
    found = list_benchmarks().values()
    assert len({definition_digest(one) for one in found}) == len(found)


def test_of_a_class_of_ours_the_version_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = find_benchmark("CruxEval")
    before = definition_digest(benchmark)
    monkeypatch.setattr(benchmark, "version", benchmark.version + 1)
    assert definition_digest(benchmark) != before


def test_of_a_benchmark_of_the_users_own_the_file_counts(tmp_path: Path) -> None:
    digests = set[str]()
    for name, source in (("one", OWN), ("two", OWN), ("three", OWN.replace("many", "much"))):
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
        digests.add(definition_digest(find_benchmark(str(tmp_path / f"{name}.py"))))
    assert len(digests) == 2
