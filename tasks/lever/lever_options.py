"""Configuration of the lever's stages. The Prefect UI draws its forms from these models; no heavy imports here."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from models.pointer_config import PointerShape
from storage.records import Record

Vectors = Literal["joint", "image", "text"]
"""Embeddings that a selector reads: of image and question together, or of one of them."""
RewardMode = Literal[
    "hard_plus_soft",
    "hard_plus_soft_v2",
    "hard_only",
    "soft_only",
    "separated",
    "hard_plus_gtprob",
    "hard01_plus_gtprob",
    "hard01_plus_gtprob_separated",
    "gt_logprob",
    "legacy",
]
OF_LIKELIHOODS: tuple[RewardMode, ...] = (
    "hard_plus_gtprob",
    "hard01_plus_gtprob",
    "hard01_plus_gtprob_separated",
    "gt_logprob",
)
"""Rewards for which the judge has to return log-probabilities."""


class NetworkSettings(PointerShape):
    """Shape of the pointer network; the width of its input is that of the embeddings."""

    hidden: int = Field(default=256, ge=8)
    """Width of the hidden states."""


class BeamSettings(Record):
    """Beam search for the demonstrations that SFT imitates, with a judge that returns log-probabilities."""

    width: int = Field(default=5, ge=1)
    """Beam width: sequences kept after each pick."""
    candidates: int | None = Field(default=None, ge=1)
    """Candidates of each pool to try, drawn at random; unset: all."""
    queries: int | None = Field(default=None, ge=1)
    """Number of train queries to search for, from the first; unset: all."""


class RlDataSettings(Record):
    """Which pointers (ordered choices of demonstrations) of each query are judged."""

    beams: int = Field(default=5, ge=0)
    """Pointers from the selector's beam search."""
    temperatures: tuple[float, ...] = (1.0, 1.3)
    """Temperatures at which the selector samples pointers."""
    samples: int = Field(default=2, ge=0)
    """Pointers sampled at each temperature."""
    random: int = Field(default=1, ge=0)
    """Pointers drawn uniformly; more are drawn to replace duplicates."""
    retrieval: bool = False
    """Add a pointer to the most similar candidates, the most similar last."""
    gt_prob: bool = False
    """Also record the probability of the right answers; needs a judge that returns log-probabilities."""

    @property
    def total(self) -> int:
        """Pointers of a query."""
        return self.beams + len(self.temperatures) * self.samples + self.random + self.retrieval


class OracleSettings(Record):
    """Search for the best demonstrations at the trained number of shots, as an upper bound."""

    most_judgments: int | None = Field(default=60_000, ge=0)
    """Most judgments; the best so far is then reported as a lower bound. 0: no oracle; unset: no limit."""


OUR_GRPO_LOSS = "grpo"


def added_grpo_losses() -> dict[str, EntryPoint]:
    """Name → entry point of each GRPO loss that an installed package adds."""
    return {point.name: point for point in entry_points(group="trivet.grpo_losses")}


class Optimization(Record):
    """AdamW with warm-up and cosine decay, common to all three stages."""

    batch_size: int = Field(default=64, ge=1)
    """Queries per update."""
    lr: float = Field(default=2e-3, gt=0)
    """Peak learning rate, reached at the end of the warm-up; a cosine decays it to 0."""


class SftSettings(Optimization):
    """SFT (v2): imitate the best pointer of each query."""

    epochs: int = Field(default=12, ge=1)
    """Passes over the queries; the selector is validated after each."""


class RceSettings(Optimization):
    """RCE (v3, first half): imitate all pointers of a query, weighted by their rewards."""

    lr: float = Field(default=1.5e-3, gt=0)
    """Peak learning rate, reached at the end of the warm-up; a cosine decays it to 0."""
    epochs: int = Field(default=15, ge=1)
    """Passes over the queries; the selector is validated after each."""
    temperature_start: float = Field(default=2.0, gt=0)
    """Softmax temperature over the rewards of a query at the first update; a high one weights all pointers alike."""
    temperature_end: float = Field(default=0.5, gt=0)
    """Softmax temperature at the last update; a low one weights only the best pointer."""
    use_top1_only: bool = False
    """Ablation: imitate only the pointer with the highest reward, of equals the first."""


class GrpoSettings(Optimization):
    """GRPO (v3, second half): prefer pointers with higher rewards than others of the same query.

    Stored pointers come first, then rounds with pointers that the selector samples and the judge scores.
    """

    batch_size: int = Field(default=150, ge=1)
    """Queries per update."""
    lr: float = Field(default=4e-4, gt=0)
    """Peak learning rate, reached at the end of the warm-up; a cosine decays it to 0."""
    offline_epochs: int = Field(default=2, ge=0)
    """Passes over the stored pointers."""
    offline_only: bool = False
    """Ablation: no online rounds, so that the judge is not asked."""
    rounds: int = Field(default=20, ge=0)
    """Online rounds of sampling, judging and learning; the selector is validated after each."""
    draws: int = Field(default=12, ge=2)
    """Pointers sampled for each query in a round."""
    sampling_temperature: float = Field(default=1.0, gt=0)
    """Sampling temperature. Ratios are computed at 1, so at other temperatures the surrogate is not on-policy."""
    inner_epochs: int = Field(default=2, ge=1)
    """Passes over the pointers of a round."""
    clip: float = Field(default=0.2, gt=0, lt=1)
    """Clipping range ε of the ratio: 1 ± ε."""
    floor: float = Field(default=0.1, gt=0)
    """Lower bound of the standard deviation that rewards are divided by."""
    beta: float = Field(default=0.02, ge=0)
    """Weight of the KL divergence from the initial selector; adapted after each epoch and round."""
    beta_min: float = Field(default=0.001, ge=0)
    """Lower bound of `beta`."""
    beta_max: float = Field(default=10.0, ge=0)
    """Upper bound of `beta`. Set `beta`, `beta_min` and `beta_max` to one value to keep it fixed."""
    kl_low: float = Field(default=0.01, ge=0)
    """KL divergence (nats per pointer) below which `beta` is divided by 1.5."""
    kl_high: float = Field(default=0.1, gt=0)
    """KL divergence (nats per pointer) above which `beta` is multiplied by 1.5."""
    top_k: int | None = Field(default=None, ge=2)
    """Ablation: standardise the rewards of only the best k pointers, which removes the signal."""
    dropout_in_ratio: bool = False
    """Ablation: keep dropout on in the ratios, so that the first ratio is not 1."""
    loss: str = OUR_GRPO_LOSS
    """Objective: `grpo`, or the name of one that an installed package adds (entry point group `trivet.grpo_losses`)."""

    @field_validator("loss")
    @classmethod
    def _is_installed(cls, loss: str) -> str:
        if loss not in (known := (OUR_GRPO_LOSS, *sorted(added_grpo_losses()))):
            raise ValueError(f"there is no GRPO loss {loss!r} here; choose {', '.join(known)}")
        return loss

    @model_validator(mode="after")
    def _learns(self) -> Self:
        if not self.offline_epochs and (self.offline_only or not self.rounds):
            raise ValueError("neither offline epochs nor rounds: nothing would be learnt; raise one of them")
        if not self.beta_min <= self.beta <= self.beta_max:
            raise ValueError(f"beta {self.beta} is not between beta_min {self.beta_min} and beta_max {self.beta_max}")
        if self.kl_low > self.kl_high:
            raise ValueError(f"kl_low {self.kl_low} is above kl_high {self.kl_high}")
        return self
