"""Artifacts of many records as JSONL, written and read one line at a time."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypeVar

from pydantic import BaseModel
from pydantic_core import PydanticSerializationError

from storage import files
from storage.artifacts import Artifacts
from storage.records import Ref

Model = TypeVar("Model", bound=BaseModel)


def write_lines(artifacts: Artifacts, kind: str, records: Iterable[BaseModel]) -> Ref:
    """Store records as one artifact."""
    with files.scratch(artifacts.root / "objects") as path:
        with path.open("xb") as file:
            for record in records:
                file.write(line_of(record))
        return artifacts.put_file(kind, path)


def read_lines(artifacts: Artifacts, ref: Ref, model: type[Model]) -> Iterator[Model]:
    """The records of an artifact, in order. Raises MissingArtifact, DamagedArtifact."""
    with artifacts.path(ref).open("rb") as file:
        for line in file:
            yield model.model_validate_json(line)


def read_shards(artifacts: Artifacts, refs: Iterable[Ref], model: type[Model]) -> Iterator[Model]:
    """The records of several artifacts, one at a time. Raises MissingArtifact, DamagedArtifact."""
    for ref in refs:
        yield from read_lines(artifacts, ref, model)


def line_of(record: BaseModel) -> bytes:
    """A record as a line of JSON; lone surrogates, which UTF-8 cannot hold, become `?`."""
    try:
        return record.model_dump_json().encode() + b"\n"
    except PydanticSerializationError:
        return json.dumps(record.model_dump(), ensure_ascii=False).encode("utf-8", "replace") + b"\n"
