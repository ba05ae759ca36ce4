"""Configuration of the lever's stages. The Prefect UI draws its forms from these models; no heavy imports here."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

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


GRPO_LOSSES = "trivet.grpo_losses"
"""Group of the entry points by which an installed package adds GRPO losses."""
OUR_GRPO_LOSS = "grpo"


def added_grpo_losses() -> dict[str, EntryPoint]:
    """Name → entry point of each GRPO loss that an installed package adds."""
    return {point.name: point for point in entry_points(group=GRPO_LOSSES)}


class Optimization(Record):
    """AdamW with warm-up and cosine; what all three stages have."""

    batch_size: int = Field(default=64, ge=1)
    """Queries in an update."""
    lr: float = Field(default=2e-3, gt=0)
    """Highest learning rate, reached when the warm-up ends; from there a cosine falls to 0."""
    warmup_share: float = Field(default=0.1, ge=0, lt=1)
    """Share of the updates in which the learning rate rises."""
    weight_decay: float = Field(default=0.01, ge=0)
    """Decoupled weight decay of AdamW."""
    clip_norm: float = Field(default=1.0, gt=0)
    """Largest norm of the gradient; a larger one is scaled down to this."""


class SftSettings(Optimization):
    """Imitate one pointer for each query (v2)."""

    epochs: int = Field(default=12, ge=1)
    """Times that every query is seen; the selector is validated after each."""


class RceSettings(Optimization):
    """Imitate all pointers of a query, each as far as it was rewarded (v3, first half)."""

    lr: float = Field(default=1.5e-3, gt=0)
    """Highest learning rate, reached when the warm-up ends; from there a cosine falls to 0."""
    epochs: int = Field(default=15, ge=1)
    """Times that every query is seen; the selector is validated after each."""
    temperature_start: float = Field(default=2.0, gt=0)
    """Temperature of the softmax over the rewards of a query at the first update; high: all pointers count alike."""
    temperature_end: float = Field(default=0.5, gt=0)
    """The same at the last update; low: only the best pointer counts."""
    use_top1_only: bool = False
    """Only the best pointer of a query, of equals the first; an ablation."""


class GrpoSettings(Optimization):
    """Prefer the pointers that are better than others of their query (v3, second half).

    First the stored pointers, then rounds in which the selector draws its own and the judge rewards them.
    """

    batch_size: int = Field(default=150, ge=1)
    """Queries in an update."""
    lr: float = Field(default=4e-4, gt=0)
    """Highest learning rate, reached when the warm-up ends; from there a cosine falls to 0."""
    offline_epochs: int = Field(default=2, ge=0)
    """Times that the stored pointers are learnt from."""
    offline_only: bool = False
    """No rounds, so that no judge is asked; an ablation."""
    rounds: int = Field(default=20, ge=0)
    """Rounds of drawing, judging and learning; the selector is validated after each."""
    draws: int = Field(default=12, ge=2)
    """Pointers that are drawn for each query in a round."""
    sampling_temperature: float = Field(default=1.0, gt=0)
    """At which they are drawn. Ratios are taken at 1, so that at other temperatures the surrogate is not on-policy."""
    inner_epochs: int = Field(default=2, ge=1)
    """Times that the pointers of a round are learnt from."""
    clip: float = Field(default=0.2, gt=0, lt=1)
    """A ratio gains nothing by leaving 1 ± this."""
    floor: float = Field(default=0.1, gt=0)
    """Least standard deviation by which rewards are divided."""
    beta: float = Field(default=0.02, ge=0)
    """Weight of the KL divergence from the selector that GRPO starts with; adapted after each epoch and round."""
    beta_min: float = Field(default=0.001, ge=0)
    """Lower bound of `beta`."""
    beta_max: float = Field(default=10.0, ge=0)
    """Upper bound of `beta`. Equal to `beta_min` and `beta`: `beta` is not adapted."""
    kl_low: float = Field(default=0.01, ge=0)
    """Below this divergence (nats per pointer) `beta` is divided by 1.5."""
    kl_high: float = Field(default=0.1, gt=0)
    """Above this divergence `beta` is multiplied by 1.5."""
    exact_kl_up_to: int = Field(default=100_000, ge=0, le=100_000)
    """Pools of at most so many ordered pointers have their divergence computed; that of others is estimated (k3)."""
    top_k: int | None = Field(default=None, ge=2)
    """Keep only the best so many pointers before rewards are standardised; an ablation: it wipes the signal out."""
    dropout_in_ratio: bool = False
    """Leave dropout on where ratios are taken; an ablation: the first ratio is not 1 then."""

    loss: str = OUR_GRPO_LOSS
    """The objective: `grpo`, or the name of one that an installed package adds (entry points `trivet.grpo_losses`)."""

    @field_validator("loss")
    @classmethod
    def _is_installed(cls, loss: str) -> str:
        if loss != OUR_GRPO_LOSS and loss not in (added := added_grpo_losses()):
            raise ValueError(
                f"there is no GRPO loss {loss!r} here; choose {', '.join((OUR_GRPO_LOSS, *sorted(added)))}"
            )
        return loss

    @model_serializer(mode="wrap")
    def _without_usual_loss(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain = dump(self)
        if self.loss == OUR_GRPO_LOSS:  # keys of results and of training states made before `loss` existed still hold
            plain.pop("loss", None)
        return plain

    @model_validator(mode="after")
    def _learns(self) -> Self:
        if not self.offline_epochs and (self.offline_only or not self.rounds):
            raise ValueError("neither offline epochs nor rounds: nothing would be learnt; raise one of them")
        if not self.beta_min <= self.beta <= self.beta_max:
            raise ValueError(f"beta {self.beta} is not between beta_min {self.beta_min} and beta_max {self.beta_max}")
        if self.kl_low > self.kl_high:
            raise ValueError(f"kl_low {self.kl_low} is above kl_high {self.kl_high}")
        return self
