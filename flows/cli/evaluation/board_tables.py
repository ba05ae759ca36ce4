"""Leaderboards as tables of a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, cast

from rich.cells import cell_len
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from flows.cli.output import Screen

if TYPE_CHECKING:
    from tasks.evaluation.results.ranking import Board, Row, TaskColumn

MODEL_WIDTH, MIN_SCORE = 20, 5
MOST_ROWS = 100
"""Rows of a table in a terminal; every other format has all of them."""
LEFT_OUT = ("date", "differing", "n")
"""Columns that a narrow terminal goes without, the first one first."""


def show_boards(boards: Sequence[Board]) -> None:
    """Print the rankings; a table that would be too wide goes without some columns, and no heading is cut."""
    from tasks.evaluation.results.ranking import models_of

    console = Screen()
    if not boards:
        console.print("no results yet; evaluate a model with `trivet eval run`, or name a folder with --path")
        return
    models = models_of(boards)
    if len(boards) > 1 and len(models) > 1:
        for together in _side_by_side(boards, models, console.width):
            console.print(_overview(together, models[:MOST_ROWS]), "")
    left_out = set[str]()
    for board in boards:
        lower = "" if board.higher_is_better else ", lower is better"
        title = f"[bold]{escape(board.name)}[/bold]  [dim]{escape(board.metric)}{lower}[/dim]"
        console.print(title, soft_wrap=True)
        console.print(_ranking(board, console.width, left_out), "")
    if longest := max((len(board.rows) for board in boards if len(board.rows) > MOST_ROWS), default=0):
        said = f"the first {MOST_ROWS} of up to {longest:,} models are shown; --model has others, and --format all"
        console.print(f"[yellow]{said}[/yellow]", "")
    console.print(
        "[dim]95 %: interval · unscored samples are in no score · only equal data and settings are ranked[/dim]"
    )
    if left_out:
        console.print(f"[dim]a wider terminal, or --format, has {', '.join(sorted(left_out))} too[/dim]")


def _side_by_side(boards: Sequence[Board], models: Sequence[str], width: int) -> Iterator[list[Board]]:
    """Boards whose columns stand beside each other without a word of a heading being cut."""
    room = width - min(MODEL_WIDTH, max(map(cell_len, models)))
    together, taken = cast("list[Board]", []), 0
    for board in boards:
        needed = 2 + max(MIN_SCORE, *map(cell_len, board.name.split()))
        if together and taken + needed > room:
            yield together
            together, taken = [], 0
        together.append(board)
        taken += needed
    yield together


def _overview(boards: Sequence[Board], models: Sequence[str]) -> Table:
    from tasks.evaluation.results.ranking import cell

    table = Table(box=None, header_style="bold", pad_edge=False)
    table.add_column("model", overflow="fold")
    for board in boards:
        longest = max(MIN_SCORE, *map(cell_len, board.name.split()))
        table.add_column(escape(board.name), justify="right", min_width=longest)
    for model in models:
        table.add_row(escape(model), *(_cell(board, cell(board, model)) for board in boards))
    return table


def _cell(board: Board, row: Row | None) -> str:
    if row is None:
        return "[dim]–[/dim]"
    value = board.shown(row.score.value)
    return f"[bold]{value}[/bold]" if row.rank == 1 and len(board.rows) > 1 else value


def _ranking(board: Board, width: int, left_out: set[str]) -> Table:
    """The table of a board; `left_out` gets the columns for which the terminal is too narrow."""
    shown = [_cells(board, row) for row in board.rows[:MOST_ROWS]]
    columns = {name: [cells[name] for cells in shown] for name in _names(board)}
    room = {
        name: max(cell_len(name), *(Text.from_markup(cell).cell_len for cell in cells))
        for name, cells in columns.items()
    }
    room["model"] = min(room["model"], MODEL_WIDTH)
    for name in LEFT_OUT:
        if sum(room.values()) + len(room) - 1 > width:
            left_out |= {name} & room.keys()
            room.pop(name, None)
    table = Table(box=None, header_style="bold", pad_edge=False, collapse_padding=True)
    for name in room:
        justify = "left" if name in ("model", "date", "run") else "right"
        if name == "model":
            table.add_column(name, overflow="fold")
        else:
            table.add_column(name, justify=justify, min_width=room[name], no_wrap=True)
    for cells in zip(*(columns[name] for name in room), strict=True):
        table.add_row(*cells)
    return table


def _names(board: Board) -> Iterator[str]:
    further = [column.name for column in board.columns if any(row.columns[column.name] for row in board.rows)]
    yield from ("#", "model", "score", "95 %", "n", *further, "date", "run")


def _cells(board: Board, row: Row) -> dict[str, str]:
    from tasks.evaluation.results.ranking import when

    one = row.score
    return {
        "#": str(row.rank),
        "model": escape(row.name),
        "score": board.shown(one.value),
        "95 %": board.interval(one),
        "n": f"{one.n:,}",
        **{column.name: _further(column, row) for column in board.columns},
        "date": when(one) if one.status == "completed" else f"[yellow]{one.status}[/yellow]",
        "run": escape(one.run[:8]),
    }


def _further(column: TaskColumn, row: Row) -> str:
    from tasks.evaluation.results.ranking import shown

    value = row.columns[column.name]
    text = shown(value, thousands=",")
    return f"[yellow]{text}[/yellow]" if column.is_defect and value else text
