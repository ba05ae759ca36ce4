"""`trivet rag sweep`: the same questions over chunkings and searches; finished points are kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from flows.cli import show_measures
from flows.cli.commands import Json
from flows.cli.output import INTERRUPTED, REFUSED, emit, fail, plain_errors, sentences
from flows.cli.questions import Counted, QuestionsFile, Search, SplitOption, StoreOption, counting, keep, places_in
from flows.cli.shared_options import RouteOption, Strategy, model_errors, require_file
from flows.running.program import git_commit, program_version
from tasks.rag.rag_defaults import CHUNK_CHARS, OVERLAP_CHARS, STRATEGY

if TYPE_CHECKING:
    from storage.evaluations import Evaluated
    from storage.index import Index
    from tasks.rag.measuring.ranking_metrics import Place, Question
    from tasks.rag.measuring.sweep import Chunking, Compared, Point, Swept

POINTS = "points.jsonl"


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `trivet rag`."""
    app.command()(sweep)


class Sweep(NamedTuple):
    """What every point of a sweep has in common."""

    documents: Path
    out: Path
    file: Path
    split: str | None
    asked: Sequence[Question]
    embedder: str
    metadata: Path | None
    vlm: str | None
    route: bool
    quiet: bool


def sweep(
    questions: QuestionsFile,
    documents: Annotated[Path, typer.Option(help="Folder of the documents; indexed once per chunking.")],
    out: Annotated[Path, typer.Option(help="Folder of the indexes, the finished points, the table and the plot.")],
    chunk: Annotated[
        str, typer.Option(metavar="CHARS/OVERLAP,…", help="Chunk sizes and overlaps, in characters.")
    ] = f"{CHUNK_CHARS}/{OVERLAP_CHARS},300/50",
    strategy: Annotated[
        list[Strategy] | None,
        typer.Option(metavar="NAME", help=f"How chunks are found: {', '.join(Strategy)}; may be repeated. Unset: all."),
    ] = None,
    bm25_weight: Annotated[
        str, typer.Option(metavar="WEIGHT,…", help="Weights of BM25 in rrf, relative to the vectors.")
    ] = "0.25,0.5,1,2",
    rerank: Annotated[
        str | None, typer.Option(metavar="NAME", help="Cross-encoder by name or path; every search with and without.")
    ] = None,
    embedder: Annotated[str, typer.Option(help="minilm, a sentence-transformers name or path, openai:…")] = "minilm",
    metadata: Annotated[Path | None, typer.Option(help="CSV beside the documents, as for `trivet rag index`.")] = None,
    vlm: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Model that describes figures, as for `trivet rag index`.")
    ] = None,
    route: RouteOption = True,
    split: SplitOption = None,
    store: StoreOption = True,
    as_json: Json = False,
) -> None:
    """Measure chunkings and searches with the same questions; a killed sweep continues where it stopped."""
    from storage.storage_errors import StorageError
    from tasks.rag.measuring import sweep
    from tasks.rag.measuring.measured_figures import choose
    from tasks.rag.measuring.ranking_metrics import read_questions

    require_file(questions, "a JSONL file of questions")
    with plain_errors(StorageError, ValueError, failed=model_errors()):
        asked = [one for one in choose(read_questions(questions), split) if one.document]
        points = sweep.grid(
            sweep.read_chunkings(chunk),
            [one.value for one in strategy or Strategy],
            bm25_weights=sweep.read_weights(bm25_weight),
            rerankers=(None, rerank) if rerank else (None,),
        )
        common = Sweep(documents, out, questions, split, asked, embedder, metadata, vlm, route, quiet=as_json)
        try:
            measured = _measure(common, points)
        except KeyboardInterrupt:
            fail("interrupted; finished points are kept, run the same command again to go on", INTERRUPTED)
        compared = sweep.compare(measured.swept, sweep.baseline(points, _usual()))
        _write_files(out, compared)
    unkept = keep(measured.rows) if store else None
    notes = [*measured.notes, *([unkept] if unkept else [])]
    told: dict[str, Any] = sweep.as_json(compared) | {"out": str(out), "notes": notes}
    emit(told, as_json, lambda: show_measures.sweep(compared, out, notes))


class _Measured(NamedTuple):
    swept: list[Swept]
    rows: list[Evaluated]
    """For the database."""
    notes: list[str]


def _measure(common: Sweep, points: Sequence[Point]) -> _Measured:
    """Build the indexes first, so that what is wrong with them shows early; then measure what is missing."""
    from storage.index import open_index
    from tasks.rag.measuring.indexes import gold_in

    if not common.asked:
        raise ValueError(f"{common.file}: no question has a gold document; a sweep needs at least one")
    folders, notes = _build(common, list(dict.fromkeys(point.chunking for point in points)))
    measured = _Measured([], [], notes)
    kept = _Kept(common.out / POINTS)
    with counting(common.quiet) as counted:
        for chunking, folder in folders.items():
            with open_index(folder) as opened:
                for point in (point for point in points if point.chunking == chunking):
                    swept = kept.get(_key(common, point, opened))
                    if swept is None:
                        swept = kept.add(_sweep(common, point, opened, counted))
                    measured.swept.append(swept)
                    measured.rows.append(_row(common, swept, opened, folder))
                measured.notes.extend(gold_in(opened, common.asked).notes)
    if kept.used:
        measured.notes.append(
            f"{kept.used} of {len(points)} points were measured before; remove {kept.path} to measure them again"
        )
    return measured._replace(notes=list(dict.fromkeys(measured.notes)))


def _build(common: Sweep, chunkings: Sequence[Chunking]) -> tuple[dict[Chunking, Path], list[str]]:
    """An index per way to cut, with one server for all builds; what is built and unchanged is only looked through."""
    from pydantic import ValidationError

    from flows.cli.index_command import run_build
    from flows.running.command_server import prefect_api
    from flows.running.settings import settings

    folders: dict[Chunking, Path] = {}
    notes: list[str] = []
    with prefect_api(settings().home):
        for chunking in chunkings:
            folder = common.out / f"index-{chunking.chunk_chars}-{chunking.overlap_chars}"
            chosen = {
                "documents": common.documents.absolute(),
                "index": folder.absolute(),
                "metadata": common.metadata and common.metadata.absolute(),
                "embedder": common.embedder,
                "vlm": common.vlm,
                **chunking.model_dump(),
            }
            try:
                outcome = run_build(chosen, quiet=common.quiet)
            except ValidationError as error:
                fail(sentences(error), REFUSED)
            folders[chunking] = folder
            if (failed := outcome.report.documents.failed) and not notes:  # the same ones for every way to cut
                notes.append(f"documents that failed, and are in no index: {failed}; see `trivet rag status`")
            if outcome.unfinished:
                notes.append(outcome.unfinished)
    return folders, notes


def _sweep(common: Sweep, point: Point, opened: Index, counted: Counted) -> Swept:
    from tasks.rag.measuring.indexes import gold_in
    from tasks.rag.measuring.ranking_metrics import rank_questions, summarise
    from tasks.rag.measuring.sweep import Swept

    started, times = datetime.now(UTC), list[float]()
    search = places_in(opened, _search(point, route=common.route))

    def places(question: Question) -> list[Place]:
        before = time.perf_counter()
        found = search(question)
        times.append(1000 * (time.perf_counter() - before))
        return found

    asked = counted(common.asked, point.name, len(common.asked))
    ranked = rank_questions(asked, places, name_of=gold_in(opened, common.asked).name_of)
    return Swept(
        key=_key(common, point, opened),
        point=point,
        index_generation=opened.generation,
        index_digest=opened.digest,
        chunks=len(opened),
        evaluation=summarise(ranked),
        ranked=ranked,
        question_ms=median(times),
        started_at=started,
        ended_at=datetime.now(UTC),
    )


def _search(point: Point, *, route: bool) -> Search:
    weight = 1.0 if point.bm25_weight is None else point.bm25_weight
    return Search(Strategy(point.strategy), weight, route, point.reranker)


def _key(common: Sweep, point: Point, opened: Index) -> str:
    from tasks.rag.measuring.measurement_rows import questions_digest
    from tasks.rag.measuring.sweep import point_key
    from tasks.rag.retrieval.weights import DEFAULTS

    settings = {"route": common.route, "search": DEFAULTS.model_dump(mode="json"), "version": program_version()}
    if weights := _weights_of(point.reranker) if point.reranker else "":
        settings["reranker_weights"] = weights
    return point_key(point, index_digest=opened.digest, questions=questions_digest(common.asked), settings=settings)


@cache
def _weights_of(reranker: str) -> str:
    from models.embedders import fingerprint_of

    return fingerprint_of(reranker)


def _usual() -> Point:
    """How `trivet rag index` cuts and `trivet rag search` searches when nobody says otherwise."""
    from tasks.rag.measuring.sweep import Chunking, Point

    usual = Chunking(chunk_chars=CHUNK_CHARS, overlap_chars=OVERLAP_CHARS)
    return Point(chunking=usual, strategy=STRATEGY, bm25_weight=1.0)


def _row(common: Sweep, swept: Swept, opened: Index, folder: Path) -> Evaluated:
    from tasks.rag.measuring.indexes import subject_of
    from tasks.rag.measuring.measured_figures import measure
    from tasks.rag.measuring.measurement_rows import Made, Measurement, record

    return record(
        Measurement(measure(common.asked, swept.ranked), swept.ranked),
        common.asked,
        run=swept.key,
        made=Made(program_version(), git_commit(), swept.started_at, swept.ended_at),
        subject=subject_of(opened, folder),
        file=common.file,
        split=common.split,
        settings=swept.point.model_dump(mode="json") | {"route": common.route},
    )


class _Kept:
    """The finished points of a folder, a line each; a line is on the disk before the next point begins."""

    def __init__(self, path: Path) -> None:
        from storage.files import make_folder
        from tasks.rag.measuring.sweep import read_kept

        make_folder(path.parent)
        self.path = path
        self.used = 0
        """Points that were there."""
        text = path.read_text("utf-8", errors="replace") if path.exists() else ""
        self._torn = bool(text) and not text.endswith("\n")
        self._kept = read_kept(text.split("\n"))

    def get(self, key: str) -> Swept | None:
        found = self._kept.get(key)
        self.used += found is not None
        return found

    def add(self, swept: Swept) -> Swept:
        with self.path.open("a", encoding="utf-8") as file:
            file.write(("\n" if self._torn else "") + swept.model_dump_json() + "\n")
            file.flush()
            os.fsync(file.fileno())
        self._torn = False
        return swept


def _write_files(out: Path, compared: Compared) -> None:
    from storage.files import write
    from tasks.rag.measuring.sweep import as_csv, as_json
    from tasks.rag.measuring.sweep_plot import draw_sweep

    write(out / "sweep.json", json.dumps(as_json(compared), ensure_ascii=False, indent=1).encode())
    write(out / "sweep.csv", as_csv(compared).encode())
    write(out / "sweep.png", draw_sweep(compared, "png"))
    write(out / "sweep.svg", draw_sweep(compared, "svg"))
