"""How one model takes pictures: as which tokens, and as which numbers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

from models.model_errors import RequestRefused
from models.prompt_pictures import open_picture, picture_size

if TYPE_CHECKING:
    from torch import Tensor

PICTURE_BYTES = 512 * 2**20
"""Most memory for preprocessed pictures kept for later prompts: demonstrations are shown many times."""


class Sight(NamedTuple):
    """How one model takes pictures; typed Any because transformers picks the class from the folder."""

    processor: Any
    token: str
    """What stands in a text for a picture, and again for each part of it."""
    token_id: int
    written: str
    """A picture in a prompt without a chat template, as the model was trained to see it."""
    names_types: bool
    """True if the model takes a mask of the tokens that belong to a picture."""

    def expanded(self, tokens: Sequence[int], pngs: Sequence[bytes]) -> list[int]:
        """The tokens with as many for each picture as it takes. Raises RequestRefused for what is no picture."""
        counts = iter(self._counts(pngs))
        return [one for token in tokens for one in [token] * (next(counts) if token == self.token_id else 1)]

    def _counts(self, pngs: Sequence[bytes]) -> list[int]:
        if not pngs:
            return []
        sizes = [picture_size(png) for png in pngs]
        try:
            return self.processor._get_num_multimodal_tokens(image_sizes=sizes).num_image_tokens
        except ValueError as error:
            shown = ", ".join(f"{width} × {height}" for height, width in dict.fromkeys(sizes))
            raise RequestRefused(
                f"The model takes no pictures of this shape ({error}; pictures of {shown} pixels); crop them."
            ) from error

    def types(self, tokens: Sequence[int]) -> list[int]:
        """1 at the parts of pictures, 0 at words."""
        return [int(token == self.token_id) for token in tokens]

    def seen(self, png: bytes) -> dict[str, Tensor]:
        """One picture as the model takes it."""
        return dict(self.processor.image_processor(images=[open_picture(png)], return_tensors="pt"))


class Pictures:
    """Pictures as a model takes them; the newest are kept, so that demonstrations are not prepared for each prompt."""

    def __init__(self, sight: Sight) -> None:
        self._sight = sight
        self._kept: OrderedDict[bytes, dict[str, Tensor]] = OrderedDict()

    def joined(self, pngs: Sequence[bytes]) -> dict[str, Tensor]:
        """What the model wants for all of them, in their order; nothing for none. Raises RequestRefused."""
        import torch

        if not pngs:
            return {}
        missing = [png for png in dict.fromkeys(pngs) if png not in self._kept]
        with ThreadPoolExecutor() as pool:  # Pillow and numpy let go of the interpreter
            self._kept |= zip(missing, pool.map(self._sight.seen, missing), strict=True)
        for png in dict.fromkeys(pngs):
            self._kept.move_to_end(png)
        parts = [self._kept[png] for png in pngs]
        self._forget()
        return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}

    def _forget(self) -> None:
        total = sum(_bytes(part) for part in self._kept.values())
        while total > PICTURE_BYTES:
            _, oldest = self._kept.popitem(last=False)
            total -= _bytes(oldest)


def _bytes(part: dict[str, Tensor]) -> int:
    return sum(value.nbytes for value in part.values())
