"""Where an index is: a folder, or the address of an engine that keeps it, for which a folder of the home stands."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

from pydantic import BeforeValidator, PlainSerializer

from flows.running.settings import settings
from storage.engines import index_name, is_address, place_of, read_address


def index_place(word: str) -> Path:
    """The folder for `DIR` or for an address; its password goes to PGPASSWORD, for this process and its children.

    Raises NotAnIndex for an engine that there is not.
    """
    if not is_address(word):
        return Path(word)
    address = read_address(word)
    if address.password:
        os.environ["PGPASSWORD"] = address.password
    return place_of(address.url, settings().home)


def _parsed(given: object) -> object:
    return str(index_place(given)) if isinstance(given, str) else given


IndexPlace = Annotated[Path, BeforeValidator(_parsed), PlainSerializer(index_name, return_type=str)]
"""Field of a configuration: read from a folder or an address, and written as that, without a password."""
