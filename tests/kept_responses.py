"""A response store in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from storage.responses import StoredResponse


class Kept:
    """A response store in memory."""

    def __init__(self) -> None:
        self.rows: dict[str, StoredResponse] = {}

    def many(self, keys: Iterable[str]) -> dict[str, StoredResponse]:
        return {key: self.rows[key] for key in keys if key in self.rows}

    def put_many(self, rows: Mapping[str, StoredResponse]) -> None:
        self.rows = dict(rows) | self.rows  # as the table does, which keeps what was there first
