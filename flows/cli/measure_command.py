"""`trivet rag eval`: how often questions find their page, and how good the answers are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer
from pydantic import BaseModel, ConfigDict, Field

from flows.cli.ask_command import check_llm, open_answering, read_calibration
from flows.cli.commands import Flag, Json, Options, OptionValues
from flows.cli.engine import progress_bars
from flows.cli.output import Screen, emit, make_table, plain_errors
from flows.cli.shared_options import IndexFolder, Strategy, require_file
from flows.running.config_reading import nest_values
from flows.running.environment import git_commit, program_version
from flows.running.settings import settings
from storage.files import write
from storage.storage_errors import StorageError
from tasks import progress
from tasks.rag import STRATEGY
from tasks.rag.answers import MAX_WRONG, Calibration

if TYPE_CHECKING:
    from tasks.rag.measuring.answer_checks import AnswerCheck
    from tasks.rag.measuring.measured_figures import Measured
    from tasks.rag.measuring.ranking_metrics import Mean

QuestionsFile = Annotated[
    Path,
    typer.Argument(
        help="JSONL file, one question per line: {id, question, document, pages: [1-based], answer?, turns?, split?, "
        "kind?, lang?}; document null: no document tells."
    ),
]


class MeasureConfig(BaseModel):
    """Options of `rag eval` that can change a score."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    strategy: Strategy | None = None
    """How chunks are found. Unset: rrf; for answers, it depends on the kind of question."""
    bm25_weight: float = Field(default=1.0, ge=0)
    """Weight of BM25 in rrf, relative to the vectors; 0: off."""
    no_route: bool = False
    """Do not look first in the documents that the question names."""
    rerank: str | None = None
    """Cross-encoder by name or path. Unset: none."""
    llm: str | None = None
    """Model that answers, as for `trivet rag ask`. Unset: TRIVET_LLM, else none."""
    no_answers: bool = False
    """Check no answers, though lines have an answer to check."""
    max_wrong: float = Field(default=MAX_WRONG, ge=0, le=1)
    """Share of questions that may be answered wrongly, as for `trivet rag ask`; 1: every answer is given."""
    calibration: Calibration | None = None
    """File of `--calibrate` that sets how sure an answer must be. Unset: that of our own questions."""


OPTIONS = Options(
    "flows.cli.measure_command:MeasureConfig",
    {
        "strategy": Flag(),
        "bm25_weight": Flag(),
        "no_route": Flag(),
        "rerank": Flag(metavar="NAME"),
        "llm": Flag(metavar="MODEL", callback=check_llm),
        "no_answers": Flag(),
        "max_wrong": Flag(metavar="SHARE"),
        "calibration": Flag(type=Path, metavar="FILE", callback=read_calibration),
    },
)


def evaluate(
    values: OptionValues,
    questions: QuestionsFile,
    index: IndexFolder,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the outcome of each question, as JSONL.")
    ] = None,
    calibrate: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Give every answer, and write a calibration of their confidence."),
    ] = None,
    no_store: Annotated[
        bool, typer.Option("--no-store", help="Do not keep the figures in the evaluation tables of the database.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Measure how often a search finds the page that answers, and how good the answers are, with 95 % intervals."""
    from models.registry import spelled
    from storage.index import open_index
    from tasks.rag.measuring import measured_figures as figures
    from tasks.rag.measuring.answer_checks import calibration_of, check_answers
    from tasks.rag.measuring.ranking_metrics import rank_questions, read_questions
    from tasks.resources import evaluations

    require_file(questions, "a JSONL file of questions")
    started, config = datetime.now(UTC), MeasureConfig.model_validate(nest_values(values))
    with plain_errors(ValueError), open_index(index) as opened:
        gold_questions = read_questions(questions)
        # the options as they will act, not as they were typed: the database keeps these
        has_gold = any(question.answer or not question.answerable for question in gold_questions)
        settled = {
            "llm": spelled(config.llm or settings().llm),
            "no_answers": calibrate is None and (config.no_answers or not has_gold),
            "max_wrong": 1.0 if calibrate else config.max_wrong,  # a calibration needs the doubtful answers too
        }
        config = config.model_copy(update=settled)
        gold = figures.gold_in(opened, gold_questions)
        with progress_bars(as_json):
            places = figures.places_in(
                opened,
                strategy=config.strategy or STRATEGY,
                bm25_weight=config.bm25_weight,
                route=not config.no_route,
                rerank=config.rerank,
            )
            ranked = rank_questions(progress.counted("search", gold_questions), places, name_of=gold.name_of)
        checks: tuple[AnswerCheck, ...] = ()
        if not config.no_answers:
            answering = {"llm": config.llm, "reranker": config.rerank, "answers.strategy": config.strategy}
            answering |= {"answers.max_wrong": config.max_wrong, "answers.calibration": config.calibration}
            with open_answering(index, answering, patient=True) as assistant, progress_bars(as_json):
                checks = check_answers(progress.counted("answer", gold_questions), assistant, name_of=gold.name_of)
        measured = figures.measure(ranked, None if config.no_answers else checks)
        measurement = figures.Measurement(measured, ranked, checks)
        if calibrate:
            calibration = calibration_of(checks, questions=questions.name, made_on=started.date())
            write(calibrate, f"{calibration.model_dump_json(indent=1)}\n".encode())
        if out:
            samples = figures.samples_of(gold_questions, measurement)
            write(out, "".join(f"{sample.model_dump_json(exclude={'repeat'})}\n" for sample in samples).encode())
        rows = figures.record(
            measurement,
            gold_questions,
            run=uuid4().hex,
            provenance=figures.Provenance(program_version(), git_commit(), started, datetime.now(UTC)),
            subject=figures.subject_of(opened, index),
            file=questions,
            settings=config.model_dump(exclude={"no_route", "no_answers"})
            | {"route": not config.no_route, "answers": not config.no_answers},
        )
    notes, run = [*gold.notes], None
    if away := sum(check.model_away for check in checks):
        notes.append(f"the model was away for {away} of {len(checks)} questions; those answers are extracted")
    if not no_store:
        try:
            evaluations().write([rows])
            run = rows.run.id
        except StorageError as error:
            notes.append(f"the figures are not in the database: {error}")

    promised = None if config.llm != "none" else config.max_wrong
    output = measured.model_dump(mode="json") | {"run": run, "notes": notes}
    emit(output, as_json, lambda: _show(measured, notes, most_wrong=promised))


console = Screen()
WRONG = "wrong, or answered though unanswerable"
ANSWER_ROWS = (
    ("right", "right"),
    ("wrong", WRONG),
    ("abstained", "withheld"),
    ("correct", "gold answer in the answer"),
    ("number", "  where it is a number"),
    ("contains", "  where it is words"),
    ("citation", "citation on a gold page"),
    ("document", "citation in the gold document"),
    ("supported", "every claim supported"),
)
KIND_COLUMNS = ("n", "right", "wrong", "withheld", "calibration error")
ABSTENTION_ROWS = (
    ("answerable_answered", "answerable: answered"),
    ("unanswerable_abstained", "unanswerable: says so"),
    ("false_answer_rate", "unanswerable: answered all the same"),
)


def _show(measured: Measured, notes: Sequence[str], *, most_wrong: float | None) -> None:
    """Print the tables of pages and documents found, and of answers. most_wrong: promised share of wrong, if any."""
    if measured.n:
        rows = [
            (name, *_cells(measured.page.get(name)), *_cells(measured.document[name])) for name in measured.document
        ]
        console.print(make_table("", "page", "95 %", "document", "95 %", rows=rows))
    console.print(f"[dim]{measured.n} questions, {measured.paged} of them with gold pages[/dim]")
    if answer_scores := measured.answers:
        shares = [(words, getattr(answer_scores, name)) for name, words in ANSWER_ROWS]
        shares += [(words, getattr(answer_scores.abstention, name)) for name, words in ABSTENTION_ROWS]
        promise = "" if most_wrong is None or most_wrong >= 1 else f"; promised ≤ {most_wrong:g}"
        answer_rows: list[tuple[object, ...]] = []
        for words, share in shares:
            if share is not None:
                label = words + promise if words == WRONG else words
                answer_rows.append((label, *_cells(share), share.n))
        console.print(make_table("answers", "share", "95 %", "n", rows=answer_rows))
        # what became of each kind of question, and how often its surest answers are wrong
        kinds = answer_scores.kinds.items()
        counts = [
            (kind, scores.n, scores.right, scores.wrong, scores.abstained, _rounded(scores.calibration_error))
            for kind, scores in kinds
        ]
        console.print(make_table("kind", *(f">{name}" for name in KIND_COLUMNS), rows=counts))
        curves = [(kind, *(_rounded(scores.risk_at(part / 10)) for part in range(1, 11))) for kind, scores in kinds]
        console.print(make_table("wrong of the surest", *(f">{part}0 %" for part in range(1, 11)), rows=curves))
        unscored = f", {answer_scores.unscored} more could not be asked" if answer_scores.unscored else ""
        console.print(f"[dim]{answer_scores.n} questions asked{unscored}[/dim]")
    console.print_notes(notes)


def _rounded(share: float | None) -> str:
    return "–" if share is None else f"{share:.2f}"


def _cells(mean: Mean | None) -> tuple[str, str]:
    return ("–", "") if mean is None else (f"{mean.value:.3f}", f"{mean.low:.3f} … {mean.high:.3f}")
