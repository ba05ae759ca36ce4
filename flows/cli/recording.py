"""Figures go to the evaluation tables; a database that is away costs a note, not the figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from storage.evaluations import Evaluated

StoreOption = Annotated[bool, typer.Option(help="Keep the figures in the evaluation tables of the database.")]


def keep(evaluated: Sequence[Evaluated]) -> str | None:
    """Write to the database of the settings; returns a note where that is not possible."""
    from flows.settings import configure_steps
    from storage.errors import StorageError
    from tasks.resources import evaluations

    configure_steps()
    try:
        evaluations().write(evaluated)
    except StorageError as error:
        return f"the figures are not in the database: {error}"
    return None
