"""Keeping house: `trivet backup`, `restore`, `gc` and `doctor`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.output import DONE_WITH_FAILURES, REFUSED, emit, fail, plain_errors

if TYPE_CHECKING:
    from flows.doctor import Report
    from flows.old_runs import History
    from storage.artifacts import Artifacts
    from storage.backup import Manifest
    from storage.cleanup import Cleanup
    from tasks.evaluation.sandbox.walls import Inspection

JSON = typer.Option(False, "--json", help="One JSON object on stdout.")
ORPHANS_DAYS, HISTORY_DAYS = 7, 90
"""What nothing refers to is soon of no use; a result that is gone costs doing its step again."""
SHOWN = 20
"""Lines of a long list that people get; --json has them all."""


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    for command in (backup, restore, gc, doctor):
        app.command()(command)


def backup(
    file: Path = typer.Argument(help="The tar file to write."),
    as_json: bool = JSON,
) -> None:
    """Write artifacts, keys, results and the database to one tar file; runs may go on meanwhile."""
    from flows.settings import settings
    from storage import backup as archive
    from storage.errors import BackupUnusable, StorageError

    with plain_errors(BackupUnusable, failed=(StorageError,)):
        manifest = archive.backup(settings().home, _store(), _database_url(), file.absolute())
    emit(manifest, as_json, lambda: typer.echo(f"{file}: {_contents(manifest)}."))


def restore(
    file: Path = typer.Argument(help="A tar file that `trivet backup` wrote."),
    as_json: bool = JSON,
) -> None:
    """Bring a backup into an empty TRIVET_HOME, verified."""
    from flows.settings import settings
    from storage import backup as archive
    from storage.errors import BackupUnusable, StorageError

    with plain_errors(BackupUnusable, failed=(StorageError,)):
        manifest = archive.restore(file.absolute(), settings().home, _store(), _database_url())
    emit(manifest, as_json, lambda: typer.echo(f"{settings().home}: {_contents(manifest)}."))


def gc(
    dry_run: bool = typer.Option(False, "--dry-run", help="Only show what would be removed."),
    older_than: float | None = typer.Option(
        None,
        "--older-than",
        min=0.0,
        metavar="DAYS",
        help=f"Keep what is younger; unless given, {ORPHANS_DAYS} for what nothing refers to, {HISTORY_DAYS} for runs.",
    ),
    shared_runs: bool = typer.Option(
        False, "--shared-runs", help="Also remove this house's old runs at the server of PREFECT_API_URL."
    ),
    as_json: bool = JSON,
) -> None:
    """Remove runs that ended long ago, results that no run has used since, and what nothing refers to any more."""
    from datetime import UTC, datetime, timedelta

    from flows.old_runs import clear_history
    from flows.settings import settings
    from storage import cleanup
    from storage.errors import StorageError
    from storage.results import Results

    now, store = datetime.now(UTC), _store()
    orphans, history = (
        timedelta(days=usual if older_than is None else older_than) for usual in (ORPHANS_DAYS, HISTORY_DAYS)
    )
    with plain_errors(failed=(StorageError,)):
        cleared = clear_history(settings().home, ended_before=now - history, dry_run=dry_run, shared=shared_runs)
        done = cleanup.collect(
            store,
            Results.beside(store, settings().home),
            older_than=orphans,
            unused_for=history,
            now=now,
            dry_run=dry_run,
            needed=cleared.needed,
        )
    prefect = [each.model_dump(mode="json") for each in cleared.histories]
    emit({**done.model_dump(mode="json"), "prefect": prefect}, as_json, lambda: _show_cleanup(done, cleared.histories))
    for each in cleared.histories:
        if each.trouble:
            typer.secho(f"note: {each.server}: {each.trouble}", fg="yellow", err=True)
    if cleared.histories and cleared.needed is None:
        raise typer.Exit(DONE_WITH_FAILURES)


def doctor(
    sandbox: bool = typer.Option(False, "--sandbox", help="Try every wall around generated code, and only these."),
    gpu: bool = typer.Option(
        False, "--gpu", help="Try driver, torch, memory, vLLM, FAISS, a generation and an index build, and only these."
    ),
    model: Path | None = typer.Option(
        None, "--model", exists=True, file_okay=False, help="With --gpu: the model that generates; else a tiny one."
    ),
    as_json: bool = JSON,
) -> None:
    """Show what is installed, configured and missing, with the command that mends it; exit 1 if something needed is."""
    if sandbox and gpu:
        fail("--sandbox and --gpu are tried one at a time; give one of them", REFUSED)
    if model and not gpu:
        fail(f"--model {model} is tried on a GPU; add --gpu", REFUSED)
    if sandbox:
        _walls(as_json)
        return
    from flows.doctor import examine
    from flows.gpu_doctor import examine_gpu
    from flows.settings import settings

    report = examine_gpu(model) if gpu else examine(settings())
    emit(report, as_json, lambda: _show_report(report))
    if not report.ok:
        raise typer.Exit(1)


def _walls(as_json: bool) -> None:
    """The walls around generated code, tried; exit 1 when one does not hold."""
    from tasks.evaluation.errors import SandboxUnavailable
    from tasks.evaluation.sandbox import Sandbox
    from tasks.evaluation.sandbox.walls import inspect

    with plain_errors(failed=(SandboxUnavailable,)), Sandbox(workers=1) as opened:
        found = inspect(opened)
    told = found._asdict() | {"ok": found.ok, "probes": [probe._asdict() for probe in found.probes]}
    emit(told, as_json, lambda: _show_walls(found))
    if not found.ok:
        raise typer.Exit(1)


def _show_walls(found: Inspection) -> None:
    group = "bounded by a group" if found.group else "bounded for each process: no cgroup can be written"
    typer.echo(f"{found.engine}, Python {found.python}; memory is {group}")
    width = max(len(probe.name) for probe in found.probes)
    for probe in found.probes:
        typer.secho(f"{'held' if probe.held else 'FELL':<6}", fg="green" if probe.held else "red", nl=False)
        typer.echo(f"{probe.name:<{width}}  {probe.detail}")
    for language, why in found.languages.items():
        typer.secho(f"{'not' if why else 'runs':<6}", fg="yellow" if why else "green", nl=False)
        typer.echo(f"{language:<{width}}  {why or ''}".rstrip())


def _store() -> Artifacts:
    from flows.settings import settings
    from storage.artifacts import Artifacts

    read = settings()
    return Artifacts.open(read.store or read.home / "store", cache=read.home / "cache" / "objects")


def _database_url() -> str | None:
    from flows.settings import settings

    configured = settings().database_url
    return configured.get_secret_value() if configured else None


def _contents(manifest: Manifest) -> str:
    database = "the database" if manifest.database else "no database"
    return (
        f"{manifest.artifacts} artifacts, {manifest.keys} keys, {manifest.results} results and {database}, "
        f"{_megabytes(manifest.bytes)}"
    )


def _show_cleanup(done: Cleanup, histories: Sequence[History]) -> None:
    for each in done.removed[:SHOWN]:
        typer.echo(f"{each.name}  {_megabytes(each.size)}")
    if len(done.removed) > SHOWN:
        typer.echo(f"… and {len(done.removed) - SHOWN} more")
    verb = "Would remove" if done.dry_run else "Removed"
    typer.echo(
        f"{verb} {len(done.removed)} ({_megabytes(done.removed_bytes)}); "
        f"{done.kept} artifacts and {done.kept_results} results stay."
    )
    for each in histories:
        if not each.trouble:
            runs = ", ".join(f"{flow} {number}" for flow, number in sorted(each.runs.items())) or "none"
            typer.echo(
                f"{verb} Prefect runs at {each.server}: {runs}, with {each.artifacts} artifacts of theirs; "
                f"{each.unfinished} have not ended and stay."
            )
    if not histories and done.kept_results:
        typer.echo("No Prefect server is known here that tells which results unfinished runs need: all of them stay.")


def _show_report(report: Report) -> None:
    colours = {"ok": "green", "warn": "yellow", "missing": "red"}
    width = max(len(check.name) for check in report.checks)
    for check in report.checks:
        typer.secho(f"{check.status:<8}", fg=colours[check.status], nl=False)
        typer.echo(f"{check.name:<{width}}  {check.detail}")
        if check.remedy:
            typer.echo(f"{'':<{8 + width}}  → {check.remedy}")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"
