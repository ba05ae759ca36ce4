"""`trivet rag chat`: questions and follow-ups in the terminal, kept so that they can be gone on with."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from itertools import takewhile
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.markup import escape

from flows.cli import show_answer
from flows.cli.ask_command import (
    EvidenceOption,
    LlmOption,
    RerankOption,
    SpeakOption,
    opened,
    prepare_evidence,
    write_evidence,
)
from flows.cli.commands import Json
from flows.cli.output import DONE, DONE_WITH_FAILURES, INTERRUPTED, REFUSED, emit, fail, harmless, plain_errors, state
from flows.cli.shared_options import IndexFolder

if TYPE_CHECKING:
    from prompt_toolkit.history import History

    from flows.cli.conversing import Conversation
    from tasks.rag.answers import Answered

QUIT = "/quit"
COMMANDS = {
    "/sources": "where the last answer stands, with whole quotes",
    "/explain": "how the last answer was found: plan, filters, ranks",
    "/reset": "forget what was said; the next question begins a new session",
    "/help": "this list",
    QUIT: "end, as Ctrl-D does",
}
KEYS = "Ctrl-C stops an answer, or clears the line"


class Manner(NamedTuple):
    """How answers are given."""

    as_json: bool
    speak: bool
    evidence: Path | None


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet rag`."""
    app.command()(chat)


def chat(
    index: IndexFolder,
    session: Annotated[
        str | None, typer.Argument(metavar="ID", help="With --resume: the session, by the beginning of its id.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a session: the last one on this index, or that of ID.")
    ] = False,
    llm: LlmOption = None,
    rerank: RerankOption = None,
    evidence: EvidenceOption = None,
    speak: SpeakOption = False,
    as_json: Json = False,
) -> None:
    """Ask one question after the other, follow-ups included; from a pipe, a question is a line."""
    if session and not resume:
        fail(f"{session!r} stands there without --resume; write --resume {session} to go on with that session", REFUSED)
    from flows.cli.conversing import Conversation, kept_sessions
    from storage.storage_errors import StorageError

    with opened(index, llm=llm, rerank=rerank) as assistant:
        prepare_evidence(evidence)
        talk = Conversation(assistant, index=index, sessions=kept_sessions(), say=_note)
        if resume:
            with plain_errors(ValueError, failed=(StorageError,)):
                talk.resume(session)
        code = converse(talk, documents=len(assistant.index.catalogue), manner=Manner(as_json, speak, evidence))
    if kept := _kept(talk):
        _note(kept.removeprefix("; "))
    raise typer.Exit(code)


def converse(talk: Conversation, *, documents: int, manner: Manner) -> int:
    """Answer line after line until there is none; gives the exit code."""
    if sys.stdin.isatty() and sys.stdout.isatty() and not manner.as_json:
        _greet(talk, documents)
        with ctrl_c(nothing):  # pressed once too often, it must not end the program
            _converse_at_terminal(talk, manner)
        return DONE
    try:
        answered = [_respond(talk, _shown(line, manner), manner) for line in piped_lines()]
    except KeyboardInterrupt:
        return INTERRUPTED
    return DONE if all(answered) else DONE_WITH_FAILURES


def _shown(line: str, manner: Manner) -> str:
    """A line from a pipe, which nobody has seen typed, said before its answer."""
    if not manner.as_json:
        show_answer.console.print(f"\n› {escape(line)}", soft_wrap=True)
    return line


def _converse_at_terminal(talk: Conversation, manner: Manner) -> None:
    read = line_editor()
    while (line := read()) is not None:
        try:
            with ctrl_c(signal.default_int_handler), no_echo():
                _respond(talk, line, manner)
        except KeyboardInterrupt:
            show_answer.console.print("[yellow]stopped[/yellow]; the question is not part of the conversation")


def _respond(talk: Conversation, line: str, manner: Manner) -> bool:
    """Do what a line asks for; False when a question got no answer."""
    from models.model_errors import ModelError
    from storage.storage_errors import StorageError

    if line.startswith("/"):
        _command(talk, line, manner)
        return True
    try:
        with show_answer.live(quiet=manner.as_json) as on_event:
            answered = talk.ask(line, on_event=on_event)
    except (ValueError, StorageError, ModelError) as error:
        if state["debug"]:
            raise
        typer.secho(f"error: {harmless(str(error))}", fg="red", err=True)
        return False
    emit(answered, manner.as_json, lambda: show_answer.answer(answered))
    sys.stdout.flush()  # a program at the other end of a pipe waits for it
    _illustrate(answered, talk, manner)
    talk.add(answered)
    if manner.speak:
        from flows.cli.show_answer import say

        with suppress(KeyboardInterrupt):  # the turn is kept: this ends the reading only
            say(answered.answer)
    return True


def _command(talk: Conversation, line: str, manner: Manner) -> None:
    if line == "/reset":
        _note(f"forgotten; the next question begins anew{_kept(talk)}")
        talk.reset()
    elif line == "/help":
        _help()
    elif line not in COMMANDS:
        _note(f"there is no command {line}; /help lists them")
    elif manner.as_json:
        _note(f"with --json every answer holds what {line} shows")
    elif talk.last is None:
        _note("nothing has been answered yet")
    elif line == "/explain":
        show_answer.explain(talk.last)
    else:
        _sources(talk.last)


def _kept(talk: Conversation) -> str:
    """Where the turns so far can be gone on with."""
    if talk.session is None:
        return ""
    return f"; kept as session {talk.session.short_id}: `--resume {talk.session.short_id}` goes on with it"


def _help() -> None:
    for name, meaning in COMMANDS.items():
        _note(f"{name:<10} {meaning}")
    _note(f"{'':<10} {KEYS}")


def _sources(answered: Answered) -> None:
    """Every citation with its whole quote, for a reader who looks it up."""
    line = partial(show_answer.console.print, soft_wrap=not show_answer.console.is_terminal)  # a pipe gets lines whole
    for citation in answered.citations:
        page = f", page {citation.page}" if citation.page else ""
        line(f"[cyan]\\[{citation.n}][/cyan] {escape(citation.document + page)}")
        if citation.place.heading_path:
            line(f"    {escape(' › '.join(citation.place.heading_path))}")
        if citation.bbox:
            line(f"    box {', '.join(f'{edge:g}' for edge in citation.bbox)}")
        line(f"    “{escape(citation.quote)}”")
    if not answered.citations:
        line("the last answer cites nothing")


def _illustrate(answered: Answered, talk: Conversation, manner: Manner) -> None:
    """The cited pages as pictures, a folder per turn: each turn numbers its citations from 1."""
    if manner.evidence is None or not answered.citations:
        return
    pictures = write_evidence(answered, manner.evidence / f"turn-{talk.turns + 1:03d}")
    if not manner.as_json:
        show_answer.evidence(pictures)


def _greet(talk: Conversation, documents: int) -> None:
    line = show_answer.console.print
    line(f"[dim]{documents:,} documents; /help lists the commands, Ctrl-D ends[/dim]")
    if talk.session and talk.last:
        begun = f"{talk.session.created_at:%Y-%m-%d}"
        line(f"[dim]session {talk.session.short_id} of {begun}, {talk.turns} turns; the last:[/dim]")
        line(f"[bold]›[/bold] {escape(talk.last.question)}")
        show_answer.answer(talk.last)


def _note(text: str) -> None:
    typer.secho(harmless(text), dim=True, err=True)


def line_editor() -> Callable[[], str | None]:
    """Gives the next line that holds something; None after Ctrl-D or /quit. Ctrl-C gives up a line."""
    from prompt_toolkit import PromptSession

    editor = PromptSession[str](history=_past_lines())

    def read() -> str | None:
        while True:
            try:
                line = _whole(editor.prompt("› ")).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return None
            if line:
                return None if line == QUIT else line

    return read


@contextmanager
def ctrl_c(handler: Callable[[int, FrameType | None], object]) -> Generator[None]:
    """What Ctrl-C does meanwhile."""
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def nothing(_signal: int, _frame: FrameType | None) -> None:
    """The line editor reads Ctrl-C as a key; between lines there is nothing to stop."""


@contextmanager
def no_echo() -> Generator[None]:
    """What is typed during an answer waits for the next line, and is not written into the answer."""
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
    """Lines of earlier conversations, for the arrow keys; a home that cannot be written has none."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    from flows.running.settings import settings
    from storage import files
    from storage.storage_errors import StorageError

    class Past(FileHistory):
        def store_string(self, string: str) -> None:
            super().store_string(_whole(string))

    path = settings().home / "chat_history"
    try:
        files.make_folder(path.parent)
        path.touch(mode=0o600)
    except (OSError, StorageError):
        return InMemoryHistory()
    return Past(str(path))


def _whole(text: str) -> str:
    """`text` without the lone surrogates that stand for bytes that are no UTF-8."""
    return text.encode(errors="replace").decode()


def piped_lines() -> Iterator[str]:
    """Lines that hold something, until there is none or one says /quit."""
    # bytes that are no UTF-8 must not end the conversation
    sys.stdin.reconfigure(errors="replace")  # pyright: ignore[reportAttributeAccessIssue]
    lines = (line.strip() for line in sys.stdin)
    return takewhile(lambda line: line != QUIT, filter(None, lines))
