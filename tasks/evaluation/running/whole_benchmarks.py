"""Benchmarks with evalchemy's two methods, which run in one piece; `AsLM` is the lm_eval LM that they get."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, cast

from pydantic import JsonValue

from models.model_errors import ModelError
from models.protocols import ChatRequest, Message, Text
from storage.artifacts import Artifacts
from tasks.evaluation.benchmarks.base import AskAll
from tasks.evaluation.evaluation_errors import BenchmarkUnusable, NeedsLogLikelihood
from tasks.evaluation.evaluation_records import Counts, Sampling, TaskResult
from tasks.evaluation.results.foreign_results import read_estimates
from tasks.evaluation.running.open_models import Asking
from tasks.evaluation.running.planning import PlannedTask

MAX_TOKENS = ("max_new_tokens", "max_gen_toks", "max_tokens", "max_completion_tokens")
"""Names of the token limit in evalchemy's benchmarks and lm_eval."""
STOP = ("until", "stop")
"""Names of the stop texts in lm_eval and evalchemy's benchmarks."""
BENCHMARK_FAILURES = (
    *(TypeError, AttributeError, LookupError, ValueError, ArithmeticError),
    *(AssertionError, NotImplementedError, OSError),
)
"""Errors of other people's code; those of models and storage are not among them and propagate."""


class Templated(str):
    """A conversation as a text, which keeps its messages for the model's own chat template."""

    messages: tuple[Message, ...]

    def __new__(cls, messages: Sequence[Mapping[str, Any]]) -> Templated:
        text = super().__new__(cls, "\n\n".join(f"{message['role']}: {message['content']}" for message in messages))
        text.messages = tuple(map(_build_message, messages))
        return text


class AsLM:
    """The part of lm_eval's LM that evalchemy's benchmarks use; messages stay whole for the model's own template."""

    rank = 0
    world_size = 1  # so that benchmarks neither split their items nor return None

    def __init__(
        self,
        ask_all: AskAll,
        *,
        name: str,
        template: bool | str = True,
        system: str | None = None,
        overrides: Mapping[str, Any] | None = None,
    ) -> None:
        """Ask by `ask_all`. system, overrides (fields of `Sampling`): of the run, in place of the benchmark's own."""
        self.tokenizer_name = name
        self.model_args = {"model": name, "pretrained": name}
        self.model = name
        self.pretrained = name
        self.unanswered: list[ModelError] = []
        """Why requests that got no answer got none."""
        self._ask_all = ask_all
        self._template = template
        self._system = system
        self._overrides = dict(overrides or {})

    def apply_chat_template(self, chat_history: Sequence[Mapping[str, Any]], **_: Any) -> Templated:
        return Templated(chat_history)

    def generate_until(self, requests: Sequence[Any], **_: Any) -> list[str]:
        """Return the answers to lm_eval Instances of `(prompt, generation arguments)`; empty where one failed."""
        answers = [""] * len(requests)
        for number, answer in self._ask_all(self._requests(requests)):
            if isinstance(answer, ModelError):
                self.unanswered.append(answer)
            else:
                answers[number] = answer.response.text
        return answers

    def loglikelihood(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse to give log-probabilities. Raises NeedsLogLikelihood."""
        raise NeedsLogLikelihood(
            "this benchmark asks for log-probabilities, and evalchemy's two methods get a model that writes answers; "
            "run it as a task of the lm-evaluation-harness"
        )

    loglikelihood_rolling = loglikelihood

    def _requests(self, instances: Sequence[Any]) -> Iterator[tuple[int, ChatRequest]]:
        """Yield the number of each lm_eval Instance with its request."""
        for number, instance in enumerate(instances):
            prompt, *arguments = instance.args
            draw = int(getattr(instance, "repeat_idx", 0) or 0)
            sampling = read_sampling(arguments[0] if arguments else {}).model_dump() | self._overrides
            # a seed that the run sets is that of the first repeat
            if "seed" in self._overrides and sampling["seed"] is not None:
                sampling["seed"] += draw
            messages = read_messages(prompt)
            if self._system:
                system = _build_message({"role": "system", "content": self._system})
                messages = (system, *(message for message in messages if message.role != "system"))
            # a text that `apply_chat_template` has not made goes out as it stands
            template = self._template if not isinstance(prompt, str) or isinstance(prompt, Templated) else False
            yield number, ChatRequest(messages=messages, draw=draw, template=template, **sampling)


def read_sampling(options: Mapping[str, Any]) -> Sampling:
    """Return temperature (0 if none), token limit, top_p, stop texts and first seed of generation arguments.

    All others are ignored, `do_sample` too: evalchemy sends False beside 0.7, and samples. Raises ValidationError.
    """
    stop = next((options[name] for name in STOP if options.get(name)), ())
    seed = options.get("seed")
    values = {
        "temperature": options.get("temperature") or 0.0,
        "max_tokens": next((options[name] for name in MAX_TOKENS if options.get(name)), None),
        "top_p": options.get("top_p"),
        "stop": (stop,) if isinstance(stop, str) else tuple(stop),
        "seed": seed[0] if isinstance(seed, list | tuple) and seed else seed,
    }
    return Sampling.model_validate({name: value for name, value in values.items() if value is not None})


def read_messages(prompt: Any) -> tuple[Message, ...]:
    """Return the messages of a prompt: a text, a templated conversation, or dicts, of whose content texts are kept."""
    if isinstance(prompt, Templated):
        return prompt.messages
    if isinstance(prompt, str):
        return (_build_message({"role": "user", "content": prompt}),)
    return tuple(map(_build_message, prompt))


def _build_message(message: Mapping[str, Any]) -> Message:
    content = message["content"]
    if not isinstance(content, str):
        content = "\n".join(part["text"] for part in content if part.get("type") == "text")
    return Message(role=message["role"], content=(Text(text=content),))


def run_benchmark(task: PlannedTask, asking: Asking, artifacts: Artifacts) -> TaskResult:
    """Return the result of the benchmark's own two methods; n is the length of `examples`. Raises BenchmarkUnusable."""
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    benchmark = find_benchmark(task.benchmark)
    model = AsLM(
        asking.ask_all, name=asking.chat.id, template=task.template, system=task.system, overrides=task.overrides
    )
    generated = _call_method(task, "generate_responses", lambda: benchmark.generate_responses(model))
    responses = artifacts.put(
        "responses", json.dumps(generated, ensure_ascii=False, default=str).encode("utf-8", "replace")
    )
    scores = _call_method(task, "evaluate_responses", lambda: benchmark.evaluate_responses(generated))
    metrics = cast(
        "dict[str, JsonValue]",
        json.loads(
            # numbers and arrays of NumPy, which benchmarks return, know `tolist`
            json.dumps(scores, default=lambda value: value.tolist() if hasattr(value, "tolist") else str(value)),
            parse_constant=lambda _: None,  # NaN and infinity, which JSON and the database cannot hold
        ),
    )
    notes = ["graded by the benchmark's own code, which keeps no single samples"]
    if model.unanswered:
        notes.append(
            f"{len(model.unanswered)} requests got no answer, for which the benchmark's own code was given an empty "
            f"one: its figures hold them for wrong ({model.unanswered[0]})"
        )
    examples = generated.get("examples")
    count = len(cast("list[Any]", examples)) if isinstance(examples, list) else 0
    return TaskResult(
        task=task.task,
        version=task.version,
        family=task.family,
        data=task.data.model_copy(update={"count": count}),
        settings=task.settings,
        metrics=metrics,
        estimates=tuple(read_estimates(metrics, n=count)),
        counts=Counts(items=count, samples=count, scored=count),
        usage=asking.usage,
        responses=(responses,),
        notes=tuple(notes),
    )


def _call_method(task: PlannedTask, method: str, call: Any) -> dict[str, Any]:
    """Return the dict that a method of a benchmark gives. Raises BenchmarkUnusable."""
    try:
        result: object = call()
    except BENCHMARK_FAILURES as error:
        raise BenchmarkUnusable(f"{task.benchmark}: {method} failed with {type(error).__name__}: {error}") from error
    if not isinstance(result, dict):
        raise BenchmarkUnusable(f"{task.benchmark}: {method} gave {type(result).__name__}, expected a dict")
    return cast("dict[str, Any]", result)
