"""`trivet eval results`, `export`, `import` and `list`: the leaderboard, files for other programs, all benchmarks."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.cli.commands import Json
from flows.cli.eval_show_command import RunArgument, TasksOption, split_tasks
from flows.cli.output import DONE_WITH_FAILURES, FAILED, REFUSED, Screen, emit, fail, harmless, make_table, plain_errors
from storage.files import write
from storage.storage_errors import list_some
from tasks.evaluation.evaluation_errors import DataUnusable, ResultsUnusable

if TYPE_CHECKING:
    from storage.evaluated import StoredScore
    from tasks.evaluation.results.ranking import Board
    from tasks.evaluation.running.benchmark_data import Data


Format = Literal["table", "json", "csv", "markdown", "html"]
ExportFormat = Literal["inspect", "lm-eval"]
MODEL_WIDTH = 20
MOST_ROWS = 100
"""Rows of a table in a terminal; every other format has all of them."""
LEFT_OUT = ("date", "differing", "n", "too long", "refused")
"""Columns that a narrow terminal goes without, the first one first."""


def results(
    task: TasksOption = None,
    model: Annotated[list[str] | None, typer.Option("--model", help="Only this model; may be repeated.")] = None,
    format: Annotated[Format, typer.Option(help="html: a sortable page with plots, complete in itself.")] = "table",
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write here instead of to stdout.")] = None,
    all_runs: Annotated[
        bool, typer.Option("--all", help="Include every run, not only the last of each model and settings.")
    ] = False,
    path: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Read results files from this folder instead of the database.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="The same as --format json.")] = False,
) -> None:
    """Rank models on benchmarks, with error bars; only equal data and settings are ranked together."""
    from tasks.evaluation.results import ranking
    from tasks.resources import evaluations

    format = "json" if as_json else format
    scores = _from_files(path, all_runs) if path else evaluations().scores(all_runs=all_runs)
    tasks = split_tasks(task)
    for requested, existing, kind in (
        (tasks, {score.task for score in scores}, "task"),
        (model, {score.model for score in scores}, "model"),
    ):
        if unknown := [name for name in requested or () if name not in existing]:
            available = ", ".join(sorted(existing)) or "none yet"
            fail(f"no result for {kind} {', '.join(unknown)}; there are results for {available}", REFUSED)
    boards = ranking.rank(
        [
            score
            for score in scores
            if (tasks is None or score.task in tasks) and (model is None or score.model in model)
        ]
    )
    if format == "table" and not out:
        show_boards(boards)
        return
    if format == "html":
        written = ranking.render_page(boards, made_at=datetime.now(UTC), source=str(path) if path else "the database")
    elif format == "json":
        written = json.dumps({"scores": ranking.as_rows(boards)}, ensure_ascii=False, allow_nan=False) + "\n"
    else:  # a table in a file is one of markdown
        written = ranking.as_csv(boards) if format == "csv" else ranking.as_markdown(boards)
    if out:
        write(out, written.encode("utf-8", "replace"))
        typer.echo(f"{out}: {len(boards)} rankings", err=True)
    else:
        sys.stdout.write(written)


def _from_files(path: Path, all_runs: bool) -> Sequence[StoredScore]:
    """Read the scores below `path`, the latest or all; note unreadable files. Raises ResultsUnusable for none."""
    from tasks.evaluation.results.ranking import read_scores, select_latest
    from tasks.evaluation.results.results_file import read_results

    if not path.exists():
        raise ResultsUnusable(f"there is no {path}; name a results file or a folder of some")
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    scores: list[StoredScore] = []
    unread: list[ResultsUnusable] = []
    for file in files:
        try:
            scores.extend(read_scores(read_results(file)))
        except ResultsUnusable as unusable:
            unread.append(unusable)
    if not scores:
        raise unread[0] if len(unread) == 1 else ResultsUnusable(f"{path} holds no results file that can be read")
    if unread:
        more = f"; {len(unread) - 1} more files were not read either" if len(unread) > 1 else ""
        typer.secho(f"note: {harmless(str(unread[0]))}{more}", fg="yellow", err=True)
    return scores if all_runs else select_latest(scores)


def show_boards(boards: Sequence[Board]) -> None:
    """Print the rankings, MOST_ROWS of each; a table too wide goes without some columns, and no heading is cut."""
    console = Screen()
    if not boards:
        console.print("no results yet; evaluate a model with `trivet eval run`, or name a folder with --path")
        return
    left_out = set[str]()
    for board in boards:
        lower = "" if board.higher_is_better else ", lower is better"
        title = f"[bold]{escape(board.name)}[/bold]  [dim]{escape(board.metric)}{lower}[/dim]"
        console.print(title, soft_wrap=True)
        console.print(_ranking(board, console.width, left_out), "")
    if longest := max((len(board.rows) for board in boards if len(board.rows) > MOST_ROWS), default=0):
        note = f"the first {MOST_ROWS} of up to {longest:,} models are shown; --model has others, and --format all"
        console.print(f"[yellow]{note}[/yellow]", "")
    console.print(
        "[dim]95 %: interval · a sample without a score is in none · only equal data and settings are ranked[/dim]"
    )
    if left_out:
        console.print(f"[dim]a wider terminal, or --format, has {', '.join(sorted(left_out))} too[/dim]")


def _ranking(board: Board, width: int, left_out: set[str]) -> Table:
    """Return the first MOST_ROWS rows as a table; `left_out` gets the columns for which the terminal is too narrow."""
    from tasks.evaluation.results.ranking import RANKED, format_day, format_value

    further = [column for column in RANKED if any(row.columns[column.name] for row in board.rows)]
    names = ("#", "model", "score", "95 %", "n", *(column.name for column in further), "date", "run")
    rows: list[list[Text]] = []
    for row in board.rows[:MOST_ROWS]:
        score, counts = row.score, [(column.is_defect, row.columns[column.name]) for column in further]
        plain = (str(row.rank), row.name, board.format_score(score.value), board.interval(score), f"{score.n:,}")
        marked = [
            Text(format_value(value, thousands=","), style="yellow" if bad and value else "") for bad, value in counts
        ]
        date = Text(format_day(score)) if score.status == "completed" else Text(score.status, style="yellow")
        rows.append([*map(Text, plain), *marked, date, Text(score.run[:8])])
    columns = dict(zip(names, zip(*rows, strict=True), strict=True))
    widths = {name: max(cell_len(name), *(cell.cell_len for cell in cells)) for name, cells in columns.items()}
    widths["model"] = min(widths["model"], MODEL_WIDTH)
    for name in LEFT_OUT:
        if sum(widths.values()) + len(widths) - 1 > width:  # a blank between two columns
            left_out |= {name} & widths.keys()
            widths.pop(name, None)
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    table.add_column("#", justify="right", no_wrap=True)
    table.add_column("model", overflow="fold")
    for name in [*widths][2:]:  # after the rank and the model
        table.add_column(
            name, justify="left" if name in ("date", "run") else "right", min_width=widths[name], no_wrap=True
        )
    for cells in zip(*(columns[name] for name in widths), strict=True):
        table.add_row(*cells)
    return table


def export(
    run: RunArgument,
    format: Annotated[
        ExportFormat,
        typer.Option(
            help="inspect: a log of inspect_ai, one for each task; lm-eval: results of the lm-evaluation-harness."
        ),
    ] = "lm-eval",
    task: Annotated[str | None, typer.Option(help="Only this task.")] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File to write; for inspect a folder, or FILE.eval. Unset: stdout."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with the text under `content`.")
    ] = False,
) -> None:
    """Write a run in a form that other programs read; for inspect with its samples."""
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.evaluation.results.foreign_results import as_lm_eval, render_inspect_log
    from tasks.resources import artifacts, evaluations

    stored_run = find_run(run, evaluations())
    report = stored_run.report
    if task is not None:
        stored_run.require(task)
        results_of_task = tuple(result for result in report.results if result.task == task)
        report = stored_run.report = report.model_copy(update={"results": results_of_task})
    if format == "lm-eval":
        content = f"{json.dumps(as_lm_eval(report), ensure_ascii=False, indent=2)}\n".encode("utf-8", "replace")
        if out is None:
            text = content.decode()
            emit({"run": run, "format": format, "content": text}, as_json, lambda: typer.echo(text, nl=False))
        else:
            write(out.absolute(), content)
            typer.echo(f"wrote {out}", err=True)
        return
    if out is None or (out.suffix == ".eval" and len(report.results) != 1):
        tasks = ", ".join(result.task for result in report.results)
        fail(f"a log of inspect_ai is of one task; give --out FOLDER, or --task and --out FILE.eval ({tasks})", REFUSED)
    for result in report.results:
        log = out if out.suffix == ".eval" else out / f"{result.task}_{report.run.id[:8]}.eval"
        write(log.absolute(), render_inspect_log(report, result, stored_run.samples_with_texts(result, artifacts())))
        typer.echo(f"wrote {log}", err=True)


def import_results(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|FOLDER", help="A results file of Trivet, evalchemy or lm_eval, or a folder of such files."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Write results files into the database; repeating it changes nothing."""
    from tasks.evaluation.results.results_file import import_all
    from tasks.resources import evaluations

    imported, unusable = import_all(path, evaluations())

    def show() -> None:
        """Print a line for each imported file, with its notes, and for each one refused."""
        for file in imported:
            rows = f"{file.changed} rows written" if file.changed else "everything was there already"
            tasks = ", ".join(file.tasks)
            typer.echo(harmless(f"{file.file}: {file.model}, run {file.run}, {tasks}, {file.samples} samples; {rows}"))
            for note in file.notes:
                typer.echo(harmless(f"  note: {note}"))
        for reason in unusable.values():
            typer.echo(harmless(f"not imported: {reason}"))

    emit({"imported": [file.model_dump(mode="json") for file in imported], "unusable": unusable}, as_json, show)
    if unusable:
        fail(f"{len(unusable)} files were not imported", DONE_WITH_FAILURES if imported else REFUSED)


WHOLE_LINES = 1_000
LISTED = ("task", "family", ">items", ">repeats", "grader", "data", "note")


def list_benchmarks(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir", envvar="TRIVET_DATA_DIR", help="Folder of the benchmarks' data. Unset: loaded from the hub."
        ),
    ] = None,
    check: Annotated[
        str | None,
        typer.Option(
            metavar="BENCHMARK",
            help="Check all items of this one instead: name, file.yaml, file.py:Class or module:Class.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List all benchmarks: how they are graded, and whether their data is at hand; or check the items of one."""
    from tasks.evaluation.benchmarks.benchmark_registry import list_benchmarks
    from tasks.evaluation.benchmarks.simple import SimpleBenchmark
    from tasks.evaluation.running.benchmark_data import Data

    data = Data(data_dir)
    if check is not None:
        _check(check, data, as_json)
        return
    rows: list[dict[str, Any]] = []
    for benchmark in list_benchmarks().values():
        files = [file for file in benchmark.files if not file.optional]
        try:
            at_hand = all(data.find(file) for file in files)
            count = data.count(files[0]) if files and at_hand else None
            on_hub = all(data.find(file) or file.hub for file in files)
            state = "at hand" if at_hand else "on the hub" if on_hub else "missing"
        except DataUnusable as error:
            count, state = None, f"unusable: {error}"
        notes = ["format checked, real data not run"] * benchmark.format_checked_only
        notes += ["recorded answers only"] * benchmark.score_only + [f"judge {benchmark.judge}"] * bool(benchmark.judge)
        row = {"task": benchmark.name, "family": benchmark.family, "items": count, "repeats": benchmark.repeats}
        grader = benchmark.definition.grader.kind if isinstance(benchmark, SimpleBenchmark) else benchmark.family
        rows.append(row | {"grader": grader, "data": state, "summary": benchmark.summary, "note": "; ".join(notes)})

    def show() -> None:
        """Print the table of benchmarks, unbroken where the output is no terminal."""
        cells = [row | {"items": "" if row["items"] is None else f"{row['items']:,}"} for row in rows]
        columns = [name.removeprefix(">") for name in LISTED]
        terminal = Screen()
        # a file or a pipe has no width, and a name that is cut finds nothing
        screen = terminal if terminal.is_terminal else Screen(width=WHOLE_LINES)
        screen.print(make_table(*LISTED, rows=[[row[name] for name in columns] for row in cells]))
        if data_dir is None:
            screen.print("no --data-dir (TRIVET_DATA_DIR): data comes from the hub", markup=False)
        screen.print("any task of the lm-evaluation-harness runs too; one of your own is a YAML file")

    emit({"benchmarks": rows}, as_json, show)


def _check(name: str, data: Data, as_json: bool) -> None:
    """Check a benchmark on all its items: IDs, prompts, golds that the grader accepts. Exits unless all is well."""
    from tasks.evaluation.benchmarks.base import Judge, Tools, is_whole
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
    from tasks.evaluation.running.known_defects import find_defect
    from tasks.evaluation.running.planning import EXPECTED_ERRORS, make_items
    from tasks.evaluation.running.task_choice import expand_family
    from tasks.grading.math.math_grader import shared_grader

    with plain_errors(*EXPECTED_ERRORS):
        own_name, *more = expand_family(name)
        if more:
            fail(f"{name} stands for several benchmarks; check one of {', '.join([own_name, *more])}", REFUSED)
        benchmark = find_benchmark(own_name)
        if is_whole(benchmark):
            fail(
                f"{benchmark.name} brings its own generate_responses and evaluate_responses, so there are no items to "
                f"check; try it with `trivet eval run --debug --tasks {name}`",
                REFUSED,
            )
        items = list(make_items(benchmark, data))
        tools = Tools(shared_grader(), Judge(benchmark.judge or "", lambda _: iter(())))  # a check asks no judge
        problems = list(benchmark.check(items, tools))
        unscorable = benchmark.find_unscorable(items, tools)

    item_defects = ((item.id, find_defect(benchmark.name, item)) for item in items)
    defects = {item: f"{defect.why} ({defect.source})" for item, defect in item_defects if defect}

    def show() -> None:
        """Print the first item as it is asked, and what is wrong with any."""
        screen = Screen(soft_wrap=True, markup=False)
        if items:
            first = items[0]
            screen.print(f"item {first.id}, as it is asked:")
            for prompt in ([f"[system] {first.system}"] if first.system else []) + list(first.prompts):
                screen.print("\n".join(f"  | {line}" for line in prompt.split("\n")))
            if first.gold is not None:
                screen.print(f"  gold: {first.gold}")
        for problem in problems:
            screen.print(f"problem: {problem}")
        for item, why in defects.items():
            screen.print(f"known defect: {item}: {why}")
        items_of = dict[str, list[str]]()
        for item, why in (data.left_out | unscorable).items():
            items_of.setdefault(why, []).append(item)
        for why, names in items_of.items():
            screen.print(f"not scored here: {list_some(names, 5)}: {why}")
        verdict = f"problems: {len(problems)}" if problems else "nothing is wrong"
        absent = f", {len(data.left_out)} more are left out" if data.left_out else ""
        absent += f", {len(unscorable)} cannot be scored here" if unscorable else ""
        screen.print(f"{benchmark.name}: {len(items)} items{absent}, {verdict}")

    facts = {
        "task": benchmark.name,
        "items": len(items),
        "ok": not problems,
        "problems": problems,
        "left_out": data.left_out,
        "unscorable": unscorable,
        "defects": defects,
    }
    emit(facts, as_json, show)
    if problems:
        raise typer.Exit(FAILED)
    if data.left_out or unscorable:
        raise typer.Exit(DONE_WITH_FAILURES)
