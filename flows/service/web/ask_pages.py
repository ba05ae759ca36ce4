"""The pages to ask: a conversation with the picture of each cited place, what was planned, and labels."""

from __future__ import annotations

import csv
import hashlib
import io
import json
from collections.abc import Sequence
from contextlib import aclosing
from functools import lru_cache, partial
from pathlib import Path, PurePath
from threading import Lock
from typing import Any
from urllib.parse import quote

from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, Response

from flows.service.answering import CLIENT_GONE, Begun, Question, Refusal, Stream
from flows.service.live_index import LiveIndex
from flows.service.web import doors
from flows.service.web.answer_parts import blocks_of, escape_markdown, markdown_of, unmarked_sentences
from flows.service.web.place_page import picture_link, place_address, place_values
from flows.service.web.visits import HEADERS, ROOT, Pages, Problem, Visit
from storage import files
from storage.engines import lasting_name
from storage.sessions import Session
from storage.storage_errors import DatabaseUnavailable, StorageError
from tasks.language.number_words import CURRENCIES
from tasks.language.sentences import strip_marks
from tasks.rag.answering.assistant import Event
from tasks.rag.answers import Answered, Citation, cited_place, headline_of
from tasks.rag.numbers.concepts import score_concepts
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
MOST_EXAMPLES = 4
FOLDER = "labelled"
_writing = Lock()
pages = Pages()


def _show_answers(visit: Visit, session: Session | None, answers: Sequence[Answered], *, note: str = "") -> Response:
    """Return the page to ask, with the answers of a session; examples of questions where there are none yet."""
    cited = next((answered.citations for answered in reversed(answers) if answered.citations), ())
    documents, examples = 0, ()
    try:
        with visit.live.borrow() as current:
            documents = len(current.index.catalogue)
        examples = () if answers or visit.selected_documents else list_examples(visit.live, current.index.digest)
    except StorageError as error:
        note = note or str(error)
    return visit.page(
        "ask.html",
        session=session,
        turns=[_turn_context(visit, session, n, answered) for n, answered in enumerate(answers, start=1)],
        place=place_values(visit, cited),
        note=note,
        documents=documents,
        examples=examples,
        question=visit.query.get("question", ""),
        models=visit.live.models,
        model=visit.query.get("model", visit.form.get("model", "")),
    )


@lru_cache(maxsize=8)
def list_examples(live: LiveIndex, generation: str) -> tuple[str, ...]:
    """Return up to MOST_EXAMPLES questions for sums of money, for lines of statements or budgets in as many documents.

    generation: digest of the index, which has other examples when it changes.
    """
    del generation
    examples, labels = dict[str, str](), set[str]()
    for number in doors.numbers(live):
        label, name, period = number["line"].rpartition(" › ")[2], PurePath(number["document"]).stem, number["period"]
        is_clear = number["unit"] in CURRENCIES.values() and not number["doubt"] and score_concepts(label)
        if is_clear and name not in examples and label not in labels:
            labels.add(label)
            korean = f"{name}: {f'{period} ' if period else ''}{label}은(는) 얼마인가요?"
            english = f"What was {label}{f' in {period}' if period else ''} in {name}?"
            examples[name] = english if label.isascii() else korean
    return tuple(examples.values())[:MOST_EXAMPLES]


def conversation_of(visit: Visit, prefix: str) -> tuple[Visit, Session, Sequence[Answered]]:
    """Return a conversation's visit, session and answers. Raises UnknownSession, DatabaseUnavailable, Problem."""
    sessions = visit.workplace.asking.sessions
    session = sessions.get(prefix)
    visit = _visit_of_session(visit, session)
    return visit, session, parse_answers([turn.answered for turn in sessions.turns(session.id)]).answers


def answer_of(answers: Sequence[Answered], n: str) -> Answered:
    """Return the answer of a turn by its number in the address, from 1. Raises Problem."""
    if not (n.isdecimal() and 1 <= int(n) <= len(answers)):
        raise Problem(404, f"the conversation has no turn {n[:20]}")
    return answers[int(n) - 1]


@pages.get("/")
def show_new_conversation(visit: Visit) -> Response:
    """Show the page of a conversation without turns, in which the first question begins a new one."""
    return _show_answers(visit, None, ())


@pages.get("/conversations/{session}")
def show_conversation(visit: Visit) -> Response:
    """Show a conversation that was kept."""
    return _show_answers(*conversation_of(visit, visit.path["session"]))


def _visit_of_session(visit: Visit, session: Session) -> Visit:
    """Return the visit in the collection of the conversation. Raises Problem."""
    visit_there = visit.where(lambda collection: lasting_name(collection.live.folder) == session.index_path)
    if lasting_name(visit_there.live.folder) != session.index_path:
        raise Problem(404, f"conversation {session.short_id} is about another index; open it where that is served")
    return visit_there


def _turn_context(visit: Visit, session: Session | None, n: int, answered: Answered) -> dict[str, Any]:
    """Return the values that turn.html reads for an answer, the n-th of its conversation from 1; session: if kept."""
    blocks = blocks_of(answered)
    label = ""  # what somebody said of the answer before: right, wrong, or nothing
    if session:
        lines = read_labels(labels_file(visit.workplace.home, visit.live.folder))
        label = next((line["verdict"] for line in lines if line["id"] == f"{session.short_id}-{n}"), "")
    return {
        "n": n,
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


@pages.post("/ask")
async def answer_question(visit: Visit) -> Response:
    """Answer as a stream of events for a browser with scripts, as the page for another. Raises Problem."""
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
    question = Question(
        question=text,
        session=session.id if session else None,
        documents=visit.selected_documents or None,
        model=visit.form.get("model") or None,
    )
    if session:
        visit = _visit_of_session(visit, session)
    choice = {"documents": visit.selected_documents} | ({"model": question.model} if question.model else {})
    items = await visit.workplace.asking.items(visit.request, question, visit.live)
    if "text/event-stream" in visit.request.headers.get("Accept", ""):

        def fill(answered: Answered) -> dict[str, Any]:
            """Return the HTML of a turn and of its cited place, and the conversation's address and ID."""
            n = len(sessions.turns(session.id)) if session else 1
            place = place_values(visit, answered.citations)
            return {
                "html": visit.fill("turn.html", turn=_turn_context(visit, session, n, answered), note=note),
                "place": visit.fill("place_part.html", place=place) if place else "",
                "url": visit.to(f"/conversations/{session.id}", **choice) if session else "",
                "session": session.id if session else "",
            }

        answer = partial(run_in_threadpool, fill)
        return Stream(items, HEADERS, stage=lambda name: visit.say(STAGES.get(name, name)), answer=answer)
    async with aclosing(items):
        last = [item async for item in items if not isinstance(item, Begun | Event)]
    match last:
        case [Answered() as answered]:
            if session:
                return RedirectResponse(visit.to(f"/conversations/{session.id}", **choice), 303)
            return await run_in_threadpool(lambda: _show_answers(visit, None, [answered], note=note))
        case [Refusal(status, sentence)]:
            raise Problem(status, sentence)
        case _:
            return Response(status_code=CLIENT_GONE)


@pages.get("/conversations")
def show_conversations(visit: Visit) -> Response:
    """Show which of the last MOST_SESSIONS conversations (with the words of the query) are of an index served here."""
    names = {lasting_name(collection.live.folder): collection.name for collection in visit.workplace.collections}
    words = visit.query.get("words", "").strip()
    recent = visit.workplace.asking.sessions.recent(MOST_SESSIONS, words=words)
    return visit.page(
        "conversations.html",
        sessions=[(session, names[session.index_path]) for session in recent if session.index_path in names],
        labelled=len(read_labels(labels_file(visit.workplace.home, visit.live.folder))),
        words=words,
    )


@pages.get("/conversations/{session}/export.{shape}")
def export_conversation(visit: Visit) -> Response:
    """Download the conversation as Markdown, a question a heading, or CSV, a row an answer. Raises Problem."""
    visit, session, conversation = conversation_of(visit, visit.path["session"])
    base = str(visit.request.base_url).removesuffix("/").removesuffix(ROOT)

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
                rows.writerow(f"'{cell}" if cell.startswith(tuple("=+-@\t\r")) else cell for cell in cells)
            written, kind = table.getvalue(), "text/csv"
        case shape:
            raise Problem(404, f"a conversation comes as md and csv, no longer as {shape[:20]}; print the page as PDF")
    return download(written, f"conversation-{session.short_id}.{visit.path['shape']}", kind)


@pages.post("/label")
def save_label(visit: Visit) -> Response:
    """Keep a thumb or a correction as a labelled question, in place of an earlier one of the turn. Raises Problem."""
    visit, session, answers = conversation_of(visit, visit.form.get("session", ""))
    answered, n = answer_of(answers, visit.form.get("turn", "")), int(visit.form.get("turn", ""))
    right = visit.form.get("verdict") == "right"
    earlier = [earlier_answer.question for earlier_answer in answers[: n - 1]]
    line = {
        "id": f"{session.short_id}-{n}",
        "question": answered.question,
        "document": None,
        "kind": "labelled",
        "verdict": "right" if right else "wrong",
        **(gold_of(answered) if right else _read_correction(visit)),
        **({"turns": earlier} if earlier else {}),
    }
    keep_label(labels_file(visit.workplace.home, visit.live.folder), line)
    if visit.is_part:
        return visit.page("label.html", turn=_turn_context(visit, session, n, answered))
    return RedirectResponse(f"{ROOT}/conversations/{session.id}#turn-{n}", 303)


def gold_of(answered: Answered) -> dict[str, Any]:
    """Return what a right answer says, and its pages in the first cited document; {} if it abstains or cites none."""
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
