"""Configuration of the lever's stages. The Prefect UI draws its forms from these models; no heavy imports here."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from storage.records import Record

RewardMode = Literal[
    "hard_plus_soft", "hard_only", "soft_only", "separated", "hard_plus_gtprob", "gt_logprob", "legacy"
]
OF_LIKELIHOODS: tuple[RewardMode, ...] = ("hard_plus_gtprob", "gt_logprob")
"""Rewards for which the judge has to return log-probabilities."""


class NetworkSettings(Record):
    """Shape of the pointer network; the width of its input is that of the embeddings."""

    layers: int = Field(default=3, ge=0)  # 3 layers, 1 head and .5 are Lever-Plus's
    """Cross-attention layers; 0: a bi-encoder."""
    heads: int = Field(default=1, ge=1)
    """Attention heads of each layer."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Dropout rate on query and candidate states."""
    gate: bool = True
    """Update the state after each pick; false: an ablation without the gate."""


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

    beams: int = Field(default=5, ge=0)  # 5 beams, 2 samples at 1.0 and 1.3 and 1 at random are Lever-Plus's
    """Pointers from the selector's beam search."""
    temperatures: tuple[float, ...] = (1.0, 1.3)
    """Temperatures at which the selector samples pointers."""
    samples: int = Field(default=2, ge=0)
    """Pointers sampled at each temperature."""
    random: int = Field(default=1, ge=0)
    """Pointers drawn uniformly; more are drawn to replace duplicates."""
    retrieval: bool = False
    """Add a pointer to the most similar candidates, the most similar last."""

    @property
    def total(self) -> int:
        """Number of pointers that are drawn for each query, repeats included."""
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
    rounds: int = Field(default=20, ge=0)
    """Online rounds of sampling, judging and learning; the selector is validated after each. 0: offline only."""
    draws: int = Field(default=12, ge=2)
    """Pointers sampled for each query in a round."""
    beta: float = Field(default=0.02, ge=0)
    """Weight of the KL divergence from the initial selector."""
    adapt_beta: bool = True
    """Adapt `beta` after each epoch and round: × 1.5 where the divergence is above 0.1 nats a pointer, ÷ 1.5 below
    0.01, between 0.001 and 10."""
    loss: str = OUR_GRPO_LOSS
    """Objective: `grpo`, or the name of one that an installed package adds (entry point group `trivet.grpo_losses`)."""

    @field_validator("loss")
    @classmethod
    def _is_installed(cls, loss: str) -> str:
        names = OUR_GRPO_LOSS, *sorted(added_grpo_losses())
        if loss not in names:
            raise ValueError(f"there is no GRPO loss {loss!r} here; choose {', '.join(names)}")
        return loss

    @model_validator(mode="after")
    def _learns(self) -> Self:
        if not self.offline_epochs and not self.rounds:
            raise ValueError("neither offline epochs nor rounds: nothing would be learnt; raise one of them")
        return self
