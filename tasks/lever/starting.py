"""Files of earlier runs, ours or the seed's, in place of stages."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.lever.banks import EmbeddingBank
from tasks.lever.beam_data import pointers_in, pools_around, read_beams
from tasks.lever.embedding_files import read_bank
from tasks.lever.errors import FileUnusable
from tasks.lever.records import BeamPart, Dataset, Embedded, Pools
from tasks.lever.rl_files import iter_rl_data


class BeamsRead(NamedTuple):
    """Beam data of a file, as pointers."""

    beams: BeamPart
    pools: Pools
    """Of this run, with all that the beams show in them."""


def beams_in(path: Path, pools: Pools, *, shots: int) -> BeamsRead:
    """Sequences to imitate. Raises FileUnusable, PointerUnusable, PoolTooSmall."""
    found = {query: beam for query, beam in read_beams(path).items() if query in pools.pools}
    if not found:
        raise FileUnusable(f"{path} holds beams of no train query of this run; name the dataset that it was made for")
    around = pools_around(found, pools)
    return BeamsRead(BeamPart(queries=pointers_in(found, around, shots=shots)), around)


def queries_in(path: Path) -> tuple[str, ...]:
    """Ids of the queries of beam data, of RL data or of embeddings, in the order of the file."""
    if path.suffix == ".pt":
        return read_bank(path).ids
    if path.name.startswith("rl_data"):
        return tuple(query for query, _ in iter_rl_data(path))
    return tuple(read_beams(path))


def with_queries_of(dataset: Dataset, path: Path) -> Dataset:
    """The dataset, whose train queries are those of a file. Raises FileUnusable if it has none of them."""
    train = {item.id for item in dataset.train}
    if not (ids := tuple(query for query in queries_in(path) if query in train)):
        raise FileUnusable(f"{path}: none of its queries is a training item of {dataset.name}; name its own dataset")
    return dataset.model_copy(update={"train_queries": ids})


def embedded_in(queries: Path, candidates: Path, artifacts: Artifacts) -> Embedded:
    """Vectors of two files. Raises FileUnusable for unequal widths and encoders."""
    of_queries, of_candidates = read_bank(queries), read_bank(candidates)
    for what, one, other in (
        ("encoder", of_queries.encoder, of_candidates.encoder),
        ("width", of_queries.dimension, of_candidates.dimension),
    ):
        if one != other:
            raise FileUnusable(
                f"{queries} and {candidates} differ in their {what} ({one!r}, {other!r}); embed both again"
            )
    return Embedded(
        encoder=of_queries.encoder or str(queries),
        dimension=of_queries.dimension,
        candidates=_kept(of_candidates, artifacts),
        queries=_kept(of_queries, artifacts),
    )


def _kept(bank: EmbeddingBank, artifacts: Artifacts) -> Ref:
    return artifacts.put("embeddings", bank.to_bytes())
