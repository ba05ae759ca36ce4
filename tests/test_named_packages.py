"""Each package that users asked for does work in the program itself: code of the four packages imports it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCTOR = ("doctor", "gpu_doctor")
IMPORTED_AS = {
    "prefect": "prefect",
    "torch": "torch",
    "transformers": "transformers",
    "vllm": "vllm",
    "faiss": "faiss",
    "langgraph": "langgraph",
    "rank-bm25": "rank_bm25",
    "pymupdf": "pymupdf",
    "pdfplumber": "pdfplumber",
    "openai": "openai",
    "sqlalchemy": "sqlalchemy",
    "psycopg": "psycopg",
    "sympy": "sympy",
    "pydantic": "pydantic",
}


def at_run_time(tree: ast.AST) -> Iterator[str]:
    """Names of what is imported, in functions too; not what only a type checker sees."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=others):
                yield from at_run_time(ast.Module(others, []))
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(module), level=0):
                yield module
            case _:
                yield from at_run_time(node)


@pytest.fixture(scope="module")
def imported() -> set[str]:
    """The first parts of all names that our code imports; the doctor only looks whether they are there."""
    files = (path for package in ("flows", "tasks", "models", "storage") for path in (ROOT / package).rglob("*.py"))
    trees = (ast.parse(path.read_text("utf-8")) for path in files if path.stem not in DOCTOR)
    return {name.partition(".")[0] for tree in trees for name in at_run_time(tree)}


def test_an_import_counts_in_a_function_and_not_for_types_alone() -> None:
    code = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    import torch\nelse:\n    import faiss\n"
        "def load():\n    try:\n        from vllm.config import Engine\n    finally:\n        from . import torch\n"
    )
    assert list(at_run_time(ast.parse(code))) == ["typing", "faiss", "vllm.config"]


@pytest.mark.parametrize("package", IMPORTED_AS)
def test_a_package_that_users_named_is_imported_by_the_program(package: str, imported: set[str]) -> None:
    assert IMPORTED_AS[package] in imported
