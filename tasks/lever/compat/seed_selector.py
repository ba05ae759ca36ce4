"""Lever-Plus's pointer network by its own name, over ours: the losses as methods, and how it is built and loaded."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.compat.seed_checkpoints import open_selector
from tasks.lever.data.rl_data import draw
from tasks.lever.learning import losses
from tasks.lever.lever_errors import PointerUnusable
from tasks.lever.lever_options import RlDataSettings

if TYPE_CHECKING:
    from models.protocols import VisionEmbedder


class PointerSelectorV3Config(NamedTuple):
    """What `build_model_v3` needs."""

    d_model: int = 768
    K: int = 32
    """Candidates of a pool; any other number is read as well."""
    shot_num: int = 2
    label_smoothing: float = 0.0
    dropout: float = 0.5
    hidden_dim: int = 256
    num_heads: int = 1
    attn_dropout: float = 0.1
    num_layers: int = 3
    clip_epsilon: float = 0.2
    kl_beta: float = 0.1
    advantage_clip: float = 5.0
    gate: bool = True
    """The state takes in what was picked."""


class PointerSelectorV3(PointerSelector):
    """The pointer network with its losses as methods."""

    def __init__(self, *args: Any, **named: Any) -> None:
        """The fields of PointerSelectorV3Config, in their order or by name."""
        shape = PointerSelectorV3Config(*args, **named)
        if shape.label_smoothing:
            raise ValueError(f"label_smoothing {shape.label_smoothing}: must be 0, no loss here smooths its labels")
        config = PointerConfig(
            embedding_dim=shape.d_model,
            hidden=shape.hidden_dim,
            layers=shape.num_layers,
            heads=shape.num_heads,
            dropout=shape.dropout,
            attention_dropout=shape.attn_dropout,
            gate=shape.gate,
        )
        super().__init__(config)
        self.d_model, self.K, self.shot_num = shape.d_model, shape.K, shape.shot_num
        self.hidden_dim, self.num_heads, self.num_layers = shape.hidden_dim, shape.num_heads, shape.num_layers
        self.clip_epsilon, self.kl_beta, self.advantage_clip = shape.clip_epsilon, shape.kl_beta, shape.advantage_clip

    @classmethod
    def of(cls, selector: PointerSelector) -> Self:
        """A copy of a selector, with its weights; draws no random numbers."""
        config = selector.config
        with torch.device("meta"):
            made = cls(
                d_model=config.embedding_dim,
                dropout=config.dropout,
                hidden_dim=config.hidden,
                num_heads=config.heads,
                attn_dropout=config.attention_dropout,
                num_layers=config.layers,
                gate=config.gate,
            )
        made.load_state_dict({key: value.clone() for key, value in selector.state_dict().items()}, assign=True)
        return made.train(selector.training)

    def compute_log_probs_per_beam(self, query_emb: Tensor, cand_emb: Tensor, beam_labels: Tensor) -> Tensor:
        """(B, G) of whole pointers, without dropout."""
        with without_dropout(self):
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
        """Cross-entropy weighted by softmax(reward / temperature); `use_top1_only` imitates the best of each group.

        query_emb: (B, d); cand_emb: (B, K, d); beam_labels: (B, G, S) positions; beam_rewards: (B, G), as they are.
        """
        log_probs = self.log_probs(query_emb, cand_emb, beam_labels)  # (B, G, S)
        if not use_top1_only:
            return losses.rce_loss(log_probs.sum(-1), beam_rewards, temperature=temperature, judged=judged)
        known = beam_rewards if judged is None else beam_rewards.masked_fill(~judged, -torch.inf)
        return losses.sft_loss(log_probs[torch.arange(len(log_probs)), known.argmax(-1)])

    def compute_grpo_loss(
        self,
        query_emb: Tensor,
        cand_emb: Tensor,
        beam_labels: Tensor,
        beam_rewards: Tensor,
        old_log_probs: Tensor,
        use_top_k: int | None = None,
        ref_log_probs: Tensor | None = None,
        judged: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Clipped GRPO objective: `loss`, `ppo_loss`, `kl_loss`, `kl`, `mean_ratio` and three figures of advantages.

        old_log_probs: (B, G), as `compute_log_probs_per_beam` gave them at the start; ref_log_probs: of the policy to
        stay near, none: the same. use_top_k: the loss is taken over the best k; advantages always over the whole group.
        """
        new = self.compute_log_probs_per_beam(query_emb, cand_emb, beam_labels)
        advantage = self.compute_advantage(beam_rewards, judged=judged)
        counted = judged
        if use_top_k is not None and use_top_k < beam_rewards.shape[1]:
            counted = losses.best_members(beam_rewards, use_top_k, judged)
        reference = old_log_probs if ref_log_probs is None else ref_log_probs
        found = losses.grpo_loss(
            new, old_log_probs, reference, advantage, clip=self.clip_epsilon, beta=self.kl_beta, judged=counted
        )
        known = advantage if counted is None else advantage[counted]
        return {
            "loss": found.loss,
            "ppo_loss": found.policy,
            "kl_loss": self.kl_beta * found.kl,
            "kl": found.kl,
            "mean_ratio": found.ratio_mean,
            "mean_advantage": known.mean(),
            "std_advantage": known.std(correction=0),
            "max_advantage": known.abs().max(),
        }

    def compute_advantage(
        self, rewards: Tensor, normalize: bool = True, min_std: float = 0.1, judged: Tensor | None = None
    ) -> Tensor:
        """(B, G) advantages within each group, clipped; without `normalize` the distance to the mean."""
        if normalize:
            found = losses.advantages(rewards, floor=min_std, judged=judged)
        else:
            known = torch.ones_like(rewards, dtype=torch.bool) if judged is None else judged
            mean = torch.where(known, rewards, 0).sum(-1, keepdim=True) / known.sum(-1, keepdim=True)
            found = torch.where(known, rewards - mean, 0)
        return found.clamp(-self.advantage_clip, self.advantage_clip)

    def compute_kl_divergence(self, log_probs_new: Tensor, log_probs_old: Tensor) -> Tensor:
        """As `compute_kl_penalty`."""
        return compute_kl_penalty(log_probs_new, log_probs_old)


@contextmanager
def without_dropout(model: torch.nn.Module) -> Generator[None]:
    """Log-probabilities that enter a ratio are the policy's own."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def build_model_v3(config: PointerSelectorV3Config | None = None) -> PointerSelectorV3:
    """A network with random weights."""
    return PointerSelectorV3(*(config or PointerSelectorV3Config()))


class SelectorWithEncoder(NamedTuple):
    """A network and the encoder that makes its embeddings."""

    pointer_selector: PointerSelectorV3
    encoder: VisionEmbedder
    query_encoding_flag: Sequence[str]
    icd_encoding_flag: Sequence[str]

    def query_embeddings(self, images: Sequence[bytes], texts: Sequence[str]) -> Tensor:
        """(n, d) of PNGs and questions."""
        return self._joint(images, texts, self.query_encoding_flag)

    def candidate_embeddings(self, images: Sequence[bytes], texts: Sequence[str]) -> Tensor:
        """(n, d) of PNGs and questions."""
        return self._joint(images, texts, self.icd_encoding_flag)

    def _joint(self, images: Sequence[bytes], texts: Sequence[str], flags: Sequence[str]) -> Tensor:
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
    """A network with random weights behind a CLIP. Raises ValueError if their widths differ, ModelUnavailable."""
    from models.clip import ClipEmbedder

    if wrong := {*query_encoding_flag, *icd_encoding_flag} - {"image", "text"}:
        raise ValueError(f"{', '.join(sorted(wrong))} can be no part of an embedding; choose image, text or both")
    encoder = ClipEmbedder(clip_name, device=device)
    if encoder.dimension != config.d_model:
        raise ValueError(f"{clip_name} gives {encoder.dimension} numbers, the network takes {config.d_model}")
    return SelectorWithEncoder(build_model_v3(config), encoder, query_encoding_flag, icd_encoding_flag)


def load_v3_from_sft_checkpoint(
    checkpoint_path: str | Path, device: str | torch.device | None = None
) -> PointerSelectorV3:
    """The network of a v2 or v3 checkpoint, ours or Lever-Plus's, in eval mode. Raises FileUnusable naming keys."""
    selector = PointerSelectorV3.of(open_selector(Path(checkpoint_path)).selector)
    return selector.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


load_v3_from_grpo_checkpoint = load_v3_from_sft_checkpoint


def normalize_rewards_zscore(rewards: Tensor, dim: int = -1, eps: float = 1e-8) -> Tensor:
    """(R − mean) / max(std, eps) along `dim`, with the sample deviation; equal rewards give 0."""
    return losses.advantages(rewards.movedim(dim, -1), floor=eps).movedim(-1, dim)


def compute_group_relative_advantage(rewards: Tensor, normalize: bool = True, clip_range: float = 5.0) -> Tensor:
    """(B, G) z-scores of each group, or distances to its mean, clipped."""
    found = normalize_rewards_zscore(rewards) if normalize else rewards - rewards.mean(-1, keepdim=True)
    return found.clamp(-clip_range, clip_range)


def compute_softmax_weights(rewards: Tensor, temperature: float = 1.0) -> Tensor:
    """softmax(rewards / temperature) over each group."""
    return losses.rce_weights(rewards, temperature)


def compute_kl_penalty(log_probs_new: Tensor, log_probs_old: Tensor) -> Tensor:
    """Mean of r − 1 − log r with r = old / new: on draws of `new` it is KL(new ‖ old). Lever-Plus has r upside down."""
    return losses.k3(log_probs_new, log_probs_old).mean()


def adaptive_kl_beta(
    current_kl: float,
    current_beta: float,
    kl_target_min: float = 0.01,
    kl_target_max: float = 0.1,
    adjustment_factor: float = 1.5,
    beta_min: float = 0.001,
    beta_max: float = 10.0,
) -> float:
    """`losses.adapt_beta` with the parameter names and defaults of Lever-Plus."""
    bounds = {"kl_low": kl_target_min, "kl_high": kl_target_max, "least": beta_min, "most": beta_max}
    return losses.adapt_beta(current_beta, current_kl, **bounds, factor=adjustment_factor)


@torch.no_grad()
def predict_with_v3(
    model: PointerSelectorV3, query_emb: Tensor, cand_emb: Tensor, top_k: int = 1
) -> tuple[Tensor, Tensor]:
    """(B, S) positions of the likeliest picks one after the other, and (B, S) their logits.

    top_k: as in Lever-Plus one pick is given for each step; `beam_search_pointer` gives several pointers.
    """
    if top_k != 1:
        raise ValueError(f"top_k {top_k}: each step has one pick; call beam_search_pointer for several pointers")
    pointers = model.greedy(query_emb, cand_emb, shots=model.shot_num)
    with without_dropout(model):
        taken = [
            _step_logits(model, query_emb, cand_emb, pointers[:, :step]).gather(1, pointers[:, step, None])
            for step in range(model.shot_num)
        ]
    return pointers, torch.cat(taken, dim=1)


def compute_step_logits(
    model: PointerSelector, query_emb: Tensor, cand_emb: Tensor, selected_indices: Sequence[int] | None = None
) -> Tensor:
    """(K,) logits of the next pick after these, −inf for a second time. query_emb: (1, d); cand_emb: (1, K, d)."""
    return _step_logits(model, query_emb, cand_emb, torch.tensor([list(selected_indices or ())], dtype=torch.long))[0]


def _step_logits(model: PointerSelector, query: Tensor, pool: Tensor, picked: Tensor) -> Tensor:
    """(B, K) after the picks (B, S)."""
    encoded = model.encode(query, pool)
    state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K)
    for one in picked.to(pool.device).unbind(-1):
        state = model.advance(state, encoded.keys, one[:, None])
        blocked = blocked.scatter(-1, one[:, None, None], True)
    return model.step(state, encoded.keys, blocked)[:, 0]


def sample_pointer_with_temperature(
    model: PointerSelector,
    query_emb: Tensor,
    cand_emb: Tensor,
    tau: float,
    exclude_indices: Iterable[int] | None = None,
    shot_num: int = 2,
    generator: torch.Generator | None = None,
) -> tuple[list[int], float]:
    """A pointer drawn at temperature `tau`, and its log-probability at temperature 1. (d,), (K, d).

    generator: none draws from torch's default one, as Lever-Plus does.
    """
    drawn = model.sample(
        query_emb[None],
        cand_emb[None],
        shots=shot_num,
        draws=1,
        temperature=tau,
        generator=generator or torch.default_generator,
        usable=_usable(cand_emb, exclude_indices),
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
    """`pointer`, `score` (sum of the steps' probabilities) and `logprob` of the likeliest pointers, best first."""
    usable = _usable(cand_emb, exclude_indices)
    found = model.beam(query_emb[None], cand_emb[None], shots=shot_num, width=num_beams, usable=usable)
    return [
        {"pointer": pointer.tolist(), "score": steps.exp().sum().item(), "logprob": steps.sum().item()}
        for pointer, steps in zip(found.pointers[0], found.log_probs[0], strict=True)
    ]


def _usable(cand_emb: Tensor, exclude_indices: Iterable[int] | None) -> Tensor:
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
    """Distinct ordered pointers as RL data have them, not judged yet. (d,), (K, d)."""
    usable = _usable(cand_emb, exclude_indices)[0].nonzero()[:, 0]
    settings = RlDataSettings(
        beams=num_beams, temperatures=tuple(temps), samples=num_samples_per_temp, random=num_random
    )
    [drawn] = draw(
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
    """The answer of `vqa_model.generate(prompt)`, whether it is right, and its accuracy.

    The prompt is `build_vqa_prompt_fn(image, question, *demonstrations)`, in the order of the pointer.
    Raises PointerUnusable for a position outside of the pool.
    """
    if outside := [at for at in pointer if not 0 <= at < len(candidate_pool)]:
        raise PointerUnusable(f"pointer {list(pointer)}: {outside[0]} is none of 0 to {len(candidate_pool) - 1}")
    prompt = build_vqa_prompt_fn(image, question, *(candidate_pool[at] for at in pointer))
    answer = vqa_model.generate(prompt)
    correct, accuracy = compute_vqa_accuracy_fn(answer, ground_truth_answers)
    return str(answer), int(correct), float(accuracy)
