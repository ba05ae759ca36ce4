"""An option has the type, bounds, default and help of the field that it is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import typer
from pydantic import BaseModel, ConfigDict, Field
from typer.testing import CliRunner

from flows.cli.commands import App, Flag, Options, OptionValues, command
from flows.running.config_reading import nest_values


class Inner(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    tables: bool = True
    """Find tables."""
    most: int | None = Field(default=None, ge=2)
    """Largest number."""


class Config(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)

    kind: Literal["fast", "slow"] = "fast"
    """How it is done."""
    size: int = Field(default=7, ge=1, le=9)
    """How many."""
    include: tuple[str, ...] = ()
    """Globs."""
    folder: Path | None = None
    """Where."""
    needed: str
    """Nobody knows."""
    seeds: tuple[int, ...] = (1, 2)
    """Start."""
    from_stage: str = "first"
    """Begin here."""
    inner: Inner = Inner()
    """Further."""


FLAGS = {
    "kind": Flag(),
    "size": Flag("--size --number -s"),
    "include": Flag(),
    "folder": Flag(),
    "needed": Flag(),
    "seeds": Flag(type=str),
    "from_stage": Flag("--from", default_text="{usual}"),
    "inner.tables": Flag("--tables/--no-tables"),
    "inner.most": Flag("--largest"),
}
OPTIONS = Options(f"{__name__}:Config", FLAGS)


def run(*words: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the values that the command got, and what was printed."""
    app, got = App(), dict[str, Any]()

    @app.callback()
    def group() -> None: ...

    @command(app, "go", OPTIONS)
    def go(given: OptionValues, file: Path, quick: bool = typer.Option(False, "--quick")) -> None:
        """Go somewhere."""
        got.update(given, file=file, quick=quick)

    done = CliRunner().invoke(app, ["go", *words])
    return done.exit_code, got, done.output


def test_what_is_not_given_is_left_to_a_file_and_to_the_default_of_the_field() -> None:
    unset = dict.fromkeys(FLAGS)
    assert run("f")[1] == {**unset, "file": Path("f"), "quick": False}


def test_values_have_the_types_of_the_fields_under_every_spelling() -> None:
    words = "f --kind slow --number 3 --include a --include b --folder d --no-tables --largest 4 --from z --quick"
    got = run(*words.split())[1]
    assert (got["kind"], got["size"], got["include"], got["folder"]) == ("slow", 3, ["a", "b"], Path("d"))
    assert (got["inner.tables"], got["inner.most"], got["from_stage"], got["quick"]) == (False, 4, "z", True)


@pytest.mark.parametrize("words", [("--size", "10"), ("--kind", "odd"), ("--largest", "1")], ids=" ".join)
def test_the_bounds_of_the_fields_hold(words: tuple[str, ...]) -> None:
    assert run("f", *words)[0] == 2


def test_help_is_the_docstring_of_the_field_with_its_default() -> None:
    shown = " ".join(run("--help")[2].split())
    assert "--tables / --no-tables Find tables." in shown
    assert "-s, --size, --number N How many. [default: 7; 1<=x<=9]" in shown
    assert "--from TEXT Begin here. [default: (first)]" in shown


def test_values_go_where_the_model_wants_them_and_unset_ones_are_left_out() -> None:
    assert nest_values({"size": 3, "inner.tables": False, "inner.most": None, "folder": None}) == {
        "size": 3,
        "inner": {"tables": False},
    }
