"""Reads files of earlier runs, ours or Lever-Plus's, that take the place of stages."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor

from storage.artifacts import Artifacts
from storage.records import Ref
from tasks.lever.data import pointer_files
from tasks.lever.data.candidate_pools import read_banks
from tasks.lever.data.embeddings import EmbeddingBank, modality_file, read_embeddings, solved_file
from tasks.lever.data.pointer_files import BeamQuery, Beams
from tasks.lever.lever_errors import FileUnusable, PointerUnusable, PoolTooSmall
from tasks.lever.lever_records import BeamPart, Dataset, Embedded, Modality, PointerRecord, Pools

HELD_OUT = ("validation_embeddings.pt", "test_embeddings.pt")
CANDIDATES = "candidate_embeddings.pt"
SOLVED = "candidate_embeddings.solved.pt"
SINGLE_MODALITIES: tuple[Modality, ...] = ("images", "texts")


def import_beams(path: Path, pools: Pools, dataset: Dataset, *, shots: int) -> tuple[BeamPart, Pools, tuple[str, ...]]:
    """Read the sequences to imitate whose demonstrations may be shown; return them, pools with these, and notes.

    A query of which none may be shown has an empty tuple. Raises FileUnusable, PointerUnusable, PoolTooSmall.
    """
    beams, by_number = _read_by_id(path, dataset.counted)
    beam_of = {query: beam for query, beam in beams.items() if query in pools.pools}
    candidates = set(dataset.candidates)
    if not beam_of:
        raise FileUnusable(f"{path} holds beams of no train query of this run; name the dataset that it was made for")
    pool_of, pointers, dropped = dict[str, tuple[str, ...]](), dict[str, tuple[PointerRecord, ...]](), 0
    for query, beam in beam_of.items():
        sequences = [(ids, score) for ids, score in beam.sequences if candidates.issuperset(ids)]
        dropped += len(beam.sequences) - len(sequences)
        demonstrations = [ids for ids, _ in sequences]
        if wrong := next((ids for ids in demonstrations if len(ids) != shots), None):
            raise PointerUnusable(f"query {query}: {len(wrong)} demonstrations, {shots} are wanted; change the shots")
        pool_of[query] = pool = _extend_pool(
            query, demonstrations, [id for id in beam.pool if id in candidates], beam, pools
        )
        index_of = {id: index for index, id in enumerate(pool)}
        pointers[query] = tuple(
            PointerRecord(
                pointer=tuple(index_of[id] for id in ids), gen_method="beam", beam_rank=rank, beam_score=score
            )
            for rank, (ids, score) in enumerate(sequences)
        )
    if not any(pointers.values()):
        raise FileUnusable(f"{path}: none of its sequences can be shown here: pictures are missing, or set apart")
    sizes = {len(pool) for pool in pool_of.values()}
    if len(sizes) > 1:  # a batch is one tensor of pools
        raise FileUnusable(f"{path}: pools of different sizes, {sorted(sizes)[:5]}; search for beams again")
    notes = [f"{path.name} names questions by their numbers in the training file"] if by_number else []
    if dropped:
        total = sum(len(beam.sequences) for beam in beam_of.values())
        notes.append(
            f"{path.name}: {dropped} of {total} sequences are not imitated; they show questions that were left out, or "
            "whose pictures are set apart for validation"
        )
    extended = pools.model_copy(update={"pools": pools.pools | pool_of})
    return BeamPart(queries=pointers), extended, tuple(notes)


def _extend_pool(
    query: str, sequences: Sequence[tuple[str, ...]], own: Sequence[str], beam: BeamQuery, pools: Pools
) -> tuple[str, ...]:
    """Return the pool of a query that contains every demonstration of its sequences.

    A pool that the beam data bring, of which `own` may be shown, replaces that of this run, which fills it up. Without
    one, what the run's pool lacks replaces its last candidates not shown. Raises PointerUnusable, PoolTooSmall.
    """
    pool = pools.pools[query]
    if beam.pool:
        if query in beam.pool:
            raise PointerUnusable(f"query {query}: the pool of its beams holds the query; search for beams again")
        spare = [id for id in pool if id not in own]
        return (*own, *spare[: len(beam.pool) - len(own)])
    required = list(dict.fromkeys(chain.from_iterable(sequences)))
    if len(required) > len(pool):
        raise PoolTooSmall(f"query {query}: its beams name {len(required)} candidates, its pool holds {len(pool)}")
    missing = [id for id in required if id not in pool]
    spare = [id for id in pool if id not in required]
    dropped = set(spare[len(spare) - len(missing) :])
    return (*(id for id in pool if id not in dropped), *missing)


def _read_by_id(path: Path, counted: Sequence[str]) -> tuple[Beams, bool]:
    """Return the beams by id, and whether the file names questions by their numbers in the training file.

    Files of Lever-Plus do not say which of the two their names are. They are taken for numbers if all of them could be
    and not all of them are ids: an id of VQA is that of a picture times ten or more, so a single name may be both.
    """
    beams = pointer_files.read_beams(path)
    names = set(beams).union(*(ids for beam in beams.values() for ids in (beam.pool, *beam.demonstrations)))
    if names <= set(counted) or not all(name.isdecimal() and int(name) < len(counted) for name in names):
        return beams, False

    def by_id(numbers: Sequence[str]) -> tuple[str, ...]:
        return tuple(counted[int(number)] for number in numbers)

    return {
        counted[int(query)]: BeamQuery(tuple(map(by_id, beam.demonstrations)), beam.scores, by_id(beam.pool))
        for query, beam in beams.items()
    }, True


def take_queries_from(dataset: Dataset, path: Path) -> Dataset:
    """Return the dataset with those queries of a file that are training items as train queries, in the file's order.

    The file holds beam data, RL data or embeddings. Raises FileUnusable if none of its queries is in the dataset.
    """
    if path.suffix == ".pt":
        queries = read_embeddings(path).ids
    elif path.name.startswith("rl_data"):
        queries = tuple(query for query, _ in pointer_files.iter_rl_data(path))
    else:
        queries = tuple(_read_by_id(path, dataset.counted)[0])
    train = {item.id for item in dataset.train}
    ids = tuple(query for query in queries if query in train)
    if not ids:
        raise FileUnusable(f"{path}: none of its queries is a training item of {dataset.name}; name its own dataset")
    return dataset.model_copy(update={"train_queries": ids})


def import_rl_data(path: Path, *, shots: int, threshold: float, judge: str) -> tuple[bytes, tuple[str, ...]]:
    """Read and check the RL data of a file; return its content and notes for the user. Raises FileUnusable.

    `vqa_correct` is computed anew where the file has another threshold.
    """
    data = dict(pointer_files.iter_rl_data(path, shots=shots))
    # "None": files of Lever-Plus name neither judge nor threshold
    other_judges = sorted({str(rl_query.meta.get("judge")) for rl_query in data.values()} - {judge, "None"})
    thresholds = sorted({str(rl_query.meta.get("threshold")) for rl_query in data.values()} - {str(threshold), "None"})
    notes = [f"{path.name} was judged by {', '.join(other_judges)}; this run asks {judge}"] if other_judges else []
    if thresholds:
        notes.append(f"{path.name} counts answers as right from {', '.join(thresholds)}; counted anew from {threshold}")
        for query, rl_query in data.items():
            pointers = tuple(
                record.model_copy(update={"vqa_correct": int(record.vqa_acc_score >= threshold)})
                if record.vqa_acc_score is not None
                else record
                for record in rl_query.pointer_candidates
            )
            meta = rl_query.meta | {"threshold": threshold}
            data[query] = rl_query.model_copy(update={"pointer_candidates": pointers, "meta": meta})
    return b"".join(pointer_files.serialize_rl_data(data.items())), tuple(notes)


def import_embeddings(queries: Path, candidates: Path, artifacts: Artifacts) -> Embedded:
    """Store the vectors of two files and those beside them: held-out queries, solved candidates, complete modalities.

    Raises FileUnusable for unequal widths and encoders.
    """
    held_out = [path for path in map(queries.with_name, HELD_OUT) if path.is_file() and path != queries]
    query_files, all_files = (queries, *held_out), (queries, *held_out, candidates)
    files_of: dict[Modality, list[Path]] = {
        modality: [modality_file(path, modality) for path in all_files] for modality in SINGLE_MODALITIES
    }
    complete = {modality: paths for modality, paths in files_of.items() if all(path.is_file() for path in paths)}
    solved = [path for path in (solved_file(candidates),) if path.is_file()]
    banks = {path: read_embeddings(path) for path in (*all_files, *solved, *chain.from_iterable(complete.values()))}
    reference = banks[queries]
    for path, bank in banks.items():
        for label, field in (("encoder", "encoder"), ("width", "dimension")):
            expected, actual = getattr(reference, field), getattr(bank, field)
            if expected != actual:
                raise FileUnusable(
                    f"{queries} and {path} differ in their {label} ({expected!r}, {actual!r}); embed both again"
                )

    def keep(paths: Sequence[Path]) -> Ref:
        """Store the vectors of several files as one bank; of an id in two files, those of the first."""
        rows = dict[str, Tensor]()
        for bank in (banks[path] for path in reversed(paths)):
            rows |= dict(zip(bank.ids, bank.vectors, strict=True))
        together = EmbeddingBank(tuple(rows), torch.stack(list(rows.values())), banks[paths[0]].encoder)
        return artifacts.put("embeddings", together.to_bytes())

    return Embedded(
        encoder=reference.encoder or str(queries),
        dimension=reference.dimension,
        candidates=keep([candidates]),
        queries=keep(query_files),
        solved=keep(solved) if solved else None,
        images=keep(complete["images"]) if "images" in complete else None,
        texts=keep(complete["texts"]) if "texts" in complete else None,
    )


def banks_by_file(embedded: Embedded, dataset: Dataset, artifacts: Artifacts) -> dict[str, EmbeddingBank]:
    """Return, by file name, the embeddings of a cache folder: of candidates and splits by modality, and SOLVED."""
    splits = {
        "query_embeddings.pt": list(dataset.train_queries),
        "validation_embeddings.pt": [item.id for item in dataset.validation],
        "test_embeddings.pt": [item.id for item in dataset.test],
        CANDIDATES: list(dataset.candidates),
    }
    files: dict[str, EmbeddingBank] = {}
    banks = read_banks(embedded, artifacts)
    for modality in embedded.modalities:
        of_queries, of_candidates = banks[modality]
        for name, ids in splits.items():
            bank = of_candidates if name == CANDIDATES else of_queries
            files[str(modality_file(Path(name), modality))] = EmbeddingBank(tuple(ids), bank.rows(ids), bank.encoder)
    if embedded.solved:
        files[SOLVED] = EmbeddingBank.from_bytes(artifacts.get(embedded.solved))
    return files
