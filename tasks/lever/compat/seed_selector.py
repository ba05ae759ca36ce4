"""Lever-Plus's pointer network by its own name, over ours: the losses as methods, and how it is built and loaded."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
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
        return self._asdict()


class PointerSelectorV3(PointerSelector):
    """The pointer network with its losses as methods."""

    def __init__(
        self,
        d_model: int = 768,
        K: int = 32,  # noqa: N803  Lever-Plus's name
        shot_num: int = 2,
        label_smoothing: float = 0.0,
        dropout: float = 0.5,
        hidden_dim: int = 256,
        num_heads: int = 1,
        attn_dropout: float = 0.1,
        num_layers: int = 3,
        clip_epsilon: float = 0.2,
        kl_beta: float = 0.1,
        advantage_clip: float = 5.0,
        gate: bool = True,
    ) -> None:
        if label_smoothing:
            raise ValueError(f"label_smoothing {label_smoothing}: must be 0, no loss here smooths its labels")
        config = PointerConfig(
            embedding_dim=d_model,
            hidden=hidden_dim,
            layers=num_layers,
            heads=num_heads,
            dropout=dropout,
            attention_dropout=attn_dropout,
            gate=gate,
        )
        super().__init__(config)
        self.d_model, self.K, self.shot_num = d_model, K, shot_num
        self.hidden_dim, self.num_heads, self.num_layers = hidden_dim, num_heads, num_layers
        self.clip_epsilon, self.kl_beta, self.advantage_clip = clip_epsilon, kl_beta, advantage_clip

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
        if not normalize:
            known = torch.ones_like(rewards, dtype=torch.bool) if judged is None else judged
            mean = torch.where(known, rewards, 0).sum(-1, keepdim=True) / known.sum(-1, keepdim=True)
            found = torch.where(known, rewards - mean, 0)
            return found.clamp(-self.advantage_clip, self.advantage_clip)
        found = losses.advantages(rewards, floor=min_std, judged=judged)
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
    return PointerSelectorV3(**(config or PointerSelectorV3Config()).to_dict())


class SelectorWithEncoder(NamedTuple):
    """A network and the encoder that makes its embeddings."""

    pointer_selector: PointerSelectorV3
    encoder: VisionEmbedder
    query_encoding_flag: tuple[str, ...]
    icd_encoding_flag: tuple[str, ...]

    def query_embeddings(self, images: Sequence[bytes], texts: Sequence[str]) -> Tensor:
        """(n, d) of PNGs and questions."""
        return self._joint(images, texts, self.query_encoding_flag)

    def candidate_embeddings(self, images: Sequence[bytes], texts: Sequence[str]) -> Tensor:
        """(n, d) of PNGs and questions."""
        return self._joint(images, texts, self.icd_encoding_flag)

    def _joint(self, images: Sequence[bytes], texts: Sequence[str], flags: Sequence[str]) -> Tensor:
        embed: dict[str, Callable[[], Any]] = {
            "image": lambda: self.encoder.embed_images(images),
            "text": lambda: self.encoder.embed_texts(texts),
        }
        parts = [torch.from_numpy(embed[flag]()) for flag in flags]
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
    return SelectorWithEncoder(build_model_v3(config), encoder, tuple(query_encoding_flag), tuple(icd_encoding_flag))


def load_v3_from_sft_checkpoint(
    checkpoint_path: str | Path, device: str | torch.device | None = None
) -> PointerSelectorV3:
    """The network of a v2 checkpoint, ours or Lever-Plus's, ready for inference. Raises FileUnusable naming keys."""
    selector = PointerSelectorV3.of(open_selector(Path(checkpoint_path)).selector)
    return selector.to(device or ("cuda" if torch.cuda.is_available() else "cpu"))


def load_v3_from_grpo_checkpoint(
    checkpoint_path: str | Path, device: str | torch.device | None = None
) -> PointerSelectorV3:
    """As `load_v3_from_sft_checkpoint`."""
    return load_v3_from_sft_checkpoint(checkpoint_path, device)


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
    return losses.adapt_beta(
        current_beta,
        current_kl,
        kl_low=kl_target_min,
        kl_high=kl_target_max,
        least=beta_min,
        most=beta_max,
        factor=adjustment_factor,
    )
