"""Steps that read files of earlier runs, ours or Lever-Plus's, and write files for users."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from storage.files import sha256_of
from storage.records import Record, Ref
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import Dataset, Embedded, PoolRecipe, Pools
from tasks.lever.opened_worlds import RECORDED, World
from tasks.resources import artifacts
from tasks.step import step


class CheckpointRead(Record):
    """A selector that was read from a file."""

    weights: Ref
    recipe: PoolRecipe
    """Of the pools that it was trained in."""
    notes: tuple[str, ...]
    """Notes for the user."""


@step(version=2, reads_world=True)
def read_checkpoint(path: Path, *, heads: int, embedded: Embedded) -> CheckpointRead:
    """The selector in a checkpoint, ours or Lever-Plus's; nothing in the file is executed."""
    from tasks.lever.learning.checkpoints import POOLS_OF, open_selector, save_selector

    opened = open_selector(path, heads=heads)
    opened.refuse_other(embedded.encoder, dimension=embedded.dimension, path=path)
    opened.refuse_other_sight(with_answers=embedded.shows_answers, path=path)
    meta = {"read_from": path.name, "encoder": opened.encoder, POOLS_OF: opened.recipe.model_dump(mode="json")}
    weights = artifacts().put("selector", save_selector(opened.selector, meta=meta))
    return CheckpointRead(weights=weights, recipe=opened.recipe, notes=opened.notes)


class BeamsRead(Record):
    """Beam data that were read from a file."""

    beams: Ref
    pools: Ref
    """Pools of this run, extended by the candidates that the beams show."""
    notes: tuple[str, ...]
    """Notes for the user."""


@step(version=1, reads_world=True)
def read_beams(path: Path, *, dataset: Ref, pools: Ref, shots: int) -> BeamsRead:
    """Beam data from a file for the train queries, in pools that contain what the beams show."""
    from tasks.lever.data.earlier_files import beams_in

    found = beams_in(path, artifacts().load(Pools, pools), artifacts().load(Dataset, dataset), shots=shots)
    beams, around = artifacts().save("beams", found.beams), artifacts().save("pools", found.pools)
    return BeamsRead(beams=beams, pools=around, notes=found.notes)


class RlDataRead(Record):
    """RL data that were read from a file."""

    data: Ref
    notes: tuple[str, ...]
    """Notes for the user."""


@step(version=1, reads_world=True)
def read_rl_data(path: Path, *, world: World, shots: int) -> RlDataRead:
    """RL data from a file, every record checked; this run's threshold decides which answers are right."""
    from tasks.lever.data.earlier_files import rl_data_in
    from tasks.lever.judge.judges import open_judge

    content, notes = rl_data_in(path, shots=shots, threshold=world.threshold, judge=open_judge(world.judge).id)
    return RlDataRead(data=artifacts().put("rl-data", content), notes=notes)


@step(version=1, reads_world=True)
def read_embeddings(*, queries: Path, candidates: Path) -> Embedded:
    """Embeddings from two files instead of an encoder."""
    from tasks.lever.data.earlier_files import embedded_in

    return embedded_in(queries, candidates, artifacts())


@step(version=1, reads_world=True)
def read_judge(path: Path) -> Ref:
    """The weights of a judge of the CPU worlds, trained before."""
    from tasks.lever.judge.judges import WEIGHTS

    return artifacts().put(WEIGHTS, _bytes_of(path))


@step(version=1, reads_world=True)
def read_recorded(path: Path) -> Ref:
    """Answers of a judge that were recorded."""
    from tasks.lever.judge.recorded_answers import read_recorded as read

    read(data := _bytes_of(path))
    return artifacts().put(RECORDED, data)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise FileUnusable(f"{path}: {error.strerror}; name a file that is there") from error


class Exported(Record):
    """Files that users see."""

    files: dict[str, str]
    """Path → SHA-256 (hex) of its content."""


def _is_exported(result: Exported, inputs: dict[str, Any]) -> bool:
    del inputs
    return all(Path(path).is_file() and sha256_of(Path(path)) == digest for path, digest in result.files.items())


@step(version=1, verify=_is_exported)
def export_files(files: dict[str, Ref]) -> Exported:
    """Write artifacts to the given paths, each file atomically."""
    from storage.files import write

    for path, ref in files.items():
        write(Path(path), artifacts().get(ref))
    return Exported(files={path: ref.digest for path, ref in files.items()})


@step(version=1, verify=_is_exported)
def write_embeddings(embedded: Embedded, *, dataset: Ref, folder: Path) -> Exported:
    """Write embeddings in Lever-Plus's layout: a file for the candidates and for each split, with its ids beside it."""
    from tasks.lever.data.earlier_files import banks_by_file
    from tasks.lever.data.embeddings import beside

    written: list[Path] = []
    for name, bank in banks_by_file(embedded, artifacts().load(Dataset, dataset), artifacts()).items():
        bank.export_pt(folder / name)
        written += [folder / name, beside(folder / name)]
    return Exported(files={str(path): sha256_of(path) for path in written})


def digest_of_folder(folder: Path) -> str:
    """SHA-256 (hex) over the names and contents of all files below a folder."""
    digest = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{sha256_of(path)}\n".encode())
    return digest.hexdigest()
