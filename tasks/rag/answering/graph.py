"""The graph that answers every question: analyze_query ─► retrieve ─► compute ─► generate ─► rewrite.

Without a model the words of the question decide its type, and the answer is made of the documents' own sentences.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

from models.model_errors import ModelError, NoChatTemplate, RequestRefused
from tasks.grading.cited_answers import has_same_evidence
from tasks.language.sentences import language_of
from tasks.measure.estimates import least_confidence
from tasks.rag.answering.answer_prompts import (
    MOST_CONTEXT_TOKENS,
    Context,
    answer_request,
    classify_request,
    pack_context,
    rewrite_request,
)
from tasks.rag.answering.cell_figures import compute_from_cells
from tasks.rag.answering.cell_lookup import look_up_cell
from tasks.rag.answering.citations import MOST_QUOTE_CHARS, cite, cited_hits, is_supported, make_citation
from tasks.rag.answering.computing import compute_answer, withhold_uncomputed
from tasks.rag.answering.extractive import Group, extract_answer, point_to
from tasks.rag.answering.notice_answers import answer_from_facts
from tasks.rag.answering.question_reading import asks_to_explain
from tasks.rag.answering.weighing import Way, choose_draft, weigh_drafts
from tasks.rag.answering.wiring import Wiring
from tasks.rag.answers import (
    AnswerSettings,
    Calibration,
    Citation,
    Draft,
    Filters,
    ModelCall,
    QueryType,
    RetrievalPlan,
    Retrieved,
    Turn,
    join_short,
)
from tasks.rag.numbers.computation_reading import asks_to_work_out, writes_formula
from tasks.rag.numbers.line_lookup import select_numbers
from tasks.rag.planning import plan as planning
from tasks.rag.planning.names import stem_of
from tasks.rag.reading.reader import Reading, is_of_labels, open_pages, read_answer, show_cells, work_out_reply
from tasks.rag.reading.scorers import Expected, Reader, load_reader
from tasks.rag.retrieval.search import Hit, SearchResult, alternate, retrieve

if TYPE_CHECKING:
    from models.protocols import Embedder, Reranker
    from storage.index import Index
    from tasks.rag.planning.routing import Router

_MARK = re.compile(r"\[(\d+)\]")


class Event(NamedTuple):
    """Progress of an answer, as the terminal and the server show it."""

    kind: Literal["stage", "draft"]
    text: str
    """The name of the node that begins, or all of the draft so far: a later event may hold another, shorter draft."""


@dataclass(frozen=True)
class Desk:
    """The index, models and settings that a question is answered with."""

    index: Index
    router: Router
    wiring: Wiring
    settings: AnswerSettings
    least_confidence: float
    """Confidence below which an answer without a model is withheld."""
    embedder: Callable[[], Embedder]
    reranker: Reranker | None
    clock: Callable[[], float]
    on_event: Callable[[Event], None]
    reader: Reader | None = None
    """The reader of cells and sentences; None: that of the package."""


class Part(NamedTuple):
    """A part of a question, looked up and answered separately."""

    question: str
    plan: RetrievalPlan
    hits: tuple[Hit, ...] = ()
    drafts: Mapping[Way, Draft] = MappingProxyType({})
    """What each way answers without a model, with the confidence that it has beside the others."""
    readings: tuple[Reading, ...] = ()
    """The documents that were found, as the reader reads them."""
    expected: Expected = Expected()
    """What the reader expects to be asked for; all zero where nothing was read."""


class State(TypedDict):
    """State of the graph; a key exists once its node has added it."""

    question: str
    history: Sequence[Turn]
    documents: Collection[str] | None
    """Digests of the documents that the caller limits the search to; None for all."""
    plan: RetrievalPlan
    parts: tuple[Part, ...]
    search_result: SearchResult
    context: Context
    draft: Draft
    unlabelled: str
    """Why no model could name the type of the question."""
    model_away: bool
    model_refused: bool
    notes: Annotated[tuple[str, ...], operator.add]
    calls: Annotated[tuple[ModelCall, ...], operator.add]
    timings: Annotated[dict[str, float], operator.or_]


REFUSED = "the answer is made of the documents' own sentences, because the model does not take the question: "
"""Beginning of the note under an answer that the model refused to write."""

CUT_SHORT = {
    "length": "the model's answer was cut at its limit",
    "content_filter": "the model's answer was cut by its provider's filter",
    "refusal": "the model refused to answer; the documents' own sentences follow",
}
"""Notes under an answer, by the reason why the model stopped."""

UNSUPPORTED = "the documents' own words answer, because nothing that the model wrote is borne out by a passage: "
"""Beginning of the note that quotes the answer of a model of which no sentence is supported."""
MOST_UNSUPPORTED_CHARS = 400

OTHER_NOTICE = {
    "ko": "질문한 차수의 공고는 문서에 없습니다. 다른 차수의 공고에 따르면:",
    "en": "No document is of the notice that the question names. Another one says:",
}
"""First line of an answer for which only notices of other rounds than the asked one were found."""

Added = dict[str, Any]
"""The state update that a node returns."""


def analyze_query(state: State, desk: Desk) -> Added:
    """Plan the question: its type, the parts that are answered separately, and the documents to search."""
    question = state["question"]
    # "start over" or 새 질문: what was said before is left out
    history = () if planning.is_reset(question) else tuple(state["history"])
    label, label_update = _classify(question, history, desk)

    def plan_text(text: str) -> RetrievalPlan:
        """Return the plan to search for the whole question, or for a part that is answered separately."""
        query_type = planning.make_plan(text, history=history, label=label).query_type
        filters = desk.router.route(text, query_type=query_type, history=history)
        if state["documents"] is not None:  # the caller has chosen documents, whatever the question names
            filters = Filters(mode="only", documents=tuple(sorted(state["documents"])))
        return planning.make_plan(
            text,
            history=history,
            label=label,
            filters=filters,
            strategy=desk.settings.strategy,
            top_k=desk.settings.top_k,
            similarity_alone=planning.similarity_alone(desk.index.manifest.embedder, question),
        )

    plan = plan_text(question)
    if plan.query_type == "followup":
        parts = [Part(planning.standalone_question(question, history, filters=plan.filters), plan)]
    elif len(questions := planning.question_parts(question)) > 1:
        parts = [Part(part_question, plan_text(part_question)) for part_question in questions]
    else:
        parts = [Part(question, plan)]
    return {"plan": plan, "parts": tuple(parts), "history": history, **label_update}


def retrieve_chunks(state: State, desk: Desk) -> Added:
    """Find the chunks of each part, best first; those of several parts alternate in the context."""
    plan, parts, notes = state["plan"], list[Part](), list[str]()
    for part in state["parts"]:
        result = retrieve(desk.index, part.question, part.plan, embedder=desk.embedder, reranker=desk.reranker)
        parts.append(part._replace(hits=result.hits))
        notes += result.notes
    hits = tuple(alternate([part.hits for part in parts], key=lambda hit: hit.chunk.id))
    context = pack_context(hits, most_tokens=MOST_CONTEXT_TOKENS, per_document=plan.needs_multi_doc)
    return {
        "parts": tuple(parts),
        "search_result": SearchResult(hits, tuple(notes)),
        "context": context,
        "notes": tuple(notes),
    }


def compute(state: State, desk: Desk) -> Added:
    """Answer each part in every way that needs no model, and weigh the answers against each other.

    The reader scores cells and sentences that were found; rules work formulas out from numbers of tables, exactly and
    with a citation for each input.
    """
    parts: list[Part] = []
    for part in state["parts"]:
        part = draft_in_every_way(part, desk)
        named = bool(part.plan.filters.documents)
        parts.append(part._replace(drafts=weigh_drafts(part.drafts, is_named=named, expected=part.expected)))
    return {"parts": tuple(parts)}


def draft_in_every_way(part: Part, desk: Desk) -> Part:
    """Return a part of a question with what each way answers of itself."""
    question, plan, hits, index = part.question, part.plan, part.hits, desk.index
    drafts: dict[Way, Draft | None] = {}
    # each document is read by itself: what sides of a comparison have in common the rules put together
    is_read = not (plan.needs_multi_doc or writes_formula(question))
    readings = open_pages(question, hits, index, filters=plan.filters) if is_read else ()
    drafts["read"] = read_answer(readings, index.names, reader=desk.reader)
    if asks_to_explain(question):  # a label may, a number cannot
        drafts["read"] = drafts["read"] if drafts["read"] and is_of_labels(drafts["read"]) else None
    else:
        drafts["computed"] = compute_answer(question, plan, index, hits=hits)
        # with a large model its answer goes first: nobody has measured it beside cells that words alone put together
        if not desk.wiring.large:
            drafts["cells"] = compute_from_cells(question, plan, hits, index)
        drafts["cell"] = look_up_cell(question, plan, hits, index)
    from_facts = answer_from_facts(question, plan, index.catalogue)
    drafts["facts"] = from_facts and withhold_uncomputed(question, from_facts)
    sides = [side for side in plan.filters.groups if side] if plan.needs_multi_doc else []
    extracted = extract_answer(
        question,
        hits,
        query_type=plan.query_type,
        tokenizer=index.manifest.tokenizer,
        groups=[Group(stem_of(index.names[side[0]]), side) for side in sides],  # named by the surest document
        is_unnamed=plan.is_unnamed,
    )
    if extracted.is_of_several:
        drafts["read"] = drafts["cell"] = None  # a value of one of them
    drafts["sentence"] = withhold_uncomputed(question, extracted)
    select_numbers.cache_clear()  # the numbers of a long document are some hundred megabytes
    answered = {way: draft for way, draft in drafts.items() if draft is not None}
    fitted = desk.reader or load_reader()
    expected = fitted.expect_answer(readings[0].question, readings[0].page) if readings else Expected()
    return part._replace(readings=tuple(readings), drafts=answered, expected=expected)


def generate(state: State, desk: Desk) -> Added:
    """Write the draft; it abstains where every document found is of another notice than the question names."""
    update, question = _write_draft(state, desk), state["question"]
    if desk.router.lacks_round(question, state["plan"].filters):
        text = f"{OTHER_NOTICE[language_of(question)]}\n{update['draft'].text}"
        reason = "no document is of the notice that the question names"
        update["draft"] = update["draft"]._replace(text=text, abstained=True, reason=reason)
    return update


def _write_draft(state: State, desk: Desk) -> Added:
    """Return a model's answer over passages and cells, or else a draft made without one.

    No model is asked where there is none, no passage was found, or cells answer surely. A note says where it fails.
    """
    drafts = [choose_draft(part.drafts) for part in state["parts"]]
    # what a sentence states a model says better; what cells give needs none
    all_computed = all(
        draft and _confidence(draft) >= desk.least_confidence and all(c.cell for c in draft.citations)
        for draft in drafts
    )
    if not desk.wiring.large or not state["search_result"].hits or all_computed:
        return {"draft": _extract_draft(state, desk)}
    unlabelled = (state["unlabelled"],) if "unlabelled" in state else ()
    # an operation answers one question: of several parts it would lose the others
    readings = state["parts"][0].readings if len(state["parts"]) == 1 else ()
    shown = show_cells(readings, desk.index.names, reader=desk.reader)
    try:
        request = answer_request(state["question"], state["context"], state["history"], state["plan"], shown)
        answer = desk.wiring.ask("answer", request, on_text=_report_draft(desk))
    except (NoChatTemplate, RequestRefused) as error:
        lacking = f"{desk.wiring.large.chat.id} has no chat template; name another model with `--llm`"
        why = lacking if isinstance(error, NoChatTemplate) else error
        return {"draft": _extract_draft(state, desk), "notes": (f"{REFUSED}{why}",), "model_refused": True}
    except ModelError as error:  # which says it all: the small model is away for the same reason
        note = f"the answer is made of the documents' own sentences, because the model is away: {error}"
        return {"draft": _extract_draft(state, desk), "notes": (note,), "model_away": True}
    notes = (CUT_SHORT[answer.finish_reason],) if answer.finish_reason in CUT_SHORT else ()
    if worked_out := work_out_reply(answer.text, shown, desk.index.names):
        return {"draft": worked_out, "calls": (answer.call,), "notes": unlabelled}
    draft = cite(answer.text, state["context"].hits, question=state["question"])
    if not draft.text or answer.finish_reason == "refusal":
        notes = notes or ("the model gave an empty answer",)
        draft = _extract_draft(state, desk)
    elif not (draft.abstained or is_supported(draft)):
        notes += (f"{UNSUPPORTED}{' '.join(answer.text.split())[:MOST_UNSUPPORTED_CHARS]}",)
        draft = _extract_draft(state, desk)
    return {"draft": draft, "calls": (answer.call,), "notes": (*unlabelled, *notes)}


def rewrite(state: State, desk: Desk) -> Added:
    """Reword a model's draft by the style rules, unless that changes a number or a citation; {} for other drafts."""
    draft = state["draft"]
    if not desk.wiring.small or not draft.by_model or draft.abstained:
        return {}
    try:
        reply = desk.wiring.ask("rewrite", rewrite_request(state["question"], draft.text), on_text=_report_draft(desk))
    except ModelError as error:
        return {"notes": (f"the draft was not rewritten: {error}",)}
    if reply.finish_reason == "length" or not has_same_evidence(draft.text, reply.text):
        return {"calls": (reply.call,), "notes": ("a rewrite was dropped: it changed a number or a citation",)}
    hits = cited_hits(draft.citations, state["context"].hits)  # the draft's marks were numbered anew
    return {"draft": cite(reply.text, hits, question=state["question"]), "calls": (reply.call,)}


NODES: dict[str, Callable[[State, Desk], Added]] = {
    "analyze_query": analyze_query,
    "retrieve": retrieve_chunks,
    "compute": compute,
    "generate": generate,
    "rewrite": rewrite,
}


@cache
def answer_graph() -> Any:
    """Return the compiled graph, built once per process; the desk is its runtime context."""
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(State, context_schema=Desk)
    before = START
    for name, node in NODES.items():
        graph.add_node(name, _timed(name, node))
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph.compile()


def list_retrieved(state: State) -> tuple[Retrieved, ...]:
    """Return the chunks that were found as an answer keeps them; `used` is False where the context left one out."""
    dropped = {hit.chunk.id for hit in state["context"].dropped}
    return tuple(
        Retrieved(
            document=hit.document_name,
            digest=hit.chunk.document,
            page=hit.chunk.page,
            page_source=hit.page_source,
            bbox=hit.chunk.bbox,
            chunk_id=hit.chunk.id,
            score=round(hit.score, 6),
            ranks=hit.ranks,
            used=hit.chunk.id not in dropped,
            text=hit.chunk.text,
        )
        for hit in state["search_result"].hits
    )


def _timed(name: str, node: Callable[[State, Desk], Added]) -> Callable[[State, Any], Added]:
    """Return the node as one that announces its name first and adds the seconds that it took to the state."""

    def run(state: State, runtime: Any) -> Added:
        """Run one node of the graph, announce its stage, and add the seconds that it took to the state."""
        desk: Desk = runtime.context
        desk.on_event(Event("stage", name))
        started = desk.clock()
        added = node(state, desk)
        return {**added, "timings": {name: round(desk.clock() - started, 6)}}

    return run


def _classify(question: str, history: Sequence[Turn], desk: Desk) -> tuple[QueryType | None, Added]:
    """Return the type that the small model gives the question, and the state update; None without a usable label."""
    if not desk.wiring.small:
        return None, {}
    try:
        reply = desk.wiring.ask("classify", classify_request(question, history))
    except ModelError as error:
        return None, {"unlabelled": f"the question was classified by its words: {error}"}
    label = planning.parse_label(reply.text)
    notes = () if label else ("the question was classified by its words: the model named no kind that there is",)
    return label, {"calls": (reply.call,), "notes": notes}


def _extract_draft(state: State, desk: Desk) -> Draft:
    """Return an answer made without a model; a part whose answer is not confident enough is withheld."""
    # a table answers all parts at once; facts of one document may answer only one of them
    has_parts = len(state["parts"]) > 1 and state["plan"].needs_multi_doc
    if has_parts and not any("computed" in part.drafts for part in state["parts"]):
        from_facts = answer_from_facts(state["question"], state["plan"], desk.index.catalogue)
        if from_facts:
            return withhold_unsure(state["question"], from_facts, least=desk.least_confidence)
    least = desk.least_confidence
    return join_drafts(
        [
            withhold_unsure(part.question, _select_draft(part, least=least), least=least, hits=part.hits)
            for part in state["parts"]
        ]
    )


def _select_draft(part: Part, *, least: float) -> Draft:
    """Return the likeliest draft of a part; where none is sure enough, the one that says most of why."""
    best, drafts = choose_draft(part.drafts), part.drafts
    if best and _confidence(best) >= least:
        return best
    computed, read, extracted = drafts.get("computed"), drafts.get("read"), drafts["sentence"]
    # no sentence states what has to be worked out of several cells
    needs_cells = read is not None and len(read.citations) > 1 and asks_to_work_out(part.question)
    if computed and (extracted.abstained or needs_cells):
        return computed  # it names the missing input
    if read and (needs_cells or (extracted.abstained and _confidence(read) > _confidence(extracted))):
        return read
    return extracted


def _confidence(draft: Draft) -> float:
    """Return the confidence of a draft, 0 where nothing estimates it."""
    return draft.confidence or 0.0


def join_drafts(drafts: Sequence[Draft]) -> Draft:
    """Return the drafts joined, citations renumbered: as sure as the least sure, and abstaining only if all abstain."""
    lines: list[str] = []
    citations: list[Citation] = []
    for draft in drafts:
        before = len(citations)
        lines.append(_shift_marks(draft.text, by=before))
        citations += [citation.model_copy(update={"n": citation.n + before}) for citation in draft.citations]
    answering = select_answering(drafts)
    all_short = all(draft.short for draft in answering)
    confidences = [draft.confidence for draft in answering if draft.confidence is not None]
    return Draft(
        "\n".join(lines),
        tuple(citations),
        abstained=all(draft.abstained for draft in drafts),
        reason=" · ".join(draft.reason for draft in drafts if draft.reason) or None,
        notes=tuple(dict.fromkeys(note for draft in drafts for note in draft.notes)),
        confidence=min(confidences, default=None),  # the whole is right only where every part is
        short=join_short([draft.short for draft in answering if draft.short]) if all_short else None,
        value=answering[0].value if len(answering) == 1 else None,
    )


def _shift_marks(text: str, *, by: int) -> str:
    """Return the text with the number of each citation mark raised."""

    def shift(mark: re.Match[str]) -> str:
        return f"[{int(mark[1]) + by}]"

    return _MARK.sub(shift, text)


def select_answering(drafts: Sequence[Draft]) -> Sequence[Draft]:
    """Return the drafts that answer; all of them where none does."""
    return [draft for draft in drafts if not draft.abstained] or drafts


def _report_draft(desk: Desk) -> Callable[[str], None]:
    """Return the callback that reports the text a model has written so far; an operation over cells is none."""

    def report(text: str) -> None:
        if not text.lstrip().startswith(("{", "```")):
            desk.on_event(Event("draft", text))

    return report


WITHHELD = {"en": "No answer is sure enough.", "ko": "충분히 확실한 답이 없습니다."}
MOST_PLACES = 3
"""Most places that a withheld answer names."""


@cache
def load_calibration() -> Calibration:
    """Return the calibration that ships with the program."""
    return Calibration.model_validate_json((files("tasks.rag.answering") / "calibration.json").read_bytes())


def confidence_threshold(settings: AnswerSettings) -> float:
    """Return the confidence that `max_wrong` asks for: 0 where it is 1, inf where it allows no answer."""
    calibration = settings.calibration or load_calibration()
    return least_confidence(calibration.wrong, calibration.n, most_wrong=settings.max_wrong)


def withhold_unsure(question: str, draft: Draft, *, least: float, hits: Sequence[Hit] = ()) -> Draft:
    """Return the draft, or, where its confidence is below `least`, only the places closest to an answer.

    They are those that the draft cites, and then those of the hits, each page once and at most three.
    """
    if draft.abstained or draft.confidence is None or draft.confidence >= least:  # None: a model wrote it
        return draft
    hit_citations = (make_citation(0, hit, hit.chunk.text[:MOST_QUOTE_CHARS].strip()) for hit in hits)
    by_page: dict[tuple[str, int | None], Citation] = {}
    for citation in (*draft.citations, *hit_citations):
        by_page.setdefault((citation.digest, citation.page), citation)
    cited = [each.model_copy(update={"n": n}) for n, each in enumerate([*by_page.values()][:MOST_PLACES], 1)]
    language = language_of(question)
    text = f"{WITHHELD[language]}{point_to(cited, language)}"
    required = "no answer can be" if least > 1 else f"{least:.2f} is"
    why = (
        f"the answer's confidence is {draft.confidence:.2f}, and {required} sure enough for the share of wrong answers"
    )
    return draft._replace(
        text=text, citations=tuple(cited), abstained=True, reason=" · ".join(filter(None, (why, draft.reason)))
    )
