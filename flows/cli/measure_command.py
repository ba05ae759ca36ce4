"""`trivet rag eval`: how often questions find their page, and how good the answers are."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple
from uuid import uuid4

import typer

from flows.cli import show_measures, sweep_command
from flows.cli.ask_command import LlmOption, RerankOption
from flows.cli.ask_command import opened as assistant_over
from flows.cli.commands import Json
from flows.cli.output import emit, plain_errors
from flows.cli.questions import QuestionsFile, Search, SplitOption, StoreOption, counting, keep, places_in
from flows.cli.shared_options import Bm25Weight, IndexFolder, RouteOption, Strategy, model_errors, require_file
from flows.running.program import git_commit, program_version
from tasks.rag import STRATEGY

if TYPE_CHECKING:
    from storage.evaluations import Evaluated
    from storage.index import Index
    from tasks.rag.measuring.answer_checks import AnswerCheck
    from tasks.rag.measuring.measured_figures import Gold, Measurement
    from tasks.rag.measuring.ranking_metrics import Question, Ranked


def register(app: typer.Typer) -> None:
    """Add the commands that measure to `trivet rag`."""
    app.command("eval")(evaluate)
    sweep_command.register(app)


class Chosen(NamedTuple):
    """The options of `eval` that can change a figure."""

    strategy: Strategy | None
    bm25_weight: float
    route: bool
    rerank: str | None
    llm: str
    answers: bool
    split: str | None

    @property
    def search(self) -> Search:
        return Search(self.strategy or Strategy(STRATEGY), self.bm25_weight, self.route, self.rerank)


def evaluate(
    questions: QuestionsFile,
    index: IndexFolder,
    strategy: Annotated[
        Strategy | None, typer.Option(help="How chunks are found. Unset: rrf, and for answers by the kind of question.")
    ] = None,
    bm25_weight: Bm25Weight = 1.0,
    route: RouteOption = True,
    rerank: RerankOption = None,
    llm: LlmOption = None,
    answers: Annotated[
        bool | None,
        typer.Option("--answers/--no-answers", help="Check answers too. Default: where lines have an answer to check."),
    ] = None,
    split: SplitOption = None,
    by: Annotated[
        list[str] | None, typer.Option(metavar="FIELD", help="Group by this field of the lines. Default: kind, lang.")
    ] = None,
    details: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write what became of each question, as JSONL.")
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
    started = datetime.now(UTC)
    with plain_errors(StorageError, ValueError, failed=model_errors()), open_index(index) as opened:
        asked = choose(read_questions(questions), split)
        labels = labels_of(asked, by)
        checked = any(one.answer or not one.answerable for one in asked) if answers is None else answers
        # as it will run, not as it was typed: this is what the database keeps
        rerank, llm = rerank or settings().reranker, spelled(llm or settings().llm)
        chosen = Chosen(strategy, bm25_weight, route, rerank, llm, checked, split)
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
    emit(told, as_json, lambda: show_measures.evaluation(measurement.measured, notes))


def _rank(opened: Index, asked: Sequence[Question], gold: Gold, chosen: Chosen, *, quiet: bool) -> tuple[Ranked, ...]:
    from tasks.rag.measuring.ranking_metrics import rank_questions

    with counting(quiet) as counted:
        return rank_questions(
            counted(asked, "search", len(asked)),
            places_in(opened, chosen.search),
            name_of=gold.name_of,
        )


def _check(
    index: Path, asked: Sequence[Question], gold: Gold, chosen: Chosen, *, quiet: bool
) -> tuple[AnswerCheck, ...]:
    from tasks.rag.measuring.answer_checks import check_answers

    with (
        assistant_over(
            index, llm=chosen.llm, strategy=chosen.strategy, rerank=chosen.rerank, patient=True
        ) as assistant,
        counting(quiet) as counted,
    ):
        return check_answers(counted(asked, "answer", len(asked)), assistant, name_of=gold.name_of)


def _away(checks: Sequence[AnswerCheck]) -> list[str]:
    """A note where a model was away: the figures then are partly of answers made of the documents' own sentences."""
    away = sum(check.model_away for check in checks)
    return [f"the model was away for {away} of {len(checks)} questions; those answers are extracted"] if away else []


def _rows(
    measurement: Measurement,
    asked: Sequence[Question],
    chosen: Chosen,
    opened: Index,
    *,
    index: Path,
    file: Path,
    started: datetime,
) -> Evaluated:
    from tasks.rag.measuring.measured_figures import Made, record, subject_of

    settings = {name: value for name, value in chosen._asdict().items() if name != "split"}
    return record(
        measurement,
        asked,
        run=uuid4().hex,
        made=Made(program_version(), git_commit(), started, datetime.now(UTC)),
        subject=subject_of(opened, index),
        file=file,
        split=chosen.split,
        settings=settings,
    )


def _write_details(path: Path, asked: Sequence[Question], measurement: Measurement) -> None:
    from storage.files import write
    from tasks.rag.measuring.measured_figures import samples_of

    lines = (sample.model_dump_json(exclude={"repeat"}) for sample in samples_of(asked, measurement))
    write(path, "".join(f"{line}\n" for line in lines).encode())
