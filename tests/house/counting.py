"""Figures of the house: what it holds by room, what a user has to learn, and what a reader has to open.

A tree is read as text and syntax; only what a user may set (`offered`) is asked of the program itself.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

PACKAGES = ("flows", "tasks", "models", "storage")
THIN_LINES = 120
"""A module shorter than this that one other module imports is part of that one."""
_VAGUE_WORDS = """
    told said known found given kept shown asked made seen held named left done gone taken meant wanted chosen
    one ones other others those these such both same ways way what whatever how who thing things there here
    aside undone beside borne lost fits fit sure best tells says asks ongoing former forgiving told_elsewhere
    of_answers
"""
VAGUE = frozenset(_VAGUE_WORDS.split())
"""Names that say nothing by themselves: participles, pronouns and adverbs where the field has a noun."""
_PATTERN_CALLS = frozenset({"compile", "search", "match", "fullmatch", "findall", "finditer", "sub", "subn", "split"})
Trees = dict[Path, ast.Module]


def read_trees(root: Path) -> Trees:
    """Syntax trees of the program's modules, by path below `root`."""
    files = sorted(file for package in PACKAGES for file in (root / package).rglob("*.py"))
    return {file.relative_to(root): ast.parse(file.read_text("utf-8")) for file in files}


def room_of(module: Path) -> str:
    """The room in which a module stands: `tasks/rag`, `flows/service/web`, `tasks/*.py`, `models`, `storage`."""
    parts = module.parts
    if parts[0] in ("models", "storage"):
        return parts[0]
    if len(parts) == 2:
        return f"{parts[0]}/*.py"
    return "/".join(parts[: 3 if parts[:3] == ("flows", "service", "web") else 2])


def count_rooms(root: Path, trees: Trees) -> tuple[Counter[str], Counter[str]]:
    """Lines and modules by room."""
    lines, modules = Counter[str](), Counter[str]()
    for module in trees:
        lines[room_of(module)] += count_lines([root / module])
        modules[room_of(module)] += 1
    return lines, modules


def count_lines(files: Iterable[Path]) -> int:
    return sum(file.read_bytes().count(b"\n") for file in files)


def count_house(root: Path, trees: Trees) -> dict[str, int | float]:
    """Figures of the whole house that its files tell."""
    data = [file for package in PACKAGES for kind in ("toml", "json") for file in (root / package).rglob(f"*.{kind}")]
    sources = [(root / module).read_text("utf-8") for module in trees]
    names, definitions, modules = count_vague_names(trees)
    return {
        "lines": count_lines(root / module for module in trees),
        "modules": len(trees),
        "test_lines": count_lines((root / "tests").rglob("*.py")),
        "readme_lines": count_lines([root / "README.md"]),
        "toml_and_json_patterns": sum(file.read_text("utf-8").count("|") for file in data),
        "pattern_alternations": sum(count_alternations(tree) for tree in trees.values()),
        "environment_variables": len(
            {name for text in sources for name in re.findall(r"\bTRIVET_[A-Z_]*[A-Z]\b", text)}
        ),
        "vague_share": names,
        "vague_definitions": definitions,
        "vague_modules": modules,
        "small_single_importer_modules": len(find_thin_modules(root, trees)),
        "private_called_once": sum(len(find_called_once(tree)) for tree in trees.values()),
    }


def count_alternations(tree: ast.Module) -> int:
    """`|` in the texts of calls of `re` and `regex`."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _is_pattern_call(node.func)]
    texts = [part.value for call in calls for part in ast.walk(call) if isinstance(part, ast.Constant)]
    return sum(text.count("|") for text in texts if isinstance(text, str))


def _is_pattern_call(function: ast.expr) -> bool:
    return (
        isinstance(function, ast.Attribute)
        and function.attr in _PATTERN_CALLS
        and isinstance(function.value, ast.Name)
        and function.value.id in ("re", "regex")
    )


def count_vague_names(trees: Trees) -> tuple[float, int, int]:
    """Share of vague names among all that are bound, and the functions, classes and modules that have one."""
    bound = [_plain(name) for tree in trees.values() for name in _bound_names(tree)]
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    defined = [node.name for tree in trees.values() for node in ast.walk(tree) if isinstance(node, kinds)]
    share = sum(name in VAGUE for name in bound) / max(1, len(bound))
    modules = sum(module.stem.strip("_") in VAGUE for module in trees)
    return round(share, 4), sum(_plain(name) in VAGUE for name in defined), modules


def _bound_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.ClassDef):
            yield node.name
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.name
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            yield from (argument.arg for argument in arguments if argument.arg not in ("self", "cls"))


def _plain(name: str) -> str:
    return name.strip("_").lower()


def find_thin_modules(root: Path, trees: Trees) -> list[Path]:
    """Modules of fewer than `THIN_LINES` lines that one other module imports."""
    importers = find_importers(trees)
    return [
        module
        for module in trees
        if len(importers[module]) == 1 and module.name != "__init__.py" and count_lines([root / module]) < THIN_LINES
    ]


def find_importers(trees: Trees) -> dict[Path, set[Path]]:
    """Modules that import a module, by that module; imports inside functions count."""
    modules = {".".join(module.with_suffix("").parts): module for module in trees}
    importers: dict[Path, set[Path]] = defaultdict(set)
    for importer, tree in trees.items():
        for node in ast.walk(tree):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                if name in modules and modules[name] != importer:
                    importers[modules[name]].add(importer)
    return importers


def find_called_once(tree: ast.Module) -> list[str]:
    """Private functions of a module that are named in one place of it."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    private = [node.name for node in tree.body if isinstance(node, kinds) and node.name.startswith("_")]
    loads = Counter(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    return [name for name in private if loads[name] == 1]


def count_offered() -> dict[str, int]:
    """Commands, options and configuration leaves that the program of this environment offers."""
    from typer.main import get_command

    from flows.cli import app

    commands = list(_leaves_of(get_command(app)))
    options = [p for c in commands for p in c.params if p.param_type_name == "option" and p.name != "help"]
    spellings = {word for option in options for word in (*option.opts, *option.secondary_opts) if word.startswith("--")}
    return {
        "commands": len(commands),
        "option_slots": len(options),
        "option_spellings": len(spellings),
        "configuration_leaves": _count_configuration_leaves(),
    }


def _leaves_of(command: Any) -> Iterator[Any]:
    """Commands that a user can call; hidden ones are for programs of before."""
    children = getattr(command, "commands", None)
    if not children:
        yield command
        return
    for child in children.values():
        if not child.hidden:
            yield from _leaves_of(child)


def _count_configuration_leaves() -> int:
    import typing

    import flows.evaluate
    import flows.lever
    import flows.nightly
    import flows.rag

    configurations: set[Any] = set()
    for module in (flows.rag, flows.evaluate, flows.lever, flows.nightly):
        for value in vars(module).values():
            function = getattr(value, "fn", None)
            if getattr(function, "__module__", "") == module.__name__:
                for annotation in typing.get_type_hints(function).values():
                    configurations |= {model for model in _models_in(annotation) if model.__name__.endswith("Config")}
    return sum(_count_leaves(model, (model,)) for model in configurations)


def _models_in(annotation: Any) -> Iterator[Any]:
    import typing

    from pydantic import BaseModel

    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in typing.get_args(annotation):
        yield from _models_in(part)


def _count_leaves(model: Any, above: tuple[Any, ...]) -> int:
    leaves = 0
    for field in model.model_fields.values():
        inner = [part for part in _models_in(field.annotation) if part not in above]
        leaves += sum(_count_leaves(part, (*above, part)) for part in inner) if inner else 1
    return leaves
