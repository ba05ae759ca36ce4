"""Languages by their names, whether their tools are there, and how the end of the tests is marked."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from tasks.sandbox import Execution, Program, Sandbox
from tasks.sandbox.languages import LANGUAGES, Language, find_language, find_language_name, why_unavailable
from tasks.sandbox.sandbox_records import LanguageUnavailable

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = tomllib.loads((ROOT / "tests/samples/sandbox/languages.toml").read_text("utf-8"))
"""Sources and tests, by language or by how they end, and name."""


def programs(kind: str, *names: str) -> Any:
    """Parametrizes by the two texts of each program."""
    return pytest.mark.parametrize(names or ("source", "tests"), PROGRAMS[kind].values(), ids=PROGRAMS[kind])


@pytest.fixture
def bash(sandbox: Sandbox):
    """Executes a source and tests of Bash's."""

    def run(source: str, tests: str) -> Execution:
        return sandbox.run(Program(source, "bash", tests))

    return run


@pytest.fixture
def javascript(sandbox: Sandbox):
    """Executes a source and tests of JavaScript's."""
    if why := why_unavailable(find_language("javascript")):
        pytest.skip(why)

    def run(source: str, tests: str | None) -> Execution:
        return sandbox.run(Program(source, "javascript", tests))

    return run


# names


@pytest.mark.parametrize(
    ("called", "name"),
    [
        *((alias, name) for name, alias in {"python": "py", "javascript": "JS", "bash": " sh "}.items()),
        ("python3", "python"),
        ("node", "javascript"),
        ("shell", "bash"),
        ("C++", "cpp"),
        ("Java", "java"),
    ],
)
def test_a_language_has_several_names(called: str, name: str):
    assert find_language(called).name == name
    assert find_language_name(called) == name


def test_an_unknown_language_is_told_what_there_is():
    with pytest.raises(
        LanguageUnavailable, match=r"no language is called 'cobol'; there are python or py .* bash or sh"
    ):
        find_language("cobol")

    assert find_language_name("cobol") is None


# tools


def placed(folder: Path, name: str, *, link_to: str | None = None) -> None:
    folder.mkdir(exist_ok=True)
    if link_to:
        (folder / name).symlink_to(link_to)
        return
    (folder / name).write_text("#!/bin/sh\n")
    (folder / name).chmod(0o755)


def needing(tool: str) -> Language:
    return Language("imagined", (), "main.x", run=(tool, "{source}"), tools=(tool,))


def test_a_tool_that_is_nowhere_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))

    assert why_unavailable(needing("imaginec")) == "imaginec is not on PATH"


def test_a_tool_that_the_sandbox_does_not_show_is_said_where_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    placed(tmp_path, "imaginec")
    monkeypatch.setenv("PATH", str(tmp_path))

    why = f"imaginec is at {tmp_path}/imaginec, outside of what the sandbox shows (/usr)"
    assert why_unavailable(needing("imaginec")) == why


def test_a_link_from_elsewhere_to_a_shown_tool_is_followed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    placed(tmp_path, "imaginec", link_to="/usr/bin/env")
    monkeypatch.setenv("PATH", str(tmp_path))
    language = needing("imaginec")

    shown = str(Path("/usr/bin/env").resolve())
    assert why_unavailable(language) is None
    assert language.run_command(tested=False) == (shown, "{folder}/main.x")


# programs of each


@pytest.mark.machine
@pytest.mark.parametrize("language", [one for one in LANGUAGES if one.compile], ids=lambda language: language.name)
def test_what_does_not_compile_fails(language: Language, sandbox: Sandbox):
    if why := why_unavailable(language):
        pytest.skip(why)

    execution = sandbox.run(Program("this is no program", language.name))

    assert execution.status == "failed"
    assert execution.reason.startswith("it does not compile: ")


def test_which_languages_mark_the_end():
    assert [language.name for language in LANGUAGES if language.marks_end] == ["python", "javascript", "bash"]


@pytest.mark.machine
def test_elsewhere_exit_code_0_is_all_that_counts(sandbox: Sandbox):
    if why := why_unavailable(find_language("cpp")):
        pytest.skip(why)

    ends = "#include <cstdlib>\nstruct Ends { Ends() { exit(0); } } ends;"
    assert sandbox.run(Program(ends, "cpp", "int main() { return 1; }")).passed


# the end of the tests: Bash


@programs("bash_passes")
def test_a_script_that_comes_to_its_end_passes(source: str, tests: str, bash):
    assert bash(source, tests).status == "ok"


# the end of the tests: JavaScript


@programs("javascript_passes")
def test_a_module_that_comes_to_its_end_passes(source: str, tests: str, javascript):
    execution = javascript(source, tests)

    assert execution.status == "ok", execution


@programs("javascript_unfinished")
def test_a_module_that_does_not_let_its_end_be_marked_does_not_pass(source: str, tests: str, javascript):
    assert javascript(source, tests).status == "unfinished"


@programs("javascript_fails", "tests", "said")
def test_a_module_that_fails_fails(tests: str, said: str, javascript):
    execution = javascript("", tests)

    assert (execution.status, execution.exit_code) == ("failed", 1)
    assert said in execution.stderr


def test_a_module_with_tests_sees_the_same_globals(javascript):
    tells = "console.log(Object.getOwnPropertyNames(globalThis).sort().join(), Object.keys(process).sort().join());"

    assert javascript(tells, "").stdout == javascript(tells, None).stdout
