"""The digest of a benchmark of programs covers the files of its folder that it uses."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from tasks.evaluation.benchmarks.base import BaseBenchmark, CodeBenchmark
from tasks.evaluation.benchmarks.benchmark_registry import (
    FOLDER,
    PROGRAMS,
    benchmarks,
    definition_digest,
    find_benchmark,
)
from tasks.evaluation.evaluation_records import Item
from tasks.grading.code.code_grading import Verdict
from tasks.sandbox import Sandbox

OF_PROGRAMS = [name for name, one in benchmarks().items() if type(one).__module__.startswith(PROGRAMS)]
MODULES = {f"{PROGRAMS}{path.stem}" for path in (FOLDER / "code").glob("*.py") if path.stem != "__init__"}


def imported_by(module: str) -> set[str]:
    """Modules of the folder that the text of `module` imports, directly or through others; by syntax alone."""
    found, new = set[str](), {module}
    while new:
        found |= new
        texts = [(FOLDER / "code" / f"{name.removeprefix(PROGRAMS)}.py").read_text("utf-8") for name in new]
        nodes = [node for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        named = {node.module or "" for node in nodes}
        named |= {f"{node.module}.{one.name}" for node in nodes for one in node.names}
        new = (named & MODULES) - found
    return found


def digest_when_changed(monkeypatch: pytest.MonkeyPatch, module: str, benchmark: BaseBenchmark) -> str:
    """As if a statement had been added to the file of `module`."""
    return digest_of_edited(monkeypatch, module, benchmark, lambda source: source + "CHANGED = 1\n")


def digest_of_edited(
    monkeypatch: pytest.MonkeyPatch, module: str, benchmark: BaseBenchmark, edit: Callable[[str], str]
) -> str:
    source = inspect.getsource

    def edited(value: object) -> str:
        text = source(value)  # pyright: ignore[reportArgumentType]
        return edit(text) if isinstance(value, ModuleType) and value.__name__ == module else text

    with monkeypatch.context() as patch:
        patch.setattr(inspect, "getsource", edited)
        return definition_digest(benchmark)


@pytest.mark.parametrize("name", OF_PROGRAMS)
def test_a_digest_changes_with_each_file_that_is_imported(name: str, monkeypatch: pytest.MonkeyPatch):
    """Also where nothing but a constant is taken from it."""
    benchmark = find_benchmark(name)
    before = definition_digest(benchmark)
    imported = imported_by(type(benchmark).__module__)
    unseen = {module for module in imported if digest_when_changed(monkeypatch, module, benchmark) == before}
    assert unseen == set()


@pytest.mark.parametrize(
    ("name", "module", "changes"),
    [
        pytest.param("CruxEval", "cruxeval_answers", True, id="a file that is read, and executed in the sandbox"),
        pytest.param("HumanEvalPlus", "multipl_e", True, id="imported by what it imports"),
        pytest.param("HumanEval", "bigcodebench", False, id="another's"),
        pytest.param("MBPP", "livecodebench", False, id="another benchmark"),
    ],
)
def test_a_digest_changes_with_what_is_used_and_not_with_what_is_not(
    monkeypatch: pytest.MonkeyPatch, name: str, module: str, changes: bool
):
    benchmark = find_benchmark(name)
    changed = digest_when_changed(monkeypatch, f"{PROGRAMS}{module}", benchmark)
    assert (changed != definition_digest(benchmark)) == changes


def replaced(old: str, new: str) -> Callable[[str], str]:
    def edit(source: str) -> str:
        assert old in source
        return source.replace(old, new)

    return edit


@pytest.mark.parametrize(
    ("edit", "changes"),
    [
        pytest.param(lambda source: "# a comment\n" + source, False, id="a comment"),
        pytest.param(replaced("from tasks.grading", "from tasks.moved"), False, id="a module that moved"),
        pytest.param(lambda source: source.replace('"""', '"""Also: ', 1), False, id="a docstring"),
        pytest.param(replaced("self", "this"), True, id="a name"),
        pytest.param(replaced("Problem", "Question"), True, id="a word of the prompt"),
    ],
)
def test_a_digest_changes_with_logic_and_prompts_alone(
    monkeypatch: pytest.MonkeyPatch, edit: Callable[[str], str], changes: bool
):
    benchmark = find_benchmark("JEEBench")
    edited = digest_of_edited(monkeypatch, type(benchmark).__module__, benchmark, edit)
    assert (edited != definition_digest(benchmark)) == changes


def test_a_digest_is_the_same_on_every_version_of_python(monkeypatch: pytest.MonkeyPatch):
    """`ast.dump` leaves out empty lists since 3.13, so that it cannot be hashed."""
    sources = {
        Own.__module__: 'class Own(Base):\n    shots: int = 3\n    def ask(self, *a, b=None):\n        return f"{a}!"\n'
    }
    monkeypatch.setattr(inspect, "getsource", lambda module: sources[module.__name__])
    assert definition_digest(Own()) == "eaa023256848dbe0ebbd673c920b208932ba014ac04b7df735b62c4fe261faeb"


def test_benchmarks_of_one_file_have_digests_of_their_own():
    digests = {name: definition_digest(find_benchmark(name)) for name in OF_PROGRAMS}
    assert len(set(digests.values())) == len(digests)


class Own(CodeBenchmark):
    """A user's, in a file outside of the folder."""

    name = "Own"

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        raise NotImplementedError

    def gold_response(self, item: Item) -> str | None:
        raise NotImplementedError


def test_of_a_benchmark_of_the_users_own_it_is_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    own = Own()
    before = definition_digest(own)
    assert digest_when_changed(monkeypatch, __name__, own) != before
    assert {digest_when_changed(monkeypatch, module, own) for module in MODULES} == {before}


@pytest.mark.parametrize("name", ["CruxEval", "LiveCodeBench"])
def test_a_digest_changes_with_the_words_in_a_file_beside_it(name: str, monkeypatch: pytest.MonkeyPatch):
    benchmark = find_benchmark(name)
    before = definition_digest(benchmark)
    read = Path.read_text

    def edited(path: Path, *args: str) -> str:
        return read(path, *args) + (" " if path.suffix in (".toml", ".json") else "")

    monkeypatch.setattr(Path, "read_text", edited)
    assert definition_digest(benchmark) != before
