"""What the judge's vision tower sees of a PNG; each picture alone, and once."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from models.errors import RequestRefused
from tasks.lever.digits.net import Tower
from tasks.lever.digits.scenes import SIZE, NoScene, from_png, glimpses

REMEMBERED = 65_536
"""Pictures."""


class Sight(NamedTuple):
    """What is seen of a picture."""

    features: Tensor
    """(2 · tower_width,), less their mean over the pictures that the tower was trained on."""
    code: Tensor
    """(20,) probabilities of the left digit and of the right one."""


class Eyes:
    """The tower of a judge. Threads may share it."""

    def __init__(self, tower: Tower) -> None:
        self._tower = tower
        self.see = lru_cache(maxsize=REMEMBERED)(self._see)

    @torch.inference_mode()
    def _see(self, png: bytes) -> Sight:
        """Raises RequestRefused for a picture that shows no scene."""
        try:
            scene = from_png(png)
        except NoScene as error:
            raise RequestRefused(
                f"A picture of the request is none that the digits' judge can see: {error}; give PNGs of the digits' "
                f"world, {SIZE[0]} × {SIZE[1]} pixels, as they are."
            ) from error
        features = self._tower.features(glimpses(torch.from_numpy(scene.copy())[None]))  # (1, 2, tower_width)
        return Sight(features.flatten() - self._tower.mean, self._tower.codes(features)[0])
