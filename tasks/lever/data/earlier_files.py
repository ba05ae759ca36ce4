"""Files of earlier runs, ours or the seed's, that replace stages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, compress
from pathlib import Path

import torch
from torch import Tensor

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.lever.data import pointer_files
from tasks.lever.data.candidate_pools import banks_of
from tasks.lever.data.embeddings import EmbeddingBank, of_modality, read_bank, solved_beside
from tasks.lever.data.pointer_files import BeamQuery, Beams
from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import BeamPart, Dataset, Embedded, Modality, Pools, RlQuery

HELD_OUT = ("validation_embeddings.pt", "test_embeddings.pt")
CANDIDATES = "candidate_embeddings.pt"
SOLVED = "candidate_embeddings.solved.pt"
ALONE: tuple[Modality, ...] = ("images", "texts")


def beams_in(path: Path, pools: Pools, dataset: Dataset, *, shots: int) -> tuple[BeamPart, Pools, tuple[str, ...]]:
    """Sequences to imitate, of demonstrations that may be shown; pools that contain these; and notes for the user.

    Raises FileUnusable, PointerUnusable, PoolTooSmall.
    """
    beams, by_number = _read_by_id(path, dataset.counted)
    found = {query: beam for query, beam in beams.items() if query in pools.pools}
    if not found:
        raise FileUnusable(f"{path} holds beams of no train query of this run; name the dataset that it was made for")
    shown = _showable(found, set(dataset.candidates), pools)
    if not _sequences(shown):
        raise FileUnusable(f"{path}: none of its sequences can be shown here: pictures are missing, or set apart")
    around = pointer_files.pools_around(shown, pools)
    notes = [f"{path.name} names questions by their numbers in the training file"] if by_number else []
    if lost := _sequences(found) - _sequences(shown):
        notes.append(
            f"{path.name}: {lost} of {_sequences(found)} sequences are not imitated; they show questions that were "
            "left out, or whose pictures are set apart for validation"
        )
    return BeamPart(queries=pointer_files.pointers_in(shown, around, shots=shots)), around, tuple(notes)


def _sequences(beams: Beams) -> int:
    return sum(len(beam.demonstrations) for beam in beams.values())


def _showable(beams: Beams, candidates: set[str], pools: Pools) -> Beams:
    """The sequences of nothing but candidates; what leaves a pool is replaced by a candidate of this run's."""
    kept: Beams = {}
    for query, beam in beams.items():
        whole = [candidates.issuperset(shown) for shown in beam.demonstrations]
        pool = [one for one in beam.pool if one in candidates]
        spare = [one for one in pools.pools[query] if one not in pool]
        kept[query] = BeamQuery(
            tuple(compress(beam.demonstrations, whole)),
            tuple(compress(beam.scores, whole)),
            (*pool, *spare[: len(beam.pool) - len(pool)]),
        )
    return kept


def _read_by_id(path: Path, counted: Sequence[str]) -> tuple[Beams, bool]:
    """Beams by id, and whether the file has numbers of training questions instead.

    Files of Lever-Plus do not say which of the two their names are. They are taken for numbers if all of them could be
    and not all of them are ids: an id of VQA is that of a picture times ten or more, so a single name may be both.
    """
    beams = pointer_files.read_beams(path)
    names = set(beams).union(*(shown for beam in beams.values() for shown in (*beam.demonstrations, beam.pool)))
    by_number = not names <= set(counted) and all(one.isdecimal() and int(one) < len(counted) for one in names)
    return (pointer_files.with_ids(beams, counted) if by_number else beams), by_number


def with_queries_of(dataset: Dataset, path: Path) -> Dataset:
    """The dataset with the queries of a file (beam data, RL data or embeddings) as train queries, in its order.

    Raises FileUnusable if it has none of them.
    """
    if path.suffix == ".pt":
        named = read_bank(path).ids
    elif path.name.startswith("rl_data"):
        named = tuple(query for query, _ in pointer_files.iter_rl_data(path))
    else:
        named = tuple(_read_by_id(path, dataset.counted)[0])
    train = {item.id for item in dataset.train}
    if not (ids := tuple(query for query in named if query in train)):
        raise FileUnusable(f"{path}: none of its queries is a training item of {dataset.name}; name its own dataset")
    return dataset.model_copy(update={"train_queries": ids})


def rl_data_in(path: Path, *, shots: int, threshold: float, judge: str) -> tuple[bytes, tuple[str, ...]]:
    """RL data of a file, checked, and notes for the user. Raises FileUnusable.

    `vqa_correct` is computed anew where the file has another threshold.
    """
    data = pointer_files.read_rl_data(path, shots=shots)
    others = sorted({str(one.meta.get("judge")) for one in data.values()} - {judge, "None"})
    thresholds = sorted({str(one.meta.get("threshold")) for one in data.values()} - {str(threshold), "None"})
    notes = [f"{path.name} was judged by {', '.join(others)}; this run asks {judge}"] if others else []
    if thresholds:
        notes.append(f"{path.name} counts answers as right from {', '.join(thresholds)}; counted anew from {threshold}")
        data = {query: _counted_anew(one, threshold) for query, one in data.items()}
    return pointer_files.rl_data_bytes(data), tuple(notes)


def _counted_anew(query: RlQuery, threshold: float) -> RlQuery:
    pointers = tuple(
        record
        if record.vqa_acc_score is None
        else record.model_copy(update={"vqa_correct": int(record.vqa_acc_score >= threshold)})
        for record in query.pointer_candidates
    )
    return query.model_copy(update={"pointer_candidates": pointers, "meta": query.meta | {"threshold": threshold}})


def embedded_in(queries: Path, candidates: Path, artifacts: Artifacts) -> Embedded:
    """Vectors of files; those of held-out queries, of images and of questions alone are looked for beside them.

    Raises FileUnusable for unequal widths and encoders.
    """
    held_out = [path for name in HELD_OUT if (path := queries.with_name(name)).is_file() and path != queries]
    asked, every = (queries, *held_out), (queries, *held_out, candidates)
    alone: dict[Modality, list[Path]] = {one: [of_modality(path, one) for path in every] for one in ALONE}
    whole = {one: paths for one, paths in alone.items() if all(path.is_file() for path in paths)}
    solved = [path for path in (solved_beside(candidates),) if path.is_file()]
    banks = {path: read_bank(path) for path in (*every, *solved, *chain.from_iterable(whole.values()))}
    first = banks[queries]
    for path, bank in banks.items():
        for what, field in (("encoder", "encoder"), ("width", "dimension")):
            if (one := getattr(first, field)) != (other := getattr(bank, field)):
                raise FileUnusable(
                    f"{queries} and {path} differ in their {what} ({one!r}, {other!r}); embed both again"
                )

    def keep(paths: Sequence[Path]) -> Ref:
        rows = dict[str, Tensor]()  # an id that stands in two files is taken from the first
        for bank in (banks[path] for path in reversed(paths)):
            rows |= dict(zip(bank.ids, bank.vectors, strict=True))
        together = EmbeddingBank(tuple(rows), torch.stack(list(rows.values())), banks[paths[0]].encoder)
        return artifacts.put("embeddings", together.to_bytes())

    return Embedded(
        encoder=first.encoder or str(queries),
        dimension=first.dimension,
        candidates=keep([candidates]),
        queries=keep(asked),
        solved=keep(solved) if solved else None,
        images=keep(whole["images"]) if "images" in whole else None,
        texts=keep(whole["texts"]) if "texts" in whole else None,
    )


def banks_by_file(embedded: Embedded, dataset: Dataset, artifacts: Artifacts) -> dict[str, EmbeddingBank]:
    """What lies in a cache folder: the candidates, and the queries of each split; images and questions alone too."""
    splits = {
        "query_embeddings.pt": list(dataset.train_queries),
        "validation_embeddings.pt": [item.id for item in dataset.validation],
        "test_embeddings.pt": [item.id for item in dataset.test],
        CANDIDATES: list(dataset.candidates),
    }
    files: dict[str, EmbeddingBank] = {}
    for modality, (of_queries, of_candidates) in banks_of(embedded, artifacts).items():
        if modality not in ("joint", *ALONE):
            continue
        for name, ids in splits.items():
            bank = of_candidates if name == CANDIDATES else of_queries
            files[str(of_modality(Path(name), modality))] = EmbeddingBank(tuple(ids), bank.rows(ids), bank.encoder)
    if embedded.solved:
        files[SOLVED] = EmbeddingBank.from_bytes(artifacts.get(embedded.solved))
    return files
