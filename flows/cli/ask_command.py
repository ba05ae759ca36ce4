"""`trivet rag ask` and `batch`: answers in which every claim cites its document, page and box."""

from __future__ import annotations

import logging
import re
import subprocess
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import ValidationError
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from flows.cli.commands import Flag, Json, Options, OptionValues
from flows.cli.engine import prefect_for_command, run_flow
from flows.cli.output import Screen, emit, make_table, plain_errors, state
from flows.cli.shared_options import DocumentOption, IndexFolder, Strategy, require_file, require_here
from flows.running.config_reading import nest_values
from models.model_errors import ModelUnavailable
from storage.files import make_folder
from storage.storage_errors import StorageError, StoreUnreachable
from tasks.rag.answers import AnswerSettings, Calibration, cited_place, headline_of, place_of
from tasks.rag.rag_errors import Unfinished

if TYPE_CHECKING:
    from tasks.rag.answering.assistant import Assistant
    from tasks.rag.answering.evidence import Evidence
    from tasks.rag.answering.graph import Event
    from tasks.rag.answers import Answered
    from tasks.rag.batching import BatchReport

console = Screen()


def check_llm(value: str | None) -> str | None:
    """Return the typed `--llm`, or None. Raises BadParameter for a model that cannot be asked, with no index open."""
    from flows.running.answer_models import models_of
    from models.backends import local_of

    try:
        if value and (name := models_of(value).large) and (local := local_of(name)):
            require_here(local)
    except ModelUnavailable as error:
        raise typer.BadParameter(f"{value}: {error}") from error
    return value


def read_calibration(file: Path | None) -> Calibration | None:
    """Return the calibration that `rag eval --calibrate` wrote; None without a file. Raises BadParameter."""
    if file is None:
        return None
    try:
        return Calibration.model_validate_json(file.read_bytes())
    except (OSError, ValidationError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no calibration"
        raise typer.BadParameter(f"{file}: {why}; name a file that `trivet rag eval --calibrate FILE` wrote") from error


ANSWERS = "flows.running.rag_config:AnswerConfig"
MODELS = {
    "llm": Flag(metavar="MODEL", callback=check_llm),
    "reranker": Flag("--rerank", metavar="NAME"),
    "answers.max_wrong": Flag(metavar="SHARE"),
    "answers.calibration": Flag(type=Path, metavar="FILE", callback=read_calibration),
}
"""Options of all commands that answer."""
MODEL_OPTIONS = Options(ANSWERS, MODELS)
OPTIONS = Options(ANSWERS, {**MODELS, "answers.strategy": Flag(type=Strategy), "answers.top_k": Flag(min=1, max=100)})
EvidenceOption = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Write images of the cited pages, with the cited boxes drawn.")
]
SpeakOption = Annotated[bool, typer.Option("--speak", help="Read the answer aloud, if espeak-ng is installed.")]


def ask(
    values: OptionValues,
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
    from tasks.rag.planning.names import find_named_documents

    with open_answering(index, values) as assistant:
        if evidence:
            make_folder(evidence)  # before a model is asked, which may be slow or cost money
        with show_draft(quiet=as_json) as on_event:
            answered = assistant.ask(
                question,
                documents=find_named_documents(document, assistant.index.catalogue) if document else None,
                on_event=on_event,
            )
    written = write_evidence(answered, evidence) if evidence else None
    record = answered.model_dump(mode="json")
    if written:
        record["evidence"] = {"files": [str(file) for file in written.files], "notes": list(written.notes)}

    def show() -> None:
        show_answer(answered)
        if written:
            show_evidence(written)
        if explain:
            explain_answer(answered)

    emit(record, as_json, show)
    if speak:
        read_aloud(answered.answer)


def batch(
    values: OptionValues,
    questions: Annotated[Path, typer.Argument(help="JSONL file of {id, question, history?, documents?}.")],
    index: IndexFolder,
    out: Annotated[Path, typer.Option(help="JSONL file for the answers.")],
    as_json: Json = False,
) -> None:
    """Answer a file of questions; an answer given before on the same index is recalled."""
    from flows.running.answer_models import models_of
    from flows.running.rag_config import AnswerConfig
    from storage.index import open_index
    from tasks.rag.batching import read_batch

    require_file(questions, "a JSONL file of questions")
    paths = {"questions": questions.absolute(), "index": index.absolute(), "out": out.absolute()}
    config = AnswerConfig.model_validate(nest_values({**values, **paths}))
    with plain_errors(ModelUnavailable):
        models_of(config.llm)  # of TRIVET_LLM, where no option names one
    read_batch(questions, index_digest="")
    with open_index(index):
        pass
    with prefect_for_command(quiet=as_json):
        from flows.rag import answer_batch

        outcome = run_flow(answer_batch, config, Unfinished)
    report: BatchReport = outcome.report

    def show() -> None:
        """Print how many of the questions were answered, abstained from, or failed."""
        console.print(f"[bold]{escape(report.out)}[/bold] holds {report.questions:,} answers")
        unsupported = f"{report.unsupported:,} of them with a sentence that is not supported"
        console.print(f"  answered   {report.answered:,}, {unsupported}")
        console.print(f"  abstained  {report.abstained:,}: the documents do not tell")
        if report.failed:
            console.print(f"  [red]failed[/red]     {report.failed:,}: empty, too long, of no known document, refused")

    emit(report, as_json, show)
    outcome.end(has_failures=report.failed > 0)


@contextmanager
def open_answering(index: Path, values: OptionValues, *, patient: bool = False) -> Generator[Assistant]:
    """Open an assistant that answers questions about `index`; expected errors end the command with one sentence.

    values: those of `OPTIONS`. patient: retry an unavailable model as often as a batch does.
    """
    from flows.running.answer_models import open_assistant

    if not (patient or state["debug"]):
        logging.getLogger("tasks.calls").setLevel(logging.ERROR)  # a note of the answer says it in one sentence
    answers = AnswerSettings.model_validate(nest_values(values).get("answers", {}))
    models = {"llm": values["llm"], "reranker": values["reranker"]}
    with (
        plain_errors(StoreUnreachable, ModelUnavailable, ValueError),
        open_assistant(index, **models, answers=answers, patient=patient) as assistant,
    ):
        yield assistant


def write_evidence(answered: Answered, folder: Path) -> Evidence:
    """Write images of the cited pages into `folder`; a failure becomes a note, because the answer exists already."""
    from tasks.documents.isolation import ReadLimits
    from tasks.rag.answering import evidence
    from tasks.resources import artifacts

    try:
        return evidence.write_evidence(
            answered.citations, folder, locate=lambda digest: artifacts().find("document", digest), limits=ReadLimits()
        )
    except StorageError as error:
        return evidence.Evidence((), (f"no pictures: {error}",))


STAGES = {
    "analyze_query": "reading the question",
    "retrieve": "looking it up",
    "compute": "working out",
    "generate": "answering",
    "rewrite": "polishing",
}
_MARK = re.compile(r"\[\d+\]")


def show_answer(answered: Answered) -> None:
    """Print the short answer, sentences with sources, those without support, documents that fit alike, and notes."""
    if headline := headline_of(answered):
        console.print(f"[bold]{escape(headline)}[/bold]")
        console.print()
    text = Text(answered.answer)
    text.highlight_regex(_MARK, "cyan")
    console.print(text)
    if answered.citations:
        console.print()
    for citation in answered.citations:
        headings = f" · {' › '.join(citation.place.heading_path)}" if citation.place.heading_path else ""
        console.print(f"[cyan]\\[{citation.n}][/cyan] {escape(cited_place(citation) + headings)}")
        console.print(f"    [dim]“{escape(' '.join(citation.quote.split()))}”[/dim]")
    for sentence in answered.unsupported:
        console.print(f"[yellow]not supported[/yellow] {escape(sentence)}")
    if answered.plan.filters.ambiguous:
        console.print(f"[yellow]several documents fit[/yellow] {escape('; '.join(answered.plan.filters.ambiguous))}")
    console.print_notes(answered.notes)


def explain_answer(answered: Answered) -> None:
    """Print plan, filters, rank per retriever, what the token budget left out, and timings."""
    plan, filters = answered.plan, answered.plan.filters
    why = f"{plan.decided_by}: {', '.join(plan.words)}" if plan.words else plan.decided_by
    console.rule("how it was found", style="dim")
    console.print(f"plan      {plan.query_type} ({escape(why)}) → {plan.strategy}, top {plan.top_k}")
    for name in filters.matches:
        console.print(f"filter    {name.field} {escape(name.value)} ← “{escape(name.said)}” ({name.confidence:.2f})")
    if filters.mode != "all":
        console.print(f"          {filters.mode} {len(filters.documents)} of the documents")
    rows = [
        (
            number,
            f"{hit.score:.4f}",
            ", ".join(f"{name} {rank}" for name, rank in hit.ranks.items()),
            place_of(hit.document, hit.page, hit.page_source) + ("" if hit.used else " (left out: token budget)"),
        )
        for number, hit in enumerate(answered.retrieved, start=1)
    ]
    console.print(make_table("", "score", "ranks", "place", rows=rows))
    if not any("rerank" in hit.ranks for hit in answered.retrieved):
        console.print("rerank    off: no cross-encoder is named (--rerank NAME)")
    if answered.reason:
        console.print(f"answer    {escape(answered.reason)}")
    for call in answered.calls:
        source = "from the response store" if call.cached else "asked"
        console.print(f"call      {call.role}: {escape(call.model)}, {source}, key {call.key[:12]}")
    console.print("seconds   " + ", ".join(f"{name} {seconds:.3f}" for name, seconds in answered.timings.items()))


def show_evidence(pictures: Evidence) -> None:
    """Print the files with pictures of the cited pages, and notes on citations that have none."""
    for file in pictures.files:
        console.print(f"[green]evidence[/green] {escape(str(file))}")
    console.print_notes(pictures.notes)


@contextmanager
def show_draft(*, quiet: bool = False) -> Generator[Callable[[Event], None] | None]:
    """Yield what shows the draft as it is generated, removed afterwards; None if `quiet` or without a terminal."""
    if quiet or not console.is_terminal:
        yield None
        return
    with Live(console=console, refresh_per_second=12, transient=True) as display:

        def on_event(event: Event) -> None:
            # the console escapes nothing in a Text, so that a draft cannot draw
            text = f"{STAGES.get(event.text, event.text)} …" if event.kind == "stage" else event.text
            lines = Text(text, style="dim").wrap(console, console.width)
            display.update(Text("\n").join(lines[-max(1, console.height - 2) :]))  # more would flood the scrollback

        yield on_event


VOICES = {"ko": "ko", "en": "en-us"}
LONGEST_S = 600.0


def read_aloud(text: str) -> None:
    """Read `text` aloud, or print on stderr why that is not possible."""
    from tasks.language.sentences import language_of, strip_marks

    plain, reason = strip_marks(text).strip(), ""
    # -b 1: the text is UTF-8; from stdin, since it may begin with a dash
    command = ["espeak-ng", "-v", VOICES[language_of(plain)], "-b", "1", "--stdin"]
    try:
        process = subprocess.run(command, input=plain.encode(), capture_output=True, timeout=LONGEST_S, check=False)
    except FileNotFoundError:
        reason = "espeak-ng is not installed; install it with `apt-get install espeak-ng`"
    except subprocess.TimeoutExpired:
        reason = f"stopped after {LONGEST_S:g} s"
    else:
        errors = process.stderr.decode(errors="replace").strip().splitlines()
        if any(line.startswith("ALSA") for line in errors):  # without a sound card it still exits with 0
            reason = "there is no sound device that espeak-ng can use"
        elif process.returncode or any(line.lower().startswith("error") for line in errors):
            reason = f"espeak-ng failed: {errors[-1] if errors else f'exit code {process.returncode}'}"
    if reason:
        typer.secho(f"not read aloud: {reason}", dim=True, err=True)
