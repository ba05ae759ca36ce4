"""The base classes of benchmarks: items, a grader for each response, metrics over all samples, and self-checks."""

from __future__ import annotations

import logging
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from models.protocols import ChatRequest, ChatResponse
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import Example, Family, Item, Reply, Response, Sample, Sampling
from tasks.grading.code.code_grading import BROKEN, Verdict, grade_program, summarise_code
from tasks.grading.grading_records import Summary, TemplateUnusable, make_sample
from tasks.grading.judge_grading import (
    AskAll,
    Judge,
    Judged,
    Tools,
    judge_responses,
    make_judged_sample,
    visible_answers,
)
from tasks.grading.reading import POLICIES, Policy, visible_answer
from tasks.grading.sample_statistics import summarise_repeats, summarise_single
from tasks.measure.estimates import Share
from tasks.sandbox import Program, Sandbox, shared_sandbox

if TYPE_CHECKING:
    from tasks.evaluation.running.benchmark_data import Data, DataFile, Row

PUBLISHED: dict[str, Any] = tomllib.loads(Path(__file__).with_name("published.toml").read_text("utf-8"))
"""Words and tables of published benchmarks."""
SHOWN_CHARS = 80
"""Most characters of a gold or an answer that a message shows."""
REMEDY = "in the sandbox's Python (TRIVET_SANDBOX_PYTHON names another; the extra `bigcodebench` has them)"
LACKS = 3
"""Exit code of the look-up where the library is missing."""
LOOK_UP = """\
import importlib
import importlib.util
import sys

name = {name!r}
standard = getattr(sys, "stdlib_module_names", sys.builtin_module_names)
try:
    # turtle is a file of every Python, and of no use without Tk
    found = importlib.import_module(name) if name in standard else importlib.util.find_spec(name)
except (ImportError, ValueError):
    found = None
if not found:
    raise SystemExit({lacks})
"""

__all__ = ["AskAll", "BaseBenchmark", "Judge", "Summary", "Tools", "is_whole"]


class BaseBenchmark:
    """The base class of all benchmarks.

    A subclass defines `read_row` or `items`, and `grade`, which run in shards, or evalchemy's two methods
    `generate_responses` and `evaluate_responses`, which run in one piece.
    """

    name: str
    version: int = 1
    """Version of the benchmark: raised when a prompt, a gold or the grading changes; older scores then are others."""
    summary: str = ""
    """Description of the benchmark in one line, which `trivet eval list` prints."""
    family: Family = "own"
    files: tuple[DataFile, ...] = ()
    example_file: DataFile | None = None
    """File of solved items that a run may show as demonstrations; None where the benchmark has none."""
    sampling: Sampling = Sampling()
    repeats: int = 1
    ks: tuple[int, ...] = ()
    judge: str | None = None
    """Judge of the published scores, as `backend:name` (`openai:gpt-4-0613`); None where no judge is needed."""
    format_checked_only: bool = False
    """Whether the loader was tested only on items of our own in the published schema, without the real data."""
    score_only: bool = False
    """Whether it only grades recorded answers: its data lacks what a model would see, so none can be asked."""
    reads_answers: bool = False
    """Whether an answer is extracted from each response, and so can be extracted under several policies."""
    extract: Policy = "published"
    """Policy by which answers are extracted for the headline metric; the run sets it."""
    metric: ClassVar[str] = "accuracy"
    """Name of the headline metric."""

    def __init__(
        self,
        logger: logging.Logger | None = None,
        system_instruction: str | None = None,
        max_new_tokens: int | None = None,
        repetition_penalty: float | None = None,
        temperature: float | None = None,
    ) -> None:
        """Keep the arguments of evalchemy's class, which its benchmarks pass on to this one."""
        self.logger = logger or logging.getLogger(type(self).__name__)
        self.system_instruction = system_instruction
        self.max_new_tokens = max_new_tokens
        self.repetition_penalty = repetition_penalty
        self.temperature = temperature

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the items in the order of the data, without unusable rows. Raises DataMissing, DataUnusable."""
        for row in data.rows(self.files[0]):
            with data.leave_out_odd(row):
                yield from self.read_row(row)

    def read_row(self, row: Row) -> Iterator[Item]:
        """Yield the items of a row of the first file, where no other file is needed. Raises DataUnusable."""
        raise NotImplementedError

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """Yield a sample for each response, in order; a response without an answer is scored 0 and marked `missing`."""
        raise NotImplementedError

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return the metrics over all samples, which are read once and not held in memory."""
        beside = POLICIES[1:] if self.extract == "published" else POLICIES  # reported beside the headline's
        policies = beside if self.reads_answers else ()
        if self.repeats > 1:
            return summarise_repeats(samples, policies=policies, ks=self.ks, are_equal=self.same_answer)
        return summarise_single(samples, policies=policies)

    def examples(self, data: Data) -> Iterator[Example]:
        """Yield the solved items of `example_file` as possible demonstrations. Raises DataMissing, DataUnusable."""
        raise NotImplementedError

    def question_in(self, prompt: str) -> str:
        """Return a prompt without the words that all prompts share, so that similar questions can be found."""
        return prompt

    def same_answer(self, first: str, second: str) -> bool:
        """Return whether two extracted answers of different spelling are equal, as majority votes (cons@k) need it."""
        return first == second

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield a sentence for each problem: no items, a repeated ID, an empty prompt or gold, a gold graded wrong."""
        if not items:
            yield "the data holds no items"
        for item_id, times in Counter(item.id for item in items).items():
            if times > 1:
                yield f"item {item_id}: {times} items have this id, and each needs its own"
        for item in items:
            if not all(prompt.strip() for prompt in item.prompts):
                yield f"item {item.id}: a prompt is empty"
            if item.gold in ("", []):
                yield f"item {item.id}: its gold is empty"
        # each item's own gold, given as an answer, must be graded as right; it is announced as ours are, not in the
        # words of each source
        answered = [
            (item, Response(item=item.id, turns=(Reply(text=answer),)))
            for item in items
            if item.gold not in ("", []) and (answer := self.gold_response(item)) is not None
        ]
        graded = self.grade(answered, tools._replace(extract="strict")) if answered else ()
        for (item, _), sample in zip(answered, graded, strict=True):
            if sample.status == "unscored":
                yield f"item {item.id}: its own gold {_abbreviate(item.gold)} could not be graded: {sample.reason}"
            elif sample.score is None or sample.score < 1:
                finding = f"the grader found {_abbreviate(sample.extracted)} in it ({sample.reason})"
                yield f"item {item.id}: its own gold {_abbreviate(item.gold)} is graded as wrong; {finding}"

    def find_unscorable(self, items: Sequence[Item], tools: Tools) -> dict[str, str]:
        """Return the reason for each item whose answers cannot be scored on this machine, such as a missing library."""
        del items, tools
        return {}

    def gold_response(self, item: Item) -> str | None:
        """Return an answer, made of the gold, that must be graded as right; None where there is no such answer."""
        if item.gold is None:
            return None
        golds = item.gold if isinstance(item.gold, list) else [item.gold]
        return f"The answer is \\boxed{{{', '.join(str(gold) for gold in golds)}}}."

    def generate_responses(self, model: Any) -> dict[str, Any]:
        """Return the answers of an lm_eval LM as JSON: evalchemy's first method; subclasses override both or none."""
        raise NotImplementedError

    def evaluate_responses(self, results: dict[str, Any]) -> dict[str, Any]:
        """Return the metrics of what `generate_responses` returned: evalchemy's second method."""
        raise NotImplementedError

    def run_benchmark(self, model: Any) -> dict[str, Any]:
        """Generate responses and evaluate them, as evalchemy's method of this name does."""
        return self.evaluate_responses(self.generate_responses(model))

    def compute(self, model: Any, inputs: list[Any], do_slice: bool = True) -> list[str]:
        """Return the answers of an lm_eval LM to its Instances, in their order; sets `task_name` of each Instance.

        do_slice: a parameter of evalchemy that is ignored, since the run itself splits the items among processes.
        """
        del do_slice
        for instance in inputs:
            instance.task_name = getattr(self, "name", type(self).__name__)
        return list(model.generate_until(inputs))

    def global_rank(self, model: Any) -> int:
        """Return the number of this process, from 0; evalchemy's benchmarks return results in process 0 only."""
        return int(getattr(model, "rank", 0))

    def _prepare_messages(self, messages: list[dict[str, str]], model: Any = None) -> Any:
        """Put the system instruction before the messages and, if a model is given, render them in its chat template."""
        if self.system_instruction:
            messages.insert(0, {"role": "system", "content": self.system_instruction})  # in place, as there
        return messages if model is None else model.apply_chat_template(messages)


def is_whole(benchmark: BaseBenchmark) -> bool:
    """Return whether a benchmark implements evalchemy's two methods, and so runs in one piece."""
    kind = type(benchmark)
    return (
        kind.generate_responses is not BaseBenchmark.generate_responses
        and kind.evaluate_responses is not BaseBenchmark.evaluate_responses
    )


def _abbreviate(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


class CodeBenchmark(BaseBenchmark):
    """A benchmark of programs, scored by pass@k; subclasses define `items`, `try_out` and `gold_response`."""

    family: Family = "code"
    metric = "pass@1"

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Execute the code in an answer and return the verdict; the answer is not empty and comes without reasoning."""
        raise NotImplementedError

    def why_unscorable(self, item: Item, sandbox: Sandbox) -> str | None:
        """Return why no answer to an item can be scored on this machine; None if it can."""
        del item, sandbox

    def gold_response(self, item: Item) -> str | None:
        raise NotImplementedError

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """Yield a sample for each response, in order, while the workers of the sandbox run in parallel."""
        sandbox = tools.sandbox or shared_sandbox()
        return sandbox.map(lambda pair: self.sample(*pair, sandbox), answered)

    def sample(self, item: Item, response: Response, sandbox: Sandbox) -> Sample:
        """Grade one response by executing its program; an item that cannot be scored here has no score for any."""
        if why := self.why_unscorable(item, sandbox):
            return make_sample(item, response, status="unscored", score=None, reason=why)
        return grade_program(item, response, self.try_out, sandbox)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        return summarise_code(samples, ks=self.ks)

    def find_unscorable(self, items: Sequence[Item], tools: Tools) -> dict[str, str]:
        sandbox = tools.sandbox or shared_sandbox()
        return {item.id: why for item in items if (why := self.why_unscorable(item, sandbox))}

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems of items that can be scored here, or only that none of them can."""
        unscorable = self.find_unscorable(items, tools)
        if items and len(unscorable) == len(items):
            yield f"none of {len(items)} items can be scored here: {'; '.join(dict.fromkeys(unscorable.values()))}"
            return
        yield from super().check([item for item in items if item.id not in unscorable], tools)


def explain_missing(names: Iterable[str], sandbox: Sandbox) -> str | None:
    """Return which of these modules the sandbox lacks, or BROKEN and why the look-up failed; None if all are there."""
    try:
        missing = [name for name in dict.fromkeys(names) if not _has_library(name, sandbox)]
    except _LookUpFailed as failed:
        return f"{BROKEN}its libraries could not be looked up: {failed}"
    noun, verb = ("libraries", "are") if len(missing) > 1 else ("library", "is")
    return f"{noun} {', '.join(missing)} {verb} not {REMEDY}" if missing else None


class _LookUpFailed(Exception):
    """The sandbox did not execute the look-up; an exception, so that the cache does not keep it."""


@lru_cache(maxsize=4096)  # each executes a program, and items share libraries
def _has_library(name: str, sandbox: Sandbox) -> bool:
    execution = sandbox.run(Program(LOOK_UP.format(name=name, lacks=LACKS)))
    if not execution.passed and execution.exit_code != LACKS:
        raise _LookUpFailed(execution.reason or execution.status)
    return execution.passed


class Rating(NamedTuple):
    """The score of a response, put together from its judgments."""

    score: float | None
    reason: str
    values: Mapping[str, float] = {}
    detail: Mapping[str, Any] = {}


class JudgedBenchmark(BaseBenchmark):
    """A benchmark that a judge grades by a prompt of the data folder; subclasses define `items` and the next three.

    An answer is what a turn of the response says without its reasoning; empty where it says nothing.
    """

    family: Family = "judge"

    def requests(self, item: Item, answers: Sequence[str]) -> Mapping[str, ChatRequest]:
        """Return the requests to the judge on a response that says something, by judgment. Raises TemplateUnusable."""
        raise NotImplementedError

    def verdict_in(self, judgment: str) -> Any:
        """Return the verdict that a judgment states, a number or a label; None where it states none."""
        raise NotImplementedError

    def rate(self, judged: Judged[Any], answers: Sequence[str]) -> Rating:
        """Return the rating of a response by its judgments; if one failed, the sample is unscored all the same."""
        raise NotImplementedError

    def read_verdict(self, judge: Judge, reply: ChatResponse) -> Any:
        """Return the verdict in a reply of the judge, without its reasoning; None where there is none."""
        del judge
        return self.verdict_in(visible_answer(reply.text) or "")

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """Yield a sample for each response; `missing` if a turn is empty. Raises PreflightFailed without a judge."""
        judge = tools.judge
        if judge is None:
            raise PreflightFailed(self._no_judge())

        def requests_of(item: Item, response: Response) -> Mapping[str, ChatRequest]:
            answers = visible_answers(item, response)
            return self.requests(item, answers) if any(answers) else {}

        read: Callable[[ChatResponse], Any] = partial(self.read_verdict, judge)
        for judged in judge_responses(answered, requests_of=requests_of, read=read, judge=judge):
            answers = visible_answers(judged.item, judged.response)
            rating = self.rate(judged, answers)
            yield make_judged_sample(judged, judge=judge, missing=not all(answers), **rating._asdict())

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems that the base class finds, judge prompts that do not render, and a missing judge."""
        yield from super().check(items, tools)
        for item in items:
            try:
                self.requests(item, ["an answer"] * len(item.prompts))
            except TemplateUnusable as error:
                yield f"{item.id}: {error}"
        if tools.judge is None:
            yield self._no_judge()

    def _no_judge(self) -> str:
        own_choice = f" (its own choice is {self.judge})" if self.judge else ""
        return f"{self.name} is graded by a model and none is there; name one with --annotator_model{own_choice}"


def sum_by_item(values: Iterable[tuple[str, float]]) -> dict[str, Share]:
    """Return, for each item, the sum and the number of its values, from which a mean over all values is taken."""
    shares = defaultdict[str, Share](lambda: Share(0, 0))
    for item, value in values:
        shares[item] = shares[item].plus(value)
    return dict(shares)
