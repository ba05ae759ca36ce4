"""`trivet rag sweep`: the same questions over ways to cut and to search; finished points are kept."""

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
from flows.cli.opening import Json, RouteOption, Strategy, model_errors, require_file
from flows.cli.output import INTERRUPTED, REFUSED, emit, fail, plain_errors, sentences
from flows.cli.questions import Counted, QuestionsFile, Search, SplitOption, counting, places_in
from flows.cli.recording import StoreOption, keep
from flows.program import git_commit, program_version

if TYPE_CHECKING:
    from storage.evaluations import Evaluated
    from storage.index import Index
    from tasks.rag.measuring.metrics import Place, Question
    from tasks.rag.measuring.sweeping import Chunking, Compared, Point, Swept

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
    documents: Annotated[Path, typer.Option(help="Folder of the documents; indexed once per way to cut.")],
    out: Annotated[Path, typer.Option(help="Folder of the indexes, the finished points, the table and the plot.")],
    chunk: Annotated[
        str, typer.Option(metavar="CHARS/OVERLAP,…", help="Ways to cut, in characters.")
    ] = "800/120,300/50",
    strategy: Annotated[
        list[Strategy] | None,
        typer.Option(
            metavar="NAME", help="How chunks are found: similarity, mmr, bm25, rrf; may be given again. Default: all."
        ),
    ] = None,
    bm25_weight: Annotated[
        str, typer.Option(metavar="WEIGHT,…", help="How much words count in rrf beside meaning.")
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
    """Measure ways to cut and to search with the same questions; a killed sweep goes on where it was."""
    from storage.errors import StorageError
    from tasks.rag.measuring import sweeping
    from tasks.rag.measuring.figures import choose
    from tasks.rag.measuring.metrics import read_questions

    require_file(questions, "a JSONL file of questions")
    with plain_errors(StorageError, ValueError, failed=model_errors()):
        asked = [one for one in choose(read_questions(questions), split) if one.document]
        points = sweeping.grid(
            sweeping.read_chunkings(chunk),
            [one.value for one in strategy or Strategy],
            bm25_weights=sweeping.read_weights(bm25_weight),
            rerankers=(None, rerank) if rerank else (None,),
        )
        common = Sweep(documents, out, questions, split, asked, embedder, metadata, vlm, route, quiet=as_json)
        try:
            measured = _measure(common, points)
        except KeyboardInterrupt:
            fail("interrupted; finished points are kept, run the same command again to go on", INTERRUPTED)
        compared = sweeping.compare(measured.swept, sweeping.baseline(points, _usual()))
        _write_files(out, compared)
    unkept = keep(measured.rows) if store else None
    notes = [*measured.notes, *([unkept] if unkept else [])]
    told: dict[str, Any] = sweeping.as_json(compared) | {"out": str(out), "notes": notes}
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

    from flows.cli.building import run_build
    from flows.server import prefect_api
    from flows.settings import prepare_environment, settings

    prepare_environment()
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
    from tasks.rag.measuring.metrics import rank_questions, summarise
    from tasks.rag.measuring.sweeping import Swept

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
    from tasks.rag.measuring.recording import questions_digest
    from tasks.rag.measuring.sweeping import point_key
    from tasks.rag.retrieval.weights import DEFAULTS

    settings = {"route": common.route, "search": DEFAULTS.model_dump(mode="json"), "version": program_version()}
    if weights := _weights_of(point.reranker) if point.reranker else "":
        settings["reranker_weights"] = weights
    return point_key(point, index_digest=opened.digest, questions=questions_digest(common.asked), settings=settings)


@cache
def _weights_of(reranker: str) -> str:
    from models.rerankers import fingerprint_of

    return fingerprint_of(reranker)


def _usual() -> Point:
    """How `trivet rag index` cuts and `trivet rag search` searches when nobody says otherwise."""
    from tasks.rag.measuring.sweeping import Chunking, Point

    return Point(chunking=Chunking(chunk_chars=800, overlap_chars=120), strategy="rrf", bm25_weight=1.0)


def _row(common: Sweep, swept: Swept, opened: Index, folder: Path) -> Evaluated:
    from tasks.rag.measuring.figures import measure
    from tasks.rag.measuring.indexes import subject_of
    from tasks.rag.measuring.recording import Made, Measurement, record

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
        from tasks.rag.measuring.sweeping import read_kept

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
    from tasks.rag.measuring.plotting import draw_sweep
    from tasks.rag.measuring.sweeping import as_csv, as_json

    write(out / "sweep.json", json.dumps(as_json(compared), ensure_ascii=False, indent=1).encode())
    write(out / "sweep.csv", as_csv(compared).encode())
    write(out / "sweep.png", draw_sweep(compared, "png"))
    write(out / "sweep.svg", draw_sweep(compared, "svg"))
