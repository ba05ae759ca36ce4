"""`trivet rag ask`: an answer whose every claim points to document, page and box."""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from flows.cli import show_answer
from flows.cli.commands import Json
from flows.cli.engine import Outcome, prefect_for_a_command, run_flow
from flows.cli.index_command import expected_errors
from flows.cli.output import DONE_WITH_FAILURES, FAILED, emit, fail, plain_errors, state
from flows.cli.shared_options import DocumentOption, IndexFolder, Strategy, model_errors, require_file

if TYPE_CHECKING:
    from tasks.rag.answering.assistant import Assistant
    from tasks.rag.answering.evidence import Evidence
    from tasks.rag.answers import Answered
    from tasks.rag.batching import BatchReport


WIRINGS = ("none", "local", "openai")


def _known_llm(value: str | None) -> str | None:
    """Refuse a name that means nothing before anything is opened."""
    if value is None or value in WIRINGS:
        return value
    from flows.cli.refusing import require_here
    from models.backends import backends
    from models.chats import local_of, spellings
    from models.model_errors import ModelUnavailable
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


LlmOption = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        callback=_known_llm,
        help="none: the documents' own sentences; local, openai: the models of the settings; or one model: "
        "openai:MODEL (an endpoint), hf:FOLDER, vllm:FOLDER (weights, in this process; arguments follow: "
        "hf:FOLDER,dtype=bfloat16), a name of the file in TRIVET_MODELS. Default: TRIVET_LLM, else none.",
    ),
]
RerankOption = Annotated[
    str | None,
    typer.Option("--rerank", metavar="NAME", help="Cross-encoder by name or path. Default: TRIVET_RERANKER, else off."),
]
StrategyChoice = Annotated[Strategy | None, typer.Option(help="How chunks are found. Unset: by the kind of question.")]
TopKChoice = Annotated[
    int | None, typer.Option(min=1, max=100, help="Number of chunks. Unset: by the kind of question.")
]
EvidenceOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write the cited pages as pictures, with the cited boxes drawn.")
]
ExplainOption = Annotated[bool, typer.Option("--explain", help="Show plan, filters, ranks and what was left out.")]
SpeakOption = Annotated[bool, typer.Option("--speak", help="Read the answer aloud, when espeak-ng is installed.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet rag`."""
    app.command()(ask)
    app.command()(batch)


def ask(
    question: Annotated[str, typer.Argument(help="The question, in Korean or English.")],
    index: IndexFolder,
    llm: LlmOption = None,
    strategy: StrategyChoice = None,
    top_k: TopKChoice = None,
    rerank: RerankOption = None,
    document: DocumentOption = None,
    explain: ExplainOption = False,
    evidence: EvidenceOption = None,
    speak: SpeakOption = False,
    as_json: Json = False,
) -> None:
    """Answer a question, with document, page and quote for every claim; say so when the documents do not tell."""
    from tasks.rag.planning.names import documents_named

    with opened(index, llm=llm, strategy=strategy, top_k=top_k, rerank=rerank) as assistant:
        prepare_evidence(evidence)
        with show_answer.live(quiet=as_json) as on_event:
            answered = assistant.ask(
                question,
                documents=documents_named(document, assistant.index.catalogue) if document else None,
                on_event=on_event,
            )
    pictures = write_evidence(answered, evidence) if evidence else None
    told = answered.model_dump(mode="json") | ({"evidence": _plain(pictures)} if pictures else {})
    emit(told, as_json, lambda: _show(answered, pictures, explain=explain))
    if speak:
        from flows.cli.show_answer import say

        say(answered.answer)


def batch(
    questions: Annotated[Path, typer.Argument(help="JSONL: {id, question, history?} a line.")],
    index: IndexFolder,
    out: Annotated[Path, typer.Option(help="JSONL of the answers.")],
    llm: LlmOption = None,
    strategy: StrategyChoice = None,
    top_k: TopKChoice = None,
    rerank: RerankOption = None,
    as_json: Json = False,
) -> None:
    """Answer a file of questions; what was answered before on the same index is recalled."""
    require_file(questions, "a JSONL file of questions")
    outcome = _run_batch(
        {
            "questions": questions.absolute(),
            "index": index.absolute(),
            "out": out.absolute(),
            "llm": llm,
            "reranker": rerank,
            "answers": {"strategy": strategy and strategy.value, "top_k": top_k},
        },
        quiet=as_json,
    )
    emit(outcome.report, as_json, lambda: show_answer.batch(outcome.report))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)
    if outcome.report.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


def _run_batch(chosen: dict[str, Any], *, quiet: bool) -> Outcome[BatchReport]:
    """Run `answer_batch` here and now. Raises pydantic.ValidationError for options that do not fit."""
    from tasks.rag.rag_errors import Unfinished

    with prefect_for_a_command(expected_errors(), quiet=quiet):
        from flows.rag import AnswerConfig, answer_batch
        from flows.running.answer_models import models_of
        from models.model_errors import ModelUnavailable

        config = AnswerConfig.model_validate(chosen)
        if config.llm in (None, *WIRINGS):  # any other name was checked as it was typed
            with plain_errors(ModelUnavailable):
                models_of(config.llm)
        return run_flow(answer_batch, config, Unfinished)


@contextmanager
def opened(
    index: Path,
    *,
    llm: str | None = None,
    strategy: Strategy | None = None,
    top_k: int | None = None,
    rerank: str | None = None,
    patient: bool = False,
) -> Generator[Assistant]:
    """An assistant over `index`; what is expected to go wrong ends the command with one sentence."""
    from flows.running.answer_models import open_assistant
    from models.model_errors import ModelUnavailable
    from storage.storage_errors import IndexUnusable, StorageError, StoreUnreachable
    from tasks.rag.answers import AnswerSettings

    if not (patient or state["debug"]):
        logging.getLogger("tasks.calls").setLevel(logging.ERROR)  # a note of the answer says it in one sentence
    answers = AnswerSettings(strategy=strategy.value if strategy else None, top_k=top_k)
    with (
        plain_errors(
            IndexUnusable, StoreUnreachable, ModelUnavailable, ValueError, failed=(StorageError, *model_errors())
        ),
        open_assistant(index, llm=llm, reranker=rerank, answers=answers, patient=patient) as assistant,
    ):
        yield assistant


def prepare_evidence(folder: Path | None) -> None:
    """Make the folder before anybody is asked, who may be slow or cost money. Raises StoreUnreachable."""
    from storage.files import make_folder

    if folder:
        make_folder(folder)


def write_evidence(answered: Answered, folder: Path) -> Evidence:
    """Pictures of the cited pages in `folder`; what goes wrong is a note, because the answer is there."""
    from storage.storage_errors import StorageError
    from tasks.documents.isolation import ReadLimits
    from tasks.rag.answering import evidence
    from tasks.resources import artifacts

    try:
        return evidence.write_evidence(
            answered.citations, folder, locate=lambda digest: artifacts().find("document", digest), limits=ReadLimits()
        )
    except StorageError as error:
        return evidence.Evidence((), (f"no pictures: {error}",))


def _plain(pictures: Evidence) -> dict[str, Any]:
    return {"files": [str(file) for file in pictures.files], "notes": list(pictures.notes)}


def _show(answered: Answered, pictures: Evidence | None, *, explain: bool) -> None:
    show_answer.answer(answered)
    if pictures:
        show_answer.evidence(pictures)
    if explain:
        show_answer.explain(answered)
