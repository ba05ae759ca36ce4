"""Artifacts of many records as JSONL, written and read one line at a time; items and responses found by sample."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_json

from storage import files
from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.evaluation.evaluation_records import Item, Response, Sample, TaskResult

Model = TypeVar("Model", bound=BaseModel)


def write_lines(artifacts: Artifacts, kind: str, records: Iterable[BaseModel]) -> Ref:
    """Store records as one artifact of JSON lines and return its ref; one record is held at a time."""
    with files.scratch(artifacts.root / "objects") as path:
        with path.open("xb") as file:
            for record in records:
                file.write(line_of(record))
        return artifacts.put_file(kind, path)


def read_lines(artifacts: Artifacts, ref: Ref, model: type[Model]) -> Iterator[Model]:
    """Yield the records of an artifact, in order. Raises MissingArtifact, DamagedArtifact."""
    with artifacts.path(ref).open("rb") as file:
        for line in file:
            yield model.model_validate_json(line)


def read_shards(artifacts: Artifacts, refs: Iterable[Ref], model: type[Model]) -> Iterator[Model]:
    """Yield the records of several artifacts, one after the other. Raises MissingArtifact, DamagedArtifact."""
    for ref in refs:
        yield from read_lines(artifacts, ref, model)


def line_of(record: BaseModel) -> bytes:
    """Return a record as a line of JSON; lone surrogates, which UTF-8 cannot hold, become `?`."""
    try:
        return record.model_dump_json().encode() + b"\n"
    except PydanticSerializationError:
        return json.dumps(record.model_dump(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"


class Texts(NamedTuple):
    """The item and the response behind a sample; each is None where the run stored none."""

    item: Item | None = None
    response: Response | None = None

    @property
    def prompts(self) -> tuple[str, ...]:
        """Prompts of the item, turn by turn."""
        return self.item.prompts if self.item else ()

    @property
    def replies(self) -> tuple[str, ...]:
        """Texts of the response, turn by turn."""
        return tuple(turn.text for turn in self.response.turns) if self.response else ()


class RecordedTask:
    """Finds the item and the response behind a sample of a task; only offsets of lines are held in memory."""

    def __init__(self, result: TaskResult, artifacts: Artifacts, *, only: str | None = None) -> None:
        """Find where each item and response of a task lies. Raises MissingArtifact, DamagedArtifact.

        only: an item; lines in which its name does not stand are not parsed, which takes most of the time.
        """
        self._artifacts = artifacts
        self._quoted_id = to_json(only) if only is not None else b""
        # without items it ran as a whole, and its responses are JSON of its own
        items, responses = ([result.items], result.responses) if result.items else ([], ())
        self._items = {item.id: place for item, place in self._lines(items, Item)}
        answers = self._lines(responses, Response)
        self._responses = {(answer.item, answer.repeat): place for answer, place in answers}

    def __call__(self, sample: Sample) -> Texts:
        item = self._items.get(sample.item)
        response = self._responses.get((sample.item, sample.repeat))
        return Texts(item and self._read(item, Item), response and self._read(response, Response))

    def _lines(self, refs: Iterable[Ref], model: type[Model]) -> Iterable[tuple[Model, _Place]]:
        """Yield the records whose lines hold the wanted id, or all, with file and offset in bytes of their lines."""
        for ref in refs:
            offset = 0
            with self._artifacts.path(ref).open("rb") as file:
                for line in file:
                    if self._quoted_id in line:
                        yield model.model_validate_json(line), _Place(ref, offset)
                    offset += len(line)

    def _read(self, place: _Place, model: type[Model]) -> Model:
        with self._artifacts.path(place.ref).open("rb") as file:
            file.seek(place.offset)
            return model.model_validate_json(file.readline())


class _Place(NamedTuple):
    ref: Ref
    offset: int
