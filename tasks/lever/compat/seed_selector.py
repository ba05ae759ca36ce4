"""Lever-Plus's pointer network by its own name, over ours: the losses as methods, and how it is built and loaded."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import torch
from torch import Tensor

from models.pointer import PointerConfig, PointerSelector
from tasks.lever.compat.seed_checkpoints import open_selector
from tasks.lever.learning import losses

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

    def to_dict(self) -> dict[str, Any]:
        """By name."""
        return self._asdict()


class PointerSelectorV3(PointerSelector):
    """The pointer network with its losses as methods."""

    def __init__(self, *args: Any, **named: Any) -> None:
        """The fields of PointerSelectorV3Config, in their order or by name."""
        shape = PointerSelectorV3Config(*args, **named)
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
        self.label_smoothing = shape.label_smoothing
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

    def forward(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, query_emb: Tensor, cand_emb: Tensor, labels: Tensor | None = None, return_loss: bool = True
    ) -> dict[str, Tensor]:
        """`logits` (B, S, K) after the labels (B, S), or after its own picks; `predictions` (B, S); with labels `loss`.

        What is picked already has the logit −inf; Lever-Plus writes −100.
        """
        encoded = self.encode(query_emb, cand_emb)
        state, blocked = encoded.state[:, None], ~encoded.usable[:, None]  # (B, 1, H), (B, 1, K)
        steps = list[Tensor]()
        for step in range(self.shot_num if labels is None else labels.shape[1]):
            steps.append(self.step(state, encoded.keys, blocked)[:, 0])
            picked = steps[-1].argmax(-1) if labels is None else labels[:, step]
            state = self.advance(state, encoded.keys, picked[:, None])
            blocked = blocked.scatter(-1, picked[:, None, None], True)
        logits = torch.stack(steps, dim=1)
        found = {"logits": logits, "predictions": logits.argmax(-1)}
        return found | ({"loss": self.compute_loss(logits, labels)} if return_loss and labels is not None else {})

    def compute_loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Cross-entropy, the mean over all steps. logits: (B, S, K); labels: (B, S)."""
        return self._cross_entropy(logits, labels).mean()

    def _cross_entropy(self, logits: Tensor, labels: Tensor) -> Tensor:
        """(…, S). Labels are smoothed over what can still be picked; Lever-Plus smooths over the rest, too."""
        log_probs, possible = logits.log_softmax(-1), ~logits.isinf()
        right = log_probs.gather(-1, labels[..., None])[..., 0]
        spread = torch.where(possible, log_probs, 0).sum(-1) / possible.sum(-1)
        return -(1 - self.label_smoothing) * right - self.label_smoothing * spread

    def predict(self, query_emb: Tensor, cand_emb: Tensor, top_k: int = 1) -> tuple[Tensor, Tensor]:
        """As `predict_with_v3`."""
        return predict_with_v3(self, query_emb, cand_emb, top_k)

    def compute_log_probs(self, query_emb: Tensor, cand_emb: Tensor, labels: Tensor) -> Tensor:
        """(B,) of whole pointers (B, S), without dropout."""
        return self.compute_log_probs_per_beam(query_emb, cand_emb, labels[:, None])[:, 0]

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
        use_rank_normalization: bool = False,
    ) -> Tensor:
        """Cross-entropy weighted by softmax(reward / temperature); `use_top1_only` imitates the best of each group.

        query_emb: (B, d); cand_emb: (B, K, d); beam_labels: (B, G, S) positions; beam_rewards: (B, G), as they are.
        use_rank_normalization: ranks from 0 to 1 in place of rewards; equal rewards share their mean rank, where
        Lever-Plus gives the later one more.
        """
        log_probs = self._smoothed(query_emb, cand_emb, beam_labels)  # (B, G, S)
        if use_rank_normalization:
            beam_rewards = ranks_of(beam_rewards, judged)
        if not use_top1_only:
            return losses.rce_loss(log_probs.sum(-1), beam_rewards, temperature=temperature, judged=judged)
        known = beam_rewards if judged is None else beam_rewards.masked_fill(~judged, -torch.inf)
        return losses.sft_loss(log_probs[torch.arange(len(log_probs)), known.argmax(-1)])

    def _smoothed(self, query_emb: Tensor, cand_emb: Tensor, beam_labels: Tensor) -> Tensor:
        """(B, G, S) of the picks, less what smoothing takes."""
        if not self.label_smoothing:
            return self.log_probs(query_emb, cand_emb, beam_labels)
        group = beam_labels.shape[1]
        repeated = [one.repeat_interleave(group, dim=0) for one in (query_emb, cand_emb)]
        logits = self.forward(*repeated, labels=beam_labels.flatten(0, 1), return_loss=False)["logits"]
        return -self._cross_entropy(logits.unflatten(0, (-1, group)), beam_labels)

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
        self,
        rewards: Tensor,
        normalize: bool = True,
        use_rank: bool = False,
        min_std: float = 0.1,
        judged: Tensor | None = None,
    ) -> Tensor:
        """(B, G) advantages within each group, clipped; without `normalize` the distance to the mean.

        use_rank: from −1, the lowest reward, to 1; equal rewards share their mean rank, so that a group of equals
        teaches nothing.
        """
        if use_rank:
            known = torch.ones_like(rewards, dtype=torch.bool) if judged is None else judged
            found = torch.where(known, 2 * ranks_of(rewards, judged) - 1, 0)
        elif normalize:
            found = losses.advantages(rewards, floor=min_std, judged=judged)
        else:
            known = torch.ones_like(rewards, dtype=torch.bool) if judged is None else judged
            mean = torch.where(known, rewards, 0).sum(-1, keepdim=True) / known.sum(-1, keepdim=True)
            found = torch.where(known, rewards - mean, 0)
        return clip_advantages(found, self.advantage_clip)

    def compute_kl_divergence(self, log_probs_new: Tensor, log_probs_old: Tensor) -> Tensor:
        """As `compute_kl_penalty`."""
        return compute_kl_penalty(log_probs_new, log_probs_old)

    def update_kl_beta(
        self,
        current_kl: float,
        kl_target_min: float = 0.01,
        kl_target_max: float = 0.1,
        adjustment_factor: float = 1.5,
    ) -> float:
        """`adaptive_kl_beta` of `kl_beta`, which becomes what is returned."""
        self.kl_beta = adaptive_kl_beta(current_kl, self.kl_beta, kl_target_min, kl_target_max, adjustment_factor)
        return self.kl_beta


def ranks_of(rewards: Tensor, judged: Tensor | None = None) -> Tensor:
    """(B, G) from 0, the lowest of the group, to 1; equals share their mean rank. A group of one has 1/2."""
    known = torch.ones_like(rewards, dtype=torch.bool) if judged is None else judged
    lower = (rewards[..., :, None] > rewards[..., None, :]) & known[..., None, :]
    equal = (rewards[..., :, None] == rewards[..., None, :]) & known[..., None, :]
    last = known.sum(-1, keepdim=True) - 1
    ranks = lower.sum(-1) + (equal.sum(-1) - 1) / 2
    return torch.where(last > 0, ranks / last.clamp(min=1), 0.5).to(rewards.dtype)


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


def clip_advantages(advantages: Tensor, clip_range: float = 5.0) -> Tensor:
    """None is farther from 0 than `clip_range`."""
    return advantages.clamp(-clip_range, clip_range)


def compute_group_relative_advantage(rewards: Tensor, normalize: bool = True, clip_range: float = 5.0) -> Tensor:
    """(B, G) z-scores of each group, or distances to its mean, clipped."""
    found = normalize_rewards_zscore(rewards) if normalize else rewards - rewards.mean(-1, keepdim=True)
    return clip_advantages(found, clip_range)


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
