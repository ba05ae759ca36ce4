"""`trivet rag chat`: questions and follow-up questions in the terminal; every session is kept and can be resumed."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.markup import escape

from flows.cli.ask_command import (
    EvidenceOption,
    SpeakOption,
    console,
    explain_answer,
    open_answering,
    print_line,
    read_aloud,
    show_answer,
    show_draft,
    show_evidence,
    write_evidence,
)
from flows.cli.commands import Given, Json
from flows.cli.engine import handling
from flows.cli.output import DONE, DONE_WITH_FAILURES, INTERRUPTED, REFUSED, emit, fail, harmless, plain_errors, state
from flows.cli.shared_options import IndexFolder
from flows.running.settings import settings
from models.model_errors import ModelError
from storage.engines import lasting_name
from storage.files import make_folder
from storage.storage_errors import StorageError
from tasks.rag.answers import cited_place

if TYPE_CHECKING:
    from prompt_toolkit.history import History

    from storage.sessions import Session
    from tasks.rag.answering.assistant import Asks, Event
    from tasks.rag.answers import Answered

QUIT = "/quit"
COMMANDS = {
    "/sources": "sources of the last answer, with whole quotes",
    "/explain": "how the last answer was found: plan, filters, ranks",
    "/reset": "forget the conversation; the next question begins a new session",
    "/help": "this list",
    QUIT: "end, like Ctrl-D",
}


class Manner(NamedTuple):
    """How answers are given."""

    as_json: bool
    speak: bool
    evidence: Path | None


def chat(
    given: Given,
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
    with open_answering(index, given) as assistant:
        if evidence:
            make_folder(evidence)
        talk = Conversation(assistant, index=index)
        if resume:
            with plain_errors(ValueError):
                talk.resume(session)
        code = converse(talk, documents=len(assistant.index.catalogue), manner=Manner(as_json, speak, evidence))
    if talk.session:
        _note(_kept(talk.session))
    raise typer.Exit(code)


class Conversation:
    """A conversation about one index: each question sees the turns before it, and each answered one is kept."""

    def __init__(self, asks: Asks, *, index: Path) -> None:
        from tasks.resources import sessions

        self._asks = asks
        self._index = lasting_name(index)
        self._sessions = sessions()  # starts no database before it is used
        self._is_kept = True
        self.answers: list[Answered] = []
        """The turns so far."""
        self.session: Session | None = None
        """Where the turns are kept; None before the first."""

    def ask(self, question: str, *, on_event: Callable[[Event], None] | None = None) -> Answered:
        """The answer; it becomes a turn only by `add`. Raises what `Asks.ask` raises."""
        from tasks.rag.planning.plan import history_of

        return self._asks.ask(question, history=history_of(self.answers), on_event=on_event)

    def add(self, answered: Answered) -> None:
        """Add a turn to the conversation, and store it."""
        if self._is_kept:
            try:
                self.session = self.session or self._sessions.start(self._index)
                kept = answered.model_dump(mode="json")
                self._sessions.append(self.session.id, question=answered.question, answered=kept)
            except StorageError as error:
                self._is_kept = False
                _note(f"from here on the conversation is not kept: {error}")
        self.answers.append(answered)

    def reset(self) -> None:
        """Forget the turns; the next one begins a new session."""
        self.answers, self.session = [], None

    def resume(self, prefix: str | None) -> None:
        """Resume the session whose ID begins with `prefix`, or else the last one on this index.

        Raises StorageError; ValueError if there is none, or it is about another index.
        """
        from tasks.rag.planning.plan import recall

        found = self._sessions.get(prefix) if prefix else self._sessions.latest(self._index)
        if found is None:
            raise ValueError(f"no conversation on {self._index} has been kept yet; start without --resume")
        if found.index_path != self._index:
            raise ValueError(f"session {found.short_id} is about {found.index_path}; give that as --index to go on")
        answers, unreadable = recall([turn.answered for turn in self._sessions.turns(found.id)])
        if unreadable:
            _note(f"{unreadable} turns of another version of this program are left out")
        self.answers, self.session = [*answers], found


def converse(talk: Conversation, *, documents: int, manner: Manner) -> int:
    """Answer line after line until there is none; returns the exit code."""
    if sys.stdin.isatty() and sys.stdout.isatty() and not manner.as_json:
        _greet(talk, documents)
        with handling(signal.SIGINT, lambda _number, _frame: None):  # between answers, Ctrl-C must not end the program
            _converse_at_terminal(talk, manner)
        return DONE
    answered = True
    sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue] for bytes that are no UTF-8
    try:
        for line in takewhile(lambda line: line != QUIT, filter(None, map(str.strip, sys.stdin))):
            if not manner.as_json:  # nobody has seen it typed
                console.print(f"\n› {escape(line)}", soft_wrap=True)
            answered &= _respond(talk, line, manner)
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE if answered else DONE_WITH_FAILURES


def _converse_at_terminal(talk: Conversation, manner: Manner) -> None:
    read = line_editor()
    while (line := read()) is not None:
        try:
            with handling(signal.SIGINT, signal.default_int_handler), no_echo():
                _respond(talk, line, manner)
        except KeyboardInterrupt:
            console.print("[yellow]stopped[/yellow]; the question is not part of the conversation")


def _respond(talk: Conversation, line: str, manner: Manner) -> bool:
    """Answer a question or execute a command; False if a question got no answer."""
    if line.startswith("/"):
        _command(talk, line, manner)
        return True
    try:
        with show_draft(quiet=manner.as_json) as on_event:
            answered = talk.ask(line, on_event=on_event)
    except (ValueError, StorageError, ModelError) as error:
        if state["debug"]:
            raise
        typer.secho(f"error: {harmless(str(error))}", fg="red", err=True)
        return False
    emit(answered, manner.as_json, lambda: show_answer(answered))
    sys.stdout.flush()  # a program at the other end of a pipe waits for it
    if manner.evidence and answered.citations:  # a folder per turn: each turn numbers its citations from 1
        images = write_evidence(answered, manner.evidence / f"turn-{len(talk.answers) + 1:03d}")
        if not manner.as_json:
            show_evidence(images)
    talk.add(answered)
    if manner.speak:
        with suppress(KeyboardInterrupt):  # the turn is kept: this ends the reading only
            read_aloud(answered.answer)
    return True


def _command(talk: Conversation, line: str, manner: Manner) -> None:
    if line == "/reset":
        kept = f"; {_kept(talk.session)}" if talk.session else ""
        _note(f"forgotten; the next question begins anew{kept}")
        talk.reset()
    elif line == "/help":
        for name, meaning in COMMANDS.items():
            _note(f"{name:<10} {meaning}")
        _note(f"{'':<10} Ctrl-C stops an answer, or clears the line")
    elif line not in COMMANDS:
        _note(f"there is no command {line}; /help lists them")
    elif manner.as_json:
        _note(f"with --json, every answer contains what {line} shows")
    elif not talk.answers:
        _note("nothing has been answered yet")
    elif line == "/explain":
        explain_answer(talk.answers[-1])
    else:
        _sources(talk.answers[-1])


def _kept(session: Session) -> str:
    return f"kept as session {session.short_id}; resume it with `--resume {session.short_id}`"


def _sources(answered: Answered) -> None:
    for citation in answered.citations:
        print_line(f"[cyan]\\[{citation.n}][/cyan] {escape(cited_place(citation))}")
        if citation.place.heading_path:
            print_line(f"    {escape(' › '.join(citation.place.heading_path))}")
        if citation.bbox:
            print_line(f"    box {', '.join(f'{edge:g}' for edge in citation.bbox)}")
        print_line(f"    “{escape(citation.quote)}”")
    if not answered.citations:
        print_line("the last answer cites nothing")


def _greet(talk: Conversation, documents: int) -> None:
    console.print(f"[dim]{documents:,} documents; /help lists the commands, Ctrl-D ends[/dim]")
    if talk.session and talk.answers:
        begun = f"{talk.session.created_at:%Y-%m-%d}"
        console.print(f"[dim]session {talk.session.short_id} of {begun}, {len(talk.answers)} turns; the last:[/dim]")
        console.print(f"[bold]›[/bold] {escape(talk.answers[-1].question)}")
        show_answer(talk.answers[-1])


def _note(text: str) -> None:
    typer.secho(harmless(text), dim=True, err=True)


def line_editor() -> Callable[[], str | None]:
    """A function that reads the next non-empty line; None after Ctrl-D or /quit. Ctrl-C clears the line."""
    from prompt_toolkit import PromptSession

    editor = PromptSession[str](history=_past_lines())

    def read() -> str | None:
        while True:
            try:
                line = _valid(editor.prompt("› ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None
            if line:
                return None if line == QUIT else line

    return read


@contextmanager
def no_echo() -> Generator[None]:
    """Keep what is typed during an answer for the next line, and off the screen."""
    import termios

    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    silent = termios.tcgetattr(terminal)
    silent[3] &= ~termios.ECHO
    termios.tcsetattr(terminal, termios.TCSADRAIN, silent)
    try:
        yield
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _past_lines() -> History:
    """Lines of earlier conversations, for the arrow keys; only of this one if the home cannot be written."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    class Past(FileHistory):
        def store_string(self, string: str) -> None:
            super().store_string(_valid(string))

    path = settings().home / "chat_history"
    try:
        make_folder(path.parent)
        path.touch(mode=0o600)
    except (OSError, StorageError):
        return InMemoryHistory()
    return Past(str(path))


def _valid(text: str) -> str:
    """`text` with `?` for lone surrogates, which stand for bytes that are not UTF-8."""
    return text.encode(errors="replace").decode()
