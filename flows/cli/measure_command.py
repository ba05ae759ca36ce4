"""`trivet rag eval`: how often questions find their page, and how good the answers are."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol, TypeVar
from uuid import uuid4

import typer
from pydantic import BaseModel, ConfigDict, Field
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from flows.cli.ask_command import known_llm
from flows.cli.ask_command import opened as assistant_over
from flows.cli.commands import Flag, Given, Json, Options, nested
from flows.cli.output import Screen, emit, plain_errors
from flows.cli.shared_options import IndexFolder, Strategy, model_errors, require_file
from flows.running.environment import git_commit, program_version
from tasks.rag import STRATEGY

if TYPE_CHECKING:
    from storage.evaluations import Evaluated
    from storage.index import Index
    from tasks.rag.measuring.answer_checks import AnswerCheck, AnswerFigures
    from tasks.rag.measuring.measured_figures import Gold, Measured, Measurement
    from tasks.rag.measuring.ranking_metrics import Mean, Place, Question, Ranked

Item = TypeVar("Item")
QuestionsFile = Annotated[
    Path,
    typer.Argument(
        help="JSONL file, one question per line: {id, question, document, pages: [1-based], answer?, turns?, split?, "
        "kind?, lang?}; document null: no document tells."
    ),
]
StoreOption = Annotated[bool, typer.Option(help="Keep the figures in the evaluation tables of the database.")]


class MeasureConfig(BaseModel):
    """Options of `rag eval` that can change a figure."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    strategy: Strategy | None = None
    """How chunks are found. Unset: rrf; for answers, it depends on the kind of question."""
    bm25_weight: float = Field(default=1.0, ge=0)
    """Weight of BM25 in rrf, relative to the vectors; 0: off."""
    route: bool = True
    """Look first in the documents that the question names."""
    rerank: str | None = None
    """Cross-encoder by name or path. Unset: TRIVET_RERANKER, else none."""
    llm: str | None = None
    """Model that answers, as for `trivet rag ask`. Unset: TRIVET_LLM, else none."""
    answers: bool | None = None
    """Check answers too. Unset: where lines have an answer to check."""
    split: str | None = None
    """Use only the lines with this value of `split`."""

    @property
    def search(self) -> Search:
        """How the questions are looked up."""
        return Search(self.strategy or Strategy(STRATEGY), self.bm25_weight, self.route, self.rerank)


OPTIONS = Options(
    "flows.cli.measure_command:MeasureConfig",
    {
        "strategy": Flag(),
        "bm25_weight": Flag(),
        "route": Flag("--route/--no-route"),
        "rerank": Flag(metavar="NAME"),
        "llm": Flag(metavar="MODEL", callback=known_llm),
        "answers": Flag("--answers/--no-answers"),
        "split": Flag(metavar="NAME"),
    },
)


class Search(NamedTuple):
    """How questions are looked up."""

    strategy: Strategy
    bm25_weight: float
    route: bool
    rerank: str | None

    def places_in(self, opened: Index) -> Callable[[Question], list[Place]]:
        """The search: gives the places of the hits for a question, best first."""
        from tasks.rag.measuring import measured_figures

        return measured_figures.places_in(
            opened, strategy=self.strategy.value, bm25_weight=self.bm25_weight, route=self.route, rerank=self.rerank
        )


def evaluate(
    given: Given,
    questions: QuestionsFile,
    index: IndexFolder,
    by: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Group by this field of the lines. Default: kind, lang.")
    ] = None,
    details: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the outcome of each question, as JSONL.")
    ] = None,
    store: StoreOption = True,
    as_json: Json = False,
) -> None:
    """Measure how often a search finds the page that answers, and how good the answers are, with 95 % intervals."""
    from flows.running.settings import settings
    from models.registry import spelled
    from storage.index import open_index
    from storage.storage_errors import StorageError
    from tasks.rag.measuring.measured_figures import Measurement, choose, gold_in, labels_of, measure
    from tasks.rag.measuring.ranking_metrics import read_questions

    require_file(questions, "a JSONL file of questions")
    started, chosen = datetime.now(UTC), MeasureConfig.model_validate(nested(given))
    with plain_errors(StorageError, ValueError, failed=model_errors()), open_index(index) as opened:
        asked = choose(read_questions(questions), chosen.split)
        labels = labels_of(asked, by)
        checked = any(one.answer or not one.answerable for one in asked) if chosen.answers is None else chosen.answers
        rerank, llm = chosen.rerank or settings().reranker, spelled(chosen.llm or settings().llm)
        # as it will run, not as it was typed: this is what the database keeps
        chosen = chosen.model_copy(update={"rerank": rerank, "llm": llm, "answers": checked})
        gold = gold_in(opened, asked)
        ranked = _rank(opened, asked, gold, chosen, quiet=as_json)
        checks = _check(index, asked, gold, chosen, quiet=as_json) if checked else None
        measurement = Measurement(measure(asked, ranked, checks, by=labels), ranked, checks or ())
        if details:
            _write_details(details, asked, measurement)
        rows = _rows(measurement, asked, chosen, opened, index=index, file=questions, started=started)
    unkept = keep([rows]) if store else None
    notes = [*gold.notes, *_away(checks or ()), *([unkept] if unkept else [])]
    told = measurement.measured.model_dump(mode="json") | {
        "run": rows.run.id if store and not unkept else None,
        "notes": notes,
    }
    emit(told, as_json, lambda: _show(measurement.measured, notes))


def _rank(
    opened: Index, asked: Sequence[Question], gold: Gold, chosen: MeasureConfig, *, quiet: bool
) -> tuple[Ranked, ...]:
    from tasks.rag.measuring.ranking_metrics import rank_questions

    with counting(quiet) as counted:
        questions = counted(asked, "search", len(asked))
        return rank_questions(questions, chosen.search.places_in(opened), name_of=gold.name_of)


def _check(
    index: Path, asked: Sequence[Question], gold: Gold, chosen: MeasureConfig, *, quiet: bool
) -> tuple[AnswerCheck, ...]:
    from tasks.rag.measuring.answer_checks import check_answers

    how = {"llm": chosen.llm, "reranker": chosen.rerank, "answers.strategy": chosen.strategy}
    with assistant_over(index, how, patient=True) as assistant, counting(quiet) as counted:
        return check_answers(counted(asked, "answer", len(asked)), assistant, name_of=gold.name_of)


def _away(checks: Sequence[AnswerCheck]) -> list[str]:
    """A note if a model was unavailable: some answers then quote sentences of the documents."""
    away = sum(check.model_away for check in checks)
    return [f"the model was away for {away} of {len(checks)} questions; those answers are extracted"] if away else []


def _rows(
    measurement: Measurement,
    asked: Sequence[Question],
    chosen: MeasureConfig,
    opened: Index,
    *,
    index: Path,
    file: Path,
    started: datetime,
) -> Evaluated:
    from tasks.rag.measuring.measured_figures import Made, record, subject_of

    return record(
        measurement,
        asked,
        run=uuid4().hex,
        made=Made(program_version(), git_commit(), started, datetime.now(UTC)),
        subject=subject_of(opened, index),
        file=file,
        split=chosen.split,
        settings=chosen.model_dump(exclude={"split"}),
    )


def _write_details(path: Path, asked: Sequence[Question], measurement: Measurement) -> None:
    from storage.files import write
    from tasks.rag.measuring.measured_figures import samples_of

    lines = (sample.model_dump_json(exclude={"repeat"}) for sample in samples_of(asked, measurement))
    write(path, "".join(f"{line}\n" for line in lines).encode())


class Counted(Protocol):
    """Passes items on as they are taken, and moves a bar."""

    def __call__(self, items: Iterable[Item], name: str, count: int) -> Iterable[Item]: ...


@contextmanager
def counting(quiet: bool) -> Generator[Counted]:
    """A progress bar on stderr for each name, if a terminal is there to show it."""
    console = Screen(stderr=True)
    columns = (TextColumn("{task.description:<36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    shown = console.is_terminal and not quiet
    with Progress(*columns, console=console, transient=True, disable=not shown) as progress:

        def counted(items: Iterable[Item], name: str, count: int) -> Iterable[Item]:
            return progress.track(items, total=count, description=name)

        yield counted


def keep(evaluated: Sequence[Evaluated]) -> str | None:
    """Write to the database of the settings; gives a note if that is not possible."""
    from storage.storage_errors import StorageError
    from tasks.resources import evaluations

    try:
        evaluations().write(evaluated)
    except StorageError as error:
        return f"the figures are not in the database: {error}"
    return None


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


def _show(measured: Measured, notes: Sequence[str]) -> None:
    if measured.n:
        table = Table("", "page", "95 %", "document", "95 %", box=None, header_style="bold")
        for name in measured.document:
            table.add_row(name, *_cells(measured.page.get(name)), *_cells(measured.document[name]))
        console.print(table)
    console.print(f"[dim]{measured.n} questions, {measured.paged} of them with gold pages[/dim]")
    if measured.answers:
        _show_answers(measured.answers)
    for label, groups in measured.groups.items():
        _show_groups(label, groups)
    console.print_notes(notes)


def _show_answers(figures: AnswerFigures) -> None:
    table = Table("answers", "share", "95 %", "n", box=None, header_style="bold")
    shares = [(said, getattr(figures, name)) for name, said in ANSWER_ROWS]
    shares += [(said, getattr(figures.abstention, name)) for name, said in ABSTENTION_ROWS]
    for said, share in shares:
        if share is not None:
            table.add_row(said, *_cells(share), str(share.n))
    console.print(table)
    unscored = f", {figures.unscored} more could not be asked" if figures.unscored else ""
    console.print(f"[dim]{figures.n} questions asked{unscored}[/dim]")


def _show_groups(label: str, groups: dict[str, Measured]) -> None:
    answered = any(group.answers for group in groups.values())
    said = ("correct", "cited", "false answers") if answered else ()
    table = Table(escape(label), "n", "page hit@5", "page mrr@10", "95 %", *said, box=None, header_style="bold")
    for value, group in groups.items():
        figures = group.answers
        cells = [rounded(group.page.get("hit@5")), *_cells(group.page.get("mrr@10"))]
        if figures:
            cells += map(rounded, (figures.correct, figures.citation, figures.abstention.false_answer_rate))
        elif answered:
            cells += ["–"] * len(said)
        table.add_row(escape(value), str(figures.n if figures else group.n), *cells)
    console.print(table)


def _cells(mean: Mean | None) -> tuple[str, str]:
    return ("–", "") if mean is None else (rounded(mean), f"{mean.low:.3f} … {mean.high:.3f}")


def rounded(mean: Mean | None) -> str:
    """A mean as tables show it."""
    return "–" if mean is None else f"{mean.value:.3f}"
