"""Steps of a night besides its evaluations."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from storage import files
from storage.files import alone, sha256_of
from storage.index import open_index
from storage.records import Record, Ref
from storage.storage_errors import StorageError
from tasks import progress
from tasks.calls import wait_for_twin
from tasks.keys import slug
from tasks.nightly import night_history
from tasks.nightly.night_records import Failure, Night, NightReport
from tasks.nightly.suite import RegressionRules, Suite, SuiteIndex, read_suite
from tasks.rag.answering.assistant import open_assistant
from tasks.rag.answering.wiring import Models
from tasks.rag.answers import AnswerSettings
from tasks.rag.measuring import measured_figures
from tasks.rag.measuring.answer_checks import AnswerCheck, check_answers
from tasks.rag.measuring.measured_figures import Measurement, Provenance
from tasks.rag.measuring.ranking_metrics import rank_questions, read_questions
from tasks.resources import artifacts, evaluations, incidents, resources, responses
from tasks.step import Incomplete, step


class Program(Record):
    """Version and commit of the program that measures."""

    version: str
    git_commit: str | None


@step(version=1, reads_world=True)
def begin_night() -> datetime:
    """Return the start of the night, which a retry keeps."""
    return datetime.now(UTC)


@step(version=1, reads_world=True)
def open_suite(file: Path, *, digest: str) -> Suite:
    """Read the suite file. Raises SuiteUnusable. digest: of the file, so that a retry reads an edited file again."""
    del digest
    return read_suite(file)


@step(version=1, reads_world=True)
def tokens_since(started: datetime, *, after: str) -> int:
    """Count the tokens of model calls since the night began; after: the part that ended, for a key of its own."""
    del after
    return responses().tokens_since(started)


@step(version=1, reads_world=True, verify=lambda run, _: evaluations().has(run, {}))
def measure_index(
    asked: SuiteIndex, *, index: Path, generation: str, run: str, started: datetime, models: Models, program: Program
) -> str:
    """Measure an index version with its questions, write rows to the database, and return their run's ID.

    generation: each is measured anew. Raises ValueError for unreadable questions, Incomplete if the model was away.
    """
    del generation
    assert asked.questions
    search_settings = asked.model_dump(mode="json", include={"strategy", "rerank", "answers"})
    search_settings |= {"bm25_weight": 1.0, "route": True}  # as rows of nights have them that could choose these
    questions = read_questions(asked.questions)
    with open_index(index) as opened:
        gold = measured_figures.gold_in(opened, questions)
        places = measured_figures.places_in(
            opened, strategy=asked.strategy, bm25_weight=1.0, route=True, rerank=asked.rerank
        )
        ranked = rank_questions(progress.counted("search", questions), places, name_of=gold.name_of)
        checks: Sequence[AnswerCheck] = ()
        if asked.answers:
            settings = AnswerSettings(strategy=asked.strategy)
            with open_assistant(
                index, models=models, patient=True, reranker=asked.rerank, answers=settings
            ) as assistant:
                checks = check_answers(progress.counted("answer", questions), assistant, name_of=gold.name_of)
        measured = measured_figures.measure(ranked, checks if asked.answers else None)
        provenance = Provenance(program.version, program.git_commit, started, datetime.now(started.tzinfo))
        rows = measured_figures.record(
            Measurement(measured, ranked, checks),
            questions,
            run=run,
            provenance=provenance,
            subject=measured_figures.subject_of(opened, index),
            file=asked.questions,
            settings={**search_settings, "llm": models.wiring, "model": models.large},
        )
    evaluations().write([rows])
    if away := sum(check.model_away for check in checks):
        why = f"the model was away for {away} questions; their answers are the documents' own sentences"
        raise Incomplete(run, {"answers": why})
    return run


@step(version=1, reads_world=True)
def collect(night: Night, *, nights: int, rules: RegressionRules) -> Ref:
    """Store the night and its incidents; return the artifact of its report, without scores if the database is away."""
    earlier = [past for past in night_history.read_nights(Path(night.file), artifacts()) if past.run != night.run]
    try:
        report = night_history.build_report(night, earlier, evaluations(), incidents(), nights=nights, rules=rules)
        incidents().keep(night.file, night.run, report.incidents)
    except StorageError as error:
        failures = (*night.failures, Failure(what="database", why=str(error), may_pass=True))
        state = night_history.decide_state(failures, (), fails=rules.fail, measured=False)
        facts: dict[str, Any] = {"nights": len(earlier) + 1, "fails_on_regression": rules.fail}
        report = NightReport(night=night, state=state, failures=failures, **facts)
    with alone(resources().home, f"nights {night.file}", wait=wait_for_twin):  # the list is read and written back
        night_history.store_night(night, artifacts())
    return artifacts().save("night", report)


class Written(Record):
    """The files that users see: SHA-256 (hex) by path."""

    files: dict[str, str]


def _are_written(result: Written, inputs: dict[str, Any]) -> bool:
    del inputs
    return all(Path(path).is_file() and sha256_of(Path(path)) == digest for path, digest in result.files.items())


@step(version=1, verify=_are_written)
def write_files(report: Ref, *, output: Path) -> Written:
    """Write report.md and report.html in place of those of the night before."""
    from tasks.nightly.night_report import render_markdown, render_page

    read = artifacts().load(NightReport, report)
    digests: dict[str, str] = {}
    for name, text in (("report.md", render_markdown(read)), ("report.html", render_page(read))):
        data = text.encode("utf-8", "replace")  # names may hold lone surrogates
        files.write(output / name, data)
        digests[str(output / name)] = hashlib.sha256(data).hexdigest()
    return Written(files=digests)


@step(version=1, reads_world=True)
def publish_report(report: Ref, *, written: Sequence[str]) -> str:
    """Show the night, and where its files are, in the Prefect UI, and return the key of the artifact."""
    from prefect.artifacts import create_markdown_artifact

    from tasks.nightly.night_report import render_markdown

    read = artifacts().load(NightReport, report)
    key = f"nightly-{slug(read.night.suite)}-report"  # one key per suite, so that the UI shows its history
    places = "\n".join(f"- `{path}`" for path in written)
    markdown = f"{render_markdown(read)}\n## Files\n\n{places}\n"
    create_markdown_artifact(markdown=markdown, key=key, description=read.state)
    return key
