"""A vision-language model of the transformers library in this process: a CausalLM that is shown pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from models.causal_lm import CausalLM, Prompt
from models.model_errors import ModelError
from models.protocols import ChatRequest
from models.token_likelihoods import encode, likelihoods


class Answer(NamedTuple):
    """A prompt and the tokens of the answer whose likelihood is asked for."""

    prompt: Prompt
    tokens: list[int]  # with the token that ends it


class HFVision(CausalLM):
    """A CausalLM that takes pictures: one of the Qwen-VL (2, 2.5, 3) or LLaVA kind, of a folder or of the hub.

    With `template=False` the words go to the model as they stand, each picture in its place among them.
    Pictures are resized by Pillow on every machine, independently of their batch. Raises ModelUnavailable.
    """

    def __init__(
        self, pretrained: str, *, min_pixels: int | None = None, max_pixels: int | None = None, **chosen: Any
    ) -> None:
        """min_pixels, max_pixels: bounds of a resized picture; None: the model's own. chosen: arguments of CausalLM."""
        bounds = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        super().__init__(pretrained, pixels={name: n for name, n in bounds.items() if n is not None}, **chosen)

    def answer_log_probs(self, asked: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Sums over the answers' tokens, their end included, with their numbers; the longest first.

        An answer is tokenised by itself, without its prompt. Raises ModelError; a ContextOverflow after all results.
        """
        answers, refused = list[Answer](), list[ModelError]()
        for number, (request, answer) in enumerate(asked):
            try:
                with self._lock:
                    loaded, prompt = self._load(), self._prompt(number, request)
                    tokens = [*encode(loaded, answer, special=False), loaded.end_token]
                    self._room([*prompt.tokens, *tokens[:-1]])
                    answers.append(Answer(prompt, tokens))
            except ModelError as error:
                refused.append(error)
        answers.sort(key=lambda one: len(one.prompt.tokens) + len(one.tokens), reverse=True)

        def row_bytes(one: Answer) -> int:
            return self._cache_bytes(one.prompt) + self._logit_bytes((tuple(one.tokens), []))

        for batch, sums in self._batches(answers, self._score_answers, row_bytes):
            if isinstance(sums, ModelError):
                raise sums
            yield from ((one.prompt.number, total) for one, total in zip(batch, sums, strict=True))
        if refused:
            raise refused[0]

    @torch.inference_mode()
    def _score_answers(self, batch: Sequence[Answer]) -> list[float]:
        """The log-probability of each answer; padding stands at the left, so that all answers end together."""
        inputs = self._inputs([(one.prompt.request, [*one.prompt.tokens, *one.tokens[:-1]]) for one in batch])
        most = max(len(one.tokens) for one in batch)
        logits = self._load().model(**inputs, use_cache=False, logits_to_keep=most).logits  # (rows, most, V)
        answers = [one.tokens for one in batch]
        seen = (logits[row, -len(tokens) :] for row, tokens in enumerate(answers))
        return [one.total for one in likelihoods(answers, seen)]
