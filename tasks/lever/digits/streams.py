"""Random numbers by purpose: what one purpose draws changes nothing for another."""

from __future__ import annotations

import hashlib

import torch


def stream(seed: int, purpose: str) -> torch.Generator:
    """The random numbers of a seed for one purpose."""
    digest = hashlib.sha256(f"{seed} {purpose}".encode("utf-8", "surrogatepass")).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8]) >> 1)
