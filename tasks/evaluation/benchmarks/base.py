"""What a benchmark is: its items, a grader for each response, the figures over all of them, and its checks."""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from models.protocols import ChatRequest, ChatResponse
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import Example, Family, Item, Reply, Response, Sample, Sampling
from tasks.grading.code.code_grading import Verdict, grade_program, summarise_code
from tasks.grading.grading_records import Summary, TemplateUnusable
from tasks.grading.judge_grading import AskAll, Judge, Judged, Tools, answers_of, judge_by, sample_of
from tasks.grading.reading import Policy, policies_beside, visible_answer
from tasks.grading.sample_statistics import summarise_repeats, summarise_single
from tasks.measure.estimates import Share
from tasks.sandbox import Sandbox, shared_sandbox

if TYPE_CHECKING:
    from tasks.evaluation.running.benchmark_data import Data, DataFile

SHOWN_CHARS = 80

__all__ = ["AskAll", "BaseBenchmark", "Judge", "Summary", "Tools", "is_whole"]


class BaseBenchmark:
    """A benchmark; define `items` and `grade`, which run in shards, or evalchemy's two methods, which run whole."""

    name: str
    version: int = 1
    """Raise it when a prompt, a gold or the grading changes."""
    summary: str = ""
    """One line for `eval list`."""
    family: Family = "own"
    files: tuple[DataFile, ...] = ()
    example_file: DataFile | None = None
    """Solved items that a run may show as demonstrations; None: there are none."""
    sampling: Sampling = Sampling()
    repeats: int = 1
    ks: tuple[int, ...] = ()
    judge: str | None = None
    """Default judge: `openai:gpt-4-0613`; None: it needs none."""
    format_checked_only: bool = False
    """The loader was tested on items of our own in the published schema, without the real data."""
    score_only: bool = False
    """It grades recorded answers and asks no model, because the data lacks what the model is to see."""
    reads_answers: bool = False
    """An answer is read in each response, under several policies."""
    extract: Policy = "published"
    """How answers are read for the headline; a run sets it."""
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
        """The arguments are those of evalchemy's class; its benchmarks pass them on to this one."""
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
        policies = policies_beside(self.extract) if self.reads_answers else ()
        if self.repeats > 1:
            return summarise_repeats(samples, policies=policies, ks=self.ks, same=self.same_answer)
        return summarise_single(samples, policies=policies)

    def examples(self, data: Data) -> Iterator[Example]:
        """Solved items of `example_file`. Raises DataMissing, DataUnusable."""
        raise NotImplementedError

    def question_in(self, prompt: str) -> str:
        """A prompt without the words that all prompts have: what makes two of them similar."""
        return prompt

    def same_answer(self, one: str, other: str) -> bool:
        """Whether two extracted answers are equal, for votes; their spellings differ."""
        return one == other

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Problems of the benchmark, a sentence each: golds that do not match themselves, empty prompts …"""
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
                found = f"the grader found {_abbreviate(sample.extracted)} in it ({sample.reason})"
                yield f"item {item.id}: its own gold {_abbreviate(item.gold)} is graded as wrong; {found}"

    def gold_response(self, item: Item) -> str | None:
        """An answer that must be graded as right, made of the gold; None where no single answer must."""
        if item.gold is None:
            return None
        golds = item.gold if isinstance(item.gold, list) else [item.gold]
        return f"The answer is \\boxed{{{', '.join(str(gold) for gold in golds)}}}."

    def generate_responses(self, model: Any) -> dict[str, Any]:
        """evalchemy's first method, for subclasses that override both: answers of an lm_eval LM, as JSON."""
        raise NotImplementedError

    def evaluate_responses(self, results: dict[str, Any]) -> dict[str, Any]:
        """evalchemy's second method: metrics of what `generate_responses` returned."""
        raise NotImplementedError

    def run_benchmark(self, model: Any) -> dict[str, Any]:
        """Both methods, as in evalchemy."""
        return self.evaluate_responses(self.generate_responses(model))

    def compute(self, model: Any, inputs: list[Any], do_slice: bool = True) -> list[str]:
        """Answers of an lm_eval LM to its Instances, in order. do_slice: evalchemy's; here a run splits the items."""
        del do_slice
        for instance in inputs:
            instance.task_name = getattr(self, "name", type(self).__name__)
        return list(model.generate_until(inputs))

    def global_rank(self, model: Any) -> int:
        """Which of several processes this is; evalchemy's benchmarks give results in the first only."""
        return int(getattr(model, "rank", 0))

    def _prepare_messages(self, messages: list[dict[str, str]], model: Any = None) -> Any:
        """The messages behind the system instruction; with a model, in its chat template."""
        if self.system_instruction:
            messages.insert(0, {"role": "system", "content": self.system_instruction})
        return messages if model is None else model.apply_chat_template(messages)


def is_whole(benchmark: BaseBenchmark) -> bool:
    """Whether it implements evalchemy's two methods, and so runs in one piece."""
    kind = type(benchmark)
    return (
        kind.generate_responses is not BaseBenchmark.generate_responses
        and kind.evaluate_responses is not BaseBenchmark.evaluate_responses
    )


def passing_answers(benchmark: BaseBenchmark, answers: Iterable[tuple[Item, str]], tools: Tools) -> Iterator[str]:
    """IDs of the items whose answer is graded as right."""
    answered = [(item, Response(item=item.id, turns=(Reply(text=answer),))) for item, answer in answers]
    yield from (sample.item for sample in benchmark.grade(answered, tools) if sample.score)


def _abbreviate(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"


class CodeBenchmark(BaseBenchmark):
    """A benchmark of programs, scored by pass@k; define `items`, `try_out` and `gold_response`."""

    family: Family = "code"
    metric = "pass@1"

    def try_out(self, item: Item, answer: str, sandbox: Sandbox) -> Verdict:
        """Execute the code in an answer, which is not empty and comes without reasoning."""
        raise NotImplementedError

    def empty_response(self, item: Item) -> str | None:
        """An answer with an empty body, which must be graded as wrong; None if there is none."""
        del item
        return None

    def gold_response(self, item: Item) -> str | None:
        raise NotImplementedError

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """A sample for each response, in order; the workers of the sandbox run in parallel."""
        sandbox = tools.sandbox or shared_sandbox()
        return sandbox.map(lambda pair: self.sample(*pair, sandbox), answered)

    def sample(self, item: Item, response: Response, sandbox: Sandbox) -> Sample:
        """The graded sample of one response."""
        return grade_program(item, response, self.try_out, sandbox)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        return summarise_code(samples, ks=self.ks)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class: canonical solutions pass; and empty bodies do not."""
        yield from super().check(items, tools)
        empty = ((item, answer) for item in items if (answer := self.empty_response(item)) is not None)
        yield from (f"item {item}: an empty body passes its tests" for item in passing_answers(self, empty, tools))


class Rating(NamedTuple):
    """What the judgments of a response amount to."""

    score: float | None
    reason: str
    values: Mapping[str, float] = {}
    detail: Mapping[str, Any] = {}


class JudgedBenchmark(BaseBenchmark):
    """A benchmark that a model grades by a prompt of the data folder; define `items` and the three methods below.

    An answer is what a turn of the response says without its reasoning; empty where it says nothing.
    """

    family: Family = "judge"

    def requests(self, item: Item, answers: Sequence[str]) -> Mapping[str, ChatRequest]:
        """The judgments that the answers need, by name; none where there is no answer. Raises TemplateUnusable."""
        raise NotImplementedError

    def verdict_in(self, judgment: str) -> Any:
        """The verdict in the judge's words, a number or a label; None where there is none."""
        raise NotImplementedError

    def rate(self, judged: Judged[Any], answers: Sequence[str]) -> Rating:
        """What a response gets for its judgments; where one failed it is unscored, whatever this says."""
        raise NotImplementedError

    def read_verdict(self, judge: Judge, reply: ChatResponse) -> Any:
        """The verdict in a reply of the judge; None where there is none."""
        del judge
        return self.verdict_in(visible_answer(reply.text) or "")

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """A sample for each response, in order. Raises PreflightFailed without a judge."""
        judge = tools.judge
        if judge is None:
            raise PreflightFailed(self._no_judge())
        all_judged: Iterator[Judged[Any]] = judge_by(
            answered,
            asks=lambda item, response: self.requests(item, answers_of(item, response)),
            read=partial(self.read_verdict, judge),
            judge=judge,
        )
        for judged in all_judged:
            answers = answers_of(judged.item, judged.response)
            rating = self.rate(judged, answers)
            yield sample_of(judged, judge=judge, missing=not all(answers), **rating._asdict())

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class; every judge prompt renders, and there is a judge."""
        yield from super().check(items, tools)
        for item in items:
            try:
                self.requests(item, ["an answer"] * len(item.prompts))
            except TemplateUnusable as error:
                yield f"{item.id}: {error}"
        if tools.judge is None:
            yield self._no_judge()

    def _no_judge(self) -> str:
        own = f" (its own choice is {self.judge})" if self.judge else ""
        return f"{self.name} is graded by a model and none is there; name one with --annotator_model{own}"


def shares_by_item(values: Iterable[tuple[str, float]]) -> dict[str, Share]:
    """Item → the sum and the number of its values, for a mean over all of them."""
    shares = defaultdict[str, Share](lambda: Share(0, 0))
    for item, value in values:
        shares[item] = shares[item].plus(value)
    return dict(shares)
