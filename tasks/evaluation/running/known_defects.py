"""Items and checkers that public reports show to be broken: marks samples, and gives the score without the defects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import cast

import yaml
from pydantic import Field, JsonValue

from storage.records import Record
from storage.storage_errors import list_some
from tasks.evaluation.benchmarks.base import BaseBenchmark, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample

DEFECT = "known defect"
"""Name in the detail of a sample under which its defect stands."""
REPAIRED = "repaired"
BLANK_PARAGRAPHS = re.compile(r"\n\s*\n\s*")
MOST_NAMED = 5
"""Most items that a note names."""


class Defect(Record):
    """A report on items of benchmarks, or on what checks them."""

    benchmarks: tuple[str, ...] = Field(min_length=1)
    items: tuple[str, ...] = ()
    """IDs; `*` stands for any signs. Empty where `kind` or `prompt` tells the items."""
    kind: str | None = None
    """A kind of instruction, of IFEval."""
    prompt: str | None = None
    """Regular expression that is found in the prompt."""
    was: str | None = None
    """The wrong gold; an item of the data with another one is mended already."""
    gold: str | None = None
    blank_paragraphs: bool = False
    """Whether the checker errs where a response has blank paragraphs, and not without them."""
    why: str
    source: str = Field(pattern=r"^https://")

    def concerns(self, benchmark: str, item: Item) -> bool:
        """Return whether an item of a benchmark has this defect."""
        if not any(fnmatchcase(benchmark, name) for name in self.benchmarks):
            return False
        if self.was is not None and item.gold != self.was:
            return False
        if self.kind is not None:
            return self.kind in cast("list[str]", item.detail.get("instruction_id_list") or [])
        if self.prompt is not None:
            return re.search(self.prompt, item.prompts[0]) is not None
        return any(fnmatchcase(item.id, name) for name in self.items)

    def mend(self, item: Item, response: Response) -> tuple[Item, Response] | None:
        """Return what the published grader grades rightly; None where that is not known."""
        if self.gold is not None:
            return item.model_copy(update={"gold": self.gold}), response
        if not self.blank_paragraphs:
            return None
        turns = tuple(
            turn.model_copy(update={"text": BLANK_PARAGRAPHS.sub("\n\n", turn.text.strip())}) for turn in response.turns
        )
        return item, response.model_copy(update={"turns": turns})


@cache
def read_defects() -> tuple[Defect, ...]:
    """Return all known defects of published benchmarks, as `defects.yaml` lists them."""
    entries = yaml.safe_load(Path(__file__).with_name("defects.yaml").read_text("utf-8"))
    return tuple(Defect.model_validate(entry) for entry in entries)


def find_defect(benchmark: str, item: Item) -> Defect | None:
    """Return the first known defect of an item, None where it has none."""
    return next((defect for defect in read_defects() if defect.concerns(benchmark, item)), None)


def mark_defects(
    benchmark: BaseBenchmark, answered: Iterable[tuple[Item, Response]], samples: Iterable[Sample], tools: Tools
) -> Iterator[Sample]:
    """Yield the samples; the detail of one with a known defect names it and, under `repaired`, any mended grade."""
    for (item, response), sample in zip(answered, samples, strict=True):
        if (defect := find_defect(benchmark.name, item)) is None:
            yield sample
            continue
        detail: dict[str, JsonValue] = {**sample.detail, DEFECT: f"{defect.why} ({defect.source})"}
        if (mended := defect.mend(item, response)) and sample.score is not None:
            graded = next(iter(benchmark.grade([mended], tools)))
            detail[REPAIRED] = graded.model_dump(mode="json", include={"score", "values", "detail"})
        yield sample.model_copy(update={"detail": detail})


def describe_repair(
    benchmark: BaseBenchmark, read_samples: Callable[[], Iterable[Sample]], published: float | None
) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """Return the repaired headline with its items, as metrics and in words; nothing where no item has a defect.

    read_samples: of all shards, anew at each call. published: the headline with the defects.
    """
    if not any(fnmatchcase(benchmark.name, name) for defect in read_defects() for name in defect.benchmarks):
        return {}, ()
    defects = {sample.item: str(sample.detail[DEFECT]) for sample in read_samples() if DEFECT in sample.detail}
    if not defects:
        return {}, ()
    # without the samples of broken items, but with the right score where that can be had
    mended = ((sample, sample.detail.get(REPAIRED)) for sample in read_samples())
    repaired = (
        sample.model_copy(update=fields) if isinstance(fields, dict) else sample
        for sample, fields in mended
        if fields or DEFECT not in sample.detail
    )
    estimates = benchmark.summarise(repaired).estimates
    value = next((estimate.value for estimate in estimates if estimate.headline), None)
    difference = None if value is None or published is None else value - published
    figures = "repaired no score is left" if difference is None else f"repaired {value:.3f} ({difference:+.3f})"
    named = list_some((f"{item}: {why}" for item, why in defects.items()), MOST_NAMED, separator="; ")
    metric: dict[str, JsonValue] = {"value": value, "difference": difference, "items": {**defects}}
    return {"repaired": metric}, (f"{figures}; {len(defects)} items have known defects ({named})",)
