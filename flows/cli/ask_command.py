"""`trivet rag ask` and `batch`: answers in which every claim cites its document, page and box."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError

from flows.cli import show_answer
from flows.cli.commands import Flag, Given, Json, Options
from flows.cli.engine import prefect_for_a_command, run_flow
from flows.cli.output import DONE_WITH_FAILURES, FAILED, emit, fail, plain_errors, state
from flows.cli.shared_options import DocumentOption, IndexFolder, Strategy, require_file, require_here
from flows.running.config_reading import nested
from models.model_errors import ModelError, ModelUnavailable
from storage.files import make_folder
from storage.storage_errors import IndexUnusable, StorageError, StoreUnreachable
from tasks.rag.answers import AnswerSettings, Calibration
from tasks.rag.rag_errors import Unfinished

if TYPE_CHECKING:
    from tasks.rag.answering.assistant import Assistant
    from tasks.rag.answering.evidence import Evidence
    from tasks.rag.answers import Answered

WIRINGS = ("none", "local", "openai")


def known_llm(value: str | None) -> str | None:
    """Refuse an unknown model before anything is opened."""
    if value is None or value in WIRINGS:
        return value
    from models.backends import backends, local_of, spellings
    from models.registry import spelled

    try:
        name = spelled(value)
        if local := local_of(name):
            require_here(local)
    except ModelUnavailable as error:
        raise typer.BadParameter(f"{value}: {error}") from error
    if name.partition(":")[0] not in backends():
        raise typer.BadParameter(f"{value!r} is none of {', '.join(WIRINGS)}, and no model: {spellings()}")
    return value


def read_calibration(file: Path | None) -> Calibration | None:
    """The calibration in a file that `rag eval --calibrate` wrote."""
    if file is None:
        return None
    try:
        return Calibration.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no calibration"
        raise typer.BadParameter(f"{file}: {why}; name a file that `trivet rag eval --calibrate FILE` wrote") from error


ANSWERS = "flows.running.rag_config:AnswerConfig"
MODELS = {
    "llm": Flag(metavar="MODEL", callback=known_llm),
    "reranker": Flag("--rerank", metavar="NAME"),
    "answers.max_wrong": Flag(metavar="SHARE"),
    "answers.calibration": Flag(type=Path, metavar="FILE", callback=read_calibration),
}
"""Options of all commands that answer."""
HOW = "How chunks are found. Unset: depends on the kind of question."
TOP_K = "Number of chunks. Unset: depends on the kind of question."
MODEL_OPTIONS = Options(ANSWERS, MODELS)
OPTIONS = Options(
    ANSWERS,
    {**MODELS, "answers.strategy": Flag(type=Strategy, help=HOW), "answers.top_k": Flag(min=1, max=100, help=TOP_K)},
)
EvidenceOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write images of the cited pages, with the cited boxes drawn.")
]
SpeakOption = Annotated[bool, typer.Option("--speak", help="Read the answer aloud, if espeak-ng is installed.")]


def ask(
    given: Given,
    question: Annotated[str, typer.Argument(help="The question, in Korean or English.")],
    index: IndexFolder,
    document: DocumentOption = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the plan, the filters, the ranks and what was left out.")
    ] = False,
    evidence: EvidenceOption = None,
    speak: SpeakOption = False,
    as_json: Json = False,
) -> None:
    """Answer a question, with document, page and quote for every claim, or say that the documents do not tell."""
    from tasks.rag.planning.names import documents_named

    with opened(index, given) as assistant:
        if evidence:
            make_folder(evidence)  # before a model is asked, which may be slow or cost money
        with show_answer.live(quiet=as_json) as on_event:
            answered = assistant.ask(
                question,
                documents=documents_named(document, assistant.index.catalogue) if document else None,
                on_event=on_event,
            )
    written = write_evidence(answered, evidence) if evidence else None
    told = answered.model_dump(mode="json")
    if written:
        told["evidence"] = {"files": [str(file) for file in written.files], "notes": list(written.notes)}

    def show() -> None:
        show_answer.answer(answered)
        if written:
            show_answer.evidence(written)
        if explain:
            show_answer.explain(answered)

    emit(told, as_json, show)
    if speak:
        show_answer.say(answered.answer)


def batch(
    given: Given,
    questions: Annotated[Path, typer.Argument(help="JSONL file, one question per line: {id, question, history?}.")],
    index: IndexFolder,
    out: Annotated[Path, typer.Option(help="JSONL file for the answers.")],
    as_json: Json = False,
) -> None:
    """Answer a file of questions; an answer given before on the same index is recalled."""
    require_file(questions, "a JSONL file of questions")
    paths = {"questions": questions.absolute(), "index": index.absolute(), "out": out.absolute()}
    with prefect_for_a_command(quiet=as_json):
        from flows.rag import AnswerConfig, answer_batch
        from flows.running.answer_models import models_of

        config = AnswerConfig.model_validate(nested({**given, **paths}))
        if config.llm in (None, *WIRINGS):  # `known_llm` has checked any other name
            with plain_errors(ModelUnavailable):
                models_of(config.llm)
        outcome = run_flow(answer_batch, config, Unfinished)
    emit(outcome.report, as_json, lambda: show_answer.batch(outcome.report))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)
    if outcome.report.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


@contextmanager
def opened(index: Path, chosen: Given, *, patient: bool = False) -> Generator[Assistant]:
    """An assistant over `index`; expected errors end the command with one sentence.

    chosen: values of `OPTIONS`. patient: retry an unavailable model as often as a batch does.
    """
    from flows.running.answer_models import open_assistant

    if not (patient or state["debug"]):
        logging.getLogger("tasks.calls").setLevel(logging.ERROR)  # a note of the answer says it in one sentence
    answers = AnswerSettings.model_validate(nested(chosen).get("answers", {}))
    refused = (IndexUnusable, StoreUnreachable, ModelUnavailable, ValueError)
    with (
        plain_errors(*refused, failed=(StorageError, ModelError)),
        open_assistant(
            index, llm=chosen["llm"], reranker=chosen["reranker"], answers=answers, patient=patient
        ) as assistant,
    ):
        yield assistant


def write_evidence(answered: Answered, folder: Path) -> Evidence:
    """Images of the cited pages in `folder`; a failure is a note, because the answer exists."""
    from tasks.documents.isolation import ReadLimits
    from tasks.rag.answering import evidence
    from tasks.resources import artifacts

    try:
        return evidence.write_evidence(
            answered.citations, folder, locate=lambda digest: artifacts().find("document", digest), limits=ReadLimits()
        )
    except StorageError as error:
        return evidence.Evidence((), (f"no pictures: {error}",))
