"""Digits as judge and encoder see them, for the suites: nets without training, and pictures that they take."""

from __future__ import annotations

from functools import cache

import torch

from tasks.lever.digits.net import DigitsNet, NetConfig, to_bytes
from tasks.lever.digits.scenes import load_digits, render, to_png


def untrained() -> bytes:
    """A net of random weights, always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return to_bytes(DigitsNet(NetConfig()))


@cache
def scenes() -> tuple[bytes, ...]:
    """Four pictures of two digits each."""
    ink = load_digits()["train"].ink[:8].reshape(4, 2, 8, 8)
    return tuple(to_png(scene.numpy()) for scene in render(ink, torch.Generator().manual_seed(0)))
