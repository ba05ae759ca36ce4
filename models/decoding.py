"""Draw a local model's next tokens, and end its answers: plugged into `generate` of transformers.

A drawn token depends on the request and the model's probabilities alone: each row has its own random numbers, so the
rest of the batch does not matter (beyond the last bits of the logits).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from models.prompts import Listener
from models.protocols import ChatRequest

TAIL_TOKENS = 4  # tokens that are looked at for a stop, beyond one for each byte of it: special ones have no text


class Drawing(NamedTuple):
    """The sampling parameters of one row, and the seed of its random numbers (48 bits)."""

    temperature: float
    top_p: float | None
    top_k: int | None
    seed: int


def seed_of(request: ChatRequest, tokens: Sequence[int]) -> int:
    """Return 48 bits that seed a request's random numbers, made of its seed, its draw and its prompt."""
    text = json.dumps([request.seed, request.draw, list(tokens)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6])


class DrawnTokens:
    """A logits processor that leaves rows with a Drawing one token each. limits: most new tokens of each row."""

    def __init__(
        self, drawings: Sequence[Drawing | None], *, limits: Sequence[int], prompt_tokens: int, device: Any
    ) -> None:
        drawn = [(row, drawing) for row, drawing in enumerate(drawings) if drawing]
        numbers = np.full((len(drawn), max(limits)), 0.5)  # what a row draws beyond its own limit is thrown away
        for place, (row, drawing) in enumerate(drawn):
            numbers[place, : limits[row]] = np.random.default_rng(drawing.seed).random(limits[row])
        precise = torch.float32 if torch.device(device).type == "mps" else torch.float64  # mps has no float64
        self._prompt_tokens = prompt_tokens
        self._rows = torch.tensor([row for row, _ in drawn], device=device, dtype=torch.long)  # (D,)
        self._temperature = torch.tensor([[drawing.temperature] for _, drawing in drawn], device=device)  # (D, 1)
        self._numbers = torch.tensor(numbers, dtype=precise, device=device)  # (D, limit)
        self._top_k = drawn[0][1].top_k if drawn else None  # the model's own, alike in all rows
        top_p = [1.0 if drawing.top_p is None else drawing.top_p for _, drawing in drawn]
        narrowed = any(share < 1 for share in top_p)
        self._top_p = torch.tensor(top_p, dtype=precise, device=device)[:, None] if narrowed else None  # (D, 1)

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Return the scores, (rows, vocabulary), with a single possible token in each row that is drawn."""
        if not len(self._rows):
            return scores
        logits = scores[self._rows]  # (D, V)
        # the highest is taken off first: a temperature close to zero makes no infinities then
        logits = (logits - logits.max(dim=-1, keepdim=True).values) / self._temperature
        numbers = self._numbers[:, input_ids.shape[1] - self._prompt_tokens, None]  # (D, 1)
        drawn = pick_tokens(logits, numbers, top_p=self._top_p, top_k=self._top_k)
        scores[self._rows] = float("-inf")
        scores[self._rows, drawn] = 0.0  # the only token that the greedy search of `generate` can take
        return scores


def pick_tokens(logits: Tensor, numbers: Tensor, *, top_p: Tensor | None = None, top_k: int | None = None) -> Tensor:
    """Return the tokens, (D,), that `numbers` point at on the cumulated probability of the likeliest tokens.

    logits: (D, V). numbers: (D, 1) from [0, 1). top_p: (D, 1); top_k is cut first, as transformers does.
    """
    if top_k and top_k < logits.shape[-1]:
        logits, tokens = logits.topk(top_k)  # (D, k), likeliest first
    elif top_p is not None:
        logits, tokens = logits.sort(dim=-1, descending=True, stable=True)
    else:
        tokens = None
    mass = logits.softmax(dim=-1, dtype=torch.float32).to(numbers.dtype)
    if top_p is not None:
        # a token stays while less than top_p lies before it, so that one always does
        mass = mass.masked_fill(mass.cumsum(-1) - mass >= top_p * mass.sum(-1, keepdim=True), 0.0)
    levels = mass.cumsum(-1)
    total = levels[:, -1:].contiguous()
    last = torch.searchsorted(levels, total)  # rounding must not lead to a token without probability
    place = torch.searchsorted(levels, numbers * total, right=True).minimum(last)  # (D, 1)
    return (place if tokens is None else tokens.gather(1, place)).squeeze(1)


class AnswerEnds:
    """A stopping criterion: rows at their own limit, or behind one of their stops; the end token is `generate`'s."""

    def __init__(
        self,
        stops: Sequence[tuple[str, ...]],
        *,
        limits: Sequence[int],
        prompt_tokens: int,
        tokenizer: Any,
        device: Any,
        listener: Listener | None = None,
    ) -> None:
        self.stopped: dict[int, int] = {}  # row → tokens of its answer, for rows that came to a stop
        self._limits = torch.tensor(limits, device=device)
        self._prompt_tokens = prompt_tokens
        self._stops = {row: texts for row, texts in enumerate(stops) if texts}
        longest = max((len(stop.encode("utf-8", "replace")) for texts in stops for stop in texts), default=0)
        self._tail = longest + TAIL_TOKENS
        self._tokenizer = tokenizer
        self._listener = listener

    def __call__(self, input_ids: Tensor, *_: Any, **__: Any) -> Tensor:
        """Return a flag per row, (rows,): True for rows that need no further token."""
        count = input_ids.shape[1] - self._prompt_tokens
        finished = self._limits <= count
        open_rows = [row for row in self._stops if row not in self.stopped]
        if open_rows:
            tokens = input_ids[open_rows, -min(count, self._tail) :].tolist()
            # special tokens too: a stop may be one
            tails = self._tokenizer.batch_decode(tokens, clean_up_tokenization_spaces=False)
            for row, tail in zip(open_rows, tails, strict=True):
                if any(stop in tail for stop in self._stops[row]):
                    self.stopped[row] = count
                    finished[row] = True
        if self._listener is not None:
            self._listener(decode_answer(self._tokenizer, input_ids[0, self._prompt_tokens :].tolist(), whole=False))
        return finished


def decode_answer(tokenizer: Any, tokens: Sequence[int], *, whole: bool = True) -> str:
    """Return the text of tokens without special ones. whole: False holds back bytes of an incomplete last character."""
    text: str = tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return text if whole else text.rstrip("�")
