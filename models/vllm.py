"""A model that vLLM runs in this process: answers, and how likely texts are; the batches are the engine's."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from pydantic import JsonValue

from models.causal_weights import (
    Loaded,
    context_tokens_of,
    end_tokens_of,
    find_weights,
    kind_of,
    name_failures,
    read_processor,
    sight_of,
)
from models.decoding import decode_answer, seed_of
from models.model_errors import ContextOverflow, ModelError, RequestRefused
from models.prompts import complete_alone, cut_at_stops, pictures_of
from models.protocols import ChatRequest, ChatResponse, LogProb
from models.token_likelihoods import Window, WindowScorer, prompt_tokens
from models.vllm_engine import Job, JobRefused, Setup, ask_engine

JOBS_AT_ONCE = 256
"""Jobs of one call of `generate`, as many as vLLM runs together; the next ones begin when all of them are answered."""
SEEN_AT_ONCE = 64
"""Jobs of one call that have pictures: in the forms of Pillow and the model, each takes a hundred megabytes."""


class Prompt(NamedTuple):
    """A request in the engine's tokens, with its pictures and its number among those that are answered."""

    number: int
    request: ChatRequest
    tokens: list[int]  # one for each picture
    pngs: tuple[bytes, ...]
    limit: int  # most new tokens: what was asked for, as far as the context has room


class VLLMChat(WindowScorer):
    """Answers with the model of a folder or of the hub, and tells how likely answers and texts are.

    The engine runs in processes that end with this one. It is opened with the first question, serves one caller at a
    time, and is released when another model of this process is asked (models.local). Requests begin in the order given:
    a beginning that neighbours share is computed once.
    `id` holds a fingerprint of weights, configuration, tokenizer and chat templates. At temperature 0 the answers are
    those of `hf`, up to rounding; above it tokens are drawn with a seed that depends on the request alone.
    A vision-language model is loaded with its vision encoder. Raises ModelUnavailable.
    """

    def __init__(
        self,
        pretrained: str,
        *,
        revision: str | None = None,
        dtype: str = "auto",
        peft: str | None = None,
        trust_remote_code: bool = False,
        min_pixels: int | None = None,
        max_pixels: int | None = None,
        **engine: Any,
    ) -> None:
        """min_pixels, max_pixels: bounds of a resized picture; None: the model's own. engine: fields of Setup."""
        options: dict[str, Any] = {"revision": revision, "dtype": dtype, "trust_remote_code": trust_remote_code}
        weights = find_weights(pretrained, peft=peft, merges=False, **options)  # vLLM adds a LoRA itself
        pixels = {"min_pixels": min_pixels, "max_pixels": max_pixels}
        pixels = {name: count for name, count in pixels.items() if count is not None}
        self._setup = Setup(
            folder=weights.folder,
            adapter=weights.adapter,
            dtype=weights.dtype,
            trust_remote_code=trust_remote_code,
            sees=kind_of(str(weights.folder)).sees,
            pixels=tuple(pixels.items()),
            **engine,
        )
        shaping = {"": self._setup.max_model_len, "quantization=": self._setup.quantization}
        shaping |= {f"{name}=": count for name, count in pixels.items()}
        suffix = "".join(f":{name}{value}" for name, value in shaping.items() if value)
        self.id = f"vllm:{weights.label}@{weights.fingerprint}:{weights.dtype}{suffix}"
        self._lock = threading.RLock()  # the tokenizer is this object's own, beside the engine's; one thread at a time

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer one request, in one piece. Raises ModelError; TransientModelError where the engine ends."""
        return complete_alone(self, request, on_text)

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        """Yield answers or RequestRefused with their numbers by batch. Raises ModelUnavailable, TransientModelError."""
        prompts: list[Prompt] = []
        for number, request in enumerate(requests):
            try:
                prompts.append(self._prompt(number, request))
            except RequestRefused as error:
                yield number, error
        jobs = [Job(prompt.tokens, prompt.pngs, self._sampling_params(prompt)) for prompt in prompts]
        for prompt, output in zip(prompts, self._outputs(jobs), strict=True):
            if isinstance(output, ModelError):
                yield prompt.number, output
                continue
            answer = output.outputs[0]
            with self._lock:
                text = decode_answer(self._loaded.tokenizer, list(answer.token_ids))
            response = ChatResponse(
                text=cut_at_stops(text, prompt.request.stop),
                finish_reason=answer.finish_reason,
                prompt_tokens=len(output.prompt_token_ids),
                completion_tokens=len(answer.token_ids),
                sent=self._sampling(prompt),
            )
            yield prompt.number, response

    def _load(self) -> Loaded:
        return self._loaded

    @cached_property
    def _loaded(self) -> Loaded:
        """The tokenizer and limits for models.token_likelihoods; windows end one token before the context does.

        In place of the model there is its generation configuration.
        """
        from transformers import AutoConfig, AutoTokenizer, GenerationConfig

        folder, setup = self._setup.folder, self._setup
        source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": setup.trust_remote_code}
        with name_failures(folder):
            config = AutoConfig.from_pretrained(folder, **source)
            sight = sight_of(read_processor(folder, dict(setup.pixels)), config) if setup.sees else None
            tokenizer = sight.processor.tokenizer if sight else AutoTokenizer.from_pretrained(folder, **source)
            if (folder / "generation_config.json").is_file():
                defaults = GenerationConfig.from_pretrained(folder, local_files_only=True)
            else:
                defaults = GenerationConfig.from_model_config(config)
        context_tokens = setup.max_model_len or context_tokens_of(config, tokenizer)
        return Loaded(defaults, tokenizer, context_tokens - 1, end_tokens_of(defaults, tokenizer), sight)

    def _prompt(self, number: int, request: ChatRequest, *, room_for: int = 1) -> Prompt:
        """Return the tokens of a request, with its limit cut to the room that there is. Raises ModelError.

        room_for: tokens that have to have room behind it.
        """
        with self._lock:
            sight = self._loaded.sight
            tokens = prompt_tokens(self._loaded, request)
            pngs = tuple(pictures_of(request.messages))
            length = len(sight.expand_tokens(tokens, pngs)) if sight and pngs else len(tokens)
            context_tokens = self._loaded.context_tokens + 1  # of the whole context: see `_loaded`
        if context_tokens - length < room_for:
            raise ContextOverflow(
                f"The prompt has {length} tokens{', pictures included,' if pngs else ''} and the model takes "
                f"{context_tokens}, answer included; shorten the prompt, raise max_model_len where the model allows "
                "it, or use a model with a longer context."
            )
        return Prompt(number, request, tokens, pngs, min(request.max_tokens, context_tokens - length))

    def _sampling_params(self, prompt: Prompt) -> Any:
        """Return vLLM's SamplingParams for a prompt."""
        from vllm.sampling_params import SamplingParams  # pyright: ignore[reportMissingImports]

        sampling: dict[str, Any] = self._sampling(prompt)
        # the text is made here, of the tokens, as transformers makes it of them
        return SamplingParams(**sampling, detokenize="stop" in sampling)  # vLLM looks for stops in a text of its own

    def _sampling(self, prompt: Prompt) -> dict[str, JsonValue]:
        """Return the sampling parameters of an answer under vLLM's names; a seed only where tokens are drawn."""
        request, defaults = prompt.request, self._loaded.model
        sampling: dict[str, Any] = {"max_tokens": prompt.limit, "temperature": max(0.0, request.temperature)}
        if request.temperature > 0:
            top_p = defaults.top_p if request.top_p is None else request.top_p
            # vLLM refuses a top_p of 0; a top_k of 0 is none in a model's generation config
            sampling |= {"top_p": None if top_p is None else max(top_p, 1e-6), "top_k": defaults.top_k or None}
            sampling["seed"] = seed_of(request, prompt.tokens)  # 48 bits; vLLM takes up to 63
        if defaults.repetition_penalty not in (None, 1.0):
            sampling["repetition_penalty"] = defaults.repetition_penalty
        if stops := [stop for stop in request.stop if stop]:
            sampling["stop"] = stops
            # vLLM gives a special token no text, so a stop string never matches it
            added = self._loaded.tokenizer.added_tokens_decoder.items()
            special = {entry.content: token for token, entry in reversed(list(added)) if entry.special}
            if ids := [special[stop] for stop in stops if stop in special]:
                sampling["stop_token_ids"] = ids
        return {name: value for name, value in sampling.items() if value is not None}

    def _score_windows(self, windows: Sequence[Window]) -> Iterator[tuple[Window, LogProb]]:
        """Yield each window with the log-probability of what it predicts. Raises ModelError."""
        from vllm.sampling_params import SamplingParams  # pyright: ignore[reportMissingImports]

        def scoring_params(window: Window) -> Any:
            """Return vLLM's SamplingParams under which a window's last token is the one generated."""
            # The last token is the one that is generated: no other is allowed, and the log-probabilities are those
            # before that rule. So a window of one token needs none of its prompt's, which the prefix cache may hold.
            return SamplingParams(
                temperature=0.0,
                max_tokens=1,
                allowed_token_ids=[window.predicted[-1]],
                logprobs=0,  # of the chosen token alone
                prompt_logprobs=0 if len(window.predicted) > 1 else None,
                detokenize=False,
            )

        jobs = [Job(list(window.read), window.pngs, scoring_params(window)) for window in windows]
        for window, output in zip(windows, self._outputs(jobs), strict=True):
            if isinstance(output, ModelError):
                raise output
            # counted from the end of the prompt: pictures stand for more tokens there than here
            *before, last = window.predicted
            tokens = [output.prompt_logprobs[place - len(before)][token] for place, token in enumerate(before)]
            tokens.append(output.outputs[0].logprobs[0][last])
            yield window, LogProb(sum(token.logprob for token in tokens), all(token.rank == 1 for token in tokens))

    def _outputs(self, jobs: Sequence[Job]) -> Iterator[Any]:
        """Yield vLLM's RequestOutput of each job in order, or a RequestRefused where vLLM refuses it.

        Raises ModelUnavailable, and TransientModelError where the engine ends under it.
        """
        size = SEEN_AT_ONCE if any(job.pngs for job in jobs) else JOBS_AT_ONCE
        for start in range(0, len(jobs), size):
            for output in ask_engine(self._setup, jobs[start : start + size]):
                if not isinstance(output, JobRefused):
                    yield output
                    continue
                reason = " ".join(str(output).split())[:400]
                if "longer than" in reason:
                    remedy = "shorten it, or choose another max_model_len"
                    yield ContextOverflow(f"vLLM refuses this prompt: {reason}; {remedy}.")
                else:
                    yield RequestRefused(f"vLLM refuses this prompt: {reason}; change it.")
