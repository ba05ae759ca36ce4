"""`trivet why`: where an answer, a score, a number, a chunk or an artifact comes from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from flows.cli.commands import Json
from flows.cli.output import REFUSED, Screen, emit, fail
from flows.running.config_reading import index_place
from storage.engines import index_name, is_address
from storage.storage_errors import UnknownRun, UnknownSession

if TYPE_CHECKING:
    from tasks.evaluation.results.finding_runs import FoundRun
    from tasks.origins.origin_tree import OriginTree

console = Screen()
CELL = re.compile(r".+:\d+:\d+:\d+")
PREFIX = re.compile(r"[0-9a-f]{8,64}")
SHORT = 12
"""Number of digits that are shown of a digest; --json has all 64."""
FORMS = (
    "ANSWERS.jsonl ID (of `rag batch`), SESSION [TURN] (of `rag chat`), INDEX CHUNK, INDEX DOCUMENT:TABLE:ROW:COL "
    "(a number of `rag numbers`), RUN [TASK [ITEM]] (of `eval run` or `lever run`), or a digest"
)


def why(
    thing: Annotated[str, typer.Argument(metavar="THING", help=f"One of {FORMS}.")],
    part: Annotated[
        list[str] | None, typer.Argument(metavar="[PART]…", help="ID, turn, chunk, or task and item; see THING.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show where something comes from: claims, pages, chunks, model calls, the steps that made them, and their code."""
    parts = part or []
    trees = list(_find_trees(thing, parts))
    origins = {"thing": " ".join([thing, *parts]), "origins": [tree.model_dump(mode="json") for tree in trees]}

    def show() -> None:
        for tree in trees:
            _print(tree, first="", rest="")

    emit(origins, as_json, show)


def _find_trees(subject: str, parts: list[str]) -> Iterator[OriginTree]:
    """Yield the origins of what `subject` names: an index, an answer in a file, a digest, a run or a stored one."""
    path = index_place(subject)
    if is_address(subject) or (path / "CURRENT").is_file():
        yield _trace_index(path, _limit_parts(1, parts))
    elif path.suffix == ".jsonl" and path.is_file():
        yield _trace_answer(_read_batch_answer(path, _limit_parts(1, parts)))
    elif path.exists():
        yield from _trace_run(subject, _limit_parts(2, parts))
    else:
        tree = _trace_digest(subject) if not parts and PREFIX.fullmatch(subject) else None
        if tree and tree.what != "run":  # the digest of an evaluation names its run, which tells more
            yield tree
        else:
            yield from _trace_stored(subject, _limit_parts(2, parts))


def _limit_parts(count: int, parts: list[str]) -> list[str]:
    if len(parts) > count:
        fail(f"{' '.join(parts[count:])}: nothing more can be named here; expected {FORMS}", REFUSED)
    return parts


def _trace_digest(prefix: str) -> OriginTree | None:
    """Return the tree of the digest that begins so; None where there is none. Exits where several begin so."""
    from tasks.origins.origin_tree import build_trees
    from tasks.resources import lineage

    digests = lineage().beginning(prefix)
    if len(digests) > 1:
        begun = ", ".join(digest[:SHORT] for digest in digests)
        fail(f"{prefix} begins {len(digests)} digests: {begun}; give more digits", REFUSED)
    return next(iter(build_trees(digests, lineage())), None)


def _trace_index(path: Path, parts: list[str]) -> OriginTree:
    """Return the tree of an index, or of its cell or chunk in `parts`. Exits where that is missing."""
    from storage.index import open_index
    from tasks.origins.origin_tree import build_trees, corpus_of, trace_cell, trace_chunk
    from tasks.resources import artifacts, lineage

    name = index_name(path)
    with open_index(path) as opened:
        digest = opened.digest
    if not parts:
        return next(iter(build_trees([digest], lineage())))
    corpus = corpus_of(digest, artifacts(), lineage())
    if corpus is None:
        fail(f"{name} was published from another home, or before origins were recorded; run `trivet rag index` again")
    is_cell = CELL.fullmatch(parts[0])
    tree = (trace_cell if is_cell else trace_chunk)(parts[0], corpus, lineage(), artifacts())
    if tree is None and is_cell:
        see = f"`trivet rag numbers --index {name} --json` for document, table, row and col of each"
        fail(f"{name} has no number {parts[0]}; see {see}", REFUSED)
    if tree is None:
        fail(f"{name} has no chunk {parts[0]}; see `trivet rag search … --json` for the ids of chunks", REFUSED)
    return tree


def _read_batch_answer(path: Path, parts: list[str]) -> dict[str, Any]:
    """Return the record of one question's answer in a file that `rag batch` wrote; exits where it has none."""
    if not parts:
        fail(f"{path} holds many answers; name one by its id", REFUSED)
    answers = dict[str, Any]()
    lines = path.read_text("utf-8").rstrip("\n").split("\n")  # other line ends may stand in a string
    for number, line in enumerate(lines, start=1):
        try:
            answer = json.loads(line)
            answers[str(answer.pop("id"))] = answer
        except (ValueError, KeyError, AttributeError):
            fail(f"{path}, line {number}: not an answer of `trivet rag batch`: {line[:80]!r}", REFUSED)
    if parts[0] not in answers:
        fail(f"{path} has no answer {parts[0]}; its ids are {', '.join([*answers][:5])} …", REFUSED)
    error = answers[parts[0]].pop("error", None)
    if error and not answers[parts[0]]:
        fail(f"{path}: {parts[0]} was not answered: {error}", REFUSED)
    return answers[parts[0]]


def _trace_answer(record: object) -> OriginTree:
    """Return the tree of a recorded answer. Exits where it is none of this version."""
    from pydantic import ValidationError

    from tasks.origins.origin_tree import trace_answer
    from tasks.rag.answers import Answered
    from tasks.resources import artifacts, lineage

    try:
        answered = Answered.model_validate(record)
    except ValidationError as error:
        fail(f"the answer is not one of this version: {error.errors()[0]['msg']}")
    return trace_answer(answered, artifacts(), lineage())


def _trace_stored(run_or_session: str, parts: list[str]) -> Iterator[OriginTree]:
    """Yield the origins of a stored run, or of a turn (else the last) of a conversation; exits where there is none."""
    from tasks.resources import evaluations, sessions

    try:
        run = evaluations().run(run_or_session)
    except UnknownRun:
        try:
            session = sessions().get(run_or_session)
        except UnknownSession:
            yield from _trace_run(run_or_session, parts)  # the last of a model
            return
        turn_names = _limit_parts(1, parts)
        turns = {str(turn.n): turn for turn in sessions().turns(session.id)}
        if not turns:
            fail(f"nothing has been asked in {session.id}", REFUSED)
        turn_name = turn_names[0] if turn_names else max(turns, key=int)
        if turn_name not in turns:
            fail(f"{session.id} has no turn {turn_name}; it has {', '.join(turns)}", REFUSED)
        yield _trace_answer(turns[turn_name].answered)
        return
    if run.kind == "benchmark":
        yield from _trace_run(run.id, parts)
    elif tree := _trace_digest(run.id):
        # the score that a leaderboard shows of a run: `digits/test: accuracy.grpo, shots=2 = 0.41 (n = 100)`
        headlines = (
            f"{measured.dataset.name}: {score.metric}, {score.part} = {score.value:.4g} (n = {score.n:,})"
            for measured in evaluations().task_results(run.id)
            for score in measured.results
            if score.headline
        )
        yield tree.model_copy(update={"name": "; ".join(headlines)})
    else:
        fail(f"{run_or_session} is a run of another home, or from before origins were recorded")


def _trace_run(run_name: str, parts: list[str]) -> Iterator[OriginTree]:
    """Yield the tree of a run, or of its task, or of its task's item; `parts` names these. Exits without the item."""
    from tasks.evaluation.results.finding_runs import find_run
    from tasks.origins.origin_tree import trace_run, trace_score
    from tasks.resources import artifacts, evaluations, lineage, responses

    stored_run: FoundRun = find_run(run_name, evaluations())
    if len(parts) < 2:
        yield trace_run(stored_run, lineage(), task=parts[0] if parts else None)
        return
    task, item = parts
    stored_run.require(task)
    trees = trace_score(stored_run, task, item, artifacts(), lineage(), responses().many)
    if not trees:
        fail(f"{task} of run {stored_run.report.run.id} has no item {item}", REFUSED)
    yield from trees


def _print(tree: OriginTree, *, first: str, rest: str) -> None:
    """Print a tree. first, rest: what precedes its first line, and all lines that follow."""
    from tasks.origins.origin_tree import made_by

    short = tree.key[:SHORT] if PREFIX.fullmatch(tree.key) else tree.key  # those of chunks and cells are names
    key = f" [dim]{escape(short)}[/dim]" if short else ""
    name = f" {escape(tree.name)}" if tree.name else ""
    lines = [f"[bold]{escape(tree.what)}[/bold]{key}{name}"]
    if tree.step:
        lines.append(f"[cyan]{escape(' · '.join(made_by(tree.step)))}[/cyan]")
    lines += [f"[yellow]{escape(note)}[/yellow]" for note in tree.notes]
    indent = rest + ("│ " if tree.sources else "  ")
    for number, line in enumerate(lines):
        console.print(f"[dim]{indent if number else first}[/dim]{line}")
    for source in tree.sources:
        last = source is tree.sources[-1]
        _print(source, first=f"{rest}{'└─' if last else '├─'} ", rest=f"{rest}{'   ' if last else '│  '}")
