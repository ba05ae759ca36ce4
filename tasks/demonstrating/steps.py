"""The step that puts demonstrations before the questions of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tasks.evaluation.evaluation_records import Example, Said
from tasks.evaluation.record_lines import read_lines, write_lines
from tasks.evaluation.running.planning import DEMONSTRATIONS, PlannedTask, read_items
from tasks.resources import artifacts, embedding_cache
from tasks.step import step

EMBEDDER = "minilm"


@step(version=1)
def show_examples(task: PlannedTask, *, chosen: str, fingerprint: str, seed: int) -> PlannedTask:
    """The task, each item with its examples as turns before the question.

    chosen: `similarity:4`. fingerprint: of what embeds. An example that is one of the questions is shown to none.
    """
    from tasks.demonstrating.choosing_examples import choose
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark
    from tasks.rag.indexing.document_stages import embed_texts
    from tasks.resources import embedder

    del fingerprint  # part of the key alone
    found = DEMONSTRATIONS.fullmatch(chosen)
    assert found
    assert task.examples
    items = list(read_items(artifacts(), task.items))
    asked = {item.prompts[0] for item in items}
    examples = [one for one in read_lines(artifacts(), task.examples, Example) if one.prompt not in asked]
    opened = embedder(EMBEDDER)
    shown = choose(
        items,
        examples,
        by=found[1].partition(":")[0],
        count=int(found["count"]),
        selector=Path(found["checkpoint"]) if found["checkpoint"] else None,
        question_in=find_benchmark(task.benchmark).question_in,
        embed=lambda texts: embed_texts(opened, embedding_cache(), texts),
        encoder=opened.id,
        seed=seed,
    )
    by_id = {example.id: example for example in examples}
    told = (
        item.model_copy(update={"history": tuple(_turns([by_id[one] for one in shown[item.id]])) + item.history})
        for item in items
    )
    return task.model_copy(update={"items": write_lines(artifacts(), "items", told), "examples": None})


def _turns(examples: list[Example]) -> Iterator[Said]:
    for example in examples:
        yield Said(role="user", text=example.prompt)
        yield Said(role="assistant", text=example.answer)
