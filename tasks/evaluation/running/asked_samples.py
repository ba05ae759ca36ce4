"""What was asked and answered behind a sample, out of the artifacts of its run."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import NamedTuple, TypeVar

from pydantic import BaseModel

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.evaluation.evaluation_records import Item, Response, Sample, TaskResult

Model = TypeVar("Model", bound=BaseModel)


class Texts(NamedTuple):
    """The item and the response of a sample; None where the run has kept none."""

    item: Item | None
    response: Response | None


class Asked:
    """Items and responses of a task by sample; where the lines begin is held, not the lines."""

    def __init__(self, result: TaskResult, artifacts: Artifacts) -> None:
        self._result = result
        self._artifacts = artifacts

    def __call__(self, sample: Sample) -> Texts:
        """Raises MissingArtifact, DamagedArtifact."""
        item = self._items.get(sample.item)
        response = self._responses.get((sample.item, sample.repeat))
        return Texts(item and self._read(item, Item), response and self._read(response, Response))

    @cached_property
    def _items(self) -> dict[str, _Place]:
        refs = [self._result.items] if self._result.items else []
        return {item.id: place for item, place in self._lines(refs, Item)}

    @cached_property
    def _responses(self) -> dict[tuple[str, int], _Place]:
        lines = self._lines(self._result.responses, Response)
        return {(response.item, response.repeat): place for response, place in lines}

    def _lines(self, refs: Iterable[Ref], model: type[Model]) -> Iterable[tuple[Model, _Place]]:
        for ref in refs:
            offset = 0
            with self._artifacts.path(ref).open("rb") as file:
                for line in file:
                    yield model.model_validate_json(line), _Place(ref, offset)
                    offset += len(line)

    def _read(self, place: _Place, model: type[Model]) -> Model:
        with self._artifacts.path(place.ref).open("rb") as file:
            file.seek(place.offset)
            return model.model_validate_json(file.readline())


class _Place(NamedTuple):
    ref: Ref
    offset: int
