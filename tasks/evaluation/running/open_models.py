"""Opens the models of a run in this process: the measured one and the judge."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain
from threading import Lock
from typing import Any

from pydantic import SecretStr

from models.backends import open_backend
from models.local import release_held
from models.model_errors import ModelError, ModelUnavailable, RequestRefused, TransientModelError
from models.protocols import Chat, ChatRequest
from tasks.budget import Budget, BudgetSpent, Prices
from tasks.bulk import ask_all
from tasks.calls import Answer, Limits
from tasks.evaluation.benchmarks.base import Judge
from tasks.evaluation.evaluation_records import Usage
from tasks.evaluation.running.generation import usage_of
from tasks.evaluation.running.model_spec import ModelSpec
from tasks.resources import kept_responses, resources

_opening = Lock()


def open_model(spec: ModelSpec) -> Chat:
    """The model, opened once for all threads of this process. Raises ModelUnavailable."""
    with _opening:
        return _open(spec.model_dump_json())


@cache
def _open(spec_json: str) -> Chat:
    spec = ModelSpec.model_validate_json(spec_json)
    from models.curator import Usual, usual_place

    usual = Usual(resources().openai_base_url, resources().api_key)
    # curator models use the address and key of their own provider
    if spec.backend == "curator" and (name := spec.name or spec.args.get("model")):
        usual = usual_place(str(name), resources().secret, usual)
    return open_backend(
        spec.backend,
        name=spec.name,
        args=spec.args,
        base_url=_variable("base_url_env", spec.base_url_env) or spec.base_url or usual.base_url,
        api_key=SecretStr(key) if (key := _variable("api_key_env", spec.api_key_env)) else usual.api_key,
        timeout_s=spec.calls.timeout_s,
    )


def release_models() -> None:
    """Forget the models of this process, so that a device is free for the next one."""
    with _opening:
        _open.cache_clear()
        release_held()


def _variable(field: str, name: str | None) -> str | None:
    """The value of the environment variable that a field names; None if it names none. Raises ModelUnavailable."""
    if name is None:
        return None
    if not (value := resources().secret(name)):
        raise ModelUnavailable(
            f"{field}={name}: there is no such environment variable here; export it where the run is"
        )
    return value


@cache
def limits_of(spec_json: str) -> Limits:
    """Rates and retries of one model, shared by all threads."""
    spec = ModelSpec.model_validate_json(spec_json)
    return Limits(spec.calls, rng=random.Random())


class Asking:
    """Asks one model for one step: through the response store, within its limits, counting usage."""

    def __init__(
        self,
        spec: ModelSpec,
        *,
        budget: Budget | None = None,
        prices: Prices | None = None,
        batch_size: int | None = None,
    ) -> None:
        self.chat: Any = open_model(spec)
        if hasattr(self.chat, "use_batches"):  # each time: the same model answers the next task, which may say nothing
            self.chat.use_batches(batch_size or spec.args.get("batch_size") or "auto")
        self.usage = Usage()
        self.away: list[str] = []
        """Messages of failed calls that may succeed on a retry."""
        self._limits = limits_of(spec.model_dump_json())
        self._budget = budget
        self._prices = prices

    def ask_all(self, requests: Iterable[tuple[Any, ChatRequest]]) -> Iterator[tuple[Any, Answer | ModelError]]:
        """Answers as they come, TransientModelError beyond the budget. Raises ModelUnavailable, RequestRefused."""
        for tag, answer in self._within_budget(iter(requests)):
            if isinstance(answer, ModelError):
                if not isinstance(answer, RequestRefused):
                    self.away.append(str(answer))
            else:
                self.usage = self.usage.plus(usage_of(answer, self._prices))
            yield tag, answer

    def _within_budget(self, requests: Iterator[tuple[Any, ChatRequest]]) -> Iterator[tuple[Any, Answer | ModelError]]:
        waiting: dict[int, Any] = {}

        def numbered() -> Iterator[tuple[int, ChatRequest]]:
            for number, (tag, request) in enumerate(requests):
                waiting[number] = tag
                yield number, request

        bounds: Any = {"limits": self._limits, "budget": self._budget}
        try:
            for number, answer in ask_all(self.chat, numbered(), responses=kept_responses(), **bounds):
                yield waiting.pop(number), answer
        except BudgetSpent as spent:
            for tag in chain(list(waiting.values()), (tag for tag, _ in requests)):
                yield tag, TransientModelError(str(spent))

    @property
    def as_judge(self) -> Judge:
        return Judge(self.chat.id, self.ask_all)
