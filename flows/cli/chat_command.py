"""`trivet rag chat`: questions and follow-up questions in the terminal; every session is kept and can be resumed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from signal import SIGINT, default_int_handler
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape

from flows.cli.ask_command import (
    EvidenceOption,
    SpeakOption,
    console,
    explain_answer,
    open_answering,
    read_aloud,
    show_answer,
    show_draft,
    show_evidence,
    write_evidence,
)
from flows.cli.commands import Json, OptionValues
from flows.cli.engine import handle_signal
from flows.cli.output import (
    DONE_WITH_FAILURES,
    INTERRUPTED,
    REFUSED,
    SUCCEEDED,
    emit,
    fail,
    harmless,
    plain_errors,
    state,
)
from flows.cli.shared_options import IndexFolder
from models.model_errors import ModelError
from storage.engines import lasting_name
from storage.files import make_folder
from storage.storage_errors import StorageError
from tasks.rag.answers import cited_place

if TYPE_CHECKING:
    from storage.sessions import Session
    from tasks.rag.answering.assistant import Assistant
    from tasks.rag.answers import Answered

QUIT = "/quit"
COMMANDS = {
    "/sources": "sources of the last answer, with whole quotes",
    "/explain": "how the last answer was found: plan, filters, ranks",
    "/reset": "forget the conversation; the next question begins a new session",
    "/help": "this list",
    QUIT: "end, like Ctrl-D",
}


def chat(
    values: OptionValues,
    index: IndexFolder,
    session: Annotated[
        str | None, typer.Argument(metavar="ID", help="With --resume: ID of the session, or the beginning of the ID.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume session ID, or else the last session on this index.")
    ] = False,
    evidence: EvidenceOption = None,
    speak: SpeakOption = False,
    as_json: Json = False,
) -> None:
    """Ask questions and follow-up questions one after another; on a pipe, every line is a question."""
    if session and not resume:
        fail(f"{session!r} is given without --resume; write --resume {session} to go on with that session", REFUSED)
    with open_answering(index, values) as assistant:
        if evidence:
            make_folder(evidence)
        talk = Conversation(assistant, lasting_name(index), as_json=as_json, speak=speak, evidence=evidence)
        if resume:
            with plain_errors(ValueError):
                talk.resume(session)
        if sys.stdin.isatty() and sys.stdout.isatty() and not as_json:
            code = _converse_at_terminal(talk)
        else:
            code = _converse_on_pipe(talk)
    if talk.session:
        _note(_describe_session(talk.session))
    raise typer.Exit(code)


@dataclass
class Conversation:
    """A conversation about one index: each question sees the turns before it, and each answered one is kept."""

    assistant: Assistant
    index: str
    as_json: bool
    speak: bool
    evidence: Path | None
    is_kept: bool = True
    answers: list[Answered] = field(default_factory=list["Answered"])
    """The answers of the conversation so far, oldest first."""
    session: Session | None = None
    """The stored session that keeps the turns; None before the first answer."""

    def resume(self, prefix: str | None) -> None:
        """Resume the session of an ID's beginning, or this index's last. Raises StorageError, ValueError."""
        from tasks.rag.planning.plan import parse_answers
        from tasks.resources import sessions

        session = sessions().get(prefix) if prefix else sessions().latest(self.index)
        if session is None:
            raise ValueError(f"no conversation on {self.index} has been kept yet; start without --resume")
        if session.index_path != self.index:
            raise ValueError(f"session {session.short_id} is about {session.index_path}; give that as --index to go on")
        answers, unreadable = parse_answers([turn.answered for turn in sessions().turns(session.id)])
        if unreadable:
            _note(f"{unreadable} turns of another version of this program are left out")
        self.answers, self.session = [*answers], session

    def respond(self, line: str) -> bool:
        """Answer a question or execute a command; return False if a question got no answer."""
        from tasks.rag.planning.plan import history_of

        if line.startswith("/"):
            self._execute(line)
            return True
        try:
            # only while it is answered: a Ctrl-C more in Rich's tidying up would silence its console for good
            with show_draft(quiet=self.as_json) as on_event, handle_signal(SIGINT, default_int_handler):
                answered = self.assistant.ask(line, history=history_of(self.answers), on_event=on_event)
        except (ValueError, StorageError, ModelError) as error:
            if state["debug"]:
                raise
            typer.secho(f"error: {harmless(str(error))}", fg="red", err=True)
            return False
        emit(answered, self.as_json, lambda: show_answer(answered))
        sys.stdout.flush()  # a program at the other end of a pipe waits for it
        if self.evidence and answered.citations:  # a folder per turn: each turn numbers its citations from 1
            images = write_evidence(answered, self.evidence / f"turn-{len(self.answers) + 1:03d}")
            if not self.as_json:
                show_evidence(images)
        self._keep(answered)
        if self.speak:
            with suppress(KeyboardInterrupt), handle_signal(SIGINT, default_int_handler):  # ends the reading only
                read_aloud(answered.answer)
        return True

    def _keep(self, answered: Answered) -> None:
        """Add a turn to the conversation, and store it; once that has failed, no more is stored."""
        from tasks.resources import sessions

        self.answers.append(answered)
        if self.is_kept:
            try:
                self.session = self.session or sessions().start(self.index)
                record = answered.model_dump(mode="json")
                sessions().append(self.session.id, question=answered.question, answered=record)
            except StorageError as error:
                self.is_kept = False
                _note(f"from here on the conversation is not kept: {error}")

    def _execute(self, command: str) -> None:
        """Execute a command such as `/sources`, on the last answer where it is about one; print what it gives."""
        if command == "/reset":
            resume_hint = f"; {_describe_session(self.session)}" if self.session else ""
            _note(f"forgotten; the next question begins anew{resume_hint}")
            self.answers, self.session = [], None
        elif command == "/help":
            for name, meaning in COMMANDS.items():
                _note(f"{name:<10} {meaning}")
            _note(f"{'':<10} Ctrl-C stops an answer, or clears the line")
        elif command not in COMMANDS:
            _note(f"there is no command {command}; /help lists them")
        elif self.as_json:
            _note(f"with --json, every answer contains what {command} shows")
        elif not self.answers:
            _note("nothing has been answered yet")
        elif command == "/explain":
            explain_answer(self.answers[-1])
        else:
            for citation in self.answers[-1].citations:
                console.print(f"[cyan]\\[{citation.n}][/cyan] {escape(cited_place(citation))}")
                if citation.place.heading_path:
                    console.print(f"    {escape(' › '.join(citation.place.heading_path))}")
                if citation.bbox:
                    console.print(f"    box {', '.join(f'{edge:g}' for edge in citation.bbox)}")
                console.print(f"    “{escape(citation.quote)}”")
            if not self.answers[-1].citations:
                console.print("the last answer cites nothing")


def _converse_on_pipe(talk: Conversation) -> int:
    """Answer line after line until there is none; return the exit code: not 0 where a question got no answer."""
    answered = True
    sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue] for bytes that are no UTF-8
    try:
        for line in takewhile(lambda line: line != QUIT, filter(None, map(str.strip, sys.stdin))):
            if not talk.as_json:  # nobody has seen it typed
                console.print(f"\n› {escape(line)}", soft_wrap=True)
            answered &= talk.respond(line)
    except KeyboardInterrupt:
        return INTERRUPTED
    return SUCCEEDED if answered else DONE_WITH_FAILURES


def _converse_at_terminal(talk: Conversation) -> int:
    """Answer what is typed until Ctrl-D or /quit; return the exit code."""
    documents = len(talk.assistant.index.catalogue)
    console.print(f"[dim]{documents:,} documents; /help lists the commands, Ctrl-D ends[/dim]")
    if talk.session and talk.answers:
        begun = f"{talk.session.created_at:%Y-%m-%d}"
        console.print(f"[dim]session {talk.session.short_id} of {begun}, {len(talk.answers)} turns; the last:[/dim]")
        console.print(f"[bold]›[/bold] {escape(talk.answers[-1].question)}")
        show_answer(talk.answers[-1])
    read = line_editor()
    with handle_signal(SIGINT, lambda _number, _frame: None):  # between answers, Ctrl-C must not end the program
        while (line := read()) is not None:
            try:
                talk.respond(line)
            except KeyboardInterrupt:
                console.print("[yellow]stopped[/yellow]; the question is not part of the conversation")
    return SUCCEEDED


def _describe_session(session: Session) -> str:
    return f"kept as session {session.short_id}; resume it with `--resume {session.short_id}`"


def _note(text: str) -> None:
    typer.secho(harmless(text), dim=True, err=True)


def line_editor() -> Callable[[], str | None]:
    """Return a function that reads the next non-empty line; None after Ctrl-D or /quit. Ctrl-C clears the line."""
    from prompt_toolkit import PromptSession

    editor = PromptSession[str]()

    def read() -> str | None:
        """Return the next line that is not empty; None after Ctrl-D or /quit."""
        while True:
            try:
                # lone surrogates stand for bytes that are not UTF-8
                line = editor.prompt("› ").encode(errors="replace").decode().strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None
            if line:
                return None if line == QUIT else line

    return read
