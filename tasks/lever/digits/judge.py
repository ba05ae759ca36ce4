"""The digits' judge as a chat model that tells likelihoods, and its tower as an encoder of pictures and questions."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from models.errors import ModelError, RequestRefused
from models.protocols import ChatRequest, ChatResponse
from models.stops import cut
from tasks.lever.digits.eyes import Eyes
from tasks.lever.digits.language import END, UNKNOWN, tokens_of, words_of
from tasks.lever.digits.net import CODE, PER_ITEM, DigitsNet, from_bytes
from tasks.lever.digits.reading import Read, Shown, read
from tasks.lever.digits.streams import stream

CHUNK = 64
"""Requests computed at once, always: short chunks are filled up, so that every request sees the same arithmetic."""
NEVER = -50.0
"""Log-probability of an answer that the judge has no words for."""
REMEMBERED = 65_536
"""Pictures with their questions and answers whose tokens are kept."""
TEXT_WIDTH = 32
"""Coordinates of a question's vector."""


class DigitsJudge:
    """Answers by reading its demonstrations, greedily. A Chat, BatchChat and AnswerLikelihood.

    An answer and its log-probability are pure functions of the request, whatever is asked with it. Refused are
    requests that it cannot read, pictures that show no scene of its world, and temperatures above 0.
    Raises ModelUnavailable if `weights` are not those of a judge.
    """

    def __init__(self, weights: bytes) -> None:
        self.id = f"digits:{hashlib.sha256(weights).hexdigest()[:16]}"
        self._net = from_bytes(weights)
        self._eyes = Eyes(self._net.tower)
        self._seen = lru_cache(maxsize=REMEMBERED)(self._see)
        self._shown = lru_cache(maxsize=REMEMBERED)(self._show)

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """One answer. Raises RequestRefused."""
        [(_, answer)] = self.complete_many([request])
        if isinstance(answer, ModelError):
            raise answer
        if on_text is not None:
            on_text(answer.text)
        return answer

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        """Answers with their number, those to equally many demonstrations together."""
        items: list[tuple[int, Tensor]] = []
        for number, request in enumerate(requests):
            try:
                if request.temperature > 0:
                    raise RequestRefused(
                        f"The temperature is {request.temperature}; the digits' judge does not draw its answers: set 0."
                    )
                items.append((number, self._tokens(read(request))))
            except ModelError as error:
                yield number, error
        for numbers, tokens in _chunks(items):
            answers = _answers(self._net, tokens)
            for number, answer in zip(numbers, answers, strict=False):
                yield number, _response(answer, requests[number], shown=tokens.shape[1] // PER_ITEM - 1)

    def answer_log_probs(self, asked: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Of each answer, its end included; NEVER for one that holds other words than the judge knows.

        Raises RequestRefused for a request that it cannot read, behind all that it can.
        """
        items: list[tuple[int, Tensor]] = []
        answers: dict[int, tuple[int, int]] = {}
        refused: list[RequestRefused] = []
        for number, (request, answer) in enumerate(asked):
            try:
                tokens, said = self._tokens(read(request)), tokens_of(answer)
            except RequestRefused as error:
                refused.append(error)
                continue
            if said is None or UNKNOWN in said:
                yield number, NEVER
                continue
            items.append((number, tokens))
            answers[number] = said
        for numbers, tokens in _chunks(items):
            wanted = torch.tensor([answers[number] for number in numbers] + [(0, END)] * (CHUNK - len(numbers)))
            log_probs = _log_probs(self._net, tokens, wanted).tolist()
            yield from zip(numbers, log_probs, strict=False)
        if refused:
            raise refused[0]

    def _tokens(self, asked: Read) -> Tensor:
        """(3 n, width) tokens of the n items of a request; the answer of the last is missing from its tokens."""
        return torch.cat([*map(self._shown, asked.shown), self._seen(asked.png, asked.kind)])

    @torch.inference_mode()
    def _see(self, png: bytes, kind: int) -> Tensor:
        """(3, width) tokens of an item, less its answer. Raises RequestRefused for a picture that shows no scene."""
        return self._net.seen(self._eyes.see(png).code, torch.tensor(kind))

    @torch.inference_mode()
    def _show(self, shown: Shown) -> Tensor:
        """(3, width) tokens of a demonstration."""
        return self._net.tokens(self._seen(shown.png, shown.kind), torch.tensor(shown.answer))


class DigitsEncoder:
    """Vectors of pictures, of questions and of what pictures are taken for: what the judge's own tower sees.

    A picture's vector fills the first coordinates of the space, a question's the others, so that normalising both,
    averaging and normalising again keeps both whole. The vector of a question is drawn by its words.
    """

    def __init__(self, weights: bytes) -> None:
        net = from_bytes(weights)
        self.id = f"digits-tower:{hashlib.sha256(weights).hexdigest()[:16]}"
        self._eyes = Eyes(net.tower)
        self._picture_width = 2 * net.config.tower_width
        self.dimension = self._picture_width + TEXT_WIDTH

    def embed_images(self, pngs: Sequence[bytes]) -> NDArray[np.float32]:
        """(len(pngs), dimension): the tower's features, less their mean over the pictures that it was trained on."""
        vectors = np.zeros((len(pngs), self.dimension), np.float32)
        for row, png in enumerate(pngs):
            vectors[row, : self._picture_width] = _unit(self._eyes.see(png).features)
        return vectors

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(len(texts), dimension)."""
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            vectors[row, self._picture_width :] = _unit(torch.randn(TEXT_WIDTH, generator=stream(0, text)))
        return vectors

    def embed_classes(self, pngs: Sequence[bytes]) -> NDArray[np.float32]:
        """(len(pngs), 20): probabilities of the left digit and of the right one, L2-normalised."""
        vectors = np.zeros((len(pngs), CODE), np.float32)
        for row, png in enumerate(pngs):
            vectors[row] = _unit(self._eyes.see(png).code)
        return vectors


def _chunks(items: Sequence[tuple[int, Tensor]]) -> Iterator[tuple[list[int], Tensor]]:
    """Numbers, at most CHUNK, and their tokens (CHUNK, 3 n, width); items with equally many tokens together."""
    by_length: dict[int, list[tuple[int, Tensor]]] = defaultdict(list)
    for number, tokens in items:
        by_length[len(tokens)].append((number, tokens))
    for alike in by_length.values():
        for start in range(0, len(alike), CHUNK):
            numbers, rows = zip(*alike[start : start + CHUNK], strict=True)
            yield list(numbers), torch.stack([*rows, *[rows[0]] * (CHUNK - len(rows))])


@torch.inference_mode()
def _answers(net: DigitsNet, tokens: Tensor) -> list[list[int]]:
    """The two most likely tokens for each row of tokens (B, 3 n, width), the second given the first."""
    asked = tokens.shape[1] - PER_ITEM + 1  # up to the last question
    logits, memories = net.read(tokens[:, :asked])
    first = logits[:, -1, :END].argmax(-1)
    said = tokens[:, asked] + net.answers(first)
    logits, _ = net.read(said[:, None], memories)
    return torch.stack([first, logits[:, -1].argmax(-1)], dim=-1).tolist()


@torch.inference_mode()
def _log_probs(net: DigitsNet, tokens: Tensor, answers: Tensor) -> Tensor:
    """(B,) float64 of answers (B, 2) to tokens (B, 3 n, width)."""
    asked = tokens.shape[1] - PER_ITEM + 1
    said = tokens[:, asked : asked + 1] + net.answers(answers[:, :1])
    logits, _ = net.read(torch.cat([tokens[:, :asked], said], dim=1))
    return F.log_softmax(logits[:, -2:].double(), dim=-1).gather(-1, answers[..., None]).sum((1, 2))


def _response(answer: Sequence[int], request: ChatRequest, *, shown: int) -> ChatResponse:
    words = words_of(answer)
    kept = words[: max(0, request.max_tokens)]
    return ChatResponse(
        text=cut(" ".join(kept), request.stop),
        finish_reason="length" if len(kept) < len(words) else "stop",
        prompt_tokens=PER_ITEM * shown + 1,
        completion_tokens=len(kept),
    )


def _unit(vector: Tensor) -> NDArray[np.float32]:
    return F.normalize(vector, dim=-1).numpy()
