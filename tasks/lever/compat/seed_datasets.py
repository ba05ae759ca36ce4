"""Lever-Plus's datasets and batches, over our readers: beams to imitate, and groups of judged pointers.

Labels are positions in the pool that stands beside them. Lever-Plus took a candidate that it did not find for a
position, and the remainder of an id for another; here such a one is an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from pydantic import ValidationError
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import Dataset

from tasks.lever.compat.seed_selector import normalize_rewards_zscore
from tasks.lever.data.embeddings import EmbeddingBank
from tasks.lever.data.json_files import read_by_query
from tasks.lever.data.pointer_files import beam_of, pool_ids, read_beams
from tasks.lever.judge.rewards import reward_of
from tasks.lever.lever_errors import FileUnusable, PointerUnusable, RewardUnusable
from tasks.lever.lever_options import RewardMode
from tasks.lever.lever_records import PointerRecord

Item = dict[str, Any]
BeamData = dict[str, dict[str, Any]]
"""What a JSON file holds, by query id."""
Vectors = EmbeddingBank | Mapping[Any, Tensor] | Tensor
"""Embeddings by id; or a tensor, whose row number is the id, as Lever-Plus has it."""


def load_beam_data(json_path: str | Path) -> BeamData:
    """Beam data, old or new, or RL data, as they stand in the file. Raises FileUnusable naming query and field."""
    read_beams(Path(json_path))
    return read_by_query(Path(json_path), "the beam data")[0]


def split_beam_data(beam_data: BeamData, train_ratio: float = 0.8) -> tuple[BeamData, BeamData]:
    """The first queries by id, numbers by size, and the rest; always the same ones."""
    first = set(sorted(beam_data, key=_by_number)[: int(len(beam_data) * train_ratio)])
    train = {query: beam for query, beam in beam_data.items() if query in first}
    return train, {query: beam for query, beam in beam_data.items() if query not in first}


def _by_number(query: str) -> tuple[bool, int, str]:
    """Key that sorts ids that are numbers by size, before all others."""
    number = query.isdecimal() and len(query) < 100
    return not number, int(query) if number else 0, query


class _Group(NamedTuple):
    """Pointers of one query and what they are worth."""

    query: str
    pool: tuple[str, ...] | None
    """Ids that the labels count; none: all candidates."""
    labels: list[list[int]]
    rewards: list[float]


class BeamDataset(Dataset[Item]):
    """Beams with the query's own picture and question. Labels are ids here, as in the file: there is no pool yet."""

    def __init__(
        self,
        beam_data: Mapping[str, Any],
        index_ds: Any,
        beam_size: int = 5,
        shot_num: int = 2,
        query_image_field: str = "image",
        query_text_field: str = "question",
        normalize_rewards: bool = False,
    ) -> None:
        """index_ds: `index_ds[number]` is a dict of a training item. beam_size: most beams of a query."""
        self.index_ds, self.normalize_rewards = index_ds, normalize_rewards
        self.fields = {"images": query_image_field, "text": query_text_field}
        self.samples: list[_Group] = []
        for query, value in beam_data.items():
            beam = beam_of(query, value, f"query {query}")
            shown = [_shots(query, one, shot_num) for one in beam.demonstrations[:beam_size]]
            labels = [[_number(id, "BeamDataset counts candidates") for id in one] for one in shown]
            self.samples.append(_Group(query, None, labels, list(beam.scores[:beam_size])))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Item:
        sample = self.samples[index]
        item = self.index_ds[_number(sample.query, "BeamDataset counts queries")]
        return {
            "query_id": _query_id(sample.query),
            "query_input": {name: item[field] for name, field in self.fields.items()},
            "icd_indices": sorted({id for label in sample.labels for id in label}),
            **_labels_and_rewards(sample, normalize=self.normalize_rewards),
        }


class _WithEmbedding(Dataset[Item]):
    """Groups with the embeddings of the query and of its pool, which is gathered when it is asked for."""

    def __init__(
        self,
        samples: list[_Group],
        query_embeddings: Vectors,
        candidate_embeddings: Vectors,
        candidate_indices: Sequence[Any],
        normalize_rewards: bool,
    ) -> None:
        self.samples, self.normalize_rewards = samples, normalize_rewards
        self.query_embeddings, self.candidate_embeddings = query_embeddings, candidate_embeddings
        self.position = {str(id): place for place, id in enumerate(candidate_indices)}
        for sample in samples:
            size = len(self._pool(sample))
            for label in sample.labels:
                if len(set(label)) < len(label) or not all(0 <= at < size for at in label):
                    raise PointerUnusable(
                        f"query {sample.query}: pointer {label} leaves its pool of {size}, or repeats"
                    )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Item:
        sample = self.samples[index]
        return {
            "query_id": _query_id(sample.query),
            "query_emb": _vector(self.query_embeddings, sample.query),  # (d,)
            "cand_emb": self._pool(sample),  # (K, d)
            **_labels_and_rewards(sample, normalize=self.normalize_rewards),
        }

    def _pool(self, sample: _Group) -> Tensor:
        found = self.candidate_embeddings
        if isinstance(found, Tensor) and found.ndim == 3:
            return _vector(found, sample.query)
        if isinstance(found, EmbeddingBank):
            return found.vectors if sample.pool is None else found.rows(sample.pool)
        if not isinstance(found, Tensor):
            raise FileUnusable("candidate embeddings are [N, d] with `candidate_indices`, [Q, K, d], or a bank")
        return found if sample.pool is None else found[_places(sample.query, sample.pool, self.position)]


class BeamDatasetWithEmbedding(_WithEmbedding):
    """Beams with embeddings: of the old format over all candidates, of the new one over each query's own pool."""

    def __init__(
        self,
        beam_data: Mapping[str, Any],
        index_ds: Any,  # noqa: ARG002  Lever-Plus's parameter
        query_embeddings: Vectors,
        candidate_embeddings: Vectors,
        candidate_indices: Sequence[Any],
        beam_size: int = 5,
        shot_num: int = 2,
        normalize_rewards: bool = False,
    ) -> None:
        """candidate_embeddings: (N, d); candidate_indices: the N ids of its rows."""
        everything = tuple(map(str, candidate_indices))
        samples: list[_Group] = []
        for query, value in beam_data.items():
            beam = beam_of(query, value, f"query {query}")
            position = {id: place for place, id in enumerate(beam.pool or everything)}
            shown = [_shots(query, one, shot_num) for one in beam.demonstrations[:beam_size]]
            labels = [_places(query, one, position) for one in shown]
            samples.append(_Group(query, beam.pool or None, labels, list(beam.scores[:beam_size])))
        super().__init__(samples, query_embeddings, candidate_embeddings, candidate_indices, normalize_rewards)


class RLBeamDatasetWithEmbedding(_WithEmbedding):
    """Groups of judged pointers with embeddings; a pointer that could not be judged is left out."""

    def __init__(
        self,
        rl_data: Mapping[str, Any],
        query_embeddings: Vectors,
        candidate_embeddings: Vectors,
        candidate_indices: Sequence[Any] = (),
        shot_num: int = 2,
        max_beams: int | None = None,
        reward_mode: RewardMode = "hard_plus_soft",
        normalize_rewards: bool = False,
    ) -> None:
        """candidate_embeddings: (N, d) with the ids of its rows in `candidate_indices`, or (Q, K, d), the pools.

        A pool is the record's `candidate_pool_ids`; without them, all of `candidate_indices`, or the row of (Q, K, d).
        normalize_rewards: also z-score `beam_rewards`, which GRPO does anyway: twice hides how small differences are.
        Raises RewardUnusable for a record without its scores, PointerUnusable for a bad pointer.
        """
        pooled = isinstance(candidate_embeddings, Tensor) and candidate_embeddings.ndim == 3
        samples = [
            group
            for query in sorted(rl_data, key=_by_number)
            if (group := _rl_group(query, rl_data[query], reward_mode, max_beams, shot_num, pooled=pooled)).labels
        ]
        super().__init__(samples, query_embeddings, candidate_embeddings, candidate_indices, normalize_rewards)


def _rl_group(
    query: str, value: Mapping[str, Any], mode: RewardMode, most: int | None, shots: int, *, pooled: bool
) -> _Group:
    named = "candidate_pool_ids" in value and not pooled
    group = _Group(query, pool_ids(value, f"query {query}") if named else None, [], [])
    for place, said in enumerate(cast(list[Any], value.get("pointer_candidates") or [])):
        try:
            record = PointerRecord.model_validate(said)
            if record.status == "judged" and (most is None or len(group.labels) < most):
                group.rewards.append(reward_of(record, mode))
                group.labels.append(list(_shots(query, record.pointer, shots)))
        except ValidationError as error:
            first = error.errors()[0]
            field = ".".join(map(str, first["loc"]))
            raise FileUnusable(f"query {query}: `pointer_candidates[{place}].{field}`: {first['msg']}") from error
        except RewardUnusable as error:
            raise RewardUnusable(f"query {query}: `pointer_candidates[{place}]`: {error}") from error
    return group


def collate_fn_rl_v3(batch: Sequence[Item]) -> Item:
    """query_emb (B, d), cand_emb (B, K, d), beam_labels (B, G, S), beam_rewards and beam_rewards_raw (B, G), query_id.

    Groups smaller than the largest are filled up; `judged` (B, G) is False there, and losses are given it.
    """
    if len(sizes := {tuple(item["cand_emb"].shape) for item in batch}) > 1:
        raise ValueError(f"pools of different shapes, {sorted(sizes)}, cannot be one batch; take batches of one query")
    return {
        "query_id": [item["query_id"] for item in batch],
        "query_emb": torch.stack([item["query_emb"] for item in batch]),
        "cand_emb": torch.stack([item["cand_emb"] for item in batch]),
        **_groups(batch),
    }


def collate_fn_v3(batch: Sequence[Item], processor: Any = None) -> Item:
    """As `collate_fn_rl_v3`; of a BeamDataset, the pictures and questions as a CLIP `processor` makes them."""
    if "query_emb" in batch[0]:
        return collate_fn_rl_v3(batch)
    made: Item = {key: [item[key] for item in batch] for key in ("query_id", "icd_indices")} | _groups(batch)
    if processor is not None:
        inputs = [item["query_input"] for item in batch]
        images, texts = ([one[name] for one in inputs] for name in ("images", "text"))
        made["query_input"] = processor(images=images, text=texts, padding=True, return_tensors="pt")
    return made


def _groups(batch: Sequence[Item]) -> Item:
    labels = [item["beam_labels"] for item in batch]
    known = [torch.ones(len(one), dtype=torch.bool) for one in labels]
    # filled up with the first pointer, which can be scored as any other can
    filled = [torch.cat([one, one[:1].expand(max(map(len, labels)) - len(one), -1)]) for one in labels]
    return {
        "beam_labels": torch.stack(filled),
        "beam_rewards_raw": pad_sequence([item["beam_rewards_raw"] for item in batch], batch_first=True),
        "beam_rewards": pad_sequence([item["beam_rewards"] for item in batch], batch_first=True),
        "judged": pad_sequence(known, batch_first=True),
    }


def _labels_and_rewards(sample: _Group, *, normalize: bool) -> Item:
    rewards = torch.tensor(sample.rewards, dtype=torch.float32)  # (G,)
    return {
        "beam_labels": torch.tensor(sample.labels, dtype=torch.long),  # (G, S)
        "beam_rewards_raw": rewards,
        "beam_rewards": normalize_rewards_zscore(rewards) if normalize and len(rewards) > 1 else rewards.clone(),
    }


def _shots(query: str, shown: Sequence[Any], shots: int) -> Sequence[Any]:
    if len(shown) != shots:
        raise PointerUnusable(f"query {query}: {len(shown)} demonstrations, and shot_num is {shots}")
    return shown


def _places(query: str, ids: Sequence[str], position: Mapping[str, int]) -> list[int]:
    if missing := [id for id in ids if id not in position]:
        raise PointerUnusable(f"query {query}: candidate {missing[0]} is not in `candidate_indices`; embed it")
    return [position[id] for id in ids]


def _number(id: str, what: str) -> int:
    if not id.isdecimal():
        raise PointerUnusable(f"{what} by number, and {id!r} is none")
    return int(id)


def _query_id(query: str) -> int | str:
    return int(query) if query.isdecimal() else query


def _vector(vectors: Vectors, query: str) -> Tensor:
    if isinstance(vectors, EmbeddingBank):
        return vectors.rows([query])[0]
    if isinstance(vectors, Tensor):
        row = _number(query, "a tensor holds its embeddings")
        if row >= len(vectors):
            raise FileUnusable(f"query {query} has no row in a tensor of {len(vectors)}; give the embeddings by id")
        return vectors[row]
    found = vectors.get(query, vectors.get(_query_id(query)))
    if found is None:
        raise FileUnusable(f"no embedding for query {query}; embed it")
    return found
