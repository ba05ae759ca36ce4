"""`trivet db`: the database's tables and the embedded server."""

from __future__ import annotations

from typing import Any

import typer

from flows.cli.commands import App
from flows.cli.output import emit, plain_errors

app = App(help="The database: tables, and the embedded PostgreSQL.")
JSON = typer.Option(False, "--json", help="One JSON object on stdout.")


@app.command()
def upgrade(as_json: bool = JSON) -> None:
    """Bring the tables to this version; starts the embedded server where DATABASE_URL is not set."""
    from flows.settings import settings
    from storage import database
    from storage.errors import StorageError

    configured = settings().database_url
    with plain_errors(failed=(StorageError,)):
        url = database.locate(configured.get_secret_value() if configured else None, settings().home)
        revisions = database.upgrade(url)
    emit(revisions, as_json, lambda: typer.echo(f"The tables are at revision {revisions.current}."))


@app.command()
def status(as_json: bool = JSON) -> None:
    """Show where the database is and the revision of its tables; starts nothing."""
    from flows.settings import settings
    from storage import database
    from storage.embedded import Cluster
    from storage.errors import StorageError

    configured = settings().database_url
    with plain_errors(failed=(StorageError,)):
        cluster = Cluster(settings().home).status()
        url = configured.get_secret_value() if configured else cluster.url if cluster.state == "running" else None
        shown = {
            "source": "DATABASE_URL" if configured else "embedded",
            "url": database.address(url).render_as_string(hide_password=True) if url else None,
            "embedded": cluster.model_dump(mode="json"),
            "revision": database.revisions(url).model_dump() if url else None,
        }
    emit(shown, as_json, lambda: _show(shown))


@app.command()
def stop(as_json: bool = JSON) -> None:
    """Stop the embedded server; the next command that needs it starts it again."""
    from flows.settings import settings
    from storage.embedded import Cluster
    from storage.errors import StorageError

    with plain_errors(failed=(StorageError,)):
        stopped = Cluster(settings().home).stop()
    emit({"stopped": stopped}, as_json, lambda: typer.echo("Stopped." if stopped else "It was not running."))


def _show(shown: dict[str, Any]) -> None:
    embedded, revision = shown["embedded"], shown["revision"]
    if shown["source"] == "DATABASE_URL":
        typer.echo(f"DATABASE_URL: {shown['url']}")
    else:
        pid = f", pid {embedded['pid']}" if embedded["pid"] else ""
        where = f" in {embedded['folder']} (PostgreSQL {embedded['major']}{pid})" if embedded["folder"] else ""
        typer.echo(f"Embedded PostgreSQL: {embedded['state']}{where}")
    if revision is None:
        return
    behind = revision["current"] != revision["head"]
    typer.echo(
        f"Tables: {revision['current'] or 'none'}"
        + (f"; run `trivet db upgrade` to {revision['head']}" if behind else "")
    )
