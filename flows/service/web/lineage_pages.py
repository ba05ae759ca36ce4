"""The page of `why`: where an answer, a score, a passage or any digest comes from, as a tree."""

from __future__ import annotations

import re

from fastapi.responses import Response

from flows.service.web.ask_pages import answer_of, conversation_of
from flows.service.web.visits import Pages, Problem, Visit
from storage.storage_errors import UnknownRun
from tasks.evaluation.results.finding_runs import find_stored_run
from tasks.origins.origin_tree import (
    OriginTree,
    build_trees,
    corpus_of,
    made_by,
    trace_answer,
    trace_cell,
    trace_chunk,
    trace_run,
    trace_score,
)
from tasks.rag.answers import Answered
from tasks.resources import artifacts, lineage, responses

DIGEST = re.compile(r"[0-9a-f]{8,64}")
CELL = re.compile(r".+:\d+:\d+:\d+")
pages = Pages()


@pages.get("/why")
def show_origin(visit: Visit) -> Response:
    """Show the origins of what the address names; a form where it names nothing."""
    query, trees, visit_there, answers = visit.query, tuple[OriginTree, ...](), visit, list[Answered]()
    subject, session = query.get("thing", "").strip(), query.get("session")
    if session:
        visit_there, _, answers = conversation_of(visit, session)
    if chunk := query.get("chunk"):
        trees = (_trace_chunk(visit, chunk),)
    elif session:
        trees = (trace_answer(answer_of(answers, query.get("turn", "")), artifacts(), lineage()),)
    elif subject:
        # never of a file; an evaluation's digest is that of its run, which tells more
        if "task" not in query and DIGEST.fullmatch(subject):
            trees = _trace_digest(subject)
        trees = trees or _trace_run(visit, subject)
    return visit.page(
        "why.html",
        trees=trees,
        made_by=made_by,
        asked=bool(trees),
        of_index=lambda chunk: visit_there.to("/why", chunk=chunk),
    )


def _trace_digest(prefix: str) -> tuple[OriginTree, ...]:
    """Return the recorded origins of a digest; none for an evaluation's, whose run tells more. Raises Problem."""
    digests = lineage().beginning(prefix)
    if len(digests) > 1:
        raise Problem(409, f"{prefix} begins {len(digests)} digests: {', '.join(digests)[:200]}; give more digits")
    trees = build_trees(digests, lineage())
    return () if trees and trees[0].what == "run" else trees


def _trace_chunk(visit: Visit, chunk_id: str) -> OriginTree:
    """Return the origins of a passage or number. Raises Problem, a 404, where it or its index's origin is unknown."""
    with visit.live.borrow() as current:
        digest = current.index.digest
    corpus = corpus_of(digest, artifacts(), lineage())
    if corpus is None:
        raise Problem(404, "this index was published from another home, or before origins were recorded")
    tree = (trace_cell if CELL.fullmatch(chunk_id) else trace_chunk)(chunk_id, corpus, lineage(), artifacts())
    if tree is None:
        raise Problem(404, f"this index has no passage or number {chunk_id[:80]}")
    return tree


def _trace_run(visit: Visit, run_name: str) -> tuple[OriginTree, ...]:
    """Return the trees of a run, or of the task or item that the address names. Raises Problem 404."""
    evaluations = visit.workplace.evaluations()
    try:
        run = evaluations.run(run_name)
    except UnknownRun as error:
        raise Problem(404, f"{run_name[:80] or 'nothing'} is no digest and no run that is known here") from error
    if run.kind != "benchmark":
        return build_trees([run.id], lineage())
    stored_run, task, item = find_stored_run(run.id, evaluations), visit.query.get("task"), visit.query.get("item")
    if task is None or item is None:
        return (trace_run(stored_run, lineage(), task=task),)
    stored_run.require(task)
    if trees := trace_score(stored_run, task, item, artifacts(), lineage(), responses().many):
        return trees
    raise Problem(404, f"{task[:80]} of run {run.id} has no item {item[:80]}")
