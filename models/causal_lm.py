"""A causal language model of the transformers library in this process: answers in batches, and log-likelihoods."""

from __future__ import annotations

import copy
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple, TypeVar

import torch
from pydantic import JsonValue
from torch import Tensor

from models.causal_weights import Loaded, find_weights, load_model, refuse_longer
from models.decoding import AnswerEnds, Drawing, DrawnTokens, decode_answer, seed_of
from models.local import ALONE, load_once
from models.model_errors import ContextOverflow, ModelError, RequestRefused, TransientModelError
from models.prompts import Listener, cut_at_stops, pictures_of
from models.protocols import ChatRequest, ChatResponse, LogProb
from models.token_likelihoods import (
    PACKED_TOKENS,
    Window,
    WindowScorer,
    likelihoods,
    packs_of,
    prompt_tokens,
    reads_trees,
    score,
    score_pack,
    shared_rows,
)

log = logging.getLogger(__name__)

MOST_ROWS = 64  # an `auto` batch begins with so many rows, and is halved whenever memory ends
MEMORY_SHARE = 0.5  # share of free memory that an `auto` batch may use on a CPU, where running out ends the process

Job = TypeVar("Job")
BatchResult = TypeVar("BatchResult")


class Prompt(NamedTuple):
    """A request in the model's tokens, and its number among those that are answered together."""

    number: int
    request: ChatRequest
    tokens: list[int]
    limit: int  # most new tokens: what was asked for, as far as the context has room
    drawing: Drawing | None  # None: the likeliest token each time

    @property
    def most_tokens(self) -> int:
        """Tokens of the prompt and of the longest answer."""
        return len(self.tokens) + self.limit


class CausalLM(WindowScorer):
    """Answers with the model of a folder or of the hub, and tells how likely texts are.

    It is loaded with the first question, and released when another model of this process is asked (models.local).
    `id` holds a fingerprint of weights, configuration, tokenizer and chat templates. `complete_many` begins with the
    longest requests, so that a lack of memory shows at once. Tokens are drawn with random numbers that depend on the
    request alone, not on its batch. Raises ModelUnavailable.
    """

    def __init__(
        self,
        pretrained: str,
        *,
        device: str | None = None,
        device_map: Any = None,
        max_length: int | None = None,
        batch_size: int | Literal["auto"] = "auto",
        pixels: dict[str, int] | None = None,
        **files: Any,
    ) -> None:
        """Find and fingerprint the weights, which are loaded with the first question. Raises ModelUnavailable.

        pixels: bounds of the pictures that it will be shown, see HFVision; None where it reads text alone.
        files: which weights these are, and their precision, as `find_weights` takes it.
        """
        self._weights = find_weights(pretrained, **files)
        refuse_longer(self._weights, max_length)
        # a context that is cut short by hand cuts answers short
        shaping = [str(max_length)] if max_length else []
        shaping += [f"{name}={count}" for name, count in (pixels or {}).items()]
        self.id = ":".join([f"hf:{self._weights.label}@{self._weights.fingerprint}", self._weights.dtype, *shaping])
        self.use_batches(batch_size)
        self._placing: dict[str, Any] = {"device": device, "device_map": device_map}
        self._placing |= {"max_length": max_length, "pixels": pixels}
        self._lock = ALONE

    def use_batches(self, rows: int | Literal["auto"]) -> None:
        """Answer with at most so many rows in a batch from now on; an automatic number shrinks when memory ends."""
        self.batch_size = MOST_ROWS if rows == "auto" else rows
        self._is_auto = rows == "auto"

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer one request, while other calls wait. Raises ModelError; TransientModelError where memory ends.

        on_text: called with all of the text so far, as tokens come.
        """
        with self._lock:
            prompt = self._prompt(0, request)
            listener = Listener(on_text, request.stop) if on_text else None
            try:
                response = self._generate([prompt], listener)[0]
            except (torch.OutOfMemoryError, RuntimeError) as error:
                raise _as_memory_error(error) from error
        if listener:
            listener.end(response.text)
        return response

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        """Yield answers, or why there is none, with their number: refusals, then longest first. Raises ModelError."""
        prompts: list[Prompt] = []
        for number, request in enumerate(requests):
            try:
                with self._lock:
                    prompts.append(self._prompt(number, request))
            except RequestRefused as error:
                yield number, error
        prompts.sort(key=lambda prompt: (prompt.request.max_tokens, len(prompt.tokens)), reverse=True)

        for batch, answers in self._batches(prompts, self._generate, lambda prompt: (prompt.most_tokens, 0)):
            if isinstance(answers, ModelError):
                yield batch[0].number, answers
            else:
                yield from ((prompt.number, answer) for prompt, answer in zip(batch, answers, strict=True))

    def _load(self) -> Loaded:
        return load_once(("hf", self._weights, repr(self._placing)), lambda: load_model(self._weights, **self._placing))

    def _prompt(self, number: int, request: ChatRequest, *, room_for: int = 1) -> Prompt:
        """Return a request as tokens, with its drawing if it draws any. Raises RequestRefused, ContextOverflow.

        room_for: tokens that have to have room behind it.
        """
        loaded = self._load()
        tokens = prompt_tokens(loaded, request)
        if loaded.sight:
            tokens = loaded.sight.expand_tokens(tokens, list(pictures_of(request.messages)))
        room = loaded.context_tokens - len(tokens)
        if room < room_for:
            remedy = "show fewer or smaller pictures (max_pixels)" if loaded.sight else "shorten the prompt"
            raise ContextOverflow(
                f"The prompt has {len(tokens)} tokens{', pictures included,' if loaded.sight else ''} and {self.id} "
                f"takes {loaded.context_tokens}, answer included; {remedy}, or use a model with a longer context."
            )
        drawing, defaults = None, loaded.model.generation_config
        if request.temperature > 0:
            drawing = Drawing(
                temperature=request.temperature,
                top_p=defaults.top_p if request.top_p is None else request.top_p,
                top_k=defaults.top_k or None,
                seed=seed_of(request, tokens),
            )
        return Prompt(number, request, tokens, min(request.max_tokens, room), drawing)

    def _inputs(self, rows: Sequence[tuple[Sequence[int], Iterable[bytes]]]) -> dict[str, Tensor]:
        """Return the model's inputs: the tokens of each row, padded at the left, and its pictures in order."""
        loaded = self._load()
        width, blank = max(len(tokens) for tokens, _ in rows), loaded.tokenizer.pad_token_id
        padded = [[blank] * (width - len(tokens)) + [*tokens] for tokens, _ in rows]
        mask = [[0] * (width - len(tokens)) + [1] * len(tokens) for tokens, _ in rows]
        inputs = {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(mask)}
        if loaded.sight and loaded.pictures:
            pngs = [png for _, row_pngs in rows for png in row_pngs]
            picture_inputs = loaded.pictures.join_inputs(pngs)
            if picture_inputs and loaded.sight.names_types:
                inputs["mm_token_type_ids"] = (inputs["input_ids"] == loaded.sight.token_id).long()
            inputs |= picture_inputs
        return {name: value.to(loaded.model.device) for name, value in inputs.items()}

    @torch.inference_mode()
    def _generate(self, batch: Sequence[Prompt], listener: Listener | None = None) -> list[ChatResponse]:
        """Return one answer for each prompt, in order."""
        loaded = self._load()
        model, tokenizer = loaded.model, loaded.tokenizer
        inputs = self._inputs([(prompt.tokens, pictures_of(prompt.request.messages)) for prompt in batch])
        width = inputs["input_ids"].shape[1]
        limits = [prompt.limit for prompt in batch]
        shared: dict[str, Any] = {"limits": limits, "prompt_tokens": width, "device": model.device}
        ends = AnswerEnds([prompt.request.stop for prompt in batch], tokenizer=tokenizer, listener=listener, **shared)
        settings = copy.deepcopy(model.generation_config)  # the model's own, with drawing left to `DrawnTokens`
        settings.update(
            max_new_tokens=max(limits),
            max_length=None,  # else transformers warns of two limits
            do_sample=False,
            num_beams=1,
            temperature=1.0,
            top_p=1.0,
            top_k=50,  # these three are the library's defaults: nothing to warn about
            pad_token_id=tokenizer.pad_token_id,
            eos_token_id=tokenizer.eos_token_id if settings.eos_token_id is None else settings.eos_token_id,
            return_dict_in_generate=False,
        )
        generated = model.generate(
            **inputs,
            generation_config=settings,
            logits_processor=[DrawnTokens([prompt.drawing for prompt in batch], **shared)],
            stopping_criteria=[ends],
        )
        responses: list[ChatResponse] = []
        for row, prompt in enumerate(batch):
            stopped = ends.stopped.get(row)  # number of tokens up to a stop
            tokens = generated[row, width:].tolist()[: prompt.limit if stopped is None else stopped]
            end = next((position for position, token in enumerate(tokens) if token in loaded.end_tokens), None)
            tokens = tokens if end is None else tokens[: end + 1]
            response = ChatResponse(
                text=cut_at_stops(decode_answer(tokenizer, tokens), prompt.request.stop),
                finish_reason="length" if stopped is None and end is None else "stop",
                prompt_tokens=len(prompt.tokens),
                completion_tokens=len(tokens),
                sent=_parameters_of(prompt, model.generation_config),
            )
            responses.append(response)
        return responses

    def _score_windows(self, windows: Sequence[Window]) -> Iterator[tuple[Window, LogProb]]:
        """Yield each window with its log-probability; short ones are read in packs, where the model can read a tree."""
        pictured = sorted((window for window in windows if window.pngs), key=lambda window: -len(window.read))
        windows = [window for window in windows if not window.pngs]
        with self._lock:
            packs = windows and reads_trees(self._load())
        short = [window for window in windows if packs and len(window.read) <= PACKED_TOKENS]
        for pack in packs_of(short):
            try:
                with self._lock:
                    scored = score_pack(self._load(), pack)
            except RuntimeError as error:
                raise _as_memory_error(error) from error
            yield from scored
        rows = shared_rows([window for window in windows if not packs or len(window.read) > PACKED_TOKENS])
        batches = chain(
            self._batches(pictured, self._score_pictured, lambda window: (len(window.read), len(window.predicted))),
            self._batches(rows, lambda part: list(score(self._load(), part)), lambda row: (0, len(row[0]))),
        )
        for _, parts in batches:
            if isinstance(parts, ModelError):
                raise parts
            yield from parts

    @torch.inference_mode()
    def _score_pictured(self, windows: Sequence[Window]) -> list[tuple[Window, LogProb]]:
        """Return the log-probabilities of windows with pictures; padding at the left, so that all end together."""
        longest = max(len(window.predicted) for window in windows)
        inputs = self._inputs([(window.read, window.pngs) for window in windows])
        # (rows, longest, V): the logits behind a token are those of the next one
        logits = self._load().model(**inputs, use_cache=False, logits_to_keep=longest).logits
        answers = [window.predicted for window in windows]
        answer_logits = (logits[row, -len(tokens) :] for row, tokens in enumerate(answers))
        return list(zip(windows, likelihoods(answers, answer_logits), strict=True))

    def _batches(
        self,
        jobs: Sequence[Job],
        run: Callable[[Sequence[Job]], list[BatchResult]],
        size_of: Callable[[Job], tuple[int, int]],
    ) -> Iterator[tuple[Sequence[Job], list[BatchResult] | ModelError]]:
        """Yield each batch of jobs with what `run` makes of it; a job that does not even fit alone gives its error.

        size_of: how many tokens of a job are remembered, and the logits of how many are read. Raises
        TransientModelError where a batch of fixed size does not fit.
        """
        start = 0
        while start < len(jobs):
            rows = self.batch_size
            if self._is_auto and self._load().model.device.type == "cpu":
                free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
                rows = max(1, min(rows, int(free * MEMORY_SHARE / max(1, self._memory_bytes(*size_of(jobs[start]))))))
            batch = jobs[start : start + rows]
            results: list[BatchResult] | ModelError
            try:
                with self._lock:
                    results = run(batch)
            except (torch.OutOfMemoryError, RuntimeError) as error:
                results = _as_memory_error(error)
                if torch.cuda.is_available():
                    torch.cuda.empty_cache()
            if isinstance(results, ModelError) and len(batch) > 1:
                if not self._is_auto:
                    raise results
                self.batch_size = len(batch) // 2
                log.warning("memory ended rows=%d next_rows=%d model=%s", len(batch), self.batch_size, self.id)
                continue
            yield batch, results
            start += len(batch)

    def _memory_bytes(self, tokens: int, logits: int) -> int:
        """Return the bytes of keys and values of so many tokens, and of so many tokens' logits and log-softmax."""
        model = self._load().model
        config = model.config.get_text_config()
        heads = getattr(config, "num_key_value_heads", None) or getattr(config, "num_attention_heads", 1)
        size = getattr(config, "head_dim", None) or config.hidden_size // getattr(config, "num_attention_heads", 1)
        layers = getattr(config, "num_hidden_layers", 1)
        return 2 * layers * heads * size * tokens * model.dtype.itemsize + 8 * logits * config.vocab_size


class HFVision(CausalLM):
    """A CausalLM that takes pictures: one of the Qwen-VL (2, 2.5, 3) or LLaVA kind, of a folder or of the hub.

    With `template=False` the words go to the model as they stand, each picture in its place among them.
    Pictures are resized by Pillow on every machine, independently of their batch. Raises ModelUnavailable.
    """

    def __init__(
        self, pretrained: str, *, min_pixels: int | None = None, max_pixels: int | None = None, **options: Any
    ) -> None:
        """min_pixels, max_pixels: bounds of a resized picture; None: the model's own. options: those of CausalLM."""
        bounds = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        super().__init__(pretrained, pixels={name: n for name, n in bounds.items() if n is not None}, **options)


def _parameters_of(prompt: Prompt, own: Any) -> dict[str, JsonValue]:
    """Return the sampling parameters, a seed only where tokens were drawn. own: the model's generation_config."""
    sent: dict[str, JsonValue] = {"max_new_tokens": prompt.limit, "do_sample": prompt.drawing is not None}
    if drawing := prompt.drawing:
        sent |= {"temperature": drawing.temperature, "top_p": drawing.top_p, "top_k": drawing.top_k}
        sent["generator_seed"] = drawing.seed
    if prompt.request.stop:
        sent["stop_strings"] = list(prompt.request.stop)
    if own.repetition_penalty not in (None, 1.0):
        sent["repetition_penalty"] = own.repetition_penalty
    return {name: value for name, value in sent.items() if value is not None}


def _as_memory_error(error: RuntimeError) -> TransientModelError:
    """Return a lack of memory as a TransientModelError. Raises the error itself if it is another."""
    # on a CPU torch has no class for it
    if not isinstance(error, torch.OutOfMemoryError) and "DefaultCPUAllocator" not in str(error):
        raise error
    return TransientModelError(
        "The memory of the device does not suffice for this batch; give a smaller batch_size (or `auto`), a smaller "
        "max_length, or another device."
    )
