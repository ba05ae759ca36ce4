"""LiveBench, the tasks that a rule grades: competitions, proofs, column types, truths, shapes, instructions.

Fields as in the data sets livebench/math, reasoning, data_analysis and instruction_following: question_id, category,
task, subtask (math), turns, ground_truth; instruction_id_list and kwargs (instructions). Graders by task, sampling and
the average of averages as in LiveBench/LiveBench (gen_ground_truth_judgment.py, show_livebench_result.py).
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from statistics import fmean
from typing import ClassVar

from pydantic import JsonValue

from tasks.evaluation.benchmarks.base import BaseBenchmark, Summary, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading import livebench_grading as grading
from tasks.grading.grading_records import graded_sample
from tasks.grading.livebench_grading import Scored
from tasks.grading.reasoning import visible_answer, why_missing
from tasks.grading.rules.rule_grading import grade_rules
from tasks.grading.sample_statistics import tally, unscored_metric
from tasks.measure.estimates import estimates

log = logging.getLogger(__name__)

CATEGORIES = ("math", "reasoning", "data_analysis", "instruction_following")
INSTRUCTIONS = "instruction_following"
GRADERS: dict[str, Callable[[str, str, str], Scored]] = {
    "letter": grading.grade_letter,
    "number": grading.grade_number,
    "steps": grading.grade_steps,
    "cta": grading.grade_column,
    "web_of_lies_v2": grading.grade_truths,
    "spatial": grading.grade_shape,
}
EXAMPLES = {"web_of_lies_v2": "**{}**", "spatial": "**{}**", "steps": "Answer: {}", "letter": "{0}{0}{0}{0}{0}"}
"""How each grader's gold is announced; otherwise it stands alone."""


class LiveBench(BaseBenchmark):
    """Scores from 0 to 1; groups are category and task.

    Tasks without a grader here (AMPS_Hard, zebra_puzzle, tablejoin, tablereformat, coding, language and newer ones) are
    skipped, and the log names them. `average` is the mean of the categories' means of tasks, over those that are here,
    so it is no published LiveBench score. Tested on questions of our own in these schemas, without the real data.
    """

    name = "LiveBench"
    summary = "mathematics, reasoning, data analysis and instructions, the tasks that a rule grades; others are skipped"
    files = tuple(
        DataFile(file=f"livebench_{category}.jsonl", hub=f"livebench/{category}", hub_split="test")
        for category in CATEGORIES
    )
    sampling = Sampling(temperature=0, max_tokens=4096)
    format_checked_only = True
    metric: ClassVar[str] = "score"

    def items(self, data: Data) -> Iterator[Item]:
        skipped = Counter[str]()
        for file, category in zip(self.files, CATEGORIES, strict=True):
            for row in data.rows(file):
                if kind := _kind(row, category):
                    yield _item(row, category, kind)
                else:
                    skipped[f"{category}/{row.get('task')}"] += 1
        if skipped:
            named = ", ".join(f"{task} ({count})" for task, count in sorted(skipped.items()))
            log.warning("LiveBench: questions are skipped, as their tasks' graders are not here: %s", named)

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        del tools
        return (_sample(item, response) for item, response in answered)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Means by task and category, and `average`, the mean over categories."""
        found = tally(samples)
        headline = estimates(self.metric, found.scores, groups=found.groups, headline=True)
        categories: dict[str, list[float]] = defaultdict(list)
        metrics: dict[str, JsonValue] = {}
        for task, by_item in sorted(found.groups.items()):
            mean = fmean(score for scores in by_item.values() for score in scores)
            metrics[task] = round(100 * mean, 2)
            categories[task.partition("/")[0]].append(100 * mean)
        metrics |= {category: round(fmean(means), 2) for category, means in categories.items()}
        metrics["average"] = round(fmean(map(fmean, categories.values())), 2) if categories else None
        metrics[self.metric] = headline[0].value if headline else None
        return Summary(metrics | unscored_metric(found.counts), headline, found.counts)

    def gold_response(self, item: Item) -> str | None:
        kind = str(item.detail["grader"])
        return None if kind == INSTRUCTIONS else EXAMPLES.get(kind, "{}").format(item.gold)


def _kind(row: Row, category: str) -> str | None:
    """The grader of a question; None where it is not here."""
    task = str(row.get("subtask") or row.get("task"))
    if category == INSTRUCTIONS:
        return INSTRUCTIONS
    if category != "math":
        return task if task in GRADERS else None
    parts = task.split("_")
    if parts[0] in ("amc", "smc") or parts[1:2] == ["amc"]:
        return "letter"
    return {"aime": "number", "imo": "steps", "usamo": "steps"}.get(parts[0])


def _item(row: Row, category: str, kind: str) -> Item:
    detail: dict[str, JsonValue] = {"grader": kind}
    if kind == INSTRUCTIONS:
        detail |= {name: row.get(name) for name in ("instruction_id_list", "kwargs")}
    return Item(
        id=row.text("question_id"),
        prompts=tuple(row.texts("turns")),
        gold=None if kind == INSTRUCTIONS else row.text("ground_truth"),
        group=f"{category}/{row.text('task')}",
        detail=detail,
    )


def _sample(item: Item, response: Response) -> Sample:
    kind = str(item.detail["grader"])
    if kind == INSTRUCTIONS:
        return _followed(item, response)
    answer = visible_answer(response.text)
    score, read = GRADERS[kind](answer, str(item.gold), item.prompts[0]) if answer else Scored(0.0, None)
    return graded_sample(
        item,
        response,
        score=score,
        extracted=read,
        gold=str(item.gold),
        reason=f"LiveBench's grader of {item.group}" if read else why_missing(response),
        missing=read is None,
    )


def _followed(item: Item, response: Response) -> Sample:
    """The mean of whether all instructions are followed and of the share that is, strictly."""
    (sample,) = grade_rules([(item, response)])
    if sample.score is None:
        return sample
    return sample.model_copy(update={"score": (sample.score + sample.values["instruction_level_strict"]) / 2})


BENCHMARK = LiveBench()
