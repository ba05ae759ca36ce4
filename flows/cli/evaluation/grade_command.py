"""`trivet eval grade`: compares predictions with golds, line by line, without a benchmark or a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from enum import StrEnum
from io import StringIO
from itertools import tee
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TextIO

import typer

from flows.cli.output import DONE_WITH_FAILURES, FAILED, REFUSED, fail, plain_errors

FIELDS = ("id", "gold", "prediction")


class Kind(StrEnum):
    """What is compared."""

    math = "math"


class Case(NamedTuple):
    """A line of the file."""

    id: Any
    gold: str
    prediction: str


class MalformedLine(ValueError):
    """A line that is no case."""


def register(app: typer.Typer) -> None:
    """Add `grade` to `trivet eval`."""
    app.command("grade")(grade)


def grade(
    cases: Annotated[Path, typer.Argument(metavar="CASES.jsonl", help="Lines {id, gold, prediction}.")],
    kind: Annotated[Kind, typer.Option(help="What the answers are.")] = Kind.math,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="File for the lines {id, equal, stage}. Unset: stdout.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes for the last stage. Default: half of the processors.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout in place of lines.")] = False,
) -> None:
    """Compare predictions with golds: bare answers, in $…$, \\(…\\) or \\boxed{…}, or whole responses."""
    from tasks.grading.math.math_grader import MathGrader

    del kind  # there is one
    if out and out.exists() and cases.exists() and out.samefile(cases):
        fail(f"{out} holds the cases themselves; name another file with --out", REFUSED)
    failed, told = 0, list[dict[str, Any]]()
    with (
        plain_errors(MalformedLine, failed=(OSError,)),
        MathGrader(workers=workers) as grader,
        _writing(out, as_json) as lines,
    ):
        for_ids, for_pairs = tee(read_cases(cases))
        verdicts = grader.equal_all((case.gold, case.prediction) for case in for_pairs)
        for case, verdict in zip(for_ids, verdicts, strict=True):
            failed += bool(verdict.failed)
            graded = {"id": case.id, "equal": None if verdict.failed else verdict.equal, "stage": verdict.stage}
            graded |= {"failed": verdict.failed} if verdict.failed else {}
            lines.write(json.dumps(graded) + "\n")
            told += [graded] if as_json else []
    if as_json:
        sys.stdout.write(json.dumps({"verdicts": told}) + "\n")
    if failed:
        fail(f"{failed} comparisons could not be made; their lines say why", DONE_WITH_FAILURES)


def read_cases(path: Path) -> Iterator[Case]:
    """The cases of a JSONL file. Raises MalformedLine with file and line."""
    try:
        opened = path.open("rb")
    except FileNotFoundError as error:
        raise MalformedLine(f"{path} is not there; give a JSONL file of lines {{id, gold, prediction}}") from error
    with opened as file:
        for number, line in enumerate(file, 1):
            if line.strip():
                yield _case(line, f"{path}:{number}")


def _case(line: bytes, place: str) -> Case:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise MalformedLine(f"{place}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise MalformedLine(f"{place}: expected an object {{id, gold, prediction}}, found {type(value).__name__}")
    missing = [field for field in FIELDS if field not in value]
    if missing:
        raise MalformedLine(f"{place}: {', '.join(missing)} missing; a line is {{id, gold, prediction}}")
    texts: list[str] = []
    for field in FIELDS[1:]:
        given = value[field]
        if given is None and field == "prediction":
            given = ""
        if isinstance(given, bool) or not isinstance(given, str | int | float):
            raise MalformedLine(f"{place}: `{field}` is {type(given).__name__}, expected a text or a number")
        texts.append(str(given))
    return Case(value["id"], *texts)


@contextmanager
def _writing(out: Path | None, quiet: bool) -> Generator[TextIO]:
    """Where lines go; a file is there whole or not at all. quiet: nowhere, where no file was named."""
    if out is None:
        yield StringIO() if quiet else sys.stdout
        return
    if not out.parent.is_dir():
        fail(f"{out.parent} is not a folder; make it, or write elsewhere", FAILED)
    part = out.with_name(f".{out.name}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            yield file
        part.replace(out)
    finally:
        part.unlink(missing_ok=True)
