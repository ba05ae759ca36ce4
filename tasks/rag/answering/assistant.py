"""Answers questions from one open index; `ask` may be called from several threads at once."""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from models.protocols import Embedder, Reranker
from storage.index import Index, open_index
from tasks import resources
from tasks.rag.answering.graph import Desk, Event, State, answer_graph, confidence_threshold, list_retrieved
from tasks.rag.answering.wiring import WITHOUT_MODEL, Models, Wiring, open_wiring
from tasks.rag.answers import Answered, AnswerSettings, Citation, Turn, page_source_of
from tasks.rag.planning.plan import MOST_TURNS
from tasks.rag.planning.routing import Router, open_router

MOST_QUESTION_CHARS = 8_000
"""Most characters of a question, with blanks or, as in Chinese and Japanese, without; a longer one is refused."""


class Answering(Protocol):
    """Protocol of an assistant, as the terminal, the server and the flow call it."""

    def ask(
        self,
        question: str,
        *,
        history: Sequence[Turn] = (),
        documents: Mapping[str, str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered:
        """Answer a question, with its evidence.

        documents: the documents to search by digest, with the name to cite each by; None for those that the plan's
        filters leave. on_event: called with the progress; drafts come from the thread in which a model answers. Raises
        ValueError for a question that is empty or too long, and IndexUnusable. A model that cannot be reached, or
        refuses the question, is a note; the answer is then made of the documents' own sentences.
        """
        ...


class Assistant:
    """An assistant that answers questions over one index with one set of models."""

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
        """Make an assistant; router: that of the index where it is open already."""
        self.index = index
        settings = settings or AnswerSettings()
        self.desk = Desk(
            index=index,
            router=router or Router(index.catalogue),
            wiring=wiring,
            settings=settings,
            least_confidence=confidence_threshold(settings),
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
        documents: Mapping[str, str] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answered:
        """Answer a question, as `Answering.ask` describes. Raises ValueError for one without words or too long."""
        # one line of NFC; a shell hands over bytes that are not UTF-8 as lone surrogates
        cleaned = " ".join(unicodedata.normalize("NFC", question).encode(errors="replace").decode().split())
        if not any(sign.isalnum() for sign in cleaned):
            raise ValueError("the question is empty; ask with at least one word")
        if len(cleaned) > MOST_QUESTION_CHARS:
            raise ValueError(f"the question has {len(cleaned):,} characters; ask in at most {MOST_QUESTION_CHARS:,}")
        desk = replace(self.desk, on_event=on_event) if on_event else self.desk
        started = desk.clock()
        start = {"question": cleaned, "history": tuple(history)[-MOST_TURNS:], "documents": documents}
        state: State = answer_graph().invoke(start, context=desk)
        draft = state["draft"]
        value = None if draft.abstained else draft.value
        return Answered(
            question=cleaned,
            answer=draft.text,
            short=None if draft.abstained else draft.short,
            value=value and value.exact,
            unit=value.unit if value else "",
            scale=value.scale if value else "",
            display=value.display if value else "",
            citations=tuple(self._name_source(citation, documents or {}) for citation in draft.citations),
            unsupported=draft.unsupported,
            abstained=draft.abstained,
            plan=state["plan"],
            retrieved=list_retrieved(state),
            index_digest=self.index.digest,
            reason=draft.reason,
            confidence=draft.confidence,
            notes=tuple(dict.fromkeys((*state.get("notes", ()), *draft.notes))),
            calls=state.get("calls", ()),
            model_away=state.get("model_away", False),
            model_refused=state.get("model_refused", False),
            timings={**state["timings"], "total": round(desk.clock() - started, 6)},
        )

    def _name_source(self, citation: Citation, named: Mapping[str, str]) -> Citation:
        """Return a citation with what its page counts and the name asked for; unchanged for an unknown document."""
        entry = self.index.entry(citation.digest)
        if entry is None:
            return citation
        name = named.get(citation.digest, citation.document)
        others = tuple(other for other in (entry.name, *entry.aliases) if other != name)
        source = page_source_of(entry, citation.page)
        return citation.model_copy(update={"document": name, "aliases": others, "page_source": source})


@contextmanager
def open_assistant(
    index: Path, *, models: Models, patient: bool, reranker: str | None = None, answers: AnswerSettings | None = None
) -> Generator[Assistant]:
    """Open an assistant over the current index version.

    patient: whether an unavailable model is retried for long. Raises StorageError, ModelUnavailable.
    """
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
