"""The items and responses that a run kept, looked up by sample."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

from pydantic import BaseModel
from pydantic_core import to_json

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.evaluation.evaluation_records import Item, Response, Sample, TaskResult

Model = TypeVar("Model", bound=BaseModel)


class Texts(NamedTuple):
    """The item and the response of a sample; None where the run kept none."""

    item: Item | None
    response: Response | None


class Asked:
    """Items and responses of a task by sample; only offsets of lines are held."""

    def __init__(self, result: TaskResult, artifacts: Artifacts, *, only: str | None = None) -> None:
        """Raises MissingArtifact, DamagedArtifact.

        only: an item; lines in which its name does not stand are not parsed, which takes most of the time.
        """
        self._artifacts = artifacts
        self._named = to_json(only) if only is not None else b""
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
        for ref in refs:
            offset = 0
            with self._artifacts.path(ref).open("rb") as file:
                for line in file:
                    if self._named in line:
                        yield model.model_validate_json(line), _Place(ref, offset)
                    offset += len(line)

    def _read(self, place: _Place, model: type[Model]) -> Model:
        with self._artifacts.path(place.ref).open("rb") as file:
            file.seek(place.offset)
            return model.model_validate_json(file.readline())


class _Place(NamedTuple):
    ref: Ref
    offset: int
