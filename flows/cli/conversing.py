"""A conversation of the terminal: each question sees the turns before it, and each answered one is kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tasks.rag.planning.plan import history_of, recall

if TYPE_CHECKING:
    from storage.sessions import Session, Sessions
    from tasks.rag.answering.assistant import Asks, Event
    from tasks.rag.answers import Answered


def kept_sessions() -> Sessions:
    """The sessions of this installation; no database is started before they are used."""
    from tasks.resources import sessions

    return sessions()


class Conversation:
    """Questions one after the other on one index.

    sessions: None keeps nothing. say: gets a sentence about what is not as it should be.
    """

    def __init__(self, asks: Asks, *, index: Path, sessions: Sessions | None, say: Callable[[str], None]) -> None:
        self._asks = asks
        self._index = str(index.resolve())
        self._sessions = sessions
        self._say = say
        self._answers: list[Answered] = []
        self.session: Session | None = None
        """Where the turns are kept; None before the first."""

    @property
    def last(self) -> Answered | None:
        """The latest answer."""
        return self._answers[-1] if self._answers else None

    @property
    def turns(self) -> int:
        """Answers since the conversation began."""
        return len(self._answers)

    def ask(self, question: str, *, on_event: Callable[[Event], None] | None = None) -> Answered:
        """The answer; it is no turn before `add`. Raises what `Asks.ask` raises."""
        return self._asks.ask(question, history=history_of(self._answers), on_event=on_event)

    def add(self, answered: Answered) -> None:
        """Make it a turn of the conversation, and keep it."""
        from storage.storage_errors import StorageError

        if self._sessions:
            try:
                self.session = self.session or self._sessions.start(self._index)
                kept = answered.model_dump(mode="json")
                self._sessions.append(self.session.id, question=answered.question, answered=kept)
            except StorageError as error:
                self._sessions = None
                self._say(f"from here on the conversation is not kept: {error}")
        self._answers.append(answered)

    def reset(self) -> None:
        """Forget the turns; the next one begins a session of its own, and the present one stays as it is."""
        self._answers, self.session = [], None

    def resume(self, prefix: str | None) -> Session:
        """Go on with the session whose id begins so, or with the last one on this index.

        Raises StorageError; ValueError when there is none, or it is about another index.
        """
        if self._sessions is None:
            raise ValueError("sessions are not kept here; start without --resume")
        found = self._sessions.get(prefix) if prefix else self._sessions.latest(self._index)
        if found is None:
            raise ValueError(f"no conversation on {self._index} has been kept yet; start without --resume")
        if found.index_path != self._index:
            raise ValueError(f"session {found.short_id} is about {found.index_path}; give that as --index to go on")
        answers, unreadable = recall([turn.answered for turn in self._sessions.turns(found.id)])
        if unreadable:
            self._say(f"{unreadable} turns of another version of this program are left out")
        self._answers, self.session = [*answers], found
        return found
