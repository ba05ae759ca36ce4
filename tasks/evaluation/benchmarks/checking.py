"""What is wrong with a benchmark before anybody is asked: ids, prompts, and golds through the real grader."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.base import BaseBenchmark, Judge, Tools
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import Item, Reply, Response, Sample
from tasks.grading.grading_records import TemplateUnusable

SHOWN_CHARS = 80


def problems_of(benchmark: BaseBenchmark, items: Sequence[Item], tools: Tools) -> Iterator[str]:
    """A sentence for each problem; none: it may be run."""
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
    yield from wrong_golds(benchmark, items, tools)


def wrong_golds(benchmark: BaseBenchmark, items: Sequence[Item], tools: Tools) -> Iterator[str]:
    """Items whose own gold, given as an answer, is not graded as right."""
    answered = [
        (item, Response(item=item.id, turns=(Reply(text=answer),)))
        for item in items
        if item.gold not in ("", []) and (answer := benchmark.gold_response(item)) is not None
    ]
    if not answered:
        return
    for (item, _), sample in zip(answered, benchmark.grade(answered, tools), strict=True):
        if why := _wrong(sample):
            yield f"item {item.id}: its own gold {_short(item.gold)} {why}"


def passing_answers(benchmark: BaseBenchmark, answers: Iterable[tuple[Item, str]], tools: Tools) -> Iterator[str]:
    """The items whose answer here is graded as right."""
    answered = [(item, Response(item=item.id, turns=(Reply(text=answer),))) for item, answer in answers]
    yield from (sample.item for sample in benchmark.grade(answered, tools) if sample.score)


def needed_judge(benchmark: BaseBenchmark, tools: Tools) -> Judge:
    """The model that grades. Raises PreflightFailed without one."""
    if tools.judge is None:
        raise PreflightFailed(no_judge(benchmark))
    return tools.judge


def no_judge(benchmark: BaseBenchmark) -> str:
    """The sentence for a benchmark whose judge was not named."""
    own = f" (its own choice is {benchmark.judge})" if benchmark.judge else ""
    return f"{benchmark.name} is graded by a model and none is there; name one with --annotator_model{own}"


def unread_labels(
    benchmark: BaseBenchmark, prompt: str, labels: Sequence[str], *, parse: Callable[[str], str | None]
) -> Iterator[str]:
    """Labels that the judge's prompt does not name, or that are not read in a judgment that follows it."""
    for one in labels:
        if f"[[{one}]]" not in prompt or parse(f"Both have merits.\n[[{one}]]") != one:
            yield f"{benchmark.name}: the label [[{one}]] is not in the judge's prompt, or not read in a judgment"


def unrendered(item: Item, request: Callable[[Item], ChatRequest]) -> Iterator[str]:
    """Why the judge's prompt of an item does not render; nothing where it does."""
    try:
        request(item)
    except TemplateUnusable as error:
        yield f"{item.id}: {error}"


def _wrong(sample: Sample) -> str | None:
    if sample.status == "unscored":
        return f"could not be graded: {sample.reason}"
    if sample.score is None or sample.score < 1:
        return f"is graded as wrong; the grader found {_short(sample.extracted)} in it ({sample.reason})"
    return None


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS else f"{text[:SHOWN_CHARS]}…"
