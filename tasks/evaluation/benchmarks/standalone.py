"""Evalchemy's two methods for benchmarks that only write `items` and `grade`: asked and graded in one process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.evaluation_errors import BenchmarkUnusable
from tasks.evaluation.evaluation_records import Item, Reply, Response

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance


def generate(benchmark: BaseBenchmark, model: Any) -> dict[str, Any]:
    """Answers of an lm_eval LM to all items and repeats, turn by turn; empty in ranks other than the first."""
    items = _items(benchmark)
    spoken = [[list[str]() for _ in items] for _ in range(benchmark.repeats)]
    for repeat, conversations in enumerate(spoken):
        for turn in range(max((len(item.prompts) for item in items), default=0)):
            open_ones = [number for number, item in enumerate(items) if turn < len(item.prompts)]
            instances = [
                _instance(benchmark, items[number], conversations[number], model, number=number, repeat=repeat)
                for number in open_ones
            ]
            answers = benchmark.compute(model, instances)
            for number, answer in zip(open_ones, answers, strict=True):
                conversations[number].append(answer)
    if benchmark.global_rank(model) != 0:
        return {}
    outputs = zip(*spoken, strict=True)
    return {
        "examples": [
            item.model_dump(mode="json") | {"model_outputs": list(turns)}
            for item, turns in zip(items, outputs, strict=True)
        ]
    }


def evaluate(benchmark: BaseBenchmark, results: dict[str, Any]) -> dict[str, Any]:
    """Metrics of what `generate` gave."""
    from tasks.grading.math.math_grader import MathGrader

    if benchmark.judge is not None:
        raise BenchmarkUnusable(
            f"{benchmark.name} is graded by a model; run it as `trivet eval run --tasks {benchmark.name}`"
        )
    with MathGrader() as math:
        summary = benchmark.summarise(benchmark.grade(_answered(results["examples"]), Tools(math)))
    return dict(summary.metrics)


def _items(benchmark: BaseBenchmark) -> list[Item]:
    from tasks.evaluation.running.benchmark_data import Data

    return list(benchmark.items(benchmark.data or Data(None)))


def _instance(
    benchmark: BaseBenchmark, item: Item, said: Sequence[str], model: Any, *, number: int, repeat: int
) -> Instance:
    from lm_eval.api.instance import Instance

    prompt = benchmark._prepare_messages(_messages(item, said), model)
    instance = Instance("generate_until", {"id": item.id}, (prompt, _arguments(benchmark, repeat)), number)
    vars(instance)["repeat_idx"] = repeat  # as evalchemy marks its instances
    return instance


def _messages(item: Item, said: Sequence[str]) -> list[dict[str, str]]:
    system = [{"role": "system", "content": item.system}] if item.system else []
    told = [
        message
        for prompt, answer in zip(item.prompts, said, strict=False)
        for message in ({"role": "user", "content": prompt}, {"role": "assistant", "content": answer})
    ]
    before = [{"role": one.role, "content": one.text} for one in item.history]
    return [*system, *before, *told, {"role": "user", "content": item.prompts[len(said)]}]


def _arguments(benchmark: BaseBenchmark, repeat: int) -> dict[str, Any]:
    sampling = benchmark.sampling
    seed = None if sampling.seed is None else sampling.seed + repeat
    wanted = {
        "do_sample": sampling.temperature > 0,
        "temperature": sampling.temperature,
        "max_gen_toks": benchmark.max_new_tokens or sampling.max_tokens,
        "top_p": sampling.top_p,
        "until": list(sampling.stop),
        "seed": seed,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _answered(examples: Iterable[dict[str, Any]]) -> Iterator[tuple[Item, Response]]:
    for example in examples:
        item = Item.model_validate({name: value for name, value in example.items() if name in Item.model_fields})
        for repeat, turns in enumerate(example["model_outputs"]):
            yield item, Response(item=item.id, repeat=repeat, turns=tuple(Reply(text=text) for text in turns))
