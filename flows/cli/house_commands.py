"""Upkeep of a home: `trivet backup`, `restore`, `gc`, `doctor`, and `trivet db` for its database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from flows.cli.commands import App, Json
from flows.cli.output import FAILED, REFUSED, emit, fail
from flows.running.settings import settings
from storage.artifacts import RESULTS, Artifacts, Results

if TYPE_CHECKING:
    from storage.backup import Manifest

ORPHANS_DAYS, HISTORY_DAYS = 7, 90
"""Default ages: an unreferenced artifact is soon of no use; to remove a result costs the repetition of its step."""
MOST_LINES = 20
"""Most lines that are shown of a list; --json has all of them."""


def backup(file: Path = typer.Argument(help="The tar file to write."), as_json: Json = False) -> None:
    """Write artifacts, results, judgments and the database to one tar file; runs may continue meanwhile."""
    from flows.service.api import Api, ApiFailed, auth_of, service_of
    from flows.service.deploy import SCHEDULES, pack_schedules
    from storage import backup as archive

    home, schedules = settings().home, dict[str, bytes]()
    if service := service_of(home):
        try:
            schedules[str(SCHEDULES)] = pack_schedules(Api(service.api_url, auth_of(home)))
        except ApiFailed as error:
            fail(f"the schedules of the service cannot be read: {error}; see `trivet status`, or stop it first")
    elif (home / "server").exists():
        typer.secho("note: schedules set in the UI are left out, since the service does not run", fg="yellow", err=True)
    manifest = archive.backup(home, _open_store(home), settings().database_address, file.absolute(), further=schedules)
    emit(manifest, as_json, lambda: typer.echo(f"{file}: {_describe_contents(manifest)}."))


def restore(file: Path = typer.Argument(help="A tar file that `trivet backup` wrote."), as_json: Json = False) -> None:
    """Restore a backup into an empty TRIVET_HOME, and verify it."""
    from storage import backup as archive

    home = settings().home
    manifest = archive.restore(file.absolute(), home, _open_store(home), settings().database_address)
    emit(manifest, as_json, lambda: typer.echo(f"{home}: {_describe_contents(manifest)}."))


def gc(
    dry_run: bool = typer.Option(False, "--dry-run", help="Only show what would be removed."),
    older_than: float | None = typer.Option(
        None,
        "--older-than",
        min=0.0,
        metavar="DAYS",
        help=f"Keep what is younger. Unset: {ORPHANS_DAYS} for unreferenced artifacts, {HISTORY_DAYS} for results.",
    ),
    calls_older_than: float | None = typer.Option(
        None,
        "--calls-older-than",
        min=0.0,
        metavar="DAYS",
        help="Also remove model calls stored before; a run that needs them asks again. Unset: all stay.",
    ),
    as_json: Json = False,
) -> None:
    """Remove results that no run has used since, and artifacts that nothing refers to."""
    from storage import cleanup
    from storage.embeddings import EmbeddingCache
    from tasks.resources import lineage, responses

    now, home = datetime.now(UTC), settings().home
    orphans, history = (
        timedelta(days=usual if older_than is None else older_than) for usual in (ORPHANS_DAYS, HISTORY_DAYS)
    )
    store = _open_store(home)
    collected = cleanup.collect(
        store,
        Results.of_store(store, home),
        older_than=orphans,
        unused_for=history,
        now=now,
        dry_run=dry_run,
        embeddings=EmbeddingCache.below(home),
    )
    calls = 0
    if calls_older_than is not None:
        calls = responses().prune(before=now - timedelta(days=calls_older_than), dry_run=dry_run)
    if not dry_run:
        names = [each.name for each in collected.removed]
        removed_names = [name.rpartition("/")[2] for name in names if not name.startswith(RESULTS)]
        lineage().note_collected(removed_names, at=now)

    def show() -> None:
        """Print what was removed or, in a dry run, would be."""
        for each in collected.removed[:MOST_LINES]:
            typer.echo(f"{each.name}  {_megabytes(each.size)}")
        if len(collected.removed) > MOST_LINES:
            typer.echo(f"… and {len(collected.removed) - MOST_LINES} more")
        verb = "Would remove" if collected.dry_run else "Removed"
        removed = f"{verb} {len(collected.removed)} ({_megabytes(collected.removed_bytes)})"
        typer.echo(f"{removed}; {collected.kept} artifacts and {collected.kept_results} results stay.")
        if collected.removed_vectors:
            typer.echo(f"{verb} {collected.removed_vectors} cached embeddings that no run has used since.")
        if calls:
            typer.echo(f"{verb} {calls} model calls of the response store.")

    emit({**collected.model_dump(mode="json"), "removed_calls": calls}, as_json, show)


def doctor(
    sandbox: bool = typer.Option(False, "--sandbox", help="Only test every wall of the sandbox for generated code."),
    gpu: bool = typer.Option(
        False, "--gpu", help="Only test driver, torch, memory, vLLM, FAISS, a generation and an index build."
    ),
    model: Path | None = typer.Option(
        None, "--model", exists=True, file_okay=False, help="With --gpu: folder of the model; unset: a tiny one."
    ),
    as_json: Json = False,
) -> None:
    """Check what is installed and configured, and print remedies; exit 1 if something required is missing."""
    from flows.service.doctor import examine
    from flows.service.gpu_doctor import examine_gpu

    if sandbox and gpu:
        fail("--sandbox and --gpu are tried one at a time; give one of them", REFUSED)
    if model and not gpu:
        fail(f"--model {model} is tried on a GPU; add --gpu", REFUSED)
    if sandbox:
        from tasks.sandbox import Sandbox
        from tasks.sandbox.walls import inspect_walls

        with Sandbox(workers=1) as opened:
            walls = inspect_walls(opened)
        facts = walls._asdict() | {"ok": walls.ok, "probes": [probe._asdict() for probe in walls.probes]}

        def show_walls() -> None:
            group = "bounded by a group" if walls.group else "bounded for each process: no cgroup can be written"
            typer.echo(f"{walls.engine}, Python {walls.python}; memory is {group}")
            width = max(len(probe.name) for probe in walls.probes)
            for probe in walls.probes:
                typer.secho(f"{'held' if probe.held else 'FELL':<6}", fg="green" if probe.held else "red", nl=False)
                typer.echo(f"{probe.name:<{width}}  {probe.detail}")
            for language, why in walls.languages.items():
                typer.secho(f"{'not' if why else 'runs':<6}", fg="yellow" if why else "green", nl=False)
                typer.echo(f"{language:<{width}}  {why or ''}".rstrip())

        emit(facts, as_json, show_walls)
        if not walls.ok:
            raise typer.Exit(FAILED)
        return
    report = examine_gpu(model) if gpu else examine(settings())

    def show() -> None:
        """Print the state of each pipeline, then of each check, with its remedy."""
        colours = {"ok": "green", "warn": "yellow", "missing": "red"}
        width = max(len(check.name) for check in report.checks)
        for check in (*report.legs, *report.checks):
            if report.legs and check is report.checks[0]:
                typer.echo()  # what works comes first, then why
            typer.secho(f"{check.status:<8}", fg=colours[check.status], nl=False)
            typer.echo(f"{check.name:<{width}}  {check.detail}")
            if check.remedy:
                typer.echo(f"{'':<{8 + width}}  → {check.remedy}")

    emit(report, as_json, show)
    if not report.ok:
        raise typer.Exit(FAILED)


def _open_store(home: Path) -> Artifacts:
    return Artifacts.open(settings().store or home / "store", cache=home / "cache" / "objects")


def _describe_contents(manifest: Manifest) -> str:
    """Return in words what a backup holds and how large it is."""
    database = "the database" if manifest.database else "no database"
    return (
        f"{manifest.artifacts} artifacts, {manifest.keys} keys, {manifest.results} results, {manifest.files} files of "
        f"people (judgments, options) and {database}, {_megabytes(manifest.bytes)}"
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


db = App(help="Manage the tables of the database.")


@db.command()
def upgrade(as_json: Json = False) -> None:
    """Migrate the tables to this version; starts the embedded server unless DATABASE_URL is set."""
    from storage import connections

    revisions = connections.upgrade(connections.locate(settings().database_address, settings().home))
    emit(revisions, as_json, lambda: typer.echo(f"The tables are at revision {revisions.current}."))


COMMANDS = (backup, restore, gc, doctor)
