"""The digits judge as a chat model with answer likelihoods, and its tower as an encoder of pictures and questions.

A request is read as pictures and questions, with answers to all questions but the last. Pictures and texts may come in
any order, in one turn or in several: the first picture belongs to the first question.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F  # noqa: N812 - everybody's name for it

from models.model_errors import ContextOverflow, ModelError, RequestRefused
from models.prompts import complete_alone, cut_at_stops
from models.protocols import ChatRequest, ChatResponse, Image
from tasks.lever.digits import scenes
from tasks.lever.digits.net import PER_ITEM, Tower, from_bytes
from tasks.lever.digits.scenes import END, QUESTIONS, UNKNOWN, seeded_generator, tokens_of

CHUNK = 64
"""Requests computed at once, always: short chunks are filled up, so that every request sees the same arithmetic."""
NEVER = -50.0
"""Log-probability of an answer that the judge has no words for."""
REMEMBERED = 65_536
"""Entries of each cache: tokens of items, and what the tower sees of pictures."""
TEXT_WIDTH = 32
"""Number of coordinates of a question's vector."""
MOST_SHOWN = 4
"""Most demonstrations that a request may show."""
_ITEM = re.compile(r"Question:(.*?)Short answer:(.*?)(?=Question:|\Z)", re.DOTALL)


class DigitsJudge:
    """Answers by reading its demonstrations, greedily. A Chat, BatchChat and AnswerLikelihood.

    An answer and its log-probability are pure functions of the request, whatever is asked with it. Refused are
    requests that it cannot read, pictures that show no scene of its world, and temperatures above 0.
    Raises ModelUnavailable if `weights` are not those of a judge.
    """

    def __init__(self, weights: bytes) -> None:
        self.id = f"digits:{hashlib.sha256(weights).hexdigest()[:16]}"
        self._net = from_bytes(weights)
        self._see = _make_sight(self._net.tower)
        self._tokens_of = lru_cache(maxsize=REMEMBERED)(self._embed)

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Return the words that answer one request, given to `on_text` at once. Raises RequestRefused."""
        return complete_alone(self, request, on_text)

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        """Yield number and answer of each request: refusals first, then by how many demonstrations they have."""
        items, refused = self._tokenize(requests)
        yield from refused.items()
        for numbers, tokens in _chunk_items(items):
            for number, answer in zip(numbers, self._predict_answers(tokens), strict=False):  # filling has no number
                words = scenes.words_of(answer)
                emitted = words[: max(0, requests[number].max_tokens)]
                yield (
                    number,
                    ChatResponse(
                        text=cut_at_stops(" ".join(emitted), requests[number].stop),
                        finish_reason="length" if len(emitted) < len(words) else "stop",
                        prompt_tokens=tokens.shape[1] - PER_ITEM + 1,
                        completion_tokens=len(emitted),
                    ),
                )

    def answer_log_probs(self, pairs: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Yield number and log-probability of each answer, its end token included; NEVER for unknown words.

        Raises RequestRefused for a request that it cannot read, behind all that it can.
        """
        # a likelihood is of an answer that is given: nothing is drawn, whatever the temperature
        items, refused = self._tokenize([request.model_copy(update={"temperature": 0.0}) for request, _ in pairs])
        answers = {number: tokens_of(pairs[number][1]) or (UNKNOWN, UNKNOWN) for number, _ in items}
        yield from ((number, NEVER) for number, answer in answers.items() if UNKNOWN in answer)
        for numbers, tokens in _chunk_items([item for item in items if UNKNOWN not in answers[item[0]]]):
            targets = torch.tensor([answers[number] for number in numbers] + [(0, END)] * (CHUNK - len(numbers)))
            yield from zip(numbers, self._score_answers(tokens, targets), strict=False)
        if refused:
            raise next(iter(refused.values()))

    def _tokenize(self, requests: Sequence[ChatRequest]) -> tuple[list[tuple[int, Tensor]], dict[int, ModelError]]:
        """Return number and tokens (3 n, width) of requests with n items, the last without its answer; and refusals."""
        tokens, refused = list[tuple[int, Tensor]](), dict[int, ModelError]()
        for number, request in enumerate(requests):
            try:
                tokens.append((number, torch.cat([self._tokens_of(*item) for item in read_items(request)])))
            except ModelError as error:
                refused[number] = error
        return tokens, refused

    @torch.inference_mode()
    def _embed(self, png: bytes, kind: int, answer: tuple[int, int] | None) -> Tensor:
        """Return the tokens (3, width) of an item. Raises RequestRefused for a picture that shows no scene."""
        tokens = self._net.encode_items(self._see(png)[1], torch.tensor(kind))
        return tokens if answer is None else self._net.tokens(tokens, torch.tensor(answer))

    @torch.inference_mode()
    def _predict_answers(self, tokens: Tensor) -> list[list[int]]:
        """Return the two likeliest tokens for each row of tokens (B, 3 n, width), the second given the first."""
        question_end = tokens.shape[1] - PER_ITEM + 1  # up to the last question
        logits, memories = self._net.read(tokens[:, :question_end])
        first = logits[:, -1, :END].argmax(-1)
        logits, _ = self._net.read((tokens[:, question_end] + self._net.answers(first))[:, None], memories)
        return torch.stack([first, logits[:, -1].argmax(-1)], dim=-1).tolist()

    @torch.inference_mode()
    def _score_answers(self, tokens: Tensor, answers: Tensor) -> list[float]:
        """Return the log-probabilities (B,) of answers (B, 2) behind tokens (B, 3 n, width), in float64."""
        question_end = tokens.shape[1] - PER_ITEM + 1
        first_token = tokens[:, question_end : question_end + 1] + self._net.answers(answers[:, :1])
        logits, _ = self._net.read(torch.cat([tokens[:, :question_end], first_token], dim=1))
        return F.log_softmax(logits[:, -2:].double(), dim=-1).gather(-1, answers[..., None]).sum((1, 2)).tolist()


class DigitsEncoder:
    """Vectors of pictures, of questions and of what pictures are taken for: what the judge's own tower sees.

    A picture's vector fills the first coordinates of the space, a question's the others, so that normalising both,
    averaging and normalising again keeps both whole. The vector of a question is drawn by its words.
    """

    def __init__(self, weights: bytes) -> None:
        net = from_bytes(weights)
        self.id = f"digits-tower:{hashlib.sha256(weights).hexdigest()[:16]}"
        self._see = _make_sight(net.tower)
        self.dimension = 2 * net.config.tower_width + TEXT_WIDTH

    def embed_images(self, pngs: Sequence[bytes]) -> NDArray[np.float32]:
        """Return unit vectors (len(pngs), dimension): the tower's features less their mean. Raises RequestRefused."""
        return _normalize_rows([self._see(png)[0] for png in pngs], width=self.dimension)

    def embed_texts(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return unit vectors (len(texts), dimension): a random direction, always the same, for each distinct text."""
        directions = [torch.randn(TEXT_WIDTH, generator=seeded_generator(0, text)) for text in texts]
        return _normalize_rows(directions, width=self.dimension, start=self.dimension - TEXT_WIDTH)


def _chunk_items(items: Sequence[tuple[int, Tensor]]) -> Iterator[tuple[list[int], Tensor]]:
    """Yield at most CHUNK numbers with their tokens (CHUNK, 3 n, width), of items with equally many tokens."""
    by_length: dict[int, list[tuple[int, Tensor]]] = defaultdict(list)
    for number, tokens in items:
        by_length[len(tokens)].append((number, tokens))
    for same_length in by_length.values():
        for start in range(0, len(same_length), CHUNK):
            numbers, rows = zip(*same_length[start : start + CHUNK], strict=True)
            yield list(numbers), torch.stack([*rows, *[rows[0]] * (CHUNK - len(rows))])


def _normalize_rows(vectors: Sequence[Tensor], *, width: int, start: int = 0) -> NDArray[np.float32]:
    """Return (len(vectors), width): the vectors at length one, from column `start` on, and zeros elsewhere."""
    rows = np.zeros((len(vectors), width), np.float32)
    for row, vector in zip(rows, vectors, strict=True):
        row[start : start + len(vector)] = F.normalize(vector, dim=-1).numpy()
    return rows


def _make_sight(tower: Tower) -> Callable[[bytes], tuple[Tensor, Tensor]]:
    """Return a cached function from PNG to features (2 · tower_width,) and code (20,). It raises RequestRefused.

    Features are less their mean over the tower's training pictures; the code holds probabilities of both digits.
    """

    @lru_cache(maxsize=REMEMBERED)
    @torch.inference_mode()
    def see(png: bytes) -> tuple[Tensor, Tensor]:
        scene = scenes.from_png(png)
        features = tower.features(scenes.extract_glimpses(torch.from_numpy(scene.copy())[None]))  # (1, 2, tower_width)
        return features.flatten() - tower.mean, tower.codes(features)[0]

    return see


def read_items(request: ChatRequest) -> list[tuple[bytes, int, tuple[int, int] | None]]:
    """Read the items of a request: picture, number of the question, tokens of the answer; None for the last answer.

    Raises RequestRefused, and ContextOverflow for too many demonstrations.
    """
    parts = [part for message in request.messages if message.role != "system" for part in message.content]
    pngs = [part.png for part in parts if isinstance(part, Image)]
    kinds, answers = _parse_text("\n".join(part.text for part in parts if not isinstance(part, Image)))
    if request.temperature > 0 or not kinds or len(pngs) != len(kinds):
        raise RequestRefused(
            "The digits' judge reads `Question:… Short answer:…`, with a picture for each question of its world and an "
            "answer to each but the last, and does not draw (temperature 0); this request is another."
        )
    if len(answers) > MOST_SHOWN:
        raise ContextOverflow(
            f"The request shows {len(answers)} demonstrations; the digits' judge reads {MOST_SHOWN} at most."
        )
    return list(zip(pngs, kinds, (*answers, None), strict=True))


@lru_cache(maxsize=8192)
def _parse_text(text: str) -> tuple[tuple[int, ...], tuple[tuple[int, int], ...]]:
    """Return the numbers of all questions, tokens of all answers but the last (UNKNOWN if none); else ((), ())."""
    items = [(question.strip(), answer.strip()) for question, answer in _ITEM.findall(text)]
    *earlier, last = [answer for _, answer in items] or ["missing"]
    if last or not all(earlier) or any(question not in QUESTIONS for question, _ in items):
        return (), ()
    answers = tuple(tokens_of(answer) or (UNKNOWN, UNKNOWN) for answer in earlier)
    return tuple(QUESTIONS.index(question) for question, _ in items), answers
