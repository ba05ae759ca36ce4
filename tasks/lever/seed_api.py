"""Lever-Plus's public names over our network, losses and readers, for code that was written against it.

Parameters and what is returned are Lever-Plus's. Where it computes something wrong, the docstring says what is done
instead: labels are positions in the pool that stands beside them, where Lever-Plus took a candidate that it did not
find for a position, and the remainder of an id for another. `learning.trainings` resumes and is judged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.optim import Optimizer
from torch.utils.data import DataLoader, Dataset

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.data.pointer_files import iter_by_query, parse_beam, parse_pool_ids, read_beams, validate
from tasks.lever.data.rl_data import draw_pointers
from tasks.lever.learning import losses
from tasks.lever.learning.checkpoints import open_selector
from tasks.lever.learning.training_inputs import REWARD_CLIP, clip_reward, needed_score, reward_of
from tasks.lever.lever_errors import FileUnusable, PointerUnusable, RewardUnusable
from tasks.lever.lever_options import RewardMode, RlDataSettings
from tasks.lever.lever_records import PointerRecord

if TYPE_CHECKING:
    from models.protocols import VisionEmbedder

Item = dict[str, Any]
BeamData = dict[str, dict[str, Any]]
"""The content of a JSON file of beam data, by query id."""
Vectors = Mapping[Any, Tensor] | Tensor
"""Embeddings by id; or a tensor, whose row number is the id, as Lever-Plus has it."""


class PointerSelectorV3Config(NamedTuple):
    """The sizes of a network that `build_model_v3` builds, and the constants of its losses."""

    d_model: int = 768
    K: int = 32
    """Candidates of a pool; any other number is read as well."""
    shot_num: int = 2
    dropout: float = 0.5
    hidden_dim: int = 256
    num_heads: int = 1
    attn_dropout: float = 0.1
    num_layers: int = 3
    clip_epsilon: float = 0.2
    kl_beta: float = 0.1
    advantage_clip: float = 5.0
    gate: bool = True
    """Whether the state takes in each pick."""


OUR_FIELDS = {
    "d_model": "embedding_dim",
    "hidden_dim": "hidden",
    "num_layers": "layers",
    "num_heads": "heads",
    "dropout": "dropout",
    "attn_dropout": "attention_dropout",
    "gate": "gate",
}
"""Field of PointerSelectorV3Config → that of PointerConfig."""


class PointerSelectorV3(PointerSelector):
    """The pointer network with its losses as methods."""

    def __init__(self, *args: Any, **named: Any) -> None:
        """Draw random weights for these sizes: the fields of PointerSelectorV3Config, in their order or by name."""
        shape = PointerSelectorV3Config(*args, **named)
        super().__init__(PointerConfig(**{ours: getattr(shape, theirs) for theirs, ours in OUR_FIELDS.items()}))
        self.d_model, self.K, self.shot_num = shape.d_model, shape.K, shape.shot_num
        self.hidden_dim, self.num_heads, self.num_layers = shape.hidden_dim, shape.num_heads, shape.num_layers
        self.clip_epsilon, self.kl_beta, self.advantage_clip = shape.clip_epsilon, shape.kl_beta, shape.advantage_clip

    @classmethod
    def of(cls, selector: PointerSelector) -> Self:
        """Copy a selector with its weights; draws no random numbers."""
        with torch.device("meta"):  # the weights are assigned below
            network = cls(**{theirs: getattr(selector.config, ours) for theirs, ours in OUR_FIELDS.items()})
        network.load_state_dict({key: value.clone() for key, value in selector.state_dict().items()}, assign=True)
        return network.train(selector.training)

    def compute_log_probs_per_beam(self, query_emb: Tensor, cand_emb: Tensor, beam_labels: Tensor) -> Tensor:
        """Return the log-probabilities (B, G) of whole pointers (B, G, S), without dropout."""
        with self.without_dropout():
            return self.log_probs(query_emb, cand_emb, beam_labels).sum(-1)

    def compute_rce_loss(
        self,
        query_emb: Tensor,
        cand_emb: Tensor,
        beam_labels: Tensor,
        beam_rewards: Tensor,
        temperature: float = 1.0,
        use_top1_only: bool = False,
        judged: Tensor | None = None,
    ) -> Tensor:
        """Return the cross-entropy weighted by softmax(reward / temperature), or with `use_top1_only` that of the best.

        query_emb: (B, d); cand_emb: (B, K, d); beam_labels: (B, G, S) positions; beam_rewards: (B, G), as they are;
        judged: (B, G) bool, None for all. Summed over picks, averaged over queries. Raises ValueError for what does not
        fit; without `use_top1_only` also RewardUnusable, for NaN and a group in which nothing is judged.
        """
        log_probs = self.log_probs(query_emb, cand_emb, beam_labels)  # (B, G, S)
        if not use_top1_only:
            return losses.rce_loss(log_probs.sum(-1), beam_rewards, temperature=temperature, judged=judged)
        judged_rewards = beam_rewards if judged is None else beam_rewards.masked_fill(~judged, -torch.inf)
        return losses.sft_loss(log_probs[torch.arange(len(log_probs)), judged_rewards.argmax(-1)])

    def compute_grpo_loss(
        self,
        query_emb: Tensor,
        cand_emb: Tensor,
        beam_labels: Tensor,
        beam_rewards: Tensor,
        old_log_probs: Tensor,
        use_top_k: int | None = None,
        judged: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Return the GRPO objective: `loss`, `ppo_loss`, `kl_loss`, `kl`, `mean_ratio`, `mean_` and `std_advantage`.

        old_log_probs: (B, G), as `compute_log_probs_per_beam` gave them at the start, of the policy to stay near.
        use_top_k: loss and means are taken over the best k, advantages over the whole group.
        """
        new = self.compute_log_probs_per_beam(query_emb, cand_emb, beam_labels)
        advantage = self.compute_advantage(beam_rewards, judged=judged)
        member_mask = judged
        if use_top_k is not None and use_top_k < beam_rewards.shape[1]:
            member_mask = losses.best_members(beam_rewards, use_top_k, judged)
        constants: Any = {"clip": self.clip_epsilon, "beta": self.kl_beta, "judged": member_mask}
        objective = losses.grpo_loss(new, old_log_probs, old_log_probs, advantage, **constants)
        counted_advantage = advantage if member_mask is None else advantage[member_mask]
        return {
            "loss": objective.loss,
            "ppo_loss": objective.policy,
            "kl_loss": self.kl_beta * objective.kl,
            "kl": objective.kl,
            "mean_ratio": objective.ratio_mean,
            "mean_advantage": counted_advantage.mean(),
            "std_advantage": counted_advantage.std(correction=0),
        }

    def compute_advantage(
        self, rewards: Tensor, normalize: bool = True, min_std: float = 0.1, judged: Tensor | None = None
    ) -> Tensor:
        """Return clipped advantages (B, G) in groups, 0 where not judged; without `normalize` distances to the mean."""
        if normalize:
            advantage = losses.advantages(rewards, floor=min_std, judged=judged)
        else:
            mask = torch.ones_like(rewards, dtype=torch.bool) if judged is None else judged
            mean = torch.where(mask, rewards, 0).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True)
            advantage = torch.where(mask, rewards - mean, 0)
        return advantage.clamp(-self.advantage_clip, self.advantage_clip)

    def compute_kl_divergence(self, log_probs_new: Tensor, log_probs_old: Tensor) -> Tensor:
        """Return the mean estimate of KL(new ‖ old), as `compute_kl_penalty` does."""
        return compute_kl_penalty(log_probs_new, log_probs_old)


def build_model_v3(config: PointerSelectorV3Config | None = None) -> PointerSelectorV3:
    """Build a network with random weights."""
    return PointerSelectorV3(*(config or PointerSelectorV3Config()))


class SelectorWithEncoder(NamedTuple):
    """A network and the encoder that makes its embeddings."""

    pointer_selector: PointerSelectorV3
    encoder: VisionEmbedder
    query_encoding_flag: Sequence[str]
    icd_encoding_flag: Sequence[str]

    def embed(self, images: Sequence[bytes], texts: Sequence[str], flags: Sequence[str]) -> Tensor:
        """Return the embeddings (n, d) of PNGs and questions. flags: `query_encoding_flag` or `icd_encoding_flag`."""
        parts = [
            torch.from_numpy(self.encoder.embed_images(images) if flag == "image" else self.encoder.embed_texts(texts))
            for flag in flags
        ]
        return torch.nn.functional.normalize(torch.stack(parts).mean(0), dim=-1)


def build_model_v3_with_adapter(
    config: PointerSelectorV3Config,
    clip_name: str = "openai/clip-vit-base-patch32",
    query_encoding_flag: Sequence[str] = ("image", "text"),
    icd_encoding_flag: Sequence[str] = ("image", "text"),
    device: str | None = None,
) -> SelectorWithEncoder:
    """Build a network with random weights behind a CLIP. Raises ValueError for other widths, ModelUnavailable."""
    from models.clip import ClipEmbedder

    encoder = ClipEmbedder(clip_name, device=device)
    if encoder.dimension != config.d_model:
        raise ValueError(f"{clip_name} gives {encoder.dimension} numbers, the network takes {config.d_model}")
    return SelectorWithEncoder(build_model_v3(config), encoder, query_encoding_flag, icd_encoding_flag)


def load_v3_from_sft_checkpoint(
    checkpoint_path: str | Path, device: str | torch.device | None = None
) -> PointerSelectorV3:
    """Load the network of a v2 or v3 checkpoint for inference; device None: a GPU if any. Raises FileUnusable."""
    selector = open_selector(Path(checkpoint_path)).selector
    return PointerSelectorV3.of(selector).to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


load_v3_from_grpo_checkpoint = load_v3_from_sft_checkpoint  # one reader: it tells the layouts by their keys


def normalize_rewards_zscore(rewards: Tensor, dim: int = -1, eps: float = 1e-8) -> Tensor:
    """Return (R − mean) / max(sample deviation, eps) along `dim`; equal rewards give 0. Raises as `advantages`."""
    return losses.advantages(rewards.movedim(dim, -1), floor=eps).movedim(-1, dim)


def compute_group_relative_advantage(rewards: Tensor, normalize: bool = True, clip_range: float = 5.0) -> Tensor:
    """Return the z-scores (B, G) of each group, or the distances to its mean, clipped."""
    advantage = normalize_rewards_zscore(rewards) if normalize else rewards - rewards.mean(-1, keepdim=True)
    return advantage.clamp(-clip_range, clip_range)


def compute_softmax_weights(rewards: Tensor, temperature: float = 1.0) -> Tensor:
    """Return softmax(rewards / temperature) over each group. Raises ValueError for ≤ 0, RewardUnusable for NaN."""
    return losses.rce_weights(rewards, temperature)


def compute_kl_penalty(log_probs_new: Tensor, log_probs_old: Tensor) -> Tensor:
    """Estimate KL(new ‖ old) on draws of `new`: mean of r − 1 − log r, r = old / new; Lever-Plus inverts r."""
    return losses.k3(log_probs_new, log_probs_old).mean()


adaptive_kl_beta = losses.adapt_beta


@torch.no_grad()
def predict_with_v3(
    model: PointerSelectorV3, query_emb: Tensor, cand_emb: Tensor, top_k: int = 1
) -> tuple[Tensor, Tensor]:
    """Return the positions (B, S) of the likeliest picks, one after the other, and their logits (B, S).

    top_k: 1, as each step has one pick, else ValueError; `beam_search_pointer` gives several pointers.
    """
    if top_k != 1:
        raise ValueError(f"top_k {top_k}: each step has one pick; call beam_search_pointer for several pointers")
    with model.without_dropout():
        picks = model.greedy(query_emb, cand_emb, shots=model.shot_num)
        logits = _step_logits(model, query_emb, cand_emb, picks)
    return picks, logits.amax(-1)


def compute_step_logits(
    model: PointerSelector, query_emb: Tensor, cand_emb: Tensor, selected_indices: Sequence[int] | None = None
) -> Tensor:
    """Return the logits (K,) of the next pick, −inf for repeats. query_emb: (1, d); cand_emb: (1, K, d)."""
    picked = torch.tensor([[*(selected_indices or ()), 0]], device=cand_emb.device)  # what follows it is not read
    return _step_logits(model, query_emb, cand_emb, picked)[0, -1]


def _step_logits(model: PointerSelector, query: Tensor, pool: Tensor, picks: Tensor) -> Tensor:
    """Return the logits (B, S, K) of each of the picks (B, S) after those before it."""
    encoded = model.encode(query, pool)
    state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K)
    steps = list[Tensor]()
    for picked in picks.unbind(-1):
        steps.append(model.step(state, encoded.keys, blocked)[:, 0])
        state = model.advance(state, encoded.keys, picked[:, None])
        blocked = blocked.scatter(-1, picked[:, None, None], True)
    return torch.stack(steps, dim=1)


def sample_pointer_with_temperature(
    model: PointerSelector,
    query_emb: Tensor,
    cand_emb: Tensor,
    tau: float,
    exclude_indices: Iterable[int] | None = None,
    shot_num: int = 2,
    generator: torch.Generator | None = None,
) -> tuple[list[int], float]:
    """Draw a pointer at temperature `tau`; return it and its log-probability at temperature 1.

    query_emb: (d,); cand_emb: (K, d). generator: none draws from torch's default one, as Lever-Plus does.
    """
    drawn = model.sample(
        query_emb[None],
        cand_emb[None],
        shots=shot_num,
        draws=1,
        temperature=tau,
        generator=generator or torch.default_generator,
        usable=_mask_usable(cand_emb, exclude_indices),
    )
    return drawn.pointers[0, 0].tolist(), drawn.log_probs[0, 0].sum().item()


def beam_search_pointer(
    model: PointerSelector,
    query_emb: Tensor,
    cand_emb: Tensor,
    num_beams: int = 5,
    shot_num: int = 2,
    exclude_indices: Iterable[int] | None = None,
) -> list[dict[str, Any]]:
    """Return `pointer`, `score` (sum of step probabilities), `logprob` of up to `num_beams` pointers, best first."""
    usable = _mask_usable(cand_emb, exclude_indices)
    beams = model.beam(query_emb[None], cand_emb[None], shots=shot_num, width=num_beams, usable=usable)
    return [
        {"pointer": pointer.tolist(), "score": steps.exp().sum().item(), "logprob": steps.sum().item()}
        for pointer, steps in zip(beams.pointers[0], beams.log_probs[0], strict=True)
    ]


def _mask_usable(cand_emb: Tensor, exclude_indices: Iterable[int] | None) -> Tensor:
    usable = torch.ones(1, len(cand_emb), dtype=torch.bool, device=cand_emb.device)
    usable[0, list(exclude_indices or ())] = False
    return usable


def generate_pointer_candidates_for_query(
    model: PointerSelector,
    query_emb: Tensor,
    cand_emb: Tensor,
    num_beams: int = 5,
    temps: Sequence[float] = (1.0, 1.3),
    num_samples_per_temp: int = 2,
    num_random: int = 1,
    exclude_indices: Iterable[int] | None = None,
    shot_num: int = 2,
    generator: torch.Generator | None = None,
) -> list[dict[str, Any]]:
    """Draw distinct ordered pointers as RL data have them, not judged yet. query_emb: (d,); cand_emb: (K, d)."""
    usable = _mask_usable(cand_emb, exclude_indices)[0].nonzero()[:, 0]
    settings = RlDataSettings(
        beams=num_beams, temperatures=tuple(temps), samples=num_samples_per_temp, random=num_random
    )
    [drawn] = draw_pointers(
        model,
        [""],
        queries=query_emb[None],
        pools=cand_emb[usable][None],
        shots=shot_num,
        settings=settings,
        generator=generator or torch.default_generator,
    ).values()
    fields = {"gen_method", "beam_rank", "beam_score", "logprob_score", "temperature", "behaviour_logp"}
    return [{"pointer": usable[list(record.pointer)].tolist(), **record.model_dump(include=fields)} for record in drawn]


def evaluate_pointer_candidate(
    vqa_model: Any,
    image: Any,
    question: str,
    candidate_pool: Sequence[Any],
    pointer: Sequence[int],
    ground_truth_answers: Sequence[str],
    build_vqa_prompt_fn: Callable[..., Any],
    compute_vqa_accuracy_fn: Callable[[str, Sequence[str]], tuple[int, float]],
) -> tuple[str, int, float]:
    """Return the answer of `vqa_model.generate(prompt)`, whether it is right, and its accuracy.

    The prompt is `build_vqa_prompt_fn(image, question, *demonstrations)`, in the order of the pointer.
    Raises PointerUnusable for a position outside of the pool.
    """
    if outside := [at for at in pointer if not 0 <= at < len(candidate_pool)]:
        raise PointerUnusable(f"pointer {list(pointer)}: {outside[0]} is none of 0 to {len(candidate_pool) - 1}")
    prompt = build_vqa_prompt_fn(image, question, *(candidate_pool[at] for at in pointer))
    answer = vqa_model.generate(prompt)
    correct, accuracy = compute_vqa_accuracy_fn(answer, ground_truth_answers)
    return str(answer), int(correct), float(accuracy)


def load_beam_data(json_path: str | Path) -> BeamData:
    """Load beam data, old or new, or RL data, unchanged. Raises FileUnusable naming query and field."""
    read_beams(Path(json_path))
    return dict(iter_by_query(Path(json_path), str(json_path)))


def split_beam_data(beam_data: BeamData, train_ratio: float = 0.8) -> tuple[BeamData, BeamData]:
    """Split off a share of the queries, rounded down, the first by id, numbers by size; return them and the rest."""
    train_ids = set(sorted(beam_data, key=_number_key)[: int(len(beam_data) * train_ratio)])
    train = {query: beam for query, beam in beam_data.items() if query in train_ids}
    return train, {query: beam for query, beam in beam_data.items() if query not in train_ids}


def _number_key(query: str) -> tuple[bool, int, str]:
    """Return a sort key that puts ids that are numbers first, by size."""
    number = query.isdecimal() and len(query) < 100  # `int` refuses 4,300 digits
    return not number, int(query) if number else 0, query


class _Group(NamedTuple):
    """The pointers of one query with their rewards."""

    query: str
    pool: tuple[str, ...] | None
    """Ids of the pool that labels are positions in; None: all candidates."""
    labels: list[list[int]]
    rewards: list[float]

    def item(self, *, normalize: bool) -> Item:
        """Return query id, labels and rewards, as batches carry them."""
        rewards = torch.tensor(self.rewards, dtype=torch.float32)  # (G,)
        return {
            "query_id": int(self.query) if self.query.isdecimal() else self.query,
            "beam_labels": torch.tensor(self.labels, dtype=torch.long),  # (G, S)
            "beam_rewards_raw": rewards,
            "beam_rewards": normalize_rewards_zscore(rewards) if normalize and len(rewards) > 1 else rewards.clone(),
        }


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
            beam = parse_beam(query, value, f"query {query}")
            sequences = [_check_shots(query, ids, shot_num) for ids in beam.demonstrations[:beam_size]]
            labels = [[int(id) for id in sequence] for sequence in sequences]
            self.samples.append(_Group(query, None, labels, list(beam.scores[:beam_size])))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Item:
        """Return a query by its position: its inputs, demonstrations, and the labels that its sample has."""
        sample = self.samples[index]
        item = self.index_ds[int(sample.query)]
        return {
            "query_input": {name: item[field] for name, field in self.fields.items()},
            "icd_indices": sorted({id for label in sample.labels for id in label}),
            **sample.item(normalize=self.normalize_rewards),
        }


class _GroupsWithEmbedding(Dataset[Item]):
    """Groups with vectors of query (d,) and pool (K, d); PointerUnusable for a label that leaves its pool."""

    def __init__(
        self,
        samples: list[_Group],
        query_embeddings: Vectors,
        candidate_embeddings: Tensor,
        candidate_indices: Sequence[Any],
        normalize_rewards: bool,
    ) -> None:
        self.samples, self.normalize_rewards = samples, normalize_rewards
        self.query_embeddings, self.candidate_embeddings = query_embeddings, candidate_embeddings
        self.position = {str(id): place for place, id in enumerate(candidate_indices)}
        for sample in samples:
            size = len(self._gather_pool(sample))
            for label in sample.labels:
                if len(set(label)) < len(label) or not all(0 <= at < size for at in label):
                    raise PointerUnusable(
                        f"query {sample.query}: pointer {label} leaves its pool of {size}, or repeats"
                    )

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Item:
        """Return a query by its position: vectors of query (d,) and pool (K, d), and the labels of its sample."""
        sample = self.samples[index]
        return {
            "query_emb": _look_up_vector(self.query_embeddings, sample.query),  # (d,)
            "cand_emb": self._gather_pool(sample),  # (K, d)
            **sample.item(normalize=self.normalize_rewards),
        }

    def _gather_pool(self, sample: _Group) -> Tensor:
        """Return the embeddings of a sample's candidates, (K, d): its own, those of its pool, or all."""
        if self.candidate_embeddings.ndim == 3:
            return _look_up_vector(self.candidate_embeddings, sample.query)
        if sample.pool is None:
            return self.candidate_embeddings
        return self.candidate_embeddings[_find_positions(sample.query, sample.pool, self.position)]


class BeamDatasetWithEmbedding(_GroupsWithEmbedding):
    """Beams with embeddings: of the old format over all candidates, of the new one over each query's own pool."""

    def __init__(
        self,
        beam_data: Mapping[str, Any],
        index_ds: Any,  # noqa: ARG002  Lever-Plus's parameter
        query_embeddings: Vectors,
        candidate_embeddings: Tensor,
        candidate_indices: Sequence[Any],
        beam_size: int = 5,
        shot_num: int = 2,
        normalize_rewards: bool = False,
    ) -> None:
        """candidate_embeddings: (N, d); candidate_indices: the N ids of its rows."""
        all_ids = tuple(map(str, candidate_indices))
        samples: list[_Group] = []
        for query, value in beam_data.items():
            beam = parse_beam(query, value, f"query {query}")
            position = {id: place for place, id in enumerate(beam.pool or all_ids)}
            sequences = [_check_shots(query, ids, shot_num) for ids in beam.demonstrations[:beam_size]]
            labels = [_find_positions(query, sequence, position) for sequence in sequences]
            samples.append(_Group(query, beam.pool or None, labels, list(beam.scores[:beam_size])))
        super().__init__(samples, query_embeddings, candidate_embeddings, candidate_indices, normalize_rewards)


class RLBeamDatasetWithEmbedding(_GroupsWithEmbedding):
    """Groups of judged pointers with embeddings; a pointer that could not be judged is left out."""

    def __init__(
        self,
        rl_data: Mapping[str, Any],
        query_embeddings: Vectors,
        candidate_embeddings: Tensor,
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
        samples: list[_Group] = []
        for query in sorted(rl_data, key=_number_key):
            value, where = rl_data[query], f"query {query}"
            has_pool_ids = "candidate_pool_ids" in value and candidate_embeddings.ndim == 2
            group = _Group(query, parse_pool_ids(value, where) if has_pool_ids else None, [], [])
            for place, entry in enumerate(value.get("pointer_candidates") or []):
                record = validate(PointerRecord, entry, f"{where}: `pointer_candidates[{place}]`")
                if record.status == "judged" and (max_beams is None or len(group.labels) < max_beams):
                    try:
                        group.rewards.append(reward_of(record, reward_mode))
                    except RewardUnusable as error:
                        raise RewardUnusable(f"{where}: `pointer_candidates[{place}]`: {error}") from error
                    group.labels.append(list(_check_shots(query, record.pointer, shot_num)))
            if group.labels:
                samples.append(group)
        super().__init__(samples, query_embeddings, candidate_embeddings, candidate_indices, normalize_rewards)


def collate_fn_rl_v3(batch: Sequence[Item]) -> Item:
    """Collate query_emb (B, d), cand_emb (B, K, d), beam_labels (B, G, S), rewards (B, G), raw and not, query_id.

    Groups are filled up to the largest, with `judged` (B, G) False. Raises ValueError for pools of different shapes.
    """
    shapes = {tuple(item["cand_emb"].shape) for item in batch}
    if len(shapes) > 1:
        raise ValueError(f"pools of different shapes, {sorted(shapes)}, cannot be one batch; take batches of one query")
    return {
        "query_id": [item["query_id"] for item in batch],
        "query_emb": torch.stack([item["query_emb"] for item in batch]),
        "cand_emb": torch.stack([item["cand_emb"] for item in batch]),
        **_collate_groups(batch),
    }


def collate_fn_v3(batch: Sequence[Item], processor: Any = None) -> Item:
    """Collate as `collate_fn_rl_v3`; inputs of a BeamDataset go through a CLIP `processor`, else are left out."""
    if "query_emb" in batch[0]:
        return collate_fn_rl_v3(batch)
    collated: Item = {key: [item[key] for item in batch] for key in ("query_id", "icd_indices")}
    collated |= _collate_groups(batch)
    if processor is not None:
        inputs = [item["query_input"] for item in batch]
        images, texts = ([query_input[name] for query_input in inputs] for name in ("images", "text"))
        collated["query_input"] = processor(images=images, text=texts, padding=True, return_tensors="pt")
    return collated


def _collate_groups(batch: Sequence[Item]) -> Item:
    """Return `beam_labels`, both `beam_rewards`, padded to the largest group, and `judged`: False at the padding."""
    labels = [item["beam_labels"] for item in batch]
    # filled up with the first pointer, which can be scored as any other can
    filled = [
        torch.cat([pointers, pointers[:1].expand(max(map(len, labels)) - len(pointers), -1)]) for pointers in labels
    ]
    masks = [torch.ones(len(pointers), dtype=torch.bool) for pointers in labels]
    return {
        "beam_labels": torch.stack(filled),
        "beam_rewards_raw": pad_sequence([item["beam_rewards_raw"] for item in batch], batch_first=True),
        "beam_rewards": pad_sequence([item["beam_rewards"] for item in batch], batch_first=True),
        "judged": pad_sequence(masks, batch_first=True),
    }


def _check_shots(query: str, demonstrations: Sequence[Any], shots: int) -> Sequence[Any]:
    if len(demonstrations) != shots:
        raise PointerUnusable(f"query {query}: {len(demonstrations)} demonstrations, and shot_num is {shots}")
    return demonstrations


def _find_positions(query: str, ids: Sequence[str], position: Mapping[str, int]) -> list[int]:
    if missing := [id for id in ids if id not in position]:
        raise PointerUnusable(f"query {query}: candidate {missing[0]} is not in `candidate_indices`; embed it")
    return [position[id] for id in ids]


def _look_up_vector(vectors: Vectors, query: str) -> Tensor:
    """Return the embedding of a query by its id, or number. Raises FileUnusable if there is none."""
    number = int(query) if query.isdecimal() else None
    if isinstance(vectors, Tensor):
        if number is None or number >= len(vectors):
            raise FileUnusable(f"query {query} has no row in a tensor of {len(vectors)}; give the embeddings by id")
        return vectors[number]
    vector = vectors.get(query, vectors.get(number))
    if vector is None:
        raise FileUnusable(f"no embedding for query {query}; embed it")
    return vector


def compute_reward_for_candidate(
    beam_score: float | None = None,
    logprob_score: float | None = None,
    vqa_correct: int | None = None,
    vqa_acc_score: float | None = None,
    use_hard: bool = True,
    use_soft: bool = True,
    hard_weight: float = 1.0,
    soft_weight: float = 1.0,
    alpha: float = 0.0,
    beta: float = 0.0,
    correctness_mode: Literal["01", "pm1"] = "01",
    use_logprob: bool = False,
    reward_clip: tuple[float, float] = REWARD_CLIP,
) -> float:
    """Return hard_weight · h + soft_weight · s + alpha · quality + beta · correctness, clipped, as in Lever-Plus.

    correctness: h, or s where h is unknown; `pm1` maps 0 … 1 to −1 … 1. quality: the beam score, 0 where there is
    none; with `use_logprob` the *negative* log-probability, so that a positive alpha rewards what the policy finds
    unlikely: kept, for rewards that compare with Lever-Plus's. A missing soft score adds nothing.
    Raises RewardUnusable for a missing `vqa_correct`, which Lever-Plus takes for a wrong answer, and for NaN.
    """
    reward = 0.0
    if use_hard and hard_weight:
        reward += hard_weight * needed_score(vqa_correct, "vqa_correct", "use_hard")
    if use_soft and vqa_acc_score is not None:
        reward += soft_weight * vqa_acc_score
    if beta:
        share = needed_score(vqa_acc_score if vqa_correct is None else vqa_correct, "vqa_correct", "beta")
        reward += beta * (2 * share - 1 if correctness_mode == "pm1" else share)
    if alpha:
        reward += alpha * (-logprob_score if use_logprob and logprob_score is not None else beam_score or 0.0)
    return clip_reward(reward, reward_clip)


@dataclass(eq=False)
class GRPOTrainer:
    """RCE, then GRPO, epoch by epoch, on batches of `collate_fn_rl_v3`."""

    model: PointerSelectorV3
    train_loader: DataLoader[Item]
    val_loader: DataLoader[Item]
    """Not read: choose epochs by judged accuracy, not by a loss."""
    device: str | torch.device
    rce_epochs: int = 1
    rce_lr: float = 1e-5
    rce_temp_start: float = 2.0
    rce_temp_end: float = 0.5
    use_top1_only: bool = False
    grpo_epochs: int = 3
    grpo_lr: float = 5e-6
    grpo_early_epochs: int = 0
    grpo_early_top_k: int | None = None
    """The loss is taken over so many of each group; None: all of them."""
    grpo_late_top_k: int | None = None
    kl_target_min: float = 0.01
    kl_target_max: float = 0.1
    kl_adjustment_factor: float = 1.5
    gradient_clip: float = 1.0

    def __post_init__(self) -> None:
        self.model = self.model.to(self.device)

    @torch.no_grad()
    def compute_old_log_probs(self, sft_model: PointerSelectorV3) -> dict[int | str, Tensor]:
        """Return the log-probabilities (G,) of each query's pointers under `sft_model`, by query id."""
        log_probs_of: dict[int | str, Tensor] = {}
        for batch in self._on_device(self.train_loader):
            log_probs = sft_model.compute_log_probs_per_beam(*_inputs_of(batch)).cpu()
            mask = batch["judged"].cpu()
            log_probs_of |= {query: log_probs[row][mask[row]] for row, query in enumerate(batch["query_id"])}
        return log_probs_of

    def train_rce_epoch(self, optimizer: Optimizer, epoch: int, total_epochs: int) -> dict[str, float]:
        """Make one pass of RCE; `rce_loss` is the mean over batches. The temperature falls linearly over all epochs."""
        self.model.train()
        batches = len(self.train_loader)
        steps, numbers = total_epochs * batches, count(epoch * batches)

        def objective(batch: Item) -> dict[str, Tensor]:
            """Return the loss of imitation, at a temperature that goes linearly over all epochs."""
            loss = self.model.compute_rce_loss(
                *_inputs_of(batch),
                batch["beam_rewards_raw"],
                temperature=losses.linear_temperature(next(numbers), steps, self.rce_temp_start, self.rce_temp_end),
                use_top1_only=self.use_top1_only,
                judged=batch["judged"],
            )
            return {"loss": loss}

        return {"rce_loss": self._epoch(optimizer, objective)["loss"]}

    def train_grpo_epoch(
        self, optimizer: Optimizer, old_log_probs_dict: Mapping[int | str, Tensor], epoch: int, total_epochs: int
    ) -> dict[str, float]:
        """Make one pass of GRPO, moving the model's `kl_beta`; return means over batches of `grpo_loss` and others."""
        del total_epochs
        self.model.train()
        top_k = self.grpo_early_top_k if epoch < self.grpo_early_epochs else self.grpo_late_top_k

        def objective(batch: Item) -> dict[str, Tensor]:
            """Return the values of the GRPO loss, after moving `kl_beta` towards its target range."""
            old = pad_sequence([old_log_probs_dict[query] for query in batch["query_id"]], batch_first=True)
            values = self.model.compute_grpo_loss(
                *_inputs_of(batch), batch["beam_rewards"], old.to(self.device), use_top_k=top_k, judged=batch["judged"]
            )
            targets = self.kl_target_min, self.kl_target_max, self.kl_adjustment_factor
            self.model.kl_beta = adaptive_kl_beta(values["kl"].item(), self.model.kl_beta, *targets)
            return values

        means = self._epoch(optimizer, objective)
        return {"grpo_loss": means.pop("loss"), **means}

    def _epoch(self, optimizer: Optimizer, objective: Callable[[Item], dict[str, Tensor]]) -> dict[str, float]:
        """Take a step on every batch along the gradient of `loss`; return each value's mean. Raises RewardUnusable."""
        history: dict[str, list[float]] = {}
        for batch in self._on_device(self.train_loader):
            optimizer.zero_grad()
            batch_values = objective(batch)
            batch_values["loss"].backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.gradient_clip)
            optimizer.step()
            for name, value in batch_values.items():
                history.setdefault(name, []).append(value.item())
        if not history:
            raise RewardUnusable("the loader gave no batch: there is nothing to learn from")
        return {name: sum(values) / len(values) for name, values in history.items()}

    def _on_device(self, loader: Iterable[Item]) -> Iterable[Item]:
        """Yield the batches on the trainer's device; all members count as judged where `judged` is missing."""
        for batch in loader:
            on_device = {
                name: value.to(self.device) if isinstance(value, Tensor) else value for name, value in batch.items()
            }
            judged = torch.ones_like(on_device["beam_rewards"], dtype=torch.bool)
            yield {"judged": judged, **on_device}


def _inputs_of(batch: Item) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries (B, d), pools (B, K, d) and labels (B, G, S) of a batch."""
    return batch["query_emb"], batch["cand_emb"], batch["beam_labels"]
