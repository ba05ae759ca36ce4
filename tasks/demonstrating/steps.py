"""The step that puts demonstrations before the questions of a benchmark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from models.weight_files import fingerprint as fingerprint_of
from tasks.evaluation.evaluation_records import Example, Said
from tasks.evaluation.record_lines import read_lines, write_lines
from tasks.evaluation.running.planning import DEMONSTRATIONS, PlannedTask, read_items
from tasks.resources import artifacts, embedder, embedding_cache
from tasks.step import step

if TYPE_CHECKING:
    from tasks.demonstrating.choosing_examples import Encoder

EMBEDDER = "minilm"
RANDOM = "random"


def seen_by(chosen: str) -> str:
    """Fingerprint of what embeds for this choice, such as `similarity:4`; empty for random examples.

    Raises models.model_errors.ModelUnavailable.
    """
    return "" if chosen.startswith(f"{RANDOM}:") else fingerprint_of(EMBEDDER)


@step(version=1)
def show_examples(task: PlannedTask, *, chosen: str, fingerprint: str, seed: int) -> PlannedTask:
    """The task, each item with its examples as turns before the question.

    chosen: `similarity:4`. fingerprint: `seen_by(chosen)`. An example that is one of the questions is shown to none.
    """
    from tasks.demonstrating.choosing_examples import choose
    from tasks.evaluation.benchmarks.benchmark_registry import find_benchmark

    del fingerprint  # part of the key alone
    found = DEMONSTRATIONS.fullmatch(chosen)
    assert found
    assert task.examples
    items = list(read_items(artifacts(), task.items))
    asked = {item.prompts[0] for item in items}
    examples = [one for one in read_lines(artifacts(), task.examples, Example) if one.prompt not in asked]
    shown = choose(
        items,
        examples,
        by=found[1].partition(":")[0],
        count=int(found["count"]),
        selector=Path(found["checkpoint"]) if found["checkpoint"] else None,
        question_in=find_benchmark(task.benchmark).question_in,
        opened=_opened,
        seed=seed,
    )
    by_id = {example.id: example for example in examples}
    told = (
        item.model_copy(update={"history": tuple(_turns([by_id[one] for one in shown[item.id]])) + item.history})
        for item in items
    )
    return task.model_copy(update={"items": write_lines(artifacts(), "items", told), "examples": None})


def _opened() -> Encoder:
    from tasks.demonstrating.choosing_examples import Encoder
    from tasks.rag.indexing.document_stages import embed_texts

    found = embedder(EMBEDDER)
    return Encoder(found.id, lambda texts: embed_texts(found, embedding_cache(), texts))


def _turns(examples: list[Example]) -> Iterator[Said]:
    for example in examples:
        yield Said(role="user", text=example.prompt)
        yield Said(role="assistant", text=example.answer)
