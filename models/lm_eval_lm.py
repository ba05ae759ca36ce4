"""Any model class of lm-evaluation-harness, or of a user's own after it, as a backend."""

from __future__ import annotations

import hashlib
import importlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import JsonValue

from models.model_errors import ModelError, ModelUnavailable, RequestRefused
from models.prompts import complete_alone, cut_at_stops, plain_text, raw_prompt, refuse_images
from models.protocols import ChatRequest, ChatResponse, LogProb

SECRETS = ("api_key", "token", "password")  # no part of an id: with another key it is the same model


class HarnessLM:
    """An lm_eval `LM`: answers through its `generate_until`, likelihoods through its own methods.

    Chat templates are the LM's (`apply_chat_template`). The finish reason is always `stop`, and tokens are not
    counted. `id` holds a digest of its arguments. Raises ModelUnavailable.
    """

    def __init__(self, dotted: str, args: Mapping[str, JsonValue]) -> None:
        try:
            self._lm = _find_class(dotted)(**args)
        except ModelError:
            raise
        except Exception as error:  # third-party code
            raise ModelUnavailable(f"{dotted} cannot be made from its model_args: {_one_line(error)}") from error
        arguments = json.dumps({name: value for name, value in args.items() if name not in SECRETS}, sort_keys=True)
        self.id = f"lm_eval:{dotted}@{hashlib.sha256(arguments.encode()).hexdigest()[:12]}"
        self._dotted = dotted
        self._lock = threading.Lock()

    def complete(self, request: ChatRequest, *, on_text: Callable[[str], None] | None = None) -> ChatResponse:
        """Answer one request; `on_text` gets the answer in one piece. Raises models.model_errors.ModelError."""
        return complete_alone(self, request, on_text)

    def complete_many(self, requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatResponse | ModelError]]:
        """Yield answers or RequestRefused with their number in `requests`. Raises ModelUnavailable."""
        ready: list[tuple[int, str, ChatRequest]] = []
        for number, request in enumerate(requests):
            try:
                ready.append((number, self._prompt(request), request))
            except RequestRefused as error:
                yield number, error

        # an LM groups its requests by their sampling itself: lm_eval asks those of all tasks at once
        texts = self._ask("generate_until", [(prompt, _sampling(request)) for _, prompt, request in ready])
        for (number, _, request), text in zip(ready, texts, strict=True):
            answer = cut_at_stops(str(text), request.stop)
            yield number, ChatResponse(text=answer, finish_reason="stop", sent=_sampling(request))

    def loglikelihood(self, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[int, LogProb]]:
        """Yield each continuation's log-probability given its context, with its position. Raises ModelUnavailable."""
        for number, (total, greedy) in enumerate(self._ask("loglikelihood", pairs)):
            yield number, LogProb(float(total), bool(greedy))

    def loglikelihood_rolling(self, texts: Sequence[str]) -> Iterator[tuple[int, float]]:
        """Yield the log-probability of whole texts, with their position. Raises ModelUnavailable."""
        for number, total in enumerate(self._ask("loglikelihood_rolling", [(text,) for text in texts])):
            # some classes give (total, greedy) here too
            yield number, float(total[0] if isinstance(total, tuple) else total)

    def _prompt(self, request: ChatRequest) -> str:
        """Return the text of a request, in the LM's own chat template unless it forbids one. Raises RequestRefused."""
        if not request.messages:
            raise RequestRefused("The request has no messages; give at least one.")
        if request.template is False:
            prompt = raw_prompt(request)
            if not prompt:
                raise RequestRefused("The prompt is empty, and an lm_eval model is asked nothing; give it words.")
            return prompt
        refuse_images(request, "An lm_eval model")
        if isinstance(request.template, str):
            self._run(lambda: self._lm.chat_template(request.template))  # it checks and remembers the name
        turns = [{"role": message.role, "content": plain_text(message)} for message in request.messages]
        return self._run(lambda: self._lm.apply_chat_template(turns))

    def _ask(self, method: str, arguments: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Return the LM's results of a method such as `loglikelihood`, by row of arguments. Raises ModelUnavailable."""
        from lm_eval.api.instance import Instance

        instances = [
            Instance(request_type=method, doc={}, arguments=row, idx=number)  # pyright: ignore[reportArgumentType]
            for number, row in enumerate(arguments)
        ]
        return list(self._run(lambda: getattr(self._lm, method)(instances))) if instances else []

    def _run(self, call: Callable[[], Any]) -> Any:
        """Return what `call` gives while no other call runs. Raises ModelUnavailable for whatever it raises."""
        try:
            with self._lock:
                return call()
        except Exception as error:  # third-party code: whatever it raises ends the run in one sentence
            raise ModelUnavailable(f"{self._dotted} failed with {type(error).__name__}: {_one_line(error)}") from error


def _sampling(request: ChatRequest) -> dict[str, JsonValue]:
    """Return the arguments of `generate_until`, under lm_eval's names; it takes no seed."""
    drawn: dict[str, JsonValue] = {"do_sample": request.temperature > 0, "temperature": request.temperature}
    if request.temperature > 0 and request.top_p is not None:
        drawn["top_p"] = request.top_p
    return {"until": list(request.stop), "max_gen_toks": request.max_tokens, **drawn}


def _find_class(dotted: str) -> Any:
    """Return the subclass of lm_eval's LM at a dotted path. Raises ModelUnavailable for what is none."""
    module, _, name = dotted.rpartition(".")
    try:
        from lm_eval.api.model import LM
    except ImportError as error:
        raise ModelUnavailable(
            f"{dotted} needs lm-evaluation-harness, which is not installed; run `pip install 'trivet[harness]'`"
        ) from error
    try:
        lm_class = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ModelUnavailable(
            f"{dotted} cannot be imported here ({error}); check the name, or install what it needs"
        ) from error
    if not (isinstance(lm_class, type) and issubclass(lm_class, LM)):
        raise ModelUnavailable(f"{dotted} is no subclass of lm_eval.api.model.LM")
    return lm_class


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
