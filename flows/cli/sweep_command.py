"""`trivet rag sweep`: the same questions over chunkings and searches; finished points are kept."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from pydantic import BaseModel, ConfigDict, ValidationError
from rich.markup import escape
from rich.table import Table

from flows.cli.commands import Flag, Given, Json, Options, nested
from flows.cli.engine import progress_bars
from flows.cli.index_command import run_build
from flows.cli.measure_command import QuestionsFile, StoreOption, console, keep, rounded
from flows.cli.output import INTERRUPTED, REFUSED, emit, fail, plain_errors, sentences
from flows.cli.shared_options import Strategy, require_file
from flows.running.environment import git_commit, program_version
from flows.running.settings import settings
from models.model_errors import ModelError
from storage.files import make_folder, write
from storage.storage_errors import StorageError
from tasks import progress
from tasks.rag import CHUNK_CHARS, OVERLAP_CHARS, STRATEGY
from tasks.rag.retrieval.weights import DEFAULTS

if TYPE_CHECKING:
    from storage.evaluations import Evaluated
    from storage.index_generation import Index
    from tasks.rag.measuring.ranking_metrics import Mean, Place, Question
    from tasks.rag.measuring.sweep import Chunking, Compared, Point, Row, Swept

POINTS = "points.jsonl"


class SweepConfig(BaseModel):
    """What a sweep varies, and what all its points have in common."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    chunk: str = f"{CHUNK_CHARS}/{OVERLAP_CHARS},300/50"
    """Chunk sizes and overlaps, in characters."""
    strategy: tuple[Strategy, ...] = ()
    """How chunks are found. Unset: in every way."""
    bm25_weight: str = "0.25,0.5,1,2"
    """Weights of BM25 in rrf, relative to the vectors."""
    rerank: str | None = None
    """Cross-encoder by name or path; every search runs with and without it."""
    embedder: str = "minilm"
    """Embedding model, as for `trivet rag index`."""
    metadata: Path | None = None
    """CSV with facts about the documents, as for `trivet rag index`."""
    vlm: str | None = None
    """Model that describes figures, as for `trivet rag index`."""
    route: bool = True
    """Look first in the documents that the question names."""
    split: str | None = None
    """Use only the lines with this value of `split`."""


OPTIONS = Options(
    "flows.cli.sweep_command:SweepConfig",
    {
        "chunk": Flag(metavar="CHARS/OVERLAP,…"),
        "strategy": Flag(
            metavar="NAME", help=f"How chunks are found: {', '.join(Strategy)}; may be repeated. Unset: all."
        ),
        "bm25_weight": Flag(metavar="WEIGHT,…"),
        "rerank": Flag(metavar="NAME"),
        "embedder": Flag(),
        "metadata": Flag(),
        "vlm": Flag(metavar="MODEL"),
        "route": Flag("--route/--no-route"),
        "split": Flag(metavar="NAME"),
    },
)


class Sweep(NamedTuple):
    """What every point of a sweep has in common."""

    config: SweepConfig
    documents: Path
    out: Path
    file: Path
    asked: Sequence[Question]
    reranker_weights: str
    """Fingerprint of the reranker; empty if there is none."""
    quiet: bool


def sweep(
    given: Given,
    questions: QuestionsFile,
    documents: Annotated[Path, typer.Option(help="Folder of the documents; indexed once per chunking.")],
    out: Annotated[Path, typer.Option(help="Folder for the indexes, the finished points, the table and the plot.")],
    store: StoreOption = True,
    as_json: Json = False,
) -> None:
    """Measure chunkings and searches with the same questions; a killed sweep continues where it stopped."""
    from models.embedders import fingerprint_of
    from tasks.rag.measuring import sweep
    from tasks.rag.measuring.measured_figures import choose
    from tasks.rag.measuring.ranking_metrics import read_questions

    require_file(questions, "a JSONL file of questions")
    config = SweepConfig.model_validate(nested(given))
    with plain_errors(StorageError, ValueError, failed=(ModelError,)):
        asked = [one for one in choose(read_questions(questions), config.split) if one.document]
        points = sweep.grid(
            sweep.read_chunkings(config.chunk),
            [one.value for one in config.strategy or Strategy],
            bm25_weights=sweep.read_weights(config.bm25_weight),
            rerankers=(None, config.rerank) if config.rerank else (None,),
        )
        weights = fingerprint_of(config.rerank) if config.rerank else ""
        common = Sweep(config, documents, out, questions, asked, reranker_weights=weights, quiet=as_json)
        try:
            swept, rows, notes = _measure(common, points)
        except KeyboardInterrupt:
            fail("interrupted; finished points are kept, run the same command again to go on", INTERRUPTED)
        # the defaults of `trivet rag index` and `trivet rag search`
        usual = sweep.Chunking(chunk_chars=CHUNK_CHARS, overlap_chars=OVERLAP_CHARS)
        default = sweep.Point(chunking=usual, strategy=STRATEGY, bm25_weight=1.0)
        compared = sweep.compare(swept, sweep.baseline(points, default))
        _write_files(out, compared)
    notes += keep(rows) if store else []
    told: dict[str, Any] = sweep.as_json(compared) | {"out": str(out), "notes": notes}
    emit(told, as_json, lambda: _show(compared, out, notes))


def _measure(common: Sweep, points: Sequence[Point]) -> tuple[list[Swept], list[Evaluated], list[str]]:
    """Build the indexes, so that their errors show early; then measure the points that are missing.

    Returns the points, their rows for the database, and notes.
    """
    from storage.index import open_index
    from tasks.rag.measuring.measured_figures import gold_in

    if not common.asked:
        raise ValueError(f"{common.file}: no question has a gold document; a sweep needs at least one")
    folders, notes = _build(common, list(dict.fromkeys(point.chunking for point in points)))
    measured: list[Swept] = []
    rows: list[Evaluated] = []
    path = common.out / POINTS
    kept, new = _kept_in(path), 0
    with progress_bars(common.quiet):
        for chunking, folder in folders.items():
            with open_index(folder) as opened:
                for point in (point for point in points if point.chunking == chunking):
                    key = _key(common, point, opened)
                    if key not in kept:
                        kept[key] = _sweep(common, point, opened, key=key)
                        _append(path, kept[key].model_dump_json() + "\n")
                        new += 1
                    measured.append(kept[key])
                    rows.append(_row(common, kept[key], opened, folder))
                notes += gold_in(opened, common.asked).notes
    if used := len(points) - new:
        notes.append(f"{used} of {len(points)} points were measured before; remove {path} to measure them again")
    return measured, rows, list(dict.fromkeys(notes))


def _build(common: Sweep, chunkings: Sequence[Chunking]) -> tuple[dict[Chunking, Path], list[str]]:
    """Build an index per chunking, with one server for all builds; unchanged ones are only checked."""
    from flows.running.command_server import prefect_api

    folders: dict[Chunking, Path] = {}
    notes: list[str] = []
    metadata = common.config.metadata and common.config.metadata.absolute()
    with prefect_api(settings().home):
        for chunking in chunkings:
            folder = common.out / f"index-{chunking.chunk_chars}-{chunking.overlap_chars}"
            chosen = {
                "documents": common.documents.absolute(),
                "index": folder.absolute(),
                "metadata": metadata,
                "embedder": common.config.embedder,
                "vlm": common.config.vlm,
                **chunking.model_dump(),
            }
            try:
                outcome = run_build(chosen, quiet=common.quiet)
            except ValidationError as error:
                fail(sentences(error), REFUSED)
            folders[chunking] = folder
            if (failed := outcome.report.documents.failed) and not notes:  # the same ones for every chunking
                notes.append(f"documents that failed, and are in no index: {failed}; see `trivet rag status`")
            if outcome.unfinished:
                notes.append(outcome.unfinished)
    return folders, notes


def _sweep(common: Sweep, point: Point, opened: Index, *, key: str) -> Swept:
    from tasks.rag.measuring.measured_figures import gold_in, places_in
    from tasks.rag.measuring.ranking_metrics import rank_questions, summarise
    from tasks.rag.measuring.sweep import Swept

    started, times = datetime.now(UTC), list[float]()
    weight = 1.0 if point.bm25_weight is None else point.bm25_weight
    search = places_in(
        opened, strategy=point.strategy, bm25_weight=weight, route=common.config.route, rerank=point.reranker
    )

    def places(question: Question) -> list[Place]:
        before = time.perf_counter()
        found = search(question)
        times.append(1000 * (time.perf_counter() - before))
        return found

    gold = gold_in(opened, common.asked)
    ranked = rank_questions(progress.counted(point.name, common.asked), places, name_of=gold.name_of)
    return Swept(
        key=key,
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


def _key(common: Sweep, point: Point, opened: Index) -> str:
    from tasks.rag.measuring.measured_figures import questions_digest
    from tasks.rag.measuring.sweep import point_key

    settings = {"route": common.config.route, "search": DEFAULTS.model_dump(mode="json"), "version": program_version()}
    if point.reranker and common.reranker_weights:
        settings["reranker_weights"] = common.reranker_weights
    return point_key(point, index_digest=opened.digest, questions=questions_digest(common.asked), settings=settings)


def _row(common: Sweep, swept: Swept, opened: Index, folder: Path) -> Evaluated:
    from tasks.rag.measuring.measured_figures import Made, Measurement, measure, record, subject_of

    return record(
        Measurement(measure(common.asked, swept.ranked), swept.ranked),
        common.asked,
        run=swept.key,
        made=Made(program_version(), git_commit(), swept.started_at, swept.ended_at),
        subject=subject_of(opened, folder),
        file=common.file,
        split=common.config.split,
        settings=swept.point.model_dump(mode="json") | {"route": common.config.route},
    )


def _kept_in(path: Path) -> dict[str, Swept]:
    """The finished points in a file, by key; new lines may be appended to it."""
    from tasks.rag.measuring.sweep import read_kept

    make_folder(path.parent)
    text = path.read_text("utf-8", errors="replace") if path.exists() else ""
    if text and not text.endswith("\n"):
        _append(path, "\n")  # a killed sweep left half a line
    return read_kept(text.split("\n"))


def _append(path: Path, text: str) -> None:
    """Append to a file, and wait until it is on disk."""
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _write_files(out: Path, compared: Compared) -> None:
    from tasks.rag.measuring.sweep import as_csv, as_json, draw_sweep

    write(out / "sweep.json", json.dumps(as_json(compared), ensure_ascii=False, indent=1).encode())
    write(out / "sweep.csv", as_csv(compared).encode())
    write(out / "sweep.png", draw_sweep(compared, "png"))
    write(out / "sweep.svg", draw_sweep(compared, "svg"))


def _show(compared: Compared, folder: Path, notes: Sequence[str]) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)  # it fits 80 columns
    for header in ("chunks", "search", "mrr@10", "95 %", "hit@5", "differs", "95 %", "ms"):
        table.add_column(header, no_wrap=header != "search")
    for row in compared.rows:
        table.add_row(*_cells(row, compared))
    console.print(table)
    base = escape(compared.baseline.name)
    console.print(f"[dim]by {compared.unit}; differs: mrr@10 less that of {base}, paired by question[/dim]")
    for name in ("sweep.png", "sweep.svg", "sweep.csv", "sweep.json"):
        console.print(f"  {escape(str(folder / name))}", soft_wrap=True)
    console.print_notes(notes)


def _cells(row: Row, compared: Compared) -> tuple[str, ...]:
    point, evaluation = row.swept.point, row.swept.evaluation
    figures = evaluation.page if compared.unit == "page" else evaluation.document
    cells = (
        point.chunking.name,
        escape(point.search_name),
        rounded(row.value),
        f"{row.value.low:.2f}–{row.value.high:.2f}",
        rounded(figures["hit@5"]),
        *_difference(row.difference),
        f"{row.swept.question_ms:.3g}",
    )
    return tuple(f"[bold]{cell}[/bold]" for cell in cells) if point == compared.baseline else cells


def _difference(mean: Mean | None) -> tuple[str, str]:
    """Difference and interval, coloured if the interval excludes zero."""
    if mean is None:
        return "–", ""
    colour = "green" if mean.low > 0 else "red" if mean.high < 0 else None
    value = f"{mean.value:+.3f}"
    return f"[{colour}]{value}[/{colour}]" if colour else value, f"{mean.low:+.2f} {mean.high:+.2f}"
