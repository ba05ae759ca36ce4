"""The pages to ask: a conversation with the picture of each cited place, what was planned, and labels."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from flows.service.answering import CLIENT_GONE, Begun, Item, Question, Refusal, Stream, change, event
from flows.service.served_collections import Collection
from flows.service.web.answer_parts import blocks_of, markdown_of, unmarked
from flows.service.web.page_pictures import address_of
from flows.service.web.place_page import place_values
from flows.service.web.rendering import HEADERS
from flows.service.web.visits import ROOT, Page, Problem, Visit
from storage import files
from storage.engines import lasting_name
from storage.sessions import Session
from storage.storage_errors import DatabaseUnavailable, StorageError
from tasks.language.sentences import without_marks
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered, Citation, cited_place
from tasks.rag.planning.plan import recall

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


class Turn(NamedTuple):
    """A question of a conversation as its page shows it."""

    n: int
    """From 1."""
    answered: Answered


def _talk(visit: Visit, session: Session | None, turns: Sequence[Turn], *, note: str = "") -> Response:
    cited = next((turn.answered.citations[0] for turn in reversed(turns) if turn.answered.citations), None)
    shown = place_values(visit, cited) if cited else None
    documents, unusable = _documents(visit)
    told = [_told(visit, session, turn) for turn in turns]
    return visit.page("ask.html", session=session, turns=told, place=shown, note=note or unusable, documents=documents)


def _documents(visit: Visit) -> tuple[int, str]:
    """How many documents are asked, and why none can be; empty if they can."""
    try:
        with visit.live.borrow() as current:
            return len(current.index.catalogue), ""
    except StorageError as error:
        return 0, str(error)


def conversation_of(visit: Visit, prefix: str) -> tuple[Visit, Session, list[Turn]]:
    """A conversation, and the visit in its collection. Raises UnknownSession, DatabaseUnavailable, Problem."""
    sessions = visit.workplace.asking.sessions
    session = sessions.get(prefix)
    visit = _about(visit, session)
    kept = recall([turn.answered for turn in sessions.turns(session.id)]).answers
    return visit, session, [Turn(n, answered) for n, answered in enumerate(kept, start=1)]


def _about(visit: Visit, session: Session) -> Visit:
    """The visit in the collection of the conversation. Raises Problem."""
    there = visit.where(lambda one: _kept_as(one) == session.index_path)
    if _kept_as(there.collection) != session.index_path:
        raise Problem(404, f"conversation {session.short_id} is about another index; open it where that is served")
    return there


def _kept_as(collection: Collection) -> str:
    """By which conversations know an index."""
    return lasting_name(collection.live.folder)


def _told(visit: Visit, session: Session | None, turn: Turn) -> dict[str, Any]:
    """What the template of a turn needs."""
    answered, blocks = turn.answered, blocks_of(turn.answered)
    return {
        "n": turn.n,
        "answered": answered,
        "blocks": blocks,
        "listed": [one for one in answered.citations if not any(one in block.inputs for block in blocks)],
        "unmarked": unmarked(answered),
        "places": {one.n: f"{ROOT}/place?{_of_place(one)}" for one in answered.citations},
        "why": {
            one.n: visit.to("/why", chunk=origin) for one in answered.citations if (origin := one.cell or one.chunk_id)
        },
        "where": {one.n: cited_place(one, language=visit.language) for one in answered.citations},
        "session": session,
        "documents": list(
            dict.fromkeys(
                [*(one.document for one in answered.citations), *(one.document for one in answered.retrieved)]
            )
        ),
        "label": _label(visit, session, turn.n),
    }


def _of_place(citation: Citation) -> str:
    box = ",".join(f"{edge:.2f}" for edge in citation.bbox or ())
    return urlencode({"document": citation.digest, "page": citation.page or "", "box": box, "quote": citation.quote})


def _label(visit: Visit, session: Session | None, n: int) -> str:
    """What somebody said of the answer before: right, wrong, or nothing."""
    if session is None:
        return ""
    lines = read_labels(labels_file(visit.workplace.home, visit.live.folder))
    return next((line["verdict"] for line in lines if line["id"] == _line_id(session, n)), "")


def _line_id(session: Session, n: int) -> str:
    return f"{session.short_id}-{n}"


async def _ask(visit: Visit) -> Response:
    """Answer; a browser with scripts gets a stream of events, another one the page."""
    said = visit.form.get("question", "")
    if not said.strip():
        raise Problem(422, "the question is empty; ask with at least one word")
    session, note = await run_in_threadpool(_session, visit)
    asked = Question(question=said, session=session.id if session else None)
    if session:
        visit = _about(visit, session)
    items = await visit.workplace.asking.items(visit.request, asked, visit.live)
    if "text/event-stream" in visit.request.headers.get("Accept", ""):
        return Stream(items, HEADERS, lambda these: _events(visit, session, note, these))
    async with aclosing(items):
        last = [item async for item in items if not isinstance(item, Begun | Event)]
    match last:
        case [Answered() as answered]:
            if session:
                return RedirectResponse(f"{ROOT}/conversations/{session.id}", 303)
            return await run_in_threadpool(lambda: _talk(visit, None, [Turn(1, answered)], note=note))
        case [Refusal(status, sentence)]:
            raise Problem(status, sentence)
        case _:
            return Response(status_code=CLIENT_GONE)


def _session(visit: Visit) -> tuple[Session | None, str]:
    """The session of the form, or a new one; None with a note while the database is away."""
    sessions = visit.workplace.asking.sessions
    if named := visit.form.get("session"):
        return sessions.get(named), ""
    try:
        return sessions.start(_kept_as(visit.collection)), ""
    except DatabaseUnavailable as error:
        return None, f"this conversation is not kept: {error}"


async def _events(visit: Visit, session: Session | None, note: str, items: AsyncGenerator[Item]) -> AsyncGenerator[str]:
    """Stages and drafts as text; the answer as HTML that the server wrote."""
    draft = ""
    async with aclosing(items):
        async for item in items:
            match item:
                case Begun():
                    pass
                case Event("stage", name):
                    yield event("stage", {"name": visit.say(STAGES.get(name, name))})
                case Event(_, text):
                    yield event("draft", change(draft, text))
                    draft = text
                case Answered():
                    yield event("answer", await run_in_threadpool(_answer, visit, session, note, item))
                case Refusal(_, sentence):
                    yield event("error", {"error": sentence})


def _answer(visit: Visit, session: Session | None, note: str, answered: Answered) -> dict[str, Any]:
    n = len(visit.workplace.asking.sessions.turns(session.id)) if session else 1
    place = place_values(visit, answered.citations[0]) if answered.citations else None
    return {
        "html": visit.fill("turn.html", turn=_told(visit, session, Turn(n, answered)), note=note),
        "place": visit.fill("place_part.html", place=place) if place else "",
        "url": f"{ROOT}/conversations/{session.id}" if session else "",
        "session": session.id if session else "",
    }


def _conversations(visit: Visit) -> Response:
    """Those of all collections."""
    named = {_kept_as(one): one.name for one in visit.workplace.collections}
    recent = visit.workplace.asking.sessions.recent(MOST_SESSIONS)
    kept = read_labels(labels_file(visit.workplace.home, visit.live.folder))
    return visit.page(
        "conversations.html",
        sessions=[(one, named[one.index_path]) for one in recent if one.index_path in named],
        labelled=len(kept),
    )


def _export(visit: Visit) -> Response:
    """The conversation as Markdown, a question a heading, or as CSV, a row for each answer."""
    visit, session, turns = conversation_of(visit, visit.path["session"])
    base = str(visit.request.base_url).removesuffix("/").removesuffix(ROOT)
    conversation = [turn.answered for turn in turns]

    def link(citation: Citation) -> str | None:
        path = address_of(visit.workplace.keys, citation)
        return path and base + path

    match visit.path["shape"]:
        case "md":
            turned = (f"## {' '.join(one.question.split())}\n\n{markdown_of(one, link=link)}" for one in conversation)
            written, kind = "\n".join(turned), "text/markdown"
        case "csv":
            written, kind = _csv(conversation), "text/csv"
        case shape:
            raise Problem(404, f"a conversation comes as md and csv, no longer as {shape[:20]}; print the page as PDF")
    return download(written, f"conversation-{session.short_id}.{visit.path['shape']}", kind)


def _csv(conversation: Sequence[Answered]) -> str:
    """Question, answer, its sources and what nothing supports; a cell that a sheet would compute begins with '."""
    table = io.StringIO()
    rows = csv.writer(table)
    rows.writerow(("question", "answer", "sources", "unsupported"))
    for one in conversation:
        sources = "\n".join(f"[{cited.n}] {cited_place(cited)}" for cited in one.citations)
        cells = (one.question, one.answer, sources, "\n".join(one.unsupported))
        rows.writerow(f"'{cell}" if cell.startswith(("=", "+", "-", "@")) else cell for cell in cells)
    return table.getvalue()


def _save_label(visit: Visit) -> Response:
    """Keep a thumb or a correction as a labelled question."""
    visit, session, turns = conversation_of(visit, visit.form.get("session", ""))
    n = visit.form.get("turn", "")
    if not (n.isdecimal() and 1 <= int(n) <= len(turns)):
        raise Problem(404, f"the conversation has no turn {n[:20]}")
    answers = [turn.answered for turn in turns[: int(n)]]
    line_id = _line_id(session, int(n))
    if visit.form.get("verdict") == "right":
        line = label_right(line_id, answers)
    else:
        line = label_corrected(line_id, answers, **_correction(visit))
    keep_label(labels_file(visit.workplace.home, visit.live.folder), line)
    if visit.is_part:
        return visit.page("label.html", turn=_told(visit, session, turns[int(n) - 1]))
    return RedirectResponse(f"{ROOT}/conversations/{session.id}#turn-{n}", 303)


def _correction(visit: Visit) -> dict[str, Any]:
    answer, document, page = (visit.form.get(name, "").strip() for name in ("answer", "document", "page"))
    if not document:
        return {"answer": "", "document": None, "page": None}
    if not answer or len(answer) > MOST_CORRECTION_CHARS:
        raise Problem(422, f"say what is right, in 1 to {MOST_CORRECTION_CHARS:,} characters")
    if page and not (page.isdecimal() and int(page) > 0):
        raise Problem(422, f"{page[:20]} is no page; pages count from 1")
    return {"answer": answer, "document": document, "page": int(page) if page else None}


def _labelled(visit: Visit) -> Response:
    file = labels_file(visit.workplace.home, visit.live.folder)
    return download(file.read_text("utf-8") if file.exists() else "", "labelled.jsonl", "application/jsonl")


def labels_file(home: Path, index: Path) -> Path:
    """The file of an index."""
    whole = str(index.resolve())
    return home / FOLDER / f"{index.resolve().name}-{hashlib.sha256(whole.encode()).hexdigest()[:8]}.jsonl"


def label_right(line_id: str, turns: Sequence[Answered]) -> dict[str, Any]:
    """The last answer is right: its text and its pages are gold, or the documents do not tell."""
    last = turns[-1]
    if last.abstained or not last.citations:
        return _label_line(line_id, turns, verdict="right")
    first = last.citations[0].document
    pages = sorted({one.page for one in last.citations if one.document == first and one.page})
    answer = without_marks(last.answer)
    return _label_line(line_id, turns, verdict="right", document=first, pages=pages, answer=answer)


def label_corrected(
    line_id: str, turns: Sequence[Answered], *, answer: str, document: str | None, page: int | None
) -> Any:
    """The last answer is wrong, and this is right; document: None where no document tells."""
    if document is None:
        return _label_line(line_id, turns, verdict="wrong")
    return _label_line(line_id, turns, verdict="wrong", document=document, pages=[page] if page else [], answer=answer)


def _label_line(line_id: str, turns: Sequence[Answered], **told: Any) -> dict[str, Any]:
    earlier = [one.question for one in turns[:-1]]
    line = {"id": line_id, "question": turns[-1].question, "document": None, "kind": "labelled", **told}
    return line | ({"turns": earlier} if earlier else {})


def keep_label(path: Path, line: dict[str, Any]) -> None:
    """Add a line, or replace the one of the same id. Raises StoreUnreachable."""
    with _writing:
        kept = {one["id"]: one for one in read_labels(path)} | {line["id"]: line}
        files.make_folder(path.parent)
        written = "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in kept.values())
        files.write(path, written.encode("utf-8", "replace"))


def read_labels(path: Path) -> list[dict[str, Any]]:
    """The lines that were kept."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text("utf-8").split("\n") if line]


def download(content: str | bytes, name: str, kind: str) -> Response:
    """A file that the browser keeps."""
    disposition = f"attachment; filename*=UTF-8''{quote(name)}"
    return Response(
        content, media_type=f"{kind}; charset=utf-8", headers=HEADERS | {"Content-Disposition": disposition}
    )


PAGES = (
    Page("GET", "/", lambda visit: _talk(visit, None, ())),
    Page("POST", "/ask", _ask),
    Page("GET", "/conversations", _conversations),
    Page("GET", "/conversations/{session}", lambda visit: _talk(*conversation_of(visit, visit.path["session"]))),
    Page("GET", "/conversations/{session}/export.{shape}", _export),
    Page("POST", "/label", _save_label),
    Page("GET", "/labelled.jsonl", _labelled),
)
