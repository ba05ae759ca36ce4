"""Configuration of the pointer network; importing it does not load torch."""

from __future__ import annotations

from typing import Self

from pydantic import BaseModel, ConfigDict, Field, model_validator


class PointerShape(BaseModel):
    """Shape of the pointer network, except the width of its input."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    hidden: int = Field(default=256, ge=1)
    """Width of the hidden states."""
    layers: int = Field(default=3, ge=0)
    """Cross-attention layers; 0: a bi-encoder."""
    heads: int = Field(default=1, ge=1)
    """Attention heads of each layer."""
    dropout: float = Field(default=0.5, ge=0, lt=1)
    """Dropout rate on query and candidate states."""
    attention_dropout: float = Field(default=0.1, ge=0, lt=1)
    """Dropout rate on the attention weights."""
    gate: bool = True
    """Update the state after each pick; false: an ablation without the gate."""

    @model_validator(mode="after")
    def _heads_share_the_width(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"{self.heads} heads cannot share a width of {self.hidden}; choose a divisor of it")
        return self


class PointerConfig(PointerShape):
    """Everything that determines the answers of the network, except its weights."""

    embedding_dim: int = Field(default=512, ge=1)
    """Width of the embeddings of queries and candidates."""
    temperature: float = Field(default=0.1, gt=0)
    """Logits are cosines divided by this."""
