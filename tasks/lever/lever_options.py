"""Configuration of the lever's stages. The Prefect UI draws its forms from these models; no heavy imports here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from storage.records import Record

if TYPE_CHECKING:
    from models.pointer import PointerConfig

Vectors = Literal["joint", "image", "text"]
"""What a selector sees of queries and candidates: picture and question together, or one of them."""
RewardMode = Literal["hard_plus_soft", "hard_only", "soft_only", "separated", "hard_plus_gtprob", "legacy"]


class NetworkSettings(Record):
    """The shape of the pointer network; the width of the embeddings comes from their encoder."""

    hidden: int = Field(default=256, ge=8)
    """Width of its states."""
    layers: int = Field(default=3, ge=0)
    """Cross-attention layers; 0 is a bi-encoder."""
    heads: int = Field(default=1, ge=1)
    """Attention heads of each layer."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Dropout rate of queries and candidates."""
    attention_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate of the attention weights."""
    gate: bool = True
    """The state takes in what was picked; False is an ablation."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"{self.heads} heads cannot share a width of {self.hidden}; choose a divisor of it")
        return self

    def config(self, embedding_dim: int) -> PointerConfig:
        """The configuration of the network."""
        from models.pointer import PointerConfig

        return PointerConfig(embedding_dim=embedding_dim, **self.model_dump())


class BeamSettings(Record):
    """How demonstrations to imitate are searched with a judge that gives log-probabilities."""

    width: int = Field(default=5, ge=1)
    """Sequences kept after each pick."""
    candidates: int | None = Field(default=None, ge=1)
    """Candidates of a pool that are tried, drawn at random; none: all."""
    queries: int | None = Field(default=None, ge=1)
    """Train queries that are searched for, the first ones; none: all."""


class RlDataSettings(Record):
    """Which pointers of a query are judged."""

    beams: int = Field(default=5, ge=0)
    """Best pointers of the selector's beam search."""
    temperatures: tuple[float, ...] = (1.0, 1.3)
    """Temperatures at which pointers are drawn."""
    samples: int = Field(default=2, ge=0)
    """Pointers drawn at each temperature."""
    random: int = Field(default=1, ge=0)
    """Pointers drawn uniformly; more of them fill up what was drawn twice."""
    retrieval: bool = False
    """Also the most similar candidates, most similar last."""
    gt_prob: bool = False
    """Also how likely the judge finds the right answers; it must give log-probabilities."""

    @property
    def total(self) -> int:
        """Pointers of a query."""
        return self.beams + len(self.temperatures) * self.samples + self.random + self.retrieval


class OracleSettings(Record):
    """Budget of the search for the best demonstrations, with the shots that selectors are trained for."""

    most_judgments: int | None = Field(default=60_000, ge=0)
    """The search ends there, and the best so far is a lower bound; 0: no oracle, none: until all is tried."""
