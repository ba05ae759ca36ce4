"""A vision-language model of the transformers library in this process: answers in batches, and how likely they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from models.causal_lm import CausalLM, Prompt, generation_settings
from models.causal_weights import Loaded
from models.decoding import Draws, Ends
from models.held import held
from models.model_errors import ContextOverflow, ModelError
from models.prompt_pictures import pictures_of
from models.protocols import ChatRequest, ChatResponse
from models.stops import Listener
from models.token_likelihoods import encode
from models.vision_prompts import render_seen
from models.vision_weights import Seeing, load_seeing


class Answer(NamedTuple):
    """A prompt and the answer whose likelihood is asked for."""

    prompt: Prompt
    tokens: list[int]
    """With the token that ends it."""


class HFVision(CausalLM):
    """A CausalLM that takes pictures: one of the Qwen-VL (2, 2.5, 3) or LLaVA kind, of a folder or of the hub.

    Batches, drawing, stops and the end of memory are those of CausalLM; its likelihoods of plain texts are there too.
    With `template=False` the words go to the model as they stand, each picture in its place among them.
    Pictures are resized by Pillow on every machine, the same way whatever shares their batch.
    Raises ModelUnavailable.
    """

    def __init__(
        self,
        pretrained: str,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        device: str | None = None,
        device_map: Any = None,
        peft: str | None = None,
        max_length: int | None = None,
        batch_size: int | Literal["auto"] = "auto",
        min_pixels: int | None = None,
        max_pixels: int | None = None,
    ) -> None:
        """min_pixels, max_pixels: a picture is resized to so many; None: as the model's own settings say."""
        place: dict[str, Any] = {"device": device, "device_map": device_map}
        super().__init__(
            pretrained, revision=revision, dtype=dtype, peft=peft, max_length=max_length, batch_size=batch_size, **place
        )
        asked = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        self._pixels = {name: count for name, count in asked.items() if count is not None}
        self.id: str = self.id + "".join(f":{name}={count}" for name, count in self._pixels.items())

    def answer_log_probs(self, asked: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Sums over the answers' tokens, their end included, with their numbers; the longest first.

        An answer is tokenised by itself, as the model would write it behind the prompt.
        Raises ModelError, that of a request which cannot be told (ContextOverflow) behind all that can.
        """
        answers, refused = list[Answer](), list[ModelError]()
        for number, (request, answer) in enumerate(asked):
            try:
                with self._lock:
                    answers.append(self._answer(number, request, answer))
            except ModelError as error:
                refused.append(error)
        answers.sort(key=lambda one: len(one.prompt.tokens) + len(one.tokens), reverse=True)
        for batch, sums in self._batches(answers, self._score, self._answer_bytes):
            if isinstance(sums, ModelError):
                raise sums
            yield from ((one.prompt.number, total) for one, total in zip(batch, sums, strict=True))
        if refused:
            raise refused[0]

    def _load(self) -> Loaded:
        return self._see().loaded

    def _see(self) -> Seeing:
        chosen: dict[str, Any] = {**self._placing, "pixels": self._pixels}
        return held(("sees", self._weights, repr(chosen)), lambda: load_seeing(self._weights, **chosen))

    def _prompt(self, number: int, request: ChatRequest) -> Prompt:
        loaded, sight, _ = self._see()
        text, is_whole = render_seen(sight, request)
        tokens = encode(loaded, text, special=False if is_whole else None) or [loaded.prefix_token]
        tokens = sight.expanded(tokens, list(pictures_of(request.messages)))
        return Prompt(number, request, tokens, min(request.max_tokens, self._room(tokens)))

    def _room(self, tokens: Sequence[int]) -> int:
        room = self._load().context_tokens - len(tokens)
        if room < 1:
            raise ContextOverflow(
                f"The prompt has {len(tokens)} tokens, pictures included, and {self.id} takes "
                f"{self._load().context_tokens}, answer included; show fewer or smaller pictures (max_pixels), or use "
                "a model with a longer context."
            )
        return room

    def _answer(self, number: int, request: ChatRequest, answer: str) -> Answer:
        loaded, prompt = self._load(), self._prompt(number, request)
        tokens = [*encode(loaded, answer, special=False), _end(loaded)]
        self._room([*prompt.tokens, *tokens[:-1]])
        return Answer(prompt, tokens)

    @torch.inference_mode()
    def _generate(self, batch: Sequence[Prompt], listener: Listener | None = None) -> list[ChatResponse]:
        """One answer for each prompt, in order; padding stands at the left."""
        loaded = self._load()
        inputs = self._inputs([(prompt.request, prompt.tokens) for prompt in batch])
        limits, width = [prompt.limit for prompt in batch], inputs["input_ids"].shape[1]
        drawings = [self._drawing(prompt) for prompt in batch]
        place: dict[str, Any] = {"limits": limits, "prompt_tokens": width, "device": loaded.model.device}
        ends = Ends([prompt.request.stop for prompt in batch], tokenizer=loaded.tokenizer, listener=listener, **place)
        tokens = loaded.model.generate(
            **inputs,
            generation_config=generation_settings(loaded.model, loaded.tokenizer, max(limits)),
            logits_processor=[Draws(drawings, **place)],
            stopping_criteria=[ends],
        )[:, width:].tolist()
        return [
            self._response(prompt, tokens[row], drawings[row], stopped=ends.stopped.get(row))
            for row, prompt in enumerate(batch)
        ]

    @torch.inference_mode()
    def _score(self, batch: Sequence[Answer]) -> list[float]:
        """The log-probability of each answer; padding stands at the left, so that all answers end together."""
        inputs = self._inputs([(one.prompt.request, [*one.prompt.tokens, *one.tokens[:-1]]) for one in batch])
        most = max(len(one.tokens) for one in batch)
        logits = self._load().model(**inputs, use_cache=False, logits_to_keep=most).logits  # (rows, most, V)
        return [_total(one.tokens, logits[row, -len(one.tokens) :]) for row, one in enumerate(batch)]

    def _inputs(self, rows: Sequence[tuple[ChatRequest, list[int]]]) -> dict[str, Tensor]:
        """What the model reads: tokens padded at the left, and the pictures of all rows in their order."""
        loaded, sight, kept = self._see()
        width = max(len(tokens) for _, tokens in rows)
        padded = [[loaded.tokenizer.pad_token_id] * (width - len(tokens)) + tokens for _, tokens in rows]
        inputs: dict[str, Tensor] = {
            "input_ids": torch.tensor(padded),
            "attention_mask": torch.tensor([[0] * (width - len(tokens)) + [1] * len(tokens) for _, tokens in rows]),
        }
        pictures = kept.joined([png for request, _ in rows for png in pictures_of(request.messages)])
        if pictures and sight.names_types:
            inputs["mm_token_type_ids"] = torch.tensor([sight.types(tokens) for tokens in padded])
        return {name: value.to(loaded.model.device) for name, value in (inputs | pictures).items()}

    def _answer_bytes(self, one: Answer) -> int:
        """Memory of a row's keys, values and logits."""
        return self._cache_bytes(one.prompt) + self._logit_bytes((tuple(one.tokens), []))


def _total(tokens: Sequence[int], logits: Tensor) -> float:
    """logits: (len(tokens), V), each row for the token of its place."""
    logs = logits.float().log_softmax(-1)
    return float(logs.gather(1, torch.tensor(tokens, device=logs.device)[:, None]).sum())


def _end(loaded: Loaded) -> int:
    """The token that ends an answer: the tokenizer's own, where the model takes it for one."""
    own = loaded.tokenizer.eos_token_id
    return own if own in loaded.end_tokens or not loaded.end_tokens else min(loaded.end_tokens)
