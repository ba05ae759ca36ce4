"""The pages to ask: a conversation with the picture of each cited place, what was planned, and labels."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from contextlib import aclosing
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from flows.service.answering import CLIENT_GONE, Begun, Question, Refusal, Stream
from flows.service.web.answer_parts import blocks_of, escape_markdown, markdown_of, unmarked_sentences
from flows.service.web.place_page import picture_link, place_address, place_values
from flows.service.web.visits import HEADERS, ROOT, Pages, Problem, Visit
from storage import files
from storage.engines import lasting_name
from storage.sessions import Session
from storage.storage_errors import DatabaseUnavailable, StorageError
from tasks.language.sentences import strip_marks
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered, Citation, cited_place, headline_of
from tasks.rag.planning.plan import parse_answers

STAGES = {
    "analyze_query": "Reading the question",
    "retrieve": "Looking it up",
    "compute": "Working out",
    "generate": "Answering",
    "rewrite": "Polishing",
}
MOST_SESSIONS = 200
MOST_CORRECTION_CHARS = 4_000
FOLDER = "labelled"
_writing = Lock()
pages = Pages()


class Turn(NamedTuple):
    """A question of a conversation as its page shows it."""

    n: int
    """Number of the turn in its conversation, from 1."""
    answered: Answered


def _conversation_page(visit: Visit, session: Session | None, turns: Sequence[Turn], *, note: str = "") -> Response:
    cited = next((turn.answered.citations[0] for turn in reversed(turns) if turn.answered.citations), None)
    place = place_values(visit, cited) if cited else None
    documents = 0
    try:
        with visit.live.borrow() as current:
            documents = len(current.index.catalogue)
    except StorageError as error:
        note = note or str(error)
    turn_values = [_turn_context(visit, session, turn) for turn in turns]
    return visit.page("ask.html", session=session, turns=turn_values, place=place, note=note, documents=documents)


def conversation_of(visit: Visit, prefix: str) -> tuple[Visit, Session, list[Turn]]:
    """Read a conversation; return the visit in its collection, the session, and its turns.

    Raises UnknownSession, DatabaseUnavailable, Problem.
    """
    sessions = visit.workplace.asking.sessions
    session = sessions.get(prefix)
    visit = _visit_of_session(visit, session)
    answers = parse_answers([turn.answered for turn in sessions.turns(session.id)]).answers
    return visit, session, [Turn(n, answered) for n, answered in enumerate(answers, start=1)]


@pages.get("/")
def show_new_conversation(visit: Visit) -> Response:
    """Show the page of a conversation without turns, in which the first question begins a new one."""
    return _conversation_page(visit, None, ())


@pages.get("/conversations/{session}")
def show_conversation(visit: Visit) -> Response:
    """Show a conversation that was kept."""
    return _conversation_page(*conversation_of(visit, visit.path["session"]))


def _visit_of_session(visit: Visit, session: Session) -> Visit:
    """Return the visit in the collection of the conversation. Raises Problem."""
    visit_there = visit.where(lambda collection: lasting_name(collection.live.folder) == session.index_path)
    if lasting_name(visit_there.live.folder) != session.index_path:
        raise Problem(404, f"conversation {session.short_id} is about another index; open it where that is served")
    return visit_there


def _turn_context(visit: Visit, session: Session | None, turn: Turn) -> dict[str, Any]:
    """Return the values of the template of a turn."""
    answered, blocks = turn.answered, blocks_of(turn.answered)
    label = ""  # what somebody said of the answer before: right, wrong, or nothing
    if session:
        lines = read_labels(labels_file(visit.workplace.home, visit.live.folder))
        label = next((line["verdict"] for line in lines if line["id"] == _line_id(session, turn.n)), "")
    return {
        "n": turn.n,
        "answered": answered,
        "headline": headline_of(answered),
        "blocks": blocks,
        "listed": [
            citation for citation in answered.citations if not any(citation in block.inputs for block in blocks)
        ],
        "unmarked": unmarked_sentences(answered),
        "places": {
            citation.n: place_address(citation.digest, citation.page, citation.bbox, citation.quote)
            for citation in answered.citations
        },
        "why": {
            citation.n: visit.to("/why", chunk=origin)
            for citation in answered.citations
            if (origin := citation.cell or citation.chunk_id)
        },
        "where": {citation.n: cited_place(citation, language=visit.language) for citation in answered.citations},
        "session": session,
        "documents": list(dict.fromkeys(passage.document for passage in (*answered.citations, *answered.retrieved))),
        "label": label,
    }


def _line_id(session: Session, n: int) -> str:
    return f"{session.short_id}-{n}"


@pages.post("/ask")
async def answer_question(visit: Visit) -> Response:
    """Answer; a browser with scripts gets a stream of events, another one the page."""
    text = visit.form.get("question", "")
    if not text.strip():
        raise Problem(422, "the question is empty; ask with at least one word")
    sessions, note = visit.workplace.asking.sessions, ""
    if session_id := visit.form.get("session"):
        session = await run_in_threadpool(sessions.get, session_id)
    else:
        try:
            session = await run_in_threadpool(sessions.start, lasting_name(visit.live.folder))
        except DatabaseUnavailable as error:
            session, note = None, f"this conversation is not kept: {error}"
    question = Question(question=text, session=session.id if session else None)
    if session:
        visit = _visit_of_session(visit, session)
    items = await visit.workplace.asking.items(visit.request, question, visit.live)
    if "text/event-stream" in visit.request.headers.get("Accept", ""):

        def fill(answered: Answered) -> dict[str, Any]:
            turn = Turn(len(sessions.turns(session.id)) if session else 1, answered)
            place = place_values(visit, answered.citations[0]) if answered.citations else None
            return {
                "html": visit.fill("turn.html", turn=_turn_context(visit, session, turn), note=note),
                "place": visit.fill("place_part.html", place=place) if place else "",
                "url": f"{ROOT}/conversations/{session.id}" if session else "",
                "session": session.id if session else "",
            }

        answer = partial(run_in_threadpool, fill)
        return Stream(items, HEADERS, stage=lambda name: visit.say(STAGES.get(name, name)), answer=answer)
    async with aclosing(items):
        last = [item async for item in items if not isinstance(item, Begun | Event)]
    match last:
        case [Answered() as answered]:
            if session:
                return RedirectResponse(f"{ROOT}/conversations/{session.id}", 303)
            return await run_in_threadpool(lambda: _conversation_page(visit, None, [Turn(1, answered)], note=note))
        case [Refusal(status, sentence)]:
            raise Problem(status, sentence)
        case _:
            return Response(status_code=CLIENT_GONE)


@pages.get("/conversations")
def show_conversations(visit: Visit) -> Response:
    """Show the conversations about the collections of this server, last used first."""
    names = {lasting_name(collection.live.folder): collection.name for collection in visit.workplace.collections}
    recent = visit.workplace.asking.sessions.recent(MOST_SESSIONS)
    labels = read_labels(labels_file(visit.workplace.home, visit.live.folder))
    return visit.page(
        "conversations.html",
        sessions=[(session, names[session.index_path]) for session in recent if session.index_path in names],
        labelled=len(labels),
    )


@pages.get("/conversations/{session}/export.{shape}")
def export_conversation(visit: Visit) -> Response:
    """Download the conversation as Markdown, a question a heading, or as CSV, a row for each answer."""
    visit, session, turns = conversation_of(visit, visit.path["session"])
    base = str(visit.request.base_url).removesuffix("/").removesuffix(ROOT)
    conversation = [turn.answered for turn in turns]

    def link(citation: Citation) -> str | None:
        path = picture_link(visit.workplace.keys, citation)
        return path and base + path

    match visit.path["shape"]:
        case "md":
            sections = (
                f"## {escape_markdown(' '.join(answered.question.split()))}\n\n{markdown_of(answered, link=link)}"
                for answered in conversation
            )
            written, kind = "\n".join(sections), "text/markdown"
        case "csv":
            table = io.StringIO()
            rows = csv.writer(table)
            rows.writerow(("question", "answer", "sources", "unsupported"))
            for answered in conversation:
                sources = "\n".join(f"[{cited.n}] {cited_place(cited)}" for cited in answered.citations)
                cells = (answered.question, answered.answer, sources, "\n".join(answered.unsupported))
                # a cell that a sheet would compute begins with ' (OWASP, CSV injection)
                rows.writerow(f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell for cell in cells)
            written, kind = table.getvalue(), "text/csv"
        case shape:
            raise Problem(404, f"a conversation comes as md and csv, no longer as {shape[:20]}; print the page as PDF")
    return download(written, f"conversation-{session.short_id}.{visit.path['shape']}", kind)


@pages.post("/label")
def save_label(visit: Visit) -> Response:
    """Keep a thumb or a correction as a labelled question."""
    visit, session, turns = conversation_of(visit, visit.form.get("session", ""))
    n = visit.form.get("turn", "")
    if not (n.isdecimal() and 1 <= int(n) <= len(turns)):
        raise Problem(404, f"the conversation has no turn {n[:20]}")
    right = visit.form.get("verdict") == "right"
    earlier = [turn.answered.question for turn in turns[: int(n) - 1]]
    line = {
        "id": _line_id(session, int(n)),
        "question": turns[int(n) - 1].answered.question,
        "document": None,
        "kind": "labelled",
        "verdict": "right" if right else "wrong",
        **(gold_of(turns[int(n) - 1].answered) if right else _read_correction(visit)),
        **({"turns": earlier} if earlier else {}),
    }
    keep_label(labels_file(visit.workplace.home, visit.live.folder), line)
    if visit.is_part:
        return visit.page("label.html", turn=_turn_context(visit, session, turns[int(n) - 1]))
    return RedirectResponse(f"{ROOT}/conversations/{session.id}#turn-{n}", 303)


def gold_of(answered: Answered) -> dict[str, Any]:
    """Return what a right answer says, and its pages; nothing where the documents do not tell."""
    if answered.abstained or not answered.citations:
        return {}
    document = answered.citations[0].document
    pages = sorted(
        {citation.page for citation in answered.citations if citation.document == document and citation.page}
    )
    return {"document": document, "pages": pages, "answer": strip_marks(answered.answer)}


def _read_correction(visit: Visit) -> dict[str, Any]:
    """Return what is right in place of the answer; nothing where no document tells. Raises Problem."""
    answer, document, page = (visit.form.get(name, "").strip() for name in ("answer", "document", "page"))
    if not document:
        return {}
    if not answer or len(answer) > MOST_CORRECTION_CHARS:
        raise Problem(422, f"say what is right, in 1 to {MOST_CORRECTION_CHARS:,} characters")
    if page and not (page.isdecimal() and int(page) > 0):
        raise Problem(422, f"{page[:20]} is no page; pages count from 1")
    return {"document": document, "pages": [int(page)] if page else [], "answer": answer}


@pages.get("/labelled.jsonl")
def download_labels(visit: Visit) -> Response:
    """Download the labelled questions, as `trivet rag eval` takes them."""
    file = labels_file(visit.workplace.home, visit.live.folder)
    return download(file.read_text("utf-8") if file.exists() else "", "labelled.jsonl", "application/jsonl")


def labels_file(home: Path, index: Path) -> Path:
    """Return the file of the labelled questions of an index."""
    path = str(index.resolve())
    return home / FOLDER / f"{index.resolve().name}-{hashlib.sha256(path.encode()).hexdigest()[:8]}.jsonl"


def keep_label(path: Path, line: dict[str, Any]) -> None:
    """Add a line, or replace the one of the same id. Raises StoreUnreachable."""
    with _writing:
        labels = {label["id"]: label for label in read_labels(path)} | {line["id"]: line}
        files.make_folder(path.parent)
        written = "".join(json.dumps(label, ensure_ascii=False) + "\n" for label in labels.values())
        files.write(path, written.encode("utf-8", "replace"))


def read_labels(path: Path) -> list[dict[str, Any]]:
    """Read the labelled questions of a file; none where there is no file."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]  # U+2028 ends no line


def download(content: str | bytes, name: str, kind: str) -> Response:
    """Respond with a file that the browser saves under `name`."""
    disposition = f"attachment; filename*=UTF-8''{quote(name)}"
    return Response(
        content, media_type=f"{kind}; charset=utf-8", headers=HEADERS | {"Content-Disposition": disposition}
    )
