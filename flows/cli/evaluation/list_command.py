"""`trivet eval list`, `new` and `check`: all benchmarks, a template for a new one, and its check."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from flows.cli.commands import Json
from flows.cli.output import FAILED, REFUSED, Screen, emit, fail, harmless, plain_errors
from tasks.evaluation.evaluation_errors import DataUnusable, EvaluationError

if TYPE_CHECKING:
    from tasks.evaluation.benchmarks.base import BaseBenchmark
    from tasks.evaluation.evaluation_records import Item
    from tasks.evaluation.running.benchmark_data import Data

COLUMNS = ("task", "family", "items", "repeats", "grader", "data", "note")
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", envvar="TRIVET_DATA_DIR", help="Folder of the benchmarks' data. Unset: loaded from the hub."
    ),
]


def list_benchmarks(data_dir: DataDir = None, as_json: Json = False) -> None:
    """List all benchmarks: how they are graded, and whether their data is at hand."""
    from tasks.evaluation.benchmarks.benchmark_registry import benchmarks
    from tasks.evaluation.running.benchmark_data import Data

    data = Data(data_dir)
    with plain_errors(EvaluationError):
        rows = [_listed(benchmark, data) for benchmark in benchmarks().values()]
    emit({"benchmarks": rows}, as_json, lambda: _show(rows, data_dir))


def new(
    name: Annotated[str, typer.Argument(help="Name of the benchmark: letters, digits, - _ and .")],
    python: Annotated[bool, typer.Option("--python/--yaml", help="A Python class, or one YAML file.")] = False,
    folder: Annotated[Path, typer.Option("--dir", metavar="FOLDER", help="Where to write.")] = Path(),
    as_json: Json = False,
) -> None:
    """Create a benchmark: its definition, two items of data, and the next commands."""
    from tasks.evaluation.benchmarks.benchmark_registry import files_of

    with plain_errors(EvaluationError):
        files = files_of(name, python=python)
    for file in files:
        if (folder / file).exists():
            fail(f"{folder / file} is there already, and is left as it is; give another name, or --dir", REFUSED)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file, content in files.items():
            with (folder / file).open("x", encoding="utf-8", newline="\n") as opened:
                opened.write(content)
    except OSError as error:
        fail(f"{folder}: cannot be written ({error.strerror or error})", FAILED)
    written = [str(folder / file) for file in files]
    further = (
        f"prove it: trivet eval check {written[0]}",
        f"run it:   trivet eval run --model … --model_name … --tasks {written[0]}",
    )
    lines = [*(f"wrote {file}" for file in written), *further]
    emit({"definition": written[0], "files": written}, as_json, lambda: typer.echo(harmless("\n".join(lines))))


def check(
    benchmark: Annotated[str, typer.Argument(help="Name, file.yaml, file.py:Class or module:Class.")],
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Check a benchmark on all its items: IDs, prompts, and that the grader accepts every gold answer."""
    from tasks.evaluation.benchmarks.base import Tools, is_whole
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
    from tasks.evaluation.running.benchmark_data import Data
    from tasks.evaluation.running.planning import EXPECTED_ERRORS, items_of
    from tasks.grading.math.math_grader import MathGrader

    with plain_errors(*EXPECTED_ERRORS):
        found = find_benchmark(benchmark)
        if is_whole(found):
            fail(
                f"{found.name} brings its own generate_responses and evaluate_responses, so there are no items to "
                f"check; try it with `trivet eval run --debug --tasks {benchmark}`",
                REFUSED,
            )
        items = list(items_of(found, Data(data_dir)))
        with MathGrader() as math:
            problems = list(found.check(items, Tools(math)))
    told = {"task": found.name, "items": len(items), "ok": not problems, "problems": problems}
    emit(told, as_json, lambda: _show_check(found, items, problems))
    if problems:
        raise typer.Exit(FAILED)


def _listed(benchmark: BaseBenchmark, data: Data) -> dict[str, Any]:
    """A row of the list; `data` is `at hand`, `on the hub`, `missing`, or why it is unusable."""
    from tasks.evaluation.benchmarks.simple import SimpleBenchmark

    files = [file for file in benchmark.files if not file.optional]
    try:
        at_hand = all(data.find(file) for file in files)
        count = data.count(files[0]) if files and at_hand else None
        state = "at hand" if at_hand else "on the hub" if all(data.find(one) or one.hub for one in files) else "missing"
    except DataUnusable as error:
        count, state = None, f"unusable: {error}"
    notes = ["format checked, real data not run"] * benchmark.format_checked_only
    notes += ["recorded answers only"] * benchmark.score_only + [f"judge {benchmark.judge}"] * bool(benchmark.judge)
    return {
        "task": benchmark.name,
        "family": benchmark.family,
        "items": count,
        "repeats": benchmark.repeats,
        "grader": benchmark.definition.grader.kind if isinstance(benchmark, SimpleBenchmark) else benchmark.family,
        "data": state,
        "summary": benchmark.summary,
        "note": "; ".join(notes),
    }


def _show(rows: Sequence[dict[str, Any]], data_dir: Path | None) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("items", "repeats") else "left")
    for row in rows:
        shown = row | {"items": "" if row["items"] is None else f"{row['items']:,}"}
        table.add_row(*(escape(str(shown[column])) for column in COLUMNS))
    screen = Screen()
    screen.print(table)
    if data_dir is None:
        screen.print("no --data-dir (TRIVET_DATA_DIR): data comes from the hub", markup=False)
    screen.print("any task of the lm-evaluation-harness runs too; `trivet eval new NAME` begins one of your own")


def _show_check(benchmark: BaseBenchmark, items: Sequence[Item], problems: Sequence[str]) -> None:
    screen = Screen(soft_wrap=True)
    if items:
        first = items[0]
        screen.print(f"item {first.id}, as it is asked:", markup=False)
        for prompt in ([f"[system] {first.system}"] if first.system else []) + list(first.prompts):
            screen.print("\n".join(f"  | {line}" for line in prompt.split("\n")), markup=False)
        if first.gold is not None:
            screen.print(f"  gold: {first.gold}", markup=False)
    for problem in problems:
        screen.print(f"problem: {problem}", markup=False)
    verdict = f"{len(problems)} problems" if problems else "nothing is wrong"
    screen.print(f"{benchmark.name}: {len(items)} items, {verdict}", markup=False)
