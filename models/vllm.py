"""A model that vLLM runs in this process: answers, and how likely texts are; the batches are the engine's."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import JsonValue

from models.causal_weights import (
    Loaded,
    context_tokens_of,
    end_tokens_of,
    failures_named,
    find_weights,
    progress_hidden,
)
from models.decoding import readable, seed_of
from models.model_errors import ContextOverflow, ModelError, ModelUnavailable, RequestRefused, TransientModelError
from models.prompts import Listener, Sight, cut, pictures_of
from models.protocols import ChatRequest, ChatResponse, LogProb
from models.response_format import format_in_id, schema_of
from models.token_likelihoods import Window, encode, pair_windows, prompt_tokens, text_windows
from models.vision_language import kind_of, read_processor, sight_of
from models.vllm_engine import REMEDY, EngineGone, Job, JobRefused, Setup, engine_of

log = logging.getLogger(__name__)

DTYPES = ("auto", "float32", "bfloat16", "float16")
SEED_BITS = (1 << 63) - 1
SHORT = 8
"""Tokens: a text so short is asked for token by token, each behind a prompt that the engine has in its cache; of a
longer one it computes the log-probabilities of the whole prompt, for which it reads no cache."""


class Prompt(NamedTuple):
    """A request in the engine's tokens, with its pictures and its number among those that are answered."""

    number: int
    request: ChatRequest
    tokens: list[int]  # one for each picture
    pngs: tuple[bytes, ...]
    limit: int  # most new tokens: what was asked for, as far as the context has room


class VLLMChat:
    """Answers with the model of a folder or of the hub, and tells how likely answers and texts are.

    The engine runs in processes that end with this one. It is opened with the first question, shared by all threads
    that ask for the same weights and settings, and released when another model of this process is asked
    (models.local). Requests begin in the order given: a beginning that neighbours share is computed once.
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
        response_format: Mapping[str, JsonValue] | None = None,
        **engine: Any,
    ) -> None:
        """min_pixels, max_pixels: bounds of a resized picture; None: the model's own.

        response_format: see models.response_format; not for likelihoods. engine: fields of models.vllm_engine.Setup.
        """
        if dtype.removeprefix("torch.") not in DTYPES:
            raise ModelUnavailable(f"dtype={dtype} is none of {', '.join(DTYPES)}, which vLLM has")
        chosen: dict[str, Any] = {"revision": revision, "dtype": dtype, "trust_remote_code": trust_remote_code}
        weights = find_weights(pretrained, peft=peft, merges=False, **chosen)  # vLLM adds a LoRA itself
        self._format: dict[str, JsonValue] | None = None  # in the words of vLLM's StructuredOutputsParams
        if response_format is not None:
            schema = schema_of(response_format)
            self._format = {"json_object": True} if schema is None else {"json": schema}
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
        shown = "".join(f":{name}{value}" for name, value in shaping.items() if value)
        self.id = f"vllm:{weights.label}@{weights.fingerprint}:{weights.dtype}{shown}{format_in_id(response_format)}"
        self.prompt_tokens = 0  # prompt tokens of all requests so far
        self.cached_tokens = 0  # those of them that the engine took from its prefix cache
        self._lock = threading.RLock()  # the tokenizer is this object's own, beside the engine's, and no two threads'

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """One answer. Raises ModelUnavailable, RequestRefused, TransientModelError where the engine ends.

        on_text: called with all of the text so far, as tokens come.
        """
        prompt = self._prompt(0, request)
        listener = Listener(on_text, request.stop) if on_text else None
        with closing(self._outputs([self._job(prompt, streams=listener is not None)])) as outputs:
            for _, output in outputs:
                if isinstance(output, ModelError):
                    raise output
                if output.finished:
                    response = self._response(prompt, output)
                    if listener:
                        listener.end(response.text)
                    return response
                if listener:
                    listener(self._text(output.outputs[0].token_ids, whole=False))
        raise RuntimeError(f"{self.id} gave no answer")

    def complete_many(self, requests: Sequence[ChatRequest]) -> Generator[tuple[int, ChatResponse | ModelError]]:
        """Answers with their number in `requests`, as they come. Raises ModelUnavailable, TransientModelError."""
        prompts: list[Prompt] = []
        for number, request in enumerate(requests):
            try:
                prompts.append(self._prompt(number, request))
            except RequestRefused as error:
                yield number, error
        with closing(self._outputs([self._job(prompt) for prompt in prompts])) as outputs:
            for place, output in outputs:
                prompt = prompts[place]
                yield prompt.number, output if isinstance(output, ModelError) else self._response(prompt, output)

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, LogProb]]:
        """Log-probability of each continuation given its context, with its position. Raises ModelError.

        An empty context stands for the token that begins a text; a continuation without tokens is certain.
        """
        with self._lock:
            windows = pair_windows(self._loaded, pairs)
        yield from self._likelihoods(windows)

    def loglikelihood_rolling(self, texts: Sequence[str]) -> Iterator[tuple[int, float]]:
        """Log-probability of whole texts, with their position: windows one token shorter than the context."""
        with self._lock:
            windows = text_windows(self._loaded, texts)
        for number, likelihood in self._likelihoods(windows):
            yield number, likelihood.total

    def answer_log_probs(self, asked: Sequence[tuple[ChatRequest, str]]) -> Iterator[tuple[int, float]]:
        """Sums over the answers' tokens, their end included, with their numbers.

        An answer is tokenised by itself, without its prompt. Raises ModelError; a ContextOverflow after all results.
        """
        numbers, groups, refused = list[int](), list[list[Window]](), list[ModelError]()
        for number, (request, answer) in enumerate(asked):
            with self._lock:
                tokens = [*encode(self._loaded, answer, special=False), self._loaded.end_token]
            try:
                prompt = self._prompt(number, request, room_for=len(tokens))
            except RequestRefused as error:
                refused.append(error)
                continue
            groups.append([Window(number, (*prompt.tokens, *tokens[:-1]), tuple(tokens), prompt.pngs)])
            numbers.append(number)
        for place, likelihood in self._likelihoods(groups):
            yield numbers[place], likelihood.total
        if refused:
            raise refused[0]

    @cached_property
    def _read(self) -> tuple[Any, Any, Sight | None]:
        """The model's configuration, its generation configuration, and its tokenizer or how it takes pictures."""
        from transformers import AutoConfig, GenerationConfig

        folder, trusted = self._setup.folder, self._setup.trust_remote_code
        with progress_hidden(), failures_named(folder):
            config = AutoConfig.from_pretrained(folder, local_files_only=True, trust_remote_code=trusted)
            if (folder / "generation_config.json").is_file():
                own = GenerationConfig.from_pretrained(folder, local_files_only=True)
            else:
                own = GenerationConfig.from_model_config(config)
            pixels = dict(self._setup.pixels)
            return config, own, sight_of(read_processor(folder, pixels), config) if self._setup.sees else None

    @cached_property
    def _loaded(self) -> Loaded:
        """What models.token_likelihoods encodes with; its windows end one token before the context does."""
        from transformers import AutoTokenizer

        config, own, sight = self._read
        if sight:
            tokenizer = sight.processor.tokenizer
        else:
            source: dict[str, Any] = {"local_files_only": True, "trust_remote_code": self._setup.trust_remote_code}
            with progress_hidden(), failures_named(self._setup.folder):
                tokenizer = AutoTokenizer.from_pretrained(self._setup.folder, **source)
        ends = end_tokens_of(SimpleNamespace(generation_config=own), tokenizer)
        known = self._setup.max_model_len or context_tokens_of(config, tokenizer)
        return Loaded(model=None, tokenizer=tokenizer, context_tokens=known - 1, end_tokens=ends)

    def _prompt(self, number: int, request: ChatRequest, *, room_for: int = 1) -> Prompt:
        """The tokens of a request, with its limit cut to the room that there is. Raises ModelError.

        room_for: tokens that have to have room behind it.
        """
        with self._lock:
            sight = self._read[2]
            tokens = prompt_tokens(self._loaded, request, sight)
            pngs = tuple(pictures_of(request.messages))
            length = len(sight.expanded(tokens, pngs)) if sight and pngs else len(tokens)
            most = self._loaded.context_tokens + 1
        if most - length < room_for:
            raise ContextOverflow(
                f"The prompt has {length} tokens{', pictures included,' if pngs else ''} and the model takes {most}, "
                "answer included; shorten the prompt, raise max_model_len where the model allows it, or use a model "
                "with a longer context."
            )
        return Prompt(number, request, tokens, pngs, min(request.max_tokens, most - length))

    def _job(self, prompt: Prompt, *, streams: bool = False) -> Job:
        from vllm.sampling_params import (  # pyright: ignore[reportMissingImports]
            RequestOutputKind,
            SamplingParams,
            StructuredOutputsParams,
        )

        sampling: dict[str, Any] = dict(self._sampling(prompt))
        if structure := sampling.pop("structured_outputs", None):
            sampling["structured_outputs"] = StructuredOutputsParams(**structure)
        params = SamplingParams(
            **sampling,
            detokenize="stop" in sampling,  # the text is made here, of the tokens, as transformers makes it of them
            output_kind=RequestOutputKind.CUMULATIVE if streams else RequestOutputKind.FINAL_ONLY,
        )
        return Job(prompt.tokens, prompt.pngs, params)

    def _sampling(self, prompt: Prompt) -> dict[str, JsonValue]:
        """How the tokens of an answer are picked, under vLLM's names; a seed only where they are drawn."""
        request, (_, own, _) = prompt.request, self._read
        sampling: dict[str, Any] = {"max_tokens": prompt.limit, "temperature": max(0.0, request.temperature)}
        sampling["structured_outputs"] = self._format
        if request.temperature > 0:
            top_p = own.top_p if request.top_p is None else request.top_p
            sampling |= {"top_p": None if top_p is None else max(top_p, 1e-6), "top_k": own.top_k or None}
            sampling["seed"] = seed_of(request, prompt.tokens) & SEED_BITS
        if own.repetition_penalty not in (None, 1.0):
            sampling["repetition_penalty"] = own.repetition_penalty
        if stops := [stop for stop in request.stop if stop]:
            sampling["stop"] = stops
            # vLLM gives a special token no text, so a stop string never matches it
            added = self._loaded.tokenizer.added_tokens_decoder.items()
            special = {one.content: token for token, one in reversed(list(added)) if one.special}
            if ids := [special[stop] for stop in stops if stop in special]:
                sampling["stop_token_ids"] = ids
        return {name: value for name, value in sampling.items() if value is not None}

    def _response(self, prompt: Prompt, output: Any) -> ChatResponse:
        """The answer of a finished RequestOutput of vLLM, cut at the stops, with its token counts."""
        answer = output.outputs[0]
        return ChatResponse(
            text=cut(self._text(answer.token_ids), prompt.request.stop),
            finish_reason=answer.finish_reason,
            prompt_tokens=len(output.prompt_token_ids),
            completion_tokens=len(answer.token_ids),
            sent=self._sampling(prompt),
        )

    def _text(self, tokens: Sequence[int], *, whole: bool = True) -> str:
        with self._lock:
            return readable(self._loaded.tokenizer, list(tokens), whole=whole)

    def _likelihoods(self, groups: Sequence[list[Window]]) -> Iterator[tuple[int, LogProb]]:
        """The sums over the windows of each text, with its place in `groups`, each as soon as its last one is done."""
        sought: dict[Window, list[int]] = {}
        for place, group in enumerate(groups):
            for part in (part for window in group for part in self._parts(window)):
                sought.setdefault(part, []).append(place)
        missing = Counter(place for places in sought.values() for place in places)
        sums = [LogProb(0.0, True)] * len(groups)
        yield from ((place, sums[place]) for place in range(len(groups)) if not missing[place])
        rows = list(sought.items())
        jobs = [Job(list(one.read), one.pngs, predicting(one)) for one, _ in rows]
        with closing(self._outputs(jobs)) as outputs:
            for number, output in outputs:
                if isinstance(output, ModelError):
                    raise output
                window, places = rows[number]
                total, greedy = predicted(window, output)
                for place in places:
                    sums[place] = LogProb(sums[place].total + total, sums[place].greedy and greedy)
                    missing[place] -= 1
                    if not missing[place]:
                        yield place, sums[place]

    def _parts(self, window: Window) -> Iterator[Window]:
        """A short text token by token, where the engine keeps what it computed; alike for all who read the same."""
        _, read, wanted, pngs = window
        if len(wanted) > SHORT or not self._setup.enable_prefix_caching:
            yield Window(0, read, wanted, pngs)
            return
        known = len(read) - len(wanted) + 1
        yield from (Window(0, read[: known + n], (one,), pngs) for n, one in enumerate(wanted))

    def _outputs(self, jobs: Sequence[Job]) -> Generator[tuple[int, Any]]:
        """RequestOutputs with the number of their job; a ModelError for one that vLLM refuses.

        Raises ModelUnavailable, and TransientModelError where the engine ends under it.
        """
        left = dict(enumerate(jobs))
        while left:
            numbers = list(left)
            try:
                with closing(engine_of(self._setup).run(list(left.values()))) as outputs:
                    for place, output in outputs:
                        number = numbers[place]
                        if isinstance(output, JobRefused):
                            del left[number]
                            yield number, self._refusal(output)
                            continue
                        if output.finished:
                            del left[number]
                            self.prompt_tokens += len(output.prompt_token_ids)
                            self.cached_tokens += output.num_cached_tokens or 0
                        yield number, output
            except EngineGone as gone:
                if gone.cause is None:
                    log.info("engine was let go of, opened again jobs=%d model=%s", len(left), self.id)
                    continue
                raise TransientModelError(
                    f"The engine of {self.id} ended with {len(left)} requests unanswered "
                    f"({type(gone.cause).__name__}: {' '.join(str(gone.cause).split())[:300]}). Run it again: what was "
                    f"answered is kept, and another engine is opened. If it ends again, {REMEDY}."
                ) from gone

    def _refusal(self, error: JobRefused) -> RequestRefused:
        said = " ".join(str(error).split())[:400]
        if "longer than" in said:
            return ContextOverflow(f"vLLM refuses this prompt: {said}; shorten it, or choose another max_model_len.")
        remedy = "change response_format, or leave it out" if self._format else "change it"
        return RequestRefused(f"vLLM refuses this prompt: {said}; {remedy}.")


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
    tokens = [output.prompt_logprobs[place - len(before)][token] for place, token in enumerate(before)]
    tokens.append(output.outputs[0].logprobs[0][last])
    return sum(one.logprob for one in tokens), all(one.rank == 1 for one in tokens)
