"""What `trivet rag eval` and `trivet rag sweep` show to people."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich.markup import escape
from rich.table import Table

from flows.cli.output import Screen

if TYPE_CHECKING:
    from tasks.rag.measuring.answer_checks import AnswerFigures
    from tasks.rag.measuring.measured_figures import Measured
    from tasks.rag.measuring.ranking_metrics import Mean
    from tasks.rag.measuring.sweep import Compared, Row

console = Screen(highlight=False)

ANSWER_ROWS = (
    ("correct", "gold answer in the answer"),
    ("number", "  where it is a number"),
    ("contains", "  where it is words"),
    ("citation", "citation on a gold page"),
    ("document", "citation in the gold document"),
    ("verified", "every claim verified"),
)
ABSTENTION_ROWS = (
    ("answerable_answered", "answerable: answered"),
    ("unanswerable_abstained", "unanswerable: says so"),
    ("false_answer_rate", "unanswerable: answered all the same"),
)


def evaluation(measured: Measured, notes: Sequence[str]) -> None:
    """Figures with their intervals."""
    if measured.n:
        table = Table("", "page", "95 %", "document", "95 %", box=None, header_style="bold")
        for name in measured.document:
            table.add_row(name, *_cells(measured.page.get(name)), *_cells(measured.document[name]))
        console.print(table)
    console.print(f"[dim]{measured.n} questions, {measured.paged} of them with gold pages[/dim]")
    if measured.answers:
        _answers(measured.answers)
    for label, groups in measured.groups.items():
        _groups(label, groups)
    _notes(notes)


def sweep(compared: Compared, folder: Path, notes: Sequence[str]) -> None:
    """Points, the best first, and where the files are."""
    table = Table(box=None, header_style="bold", pad_edge=False)  # it fits 80 columns
    for header in ("chunks", "search", "mrr@10", "95 %", "hit@5", "differs", "95 %", "ms"):
        table.add_column(header, no_wrap=header != "search")
    for row in compared.rows:
        table.add_row(*_sweep_row(row, compared))
    console.print(table)
    base = escape(compared.baseline.name)
    console.print(f"[dim]by {compared.unit}; differs: mrr@10 less that of {base}, paired by question[/dim]")
    for name in ("sweep.png", "sweep.svg", "sweep.csv", "sweep.json"):
        console.print(f"  {escape(str(folder / name))}", soft_wrap=True)
    _notes(notes)


def _answers(figures: AnswerFigures) -> None:
    table = Table("answers", "share", "95 %", "n", box=None, header_style="bold")
    shares = [(said, getattr(figures, name)) for name, said in ANSWER_ROWS]
    shares += [(said, getattr(figures.abstention, name)) for name, said in ABSTENTION_ROWS]
    for said, share in shares:
        if share is not None:
            table.add_row(said, *_cells(share), str(share.n))
    console.print(table)
    unscored = f", {figures.unscored} more could not be asked" if figures.unscored else ""
    console.print(f"[dim]{figures.n} questions asked{unscored}[/dim]")


def _groups(label: str, groups: dict[str, Measured]) -> None:
    """A line per value of the label, with the figures that are looked at first."""
    answered = any(group.answers for group in groups.values())
    found = ("page hit@5", "page mrr@10", "95 %")
    said = ("correct", "cited", "false answers") if answered else ()
    table = Table(escape(label), "n", *found, *said, box=None, header_style="bold")
    for value, group in groups.items():
        asked = group.answers.n if group.answers else group.n
        cells = [_value(group.page.get("hit@5")), *_cells(group.page.get("mrr@10"))]
        if answered:
            cells += _answer_cells(group.answers)
        table.add_row(escape(value), str(asked), *cells)
    console.print(table)


def _answer_cells(figures: AnswerFigures | None) -> Iterable[str]:
    if figures is None:
        return ("–", "–", "–")
    return map(_value, (figures.correct, figures.citation, figures.abstention.false_answer_rate))


def _sweep_row(row: Row, compared: Compared) -> tuple[str, ...]:
    point, evaluation = row.swept.point, row.swept.evaluation
    figures = evaluation.page if compared.unit == "page" else evaluation.document
    cells = (
        point.chunking.name,
        escape(point.search_name),
        _value(row.value),
        f"{row.value.low:.2f}–{row.value.high:.2f}",
        _value(figures["hit@5"]),
        *_difference(row.difference),
        f"{row.swept.question_ms:.3g}",
    )
    return tuple(f"[bold]{cell}[/bold]" for cell in cells) if point == compared.baseline else cells


def _difference(mean: Mean | None) -> tuple[str, str]:
    """Coloured where the interval leaves zero out."""
    if mean is None:
        return "–", ""
    colour = "green" if mean.low > 0 else "red" if mean.high < 0 else None
    value = f"{mean.value:+.3f}"
    return f"[{colour}]{value}[/{colour}]" if colour else value, f"{mean.low:+.2f} {mean.high:+.2f}"


def _notes(notes: Sequence[str]) -> None:
    for note in notes:
        console.print(f"[yellow]note[/yellow] {escape(note)}", soft_wrap=True)


def _cells(mean: Mean | None) -> tuple[str, str]:
    if mean is None:
        return "–", ""
    return _value(mean), f"{mean.low:.3f} … {mean.high:.3f}"


def _value(mean: Mean | None) -> str:
    return "–" if mean is None else f"{mean.value:.3f}"
