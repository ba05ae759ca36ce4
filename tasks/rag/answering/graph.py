"""The graph that answers every question: analyze_query ─► retrieve ─► compute ─► generate ─► rewrite.

Without a model the question is classified by its words, and the answer is made of the documents' own sentences.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, TypedDict

from models.model_errors import ModelError, NoChatTemplate, RequestRefused
from tasks.grading.cited_answers import has_same_evidence
from tasks.language.sentences import language_of
from tasks.rag.answering.answer_prompts import (
    MOST_CONTEXT_TOKENS,
    Context,
    answer_request,
    classify_request,
    compute_request,
    pack_context,
    rewrite_request,
)
from tasks.rag.answering.cell_figures import worked_from_cells
from tasks.rag.answering.cell_lookup import describing, looked_up
from tasks.rag.answering.citations import cite, cited_hits
from tasks.rag.answering.computing import checked, worked, worked_as_told
from tasks.rag.answering.extractive import Group, extract_answer
from tasks.rag.answering.notice_answers import answer_from_facts
from tasks.rag.answering.wiring import Wiring
from tasks.rag.answers import (
    AnswerSettings,
    Citation,
    Draft,
    Filters,
    ModelCall,
    QueryType,
    RetrievalPlan,
    Retrieved,
    Turn,
)
from tasks.rag.numbers.computation_reading import asks_to_work_out
from tasks.rag.planning import plan as planning
from tasks.rag.planning.names import stem_of
from tasks.rag.retrieval.search import Hit, SearchResult, alternate, retrieve

if TYPE_CHECKING:
    from models.protocols import Embedder, Reranker
    from storage.index import Index
    from tasks.rag.planning.routing import Router
from importlib.resources import files

from tasks.language.sentences import CITATION_MARK
from tasks.measure.estimates import least_confidence
from tasks.rag.answers import Calibration, place_of

_MARK = re.compile(r"\[(\d+)\]")


class Event(NamedTuple):
    """Progress of an answer."""

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
    """Of an answer without a model that is given."""
    embedder: Callable[[], Embedder]
    reranker: Reranker | None
    clock: Callable[[], float]
    on_event: Callable[[Event], None]


class Part(NamedTuple):
    """A part of a question, looked up and answered separately."""

    question: str
    plan: RetrievalPlan
    hits: tuple[Hit, ...] = ()
    worked: Draft | None = None
    """The answer worked out from numbers of tables, where the part asks for one."""
    cell: Draft | None = None
    """The cell of a table that the part asks for, where nothing was worked out."""


class State(TypedDict):
    """State of the graph; a key exists once its node has added it."""

    question: str
    history: Sequence[Turn]
    documents: Collection[str] | None
    """Digests that the caller limits the search to."""
    plan: RetrievalPlan
    parts: tuple[Part, ...]
    found: SearchResult
    context: Context
    draft: Draft
    unlabelled: str
    """Why no model could name the kind of question."""
    model_away: bool
    model_refused: bool
    notes: Annotated[tuple[str, ...], operator.add]
    calls: Annotated[tuple[ModelCall, ...], operator.add]
    timings: Annotated[dict[str, float], operator.or_]


REFUSED = "the answer is made of the documents' own sentences, because the model does not take the question: "

CUT_SHORT = {
    "length": "the model's answer was cut at its limit",
    "content_filter": "the model's answer was cut by its provider's filter",
    "refusal": "the model refused to answer; the documents' own sentences follow",
}
"""By the reason why a model stopped."""

OTHER_NOTICE = {
    "ko": "질문한 차수의 공고는 문서에 없습니다. 다른 차수의 공고에 따르면:",
    "en": "No document is of the notice that the question names. Another one says:",
}

Added = dict[str, Any]
"""The state update that a node returns."""


def analyze_query(state: State, desk: Desk) -> Added:
    """The plan: what kind of question it is, how it is looked up, and in which documents."""
    question = state["question"]
    history = () if planning.is_reset(question) else tuple(state["history"])
    label, told = _label(question, history, desk)

    def planned(asked: str) -> RetrievalPlan:
        query_type = planning.make_plan(asked, history=history, label=label).query_type
        filters = desk.router.route(asked, query_type=query_type, history=history)
        if state["documents"] is not None:
            filters = Filters(mode="only", documents=tuple(sorted(state["documents"])))
        return planning.make_plan(
            asked,
            history=history,
            label=label,
            filters=filters,
            strategy=desk.settings.strategy,
            top_k=desk.settings.top_k,
            similarity_alone=planning.similarity_alone(desk.index.manifest.embedder, question),
        )

    plan = planned(question)
    if plan.query_type == "followup":
        parts = [Part(planning.standalone_question(question, history, filters=plan.filters), plan)]
    elif len(asked := planning.question_parts(question)) > 1:
        parts = [Part(one, planned(one)) for one in asked]
    else:
        parts = [Part(question, plan)]
    return {"plan": plan, "parts": tuple(parts), "history": history, **told}


def retrieve_chunks(state: State, desk: Desk) -> Added:
    """The chunks that the plan finds, best first; of several parts by turns."""
    plan, parts, notes = state["plan"], list[Part](), list[str]()
    for part in state["parts"]:
        found = retrieve(desk.index, part.question, part.plan, embedder=desk.embedder, reranker=desk.reranker)
        parts.append(part._replace(hits=found.hits))
        notes += found.notes
    hits = tuple(alternate([part.hits for part in parts], key=lambda hit: hit.chunk.id))
    context = pack_context(hits, most_tokens=MOST_CONTEXT_TOKENS, per_document=plan.needs_multi_doc)
    return {"parts": tuple(parts), "found": SearchResult(hits, tuple(notes)), "context": context, "notes": tuple(notes)}


def compute(state: State, desk: Desk) -> Added:
    """What a part asks to be worked out from numbers of tables: exactly, each input cited.

    Where the rules do not read a question for arithmetic, a model says what is to be worked out; without one, the words
    of the question find its figures in any table. Where a question asks for one figure, its cell is looked up.
    """
    parts: list[Part] = []
    calls: tuple[ModelCall, ...] = ()
    for part in state["parts"]:
        describe = describing(part.plan, part.hits, desk.index, embedder=desk.embedder)
        found = worked(part.question, part.plan, desk.index, hits=part.hits, describe=describe)
        if found is None and desk.wiring.large and asks_to_work_out(part.question):
            with suppress(ModelError):  # a model that is away is told of where the answer is written
                told = desk.wiring.ask("compute", compute_request(part.question))
                calls += (told.call,)
                found = worked_as_told(part.question, told.text, part.plan, desk.index)
        if not desk.wiring.large and (found is None or found.abstained):
            found = worked_from_cells(part.question, part.plan, part.hits, desk.index) or found
        missing = found is None or found.abstained
        cell = looked_up(part.question, part.plan, part.hits, desk.index, embedder=desk.embedder) if missing else None
        parts.append(part._replace(worked=found, cell=cell))
    return {"parts": tuple(parts), "calls": calls}


def generate(state: State, desk: Desk) -> Added:
    """The draft; it abstains where every document is of another notice than the question names."""
    made, question = _drafted(state, desk), state["question"]
    if desk.router.lacks_round(question, state["plan"].filters):
        text = f"{OTHER_NOTICE[language_of(question)]}\n{made['draft'].text}"
        reason = "no document is of the notice that the question names"
        made["draft"] = made["draft"]._replace(text=text, abstained=True, reason=reason)
    return made


def _drafted(state: State, desk: Desk) -> Added:
    """A model's answer over the context, else one from cells or sentences.

    What was worked out needs no model.
    """
    told = [part.worked or part.cell for part in state["parts"]]
    if not desk.wiring.large or not state["found"].hits or all(one and not one.abstained for one in told):
        return {"draft": _extracted(state, desk)}
    unlabelled = (state["unlabelled"],) if "unlabelled" in state else ()
    try:
        request = answer_request(state["question"], state["context"], state["history"], state["plan"])
        answer = desk.wiring.ask("answer", request, on_text=_drafting(desk))
    except (NoChatTemplate, RequestRefused) as error:
        lacking = f"{desk.wiring.large.chat.id} has no chat template; name another model with `--llm`"
        why = lacking if isinstance(error, NoChatTemplate) else error
        return {"draft": _extracted(state, desk), "notes": (f"{REFUSED}{why}",), "model_refused": True}
    except ModelError as error:  # which says it all: the small model is away for the same reason
        note = f"the answer is made of the documents' own sentences, because the model is away: {error}"
        return {"draft": _extracted(state, desk), "notes": (note,), "model_away": True}
    notes = (CUT_SHORT[answer.finish_reason],) if answer.finish_reason in CUT_SHORT else ()
    draft = cite(answer.text, state["context"].hits, question=state["question"])
    if not draft.text or answer.finish_reason == "refusal":
        notes = notes or ("the model gave an empty answer",)
        draft = _extracted(state, desk)
    return {"draft": draft, "calls": (answer.call,), "notes": (*unlabelled, *notes)}


def rewrite(state: State, desk: Desk) -> Added:
    """The draft in the style that the rules ask for; a rewrite that changes a number or a citation is dropped."""
    draft = state["draft"]
    if not desk.wiring.small or not draft.by_model or draft.abstained:
        return {}
    try:
        told = desk.wiring.ask("rewrite", rewrite_request(state["question"], draft.text), on_text=_drafting(desk))
    except ModelError as error:
        return {"notes": (f"the draft was not rewritten: {error}",)}
    if told.finish_reason == "length" or not has_same_evidence(draft.text, told.text):
        return {"calls": (told.call,), "notes": ("a rewrite was dropped: it changed a number or a citation",)}
    hits = cited_hits(draft.citations, state["context"].hits)  # the draft's marks were numbered anew
    return {"draft": cite(told.text, hits, question=state["question"]), "calls": (told.call,)}


NODES: dict[str, Callable[[State, Desk], Added]] = {
    "analyze_query": analyze_query,
    "retrieve": retrieve_chunks,
    "compute": compute,
    "generate": generate,
    "rewrite": rewrite,
}


@cache
def answer_graph() -> Any:
    """The compiled graph; the desk is its runtime context."""
    from langgraph.graph import END, START, StateGraph

    graph: Any = StateGraph(State, context_schema=Desk)
    before = START
    for name, node in NODES.items():
        graph.add_node(name, _timed(name, node))
        graph.add_edge(before, name)
        before = name
    graph.add_edge(before, END)
    return graph.compile()


def retrieved(state: State) -> tuple[Retrieved, ...]:
    """What was found, as an answer shows it."""
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
        for hit in state["found"].hits
    )


def _timed(name: str, node: Callable[[State, Desk], Added]) -> Callable[[State, Any], Added]:
    def run(state: State, runtime: Any) -> Added:
        desk: Desk = runtime.context
        desk.on_event(Event("stage", name))
        started = desk.clock()
        added = node(state, desk)
        return {**added, "timings": {name: round(desk.clock() - started, 6)}}

    return run


def _label(question: str, history: Sequence[Turn], desk: Desk) -> tuple[QueryType | None, Added]:
    """The type that the small model gives the question; None without a model or a usable label."""
    if not desk.wiring.small:
        return None, {}
    try:
        told = desk.wiring.ask("classify", classify_request(question, history))
    except ModelError as error:
        return None, {"unlabelled": f"the question was classified by its words: {error}"}
    label = planning.parse_label(told.text)
    notes = () if label else ("the question was classified by its words: the model named no kind that there is",)
    return label, {"calls": (told.call,), "notes": notes}


def _extracted(state: State, desk: Desk) -> Draft:
    """An answer without a model; a part that is not sure enough is withheld."""
    # a table answers all parts at once; facts of one document may answer only one of them
    of_several = len(state["parts"]) > 1 and state["plan"].needs_multi_doc
    if of_several and not any(part.worked for part in state["parts"]):
        stated = answer_from_facts(state["question"], state["plan"], desk.index.catalogue)
        if stated:
            return withhold_unsure(state["question"], stated, least=desk.least_confidence)
    drafts = [(part.question, _answered(part, desk)) for part in state["parts"]]
    return joined([withhold_unsure(question, draft, least=desk.least_confidence) for question, draft in drafts])


def _answered(part: Part, desk: Desk) -> Draft:
    """The answer to a part: a figure that was worked out, facts of the catalogue, a cell, or sentences."""
    if part.worked and not part.worked.abstained:
        return part.worked
    if stated := answer_from_facts(part.question, part.plan, desk.index.catalogue):
        return checked(part.question, stated)
    if part.cell:
        return part.cell
    names = desk.index.names
    sides = [side for side in part.plan.filters.groups if side] if part.plan.needs_multi_doc else []
    found = extract_answer(
        part.question,
        part.hits,
        query_type=part.plan.query_type,
        tokenizer=desk.index.manifest.tokenizer,
        groups=[Group(stem_of(names[side[0]]), side) for side in sides],  # named by the surest document
    )
    found = checked(part.question, found)
    return part.worked if part.worked and found.abstained else found


def joined(drafts: Sequence[Draft]) -> Draft:
    """The drafts below each other, their citations numbered on; it abstains only if all do."""
    lines: list[str] = []
    citations: list[Citation] = []
    for draft in drafts:
        before = len(citations)
        lines.append(_MARK.sub(lambda mark, before=before: f"[{int(mark[1]) + before}]", draft.text))
        citations += [one.model_copy(update={"n": one.n + before}) for one in draft.citations]
    return Draft(
        "\n".join(lines),
        tuple(citations),
        abstained=all(draft.abstained for draft in drafts),
        reason=" · ".join(draft.reason for draft in drafts if draft.reason) or None,
        notes=tuple(dict.fromkeys(note for draft in drafts for note in draft.notes)),
        confidence=min(
            (one.confidence for one in select_answering(drafts) if one.confidence is not None), default=None
        ),
    )


def select_answering(drafts: Sequence[Draft]) -> Sequence[Draft]:
    """The drafts that answer; all, where none does."""
    return [draft for draft in drafts if not draft.abstained] or drafts


def _drafting(desk: Desk) -> Callable[[str], None]:
    return lambda text: desk.on_event(Event("draft", text))


LEAST = 0.5
"""An answer that is less sure is likelier wrong than right."""
WITHHELD = {"en": "No answer is sure enough.", "ko": "충분히 확실한 답이 없습니다."}
CLOSEST = {"en": "The closest place: {place} [1].", "ko": "가장 가까운 곳: {place} [1]."}


@cache
def our_calibration() -> Calibration:
    """The calibration that ships with the program."""
    return Calibration.model_validate_json((files("tasks.rag.answering") / "calibration.json").read_bytes())


def threshold(settings: AnswerSettings) -> float:
    """The confidence that an answer needs: LEAST without a promise, inf where the promise allows no answer."""
    if settings.max_wrong >= 1:
        return LEAST
    known = settings.calibration or our_calibration()
    return least_confidence(known.wrong, known.n, most_wrong=settings.max_wrong)


def withhold_unsure(question: str, draft: Draft, *, least: float) -> Draft:
    """The draft, or the place that it points to where it is less sure than `least`."""
    if draft.abstained or draft.confidence is None or draft.confidence >= least:
        return draft
    language = language_of(question)
    text, cited = WITHHELD[language], draft.citations[:1]
    if cited:
        one = cited[0]
        heading = f" ({one.place.heading_path[-1]})" if one.place.heading_path else ""
        where = place_of(stem_of(one.document), one.page, one.page_source, one.place.cells, language=language)
        text = f"{text} {CLOSEST[language].format(place=CITATION_MARK.sub('', f'{where}{heading}'))}"
    asked = "no answer can be" if least > 1 else f"{least:.2f} is"
    why = f"the answer's confidence is {draft.confidence:.2f}, and {asked} sure enough for the share of wrong answers"
    return draft._replace(
        text=text,
        citations=tuple(one.model_copy(update={"n": 1}) for one in cited),
        abstained=True,
        reason=" · ".join(filter(None, (why, draft.reason))),
    )
