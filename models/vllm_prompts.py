"""Requests as an engine of vLLM takes them: tokens and pictures, how tokens are picked, and what came of them."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import JsonValue

from models.causal_weights import Loaded, Weights, context_tokens_of, end_tokens_of, failures_named, progress_hidden
from models.decoding import readable, seed_of
from models.model_errors import ContextOverflow
from models.prompts import cut, open_picture, pictures_of
from models.protocols import ChatRequest, ChatResponse
from models.response_format import schema_of
from models.token_likelihoods import Window, prompt_tokens
from models.vision_weights import read_processor, sight_of
from models.vllm_loading import Setup

picture = lru_cache(maxsize=64)(open_picture)
"""A picture as Pillow has it in memory, three bytes a pixel; kept, because demonstrations come again and again."""
SEED_BITS = (1 << 63) - 1


class Prompt(NamedTuple):
    """A request in the engine's tokens, with its pictures and its number among those that are answered."""

    number: int
    request: ChatRequest
    tokens: list[int]  # one for each picture
    pngs: tuple[bytes, ...]
    length: int  # tokens with those that the pictures take
    limit: int  # most new tokens: what was asked for, as far as the context has room


class Reader:
    """Reads requests as the model's own tokenizer does. Raises ModelUnavailable.

    Its tokenizer is its own, beside the engine's, and not safe for threads: hold `lock`.
    """

    def __init__(self, weights: Weights, setup: Setup, *, response_format: Mapping[str, JsonValue] | None) -> None:
        self.lock = threading.RLock()
        self._asked_context = setup.max_model_len
        self._structure: dict[str, JsonValue] | None = None  # the format in the words of vLLM's StructuredOutputsParams
        if response_format is not None:
            schema = schema_of(response_format)
            self._structure = {"json_object": True} if schema is None else {"json": schema}
        self._read(weights.folder, setup, trusted=weights.trust_remote_code)

    def _read(self, folder: Path, setup: Setup, *, trusted: bool) -> None:
        from transformers import AutoConfig, AutoTokenizer, GenerationConfig

        source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": trusted}
        with progress_hidden(), failures_named(folder):
            self._config = AutoConfig.from_pretrained(folder, **source)
            if (folder / "generation_config.json").is_file():
                self.own = GenerationConfig.from_pretrained(folder, local_files_only=True)
            else:
                self.own = GenerationConfig.from_model_config(self._config)
            self.sight = None
            if setup.sees:
                self.sight = sight_of(read_processor(folder, dict(setup.pixels)), self._config, folder)
                self.tokenizer: Any = self.sight.processor.tokenizer
            else:
                self.tokenizer = AutoTokenizer.from_pretrained(folder, **source)

    @cached_property
    def loaded(self) -> Loaded:
        """What models.token_likelihoods encodes with; its windows end one token before the context does."""
        ends = end_tokens_of(SimpleNamespace(generation_config=self.own), self.tokenizer)
        known = self._asked_context or context_tokens_of(self._config, self.tokenizer)
        return Loaded(model=None, tokenizer=self.tokenizer, context_tokens=known - 1, end_tokens=ends)

    def prompt(self, number: int, request: ChatRequest, *, room_for: int | None = None) -> Prompt:
        """The tokens of a request. Raises RequestRefused, ContextOverflow, ModelUnavailable.

        room_for: tokens that have to have room behind it; by default one, and the limit is cut to what there is.
        """
        tokens = prompt_tokens(self.loaded, request, self.sight)
        pngs = tuple(pictures_of(request.messages))
        length = len(self.sight.expanded(tokens, pngs)) if self.sight and pngs else len(tokens)
        room = self.loaded.context_tokens + 1 - length
        if room < (room_for or 1):
            raise ContextOverflow(
                f"The prompt has {length} tokens{', pictures included,' if pngs else ''} and the model takes "
                f"{self.loaded.context_tokens + 1}, answer included; shorten the prompt, raise max_model_len where the "
                "model allows it, or use a model with a longer context."
            )
        return Prompt(number, request, tokens, pngs, length, min(request.max_tokens, room))

    def sampling(self, prompt: Prompt) -> dict[str, JsonValue]:
        """How the tokens of an answer are picked, under vLLM's names; a seed only where they are drawn."""
        request = prompt.request
        sampling: dict[str, Any] = {"max_tokens": prompt.limit, "temperature": max(0.0, request.temperature)}
        sampling["structured_outputs"] = self._structure
        if request.temperature > 0:
            top_p = self.own.top_p if request.top_p is None else request.top_p
            sampling |= {"top_p": None if top_p is None else max(top_p, 1e-6), "top_k": self.own.top_k or None}
            sampling["seed"] = seed_of(request, prompt.tokens) & SEED_BITS
        if self.own.repetition_penalty not in (None, 1.0):
            sampling["repetition_penalty"] = self.own.repetition_penalty
        if stops := [stop for stop in request.stop if stop]:
            sampling["stop"] = stops
            if ids := [known for stop in stops if (known := self._special(stop)) is not None]:
                sampling["stop_token_ids"] = ids
        return {name: value for name, value in sampling.items() if value is not None}

    def response(self, prompt: Prompt, output: Any) -> ChatResponse:
        """The answer of a finished RequestOutput of vLLM, cut at the stops, with its token counts."""
        answer = output.outputs[0]
        return ChatResponse(
            text=cut(readable(self.tokenizer, list(answer.token_ids)), prompt.request.stop),
            finish_reason=answer.finish_reason,
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(answer.token_ids),
            sent=self.sampling(prompt),
        )

    def _special(self, stop: str) -> int | None:
        """vLLM gives a special token no text, so a stop string never matches it."""
        known = self.tokenizer.added_tokens_decoder.items()
        return next((token for token, added in known if added.special and added.content == stop), None)


def vllm_prompt(tokens: list[int], pngs: tuple[bytes, ...]) -> dict[str, Any]:
    """vLLM's TokensPrompt; pictures are told apart by their files, so that each is prepared once."""
    if not pngs:
        return {"prompt_token_ids": tokens}
    return {
        "prompt_token_ids": tokens,
        "multi_modal_data": {"image": [picture(png) for png in pngs]},
        "multi_modal_uuids": {"image": [_name(png) for png in pngs]},
    }


def answering(sampling: dict[str, JsonValue], *, streams: bool) -> Any:
    """vLLM's SamplingParams; the text is made here, of the tokens, so that it is what transformers makes of them."""
    from vllm.sampling_params import (  # pyright: ignore[reportMissingImports]
        RequestOutputKind,
        SamplingParams,
        StructuredOutputsParams,
    )

    plain: dict[str, Any] = dict(sampling)
    if structure := plain.pop("structured_outputs", None):
        plain["structured_outputs"] = StructuredOutputsParams(**structure)
    return SamplingParams(
        **plain,
        detokenize="stop" in sampling,
        output_kind=RequestOutputKind.CUMULATIVE if streams else RequestOutputKind.FINAL_ONLY,
    )


def predicting(window: Window) -> Any:
    """vLLM's SamplingParams for the log-probabilities of what a window predicts, behind what it reads.

    The last token is the one that is generated: no other is allowed, and the log-probabilities are those before that
    rule. So a window of one token needs none of its prompt's, and the prompt may come from the prefix cache.
    """
    from vllm.sampling_params import RequestOutputKind, SamplingParams  # pyright: ignore[reportMissingImports]

    return SamplingParams(
        temperature=0.0,
        max_tokens=1,
        allowed_token_ids=[window.predicted[-1]],
        logprobs=0,
        prompt_logprobs=0 if len(window.predicted) > 1 else None,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def predicted(window: Window, output: Any) -> tuple[float, bool]:
    """The sum of the log-probabilities, and whether each token is the most likely one.

    Counted from the end of the prompt: pictures stand for more tokens there than here.
    """
    *before, last = window.predicted
    found = [output.prompt_logprobs[place - len(before)][token] for place, token in enumerate(before)]
    found.append(output.outputs[0].logprobs[0][last])
    return sum(one.logprob for one in found), all(one.rank == 1 for one in found)


@lru_cache(maxsize=1024)
def _name(png: bytes) -> str:
    return hashlib.sha256(png).hexdigest()
