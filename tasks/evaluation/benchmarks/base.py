"""What a benchmark is: items that are asked, a grader for each response, and the figures over all of them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from tasks.evaluation.evaluation_records import Family, Item, Response, Sample, Sampling
from tasks.grading.grading_records import Summary
from tasks.grading.judge_grading import AskAll, Judge, Tools

if TYPE_CHECKING:
    from tasks.evaluation.running.benchmark_data import Data, DataFile

__all__ = ["AskAll", "BaseBenchmark", "Judge", "Summary", "Tools", "is_whole"]


class BaseBenchmark:
    """A benchmark; a subclass sets what it is and writes `items` and `grade`, or evalchemy's two methods.

    `items`, `grade` and `summarise` are run in shards, streamed, cached and re-scored. A subclass that overrides
    `generate_responses` and `evaluate_responses` instead, as evalchemy's benchmarks do, is run as a whole.
    """

    name: str
    version: int = 1
    """Raise it when a prompt, a gold or the grading changes."""
    summary: str = ""
    """One line for `eval list`."""
    family: Family = "own"
    files: tuple[DataFile, ...] = ()
    """Its data, by file name in `--data-dir`, and where the hub has it."""
    sampling: Sampling = Sampling()
    repeats: int = 1
    ks: tuple[int, ...] = ()
    """Values of k of pass@k, for code."""
    judge: str | None = None
    """Its own choice of model that grades: `openai:gpt-4-0613`; None: it needs none."""
    format_checked_only: bool = False
    """True: the loader was proved on items of our own in the published schema, the real data was not at hand."""
    score_only: bool = False
    """True: it grades recorded answers and asks no model, since what the model was to see is not here."""
    data: Data | None = None
    """Where the two methods of evalchemy read the items when they are called by hand; None: beside the definition
    of the benchmark, or the hub."""
    metric: ClassVar[str] = "accuracy"
    """The headline."""

    def __init__(
        self,
        logger: logging.Logger | None = None,
        system_instruction: str | None = None,
        max_new_tokens: int | None = None,
        repetition_penalty: float | None = None,
        temperature: float | None = None,
    ) -> None:
        """The arguments are those of evalchemy's class; its benchmarks hand them on to this one."""
        self.logger = logger or logging.getLogger(type(self).__name__)
        self.system_instruction = system_instruction
        self.max_new_tokens = max_new_tokens
        self.repetition_penalty = repetition_penalty
        self.temperature = temperature

    def items(self, data: Data) -> Iterator[Item]:
        """Its problems, prompts rendered. Raises DataMissing, DataUnusable."""
        raise NotImplementedError

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """A sample for each response, in order; a response without an answer is scored 0 and `missing`."""
        raise NotImplementedError

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """The figures over all samples; read once, not held."""
        from tasks.grading.sample_statistics import summarise_repeats, summarise_single

        return summarise_repeats(samples) if self.repeats > 1 else summarise_single(samples)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """What is wrong with the benchmark, a sentence each: golds that do not match themselves, empty prompts …"""
        from tasks.evaluation.benchmarks.checking import problems_of

        return problems_of(self, items, tools)

    def gold_response(self, item: Item) -> str | None:
        """An answer that must be graded as right, made of the gold; None where no single answer must."""
        if item.gold is None:
            return None
        golds = item.gold if isinstance(item.gold, list) else [item.gold]
        return f"The answer is \\boxed{{{', '.join(str(gold) for gold in golds)}}}."

    def generate_responses(self, model: Any) -> dict[str, Any]:
        """evalchemy's first method: answers of an lm_eval LM to all items, as a dict that JSON can hold."""
        from tasks.evaluation.benchmarks.standalone import generate

        return generate(self, model)

    def evaluate_responses(self, results: dict[str, Any]) -> dict[str, Any]:
        """evalchemy's second method: metrics of what `generate_responses` gave."""
        from tasks.evaluation.benchmarks.standalone import evaluate

        return evaluate(self, results)

    def run_benchmark(self, model: Any) -> dict[str, Any]:
        """Both, one after the other, as evalchemy has it."""
        return self.evaluate_responses(self.generate_responses(model))

    def compute(self, model: Any, inputs: list[Any], do_slice: bool = True) -> list[str]:
        """Answers of an lm_eval LM to its Instances, in their order.

        do_slice: as evalchemy has it; here a run parts the items itself, and a model that it hands over is one rank.
        """
        del do_slice
        for instance in inputs:
            instance.task_name = getattr(self, "name", type(self).__name__)
        return list(model.generate_until(inputs))

    def global_rank(self, model: Any) -> int:
        """Which of several processes this is; evalchemy's benchmarks give results in the first only."""
        return int(getattr(model, "rank", 0))

    def _prepare_messages(self, messages: list[dict[str, str]], model: Any = None) -> Any:
        """The messages with the system instruction in front, and with the model's chat template when there is one."""
        if self.system_instruction:
            messages.insert(0, {"role": "system", "content": self.system_instruction})
        return messages if model is None else model.apply_chat_template(messages)


def is_whole(benchmark: BaseBenchmark) -> bool:
    """Whether it brings evalchemy's two methods, and so is run in one piece."""
    kind = type(benchmark)
    return (
        kind.generate_responses is not BaseBenchmark.generate_responses
        and kind.evaluate_responses is not BaseBenchmark.evaluate_responses
    )
