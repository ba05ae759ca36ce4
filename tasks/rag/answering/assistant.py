"""Answers questions from one open index; calls may run concurrently."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from models.protocols import Embedder, Reranker
from storage.index import Index, open_index
from tasks import resources
from tasks.rag.answering.graph import Desk, Event, State, answer_graph, retrieved, threshold
from tasks.rag.answering.wiring import WITHOUT_MODEL, Models, Wiring, open_wiring
from tasks.rag.answers import Answered, AnswerSettings, Turn, page_source_of
from tasks.rag.planning.plan import MOST_TURNS
from tasks.rag.planning.routing import Router, open_router

MOST_QUESTION_CHARS = 8_000


class Answering(Protocol):
    """Interface of the terminal, the server and the flow to an assistant."""

    def ask(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        documents: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered:
        """The answer with its evidence.

        documents: digests to look in; None is all that the plan's filters leave.
        on_event: called as it goes; drafts come from the thread that a model answers in.
        Raises ValueError for a question that is empty or too long, IndexUnusable; a model that is away, or refuses the
        question, is a note, and the answer then is made of the documents' own sentences.
        """
        ...


class Assistant:
    """Answers questions by the graph, over one index with one wiring."""

    def __init__(
        self,
        index: Index,
        *,
        embedder: Callable[[], Embedder],
        wiring: Wiring = WITHOUT_MODEL,
        reranker: Reranker | None = None,
        settings: AnswerSettings | None = None,
        clock: Callable[[], float] = time.perf_counter,
        router: Router | None = None,
    ) -> None:
        """router: of this index, where it is open already."""
        self.index = index
        settings = settings or AnswerSettings()
        self._desk = Desk(
            index=index,
            router=router or Router(index.catalogue),
            wiring=wiring,
            settings=settings,
            least_confidence=threshold(settings),
            embedder=embedder,
            reranker=reranker,
            clock=clock,
            on_event=lambda _: None,
        )

    def ask(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        documents: Collection[str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered:
        """As `Asks.ask`."""
        # one line of NFC; a shell hands over bytes that are not UTF-8 as lone surrogates
        asked = " ".join(unicodedata.normalize("NFC", question).encode(errors="replace").decode().split())
        if not any(sign.isalnum() for sign in asked):
            raise ValueError("the question is empty; ask with at least one word")
        if len(asked) > MOST_QUESTION_CHARS:
            raise ValueError(f"the question has {len(asked):,} characters; ask in at most {MOST_QUESTION_CHARS:,}")
        desk = replace(self._desk, on_event=on_event) if on_event else self._desk
        started = desk.clock()
        given = {"question": asked, "history": tuple(history)[-MOST_TURNS:], "documents": documents}
        done: State = answer_graph().invoke(given, context=desk)
        draft = done["draft"]
        return Answered(
            question=asked,
            answer=draft.text,
            citations=tuple(
                one.model_copy(update={"page_source": page_source_of(entry) if entry else one.page_source})
                for one in draft.citations
                for entry in [self.index.entry(one.digest)]
            ),
            unsupported=draft.unsupported,
            abstained=draft.abstained,
            plan=done["plan"],
            retrieved=retrieved(done),
            index_digest=self.index.digest,
            reason=draft.reason,
            confidence=draft.confidence,
            notes=tuple(dict.fromkeys((*done.get("notes", ()), *draft.notes))),
            calls=done.get("calls", ()),
            model_away=done.get("model_away", False),
            model_refused=done.get("model_refused", False),
            timings={**done["timings"], "total": round(desk.clock() - started, 6)},
        )


@contextmanager
def open_assistant(
    index: Path, *, models: Models, patient: bool, reranker: str | None = None, answers: AnswerSettings | None = None
) -> Generator[Assistant]:
    """An assistant over the current generation. Raises StorageError, models.model_errors.ModelUnavailable."""
    with open_index(index) as opened:
        embedder = str(opened.manifest.settings["embedder"])
        yield Assistant(
            opened,
            embedder=lambda: resources.embedder(embedder),
            wiring=open_wiring(models, patient=patient),
            reranker=resources.reranker(reranker) if reranker else None,
            settings=answers,
            router=open_router(opened),
        )
