"""Steps of a night besides its evaluations."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storage import files
from storage.files import alone, sha256_of
from storage.records import Record, Ref
from storage.storage_errors import StorageError
from tasks.calls import wait_for_twin
from tasks.keys import slug
from tasks.nightly import night_collecting, night_measuring
from tasks.nightly.night_measuring import Program
from tasks.nightly.night_records import Failure, Night, NightReport
from tasks.nightly.suite import RegressionRules, Suite, SuiteIndex, read_suite
from tasks.rag.answering.wiring import Models
from tasks.resources import artifacts, evaluations, incidents, resources, responses
from tasks.step import Incomplete, step


@step(version=1, reads_world=True)
def begin_night() -> datetime:
    """Start of the night; a retry keeps it."""
    return datetime.now(UTC)


@step(version=1, reads_world=True, aside=("known",))
def open_suite(file: Path, *, digest: str, known: Mapping[str, Any]) -> Suite:
    """Read the suite file; known: names of `trivet eval run` with their defaults. Raises SuiteUnusable.

    digest: of the file, so that a retry reads an edited file again.
    """
    del digest
    return read_suite(file, known=known)


@step(version=1, reads_world=True)
def tokens_since(started: datetime, *, after: str) -> int:
    """Tokens of the model calls since the night began; after: the part that has ended, which asks anew."""
    del after
    return responses().tokens_since(started)


def _is_in_database(result: str, inputs: dict[str, Any]) -> bool:
    del inputs
    return evaluations().has(result, {})


@step(version=1, reads_world=True, verify=_is_in_database)
def measure_index(
    asked: SuiteIndex, *, index: Path, generation: str, run: str, started: datetime, models: Models, program: Program
) -> str:
    """Measure a generation of an index with its questions, into the evaluation tables; gives the id of the rows' run.

    generation: so that a refreshed index is measured anew.
    """
    del generation
    measured = night_measuring.measure_index(asked, index, run=run, started=started, models=models, program=program)
    evaluations().write([measured.rows])
    if measured.away:
        why = f"the model was away for {measured.away} questions; their answers are the documents' own sentences"
        raise Incomplete(run, {"answers": why})
    return run


@step(version=1, reads_world=True)
def collect(night: Night, *, nights: int, rules: RegressionRules) -> Ref:
    """Store the night, its incidents and its report, which compares it with the nights before."""
    earlier = [one for one in night_collecting.nights_of(Path(night.file), artifacts()) if one.run != night.run]
    try:
        report = night_collecting.collect(night, earlier, evaluations(), incidents(), nights=nights, rules=rules)
        incidents().keep(night.file, night.run, report.incidents)
    except StorageError as error:
        why = Failure(what="database", why=str(error), may_pass=True)
        report = night_collecting.without_figures(night, why, nights=len(earlier) + 1, rules=rules)
    with alone(resources().home, f"nights {night.file}", wait=wait_for_twin):
        night_collecting.keep(night, artifacts())
    return artifacts().save("night", report)


@step(version=1)
def draw(report: Ref) -> dict[str, Ref]:
    """The plots of a night, by file name."""
    from tasks.nightly.night_plots import plots_of

    drawn = plots_of(artifacts().load(NightReport, report))
    return {name: artifacts().put("plot", png) for name, png in drawn.items()}


class Written(Record):
    """Files that users see: path → SHA-256 (hex)."""

    files: dict[str, str]


def _are_written(result: Written, inputs: dict[str, Any]) -> bool:
    del inputs
    return all(Path(path).is_file() and sha256_of(Path(path)) == digest for path, digest in result.files.items())


@step(version=1, verify=_are_written)
def write_files(report: Ref, *, plots: dict[str, Ref], output: Path) -> Written:
    """Write report.md, report.html and the plots in place of those of the night before."""
    from tasks.nightly.night_page import render_page
    from tasks.nightly.night_report import markdown_of

    read = artifacts().load(NightReport, report)
    told = {
        "report.md": markdown_of(read, plots={name: name for name in plots}).encode("utf-8", "replace"),
        "report.html": render_page(read).encode("utf-8", "replace"),
    }
    content = {name: artifacts().get(ref) for name, ref in plots.items()} | told
    for name, data in content.items():
        files.write(output / name, data)
    return Written(files={str(output / name): hashlib.sha256(data).hexdigest() for name, data in content.items()})


@step(version=1, reads_world=True)
def publish_report(report: Ref, *, plots: dict[str, Ref], written: Sequence[str]) -> list[str]:
    """Show the night in the Prefect UI: the words with the plots, where the files are; gives the keys of the artifacts.

    The plots stand in the words as data URLs: an image artifact is shown as its address, and asks for the network.
    """
    from prefect.artifacts import create_markdown_artifact

    from tasks.nightly.night_report import markdown_of

    read = artifacts().load(NightReport, report)
    key = f"nightly-{slug(read.night.suite)}-report"  # one key per suite, so that the UI shows its history
    pictures = {name: base64.b64encode(artifacts().get(ref)).decode() for name, ref in plots.items()}
    urls = {name.removesuffix(".png"): f"data:image/png;base64,{picture}" for name, picture in pictures.items()}
    places = "\n".join(f"- `{path}`" for path in written)
    files = f"\n## Files\n\n{places}\n" if places else ""
    create_markdown_artifact(markdown=markdown_of(read, plots=urls) + files, key=key, description=read.state)
    return [key]
