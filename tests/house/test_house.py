"""The ratchet counts what it says, on a house small enough to count by hand."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.house.__main__ import as_toml, list_risen
from tests.house.counting import (
    count_alternations,
    count_house,
    count_rooms,
    count_vague_names,
    find_called_once,
    find_thin_modules,
    read_trees,
    room_of,
)


@pytest.mark.parametrize(
    ("module", "room"),
    [
        ("flows/rag.py", "flows/*.py"),
        ("flows/service/up.py", "flows/service"),
        ("flows/service/web/pages.py", "flows/service/web"),
        ("tasks/rag/numbers/cells.py", "tasks/rag"),
        ("models/hf.py", "models"),
        ("storage/migrations/env.py", "storage"),
    ],
)
def test_a_module_stands_in_one_room(module: str, room: str) -> None:
    assert room_of(Path(module)) == room


@pytest.fixture
def house(tmp_path: Path) -> Path:
    sources = {
        "flows/rag.py": "from tasks.rag import words\n",
        "tasks/rag/words.py": 'import re\n\nA = re.compile("a|b|c")\nURL = "x|y"\nTRIVET = "TRIVET_HOME"\n',
        "tasks/rag/told.py": "def told(found):\n    said = _once(found)\n    return said\n\n\n"
        "def _once(text):\n    return text\n",
        "tasks/rag/words.toml": 'words = "one|two"\n',
        "tests/test_words.py": "\n\n",
        "README.md": "# Trivet\n",
    }
    for name, text in sources.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_lines_and_modules_are_counted_by_room(house: Path) -> None:
    lines, modules = count_rooms(house, read_trees(house))
    assert (dict(lines), dict(modules)) == ({"flows/*.py": 1, "tasks/rag": 12}, {"flows/*.py": 1, "tasks/rag": 2})


def test_the_house_is_counted(house: Path) -> None:
    assert count_house(house, read_trees(house)) == {
        "lines": 13,
        "modules": 3,
        "test_lines": 2,
        "readme_lines": 1,
        "toml_and_json_patterns": 1,
        "pattern_alternations": 2,
        "environment_variables": 1,
        "vague_share": 0.375,  # told, found, said of A, URL, TRIVET, told, found, said, _once, text
        "vague_definitions": 1,
        "vague_modules": 1,
        "small_single_importer_modules": 1,
        "private_called_once": 1,
    }


def test_a_thin_module_has_one_importer(house: Path) -> None:
    assert find_thin_modules(house, read_trees(house)) == [Path("tasks/rag/words.py")]


def test_alternatives_count_in_patterns_alone() -> None:
    assert count_alternations(ast.parse('re.sub("a|b", "", text)\nx = "c|d"\nother.sub("e|f", "")')) == 1


def test_a_private_function_that_is_called_twice_is_none_of_those_called_once() -> None:
    assert find_called_once(ast.parse("def _a(): ...\ndef _b(): ...\n_a(), _b(), _b()")) == ["_a"]


def test_vague_names_are_counted_without_underscores_and_case() -> None:
    assert count_vague_names({Path("tasks/x.py"): ast.parse("_told = Kept = price = 1")}) == (0.6667, 0, 0)


def test_a_figure_above_its_budget_names_its_room() -> None:
    figures = {"lines": {"tasks/rag": 1201, "models": 5}, "house": {"commands": 3}}
    budget = {"lines": {"tasks/rag": 1200, "models": 6}, "house": {"commands": 3}}
    assert list_risen(figures, budget) == ["lines of tasks/rag: 1,201, and its budget is 1,200"]


def test_a_room_without_a_budget_is_above_it() -> None:
    assert list_risen({"lines": {"tasks/new": 1}}, {"lines": {}}) == ["lines of tasks/new: 1, and its budget is 0"]


def test_the_budget_is_written_as_it_is_read() -> None:
    import tomllib

    figures = {"lines": {"tasks/*.py": 3}, "house": {"vague_share": 0.02}}
    assert tomllib.loads(as_toml(figures)) == figures
