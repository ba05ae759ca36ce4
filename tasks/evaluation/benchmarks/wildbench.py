"""WildBench: 1,024 tasks of real users; a judge scores each answer from 1 to 10 by the task's checklist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from statistics import fmean
from typing import ClassVar, cast

from pydantic import JsonValue

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.base import PUBLISHED, JudgedBenchmark, Rating, Summary, Tools, sum_by_item
from tasks.evaluation.evaluation_records import Item, PriorTurn, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, published_files
from tasks.grading.judge_grading import Judged, judge_request
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import weighted_estimate

TASKS, PROMPT = published_files("WildBench")
CATEGORIES: dict[str, str] = PUBLISHED["wildbench"]["categories"]
"""The category of each tag. Source: leaderboard/data_dir/_create_tables.py of allenai/WildBench."""
WEIGHTS: dict[str, float] = PUBLISHED["wildbench"]["weights"]
"""Weights of the categories in `task_macro_score`. Source: the same file."""
MOST_WORDS = 1000
"""Most words of a text that the judge sees. Source: max_words_to_eval, evalchemy and WildBench's scripts."""
SCORE = "score"
"""Name of the only judgment of an item."""
JUDGE_TOKENS = 4096
LOWEST = 1.0
"""Lowest score, which an item without an answer gets."""
# digits bounded against quadratic time; the last score counts: the prompt wants it behind the explanation
SCORED = re.compile(r"""\bscore["'*]{0,3}\s{0,9}[:=]\s{0,9}["'*\[]{0,3}(\d{1,9}(?:\.\d{0,9})?)""", re.I)
SLOT = re.compile(r"\{\$(history|user_query|model_output|checklist)\}")
"""Matches the slots of the judge's prompt."""


class WildBench(JudgedBenchmark):
    """WB-Score: the judge's score s from 1 to 10 becomes (s - 5) · 2, so that 0 is just acceptable.

    A task counts in the categories of its primary and secondary tags. `task_macro_score` weighs the categories as the
    leaderboard does; categories without a task do not count. No answer scores 1, without a judge. Earlier messages of a
    conversation are from the data. Source: allenai/WildBench v2 (README, src/eval.py, evaluation/, leaderboard/
    data_dir/_create_tables.py); temperature 0 and 4,096 tokens from its scripts; metric names of evalchemy. Tested on
    items and a prompt of our own in these schemas, without the real data.
    """

    name = "WildBench"
    version = 2
    summary = "1,024 tasks of real users, scored 1 to 10 by checklist (WB-Score)"
    files = (TASKS, PROMPT)
    sampling = Sampling(temperature=0.0, max_tokens=4096)
    judge = "openai:gpt-4-1106-preview"
    format_checked_only = True
    metric: ClassVar[str] = "adjusted_score"

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the tasks; `detail` holds checklist, categories and the judge's prompt."""
        template = data.text(PROMPT)
        for row in data.rows(TASKS):
            with data.leave_out_odd(row):
                messages = row.contents("conversation_input")
                for message in messages:
                    role = message.get("role")
                    if role not in ("user", "assistant"):
                        row.unusable(
                            f"a message of `conversation_input` has the role {role!r}; expected user or assistant"
                        )
                *history, last = [PriorTurn(role=message["role"], text=message["content"]) for message in messages]
                if last.role != "user":
                    row.unusable(f"`conversation_input` must end with the user's message, found role {last.role!r}")
                tags = [row.text("primary_tag"), *row.texts("secondary_tags")]
                if unknown := [tag for tag in tags if tag not in CATEGORIES]:
                    row.unusable(f"the tag {unknown[0]!r} is not one of {', '.join(CATEGORIES)}")
                categories = list[JsonValue](dict.fromkeys(CATEGORIES[tag] for tag in tags))
                yield Item(
                    id=row.id,
                    prompts=(last.text,),
                    history=tuple(history),
                    group=str(categories[0]),
                    detail={
                        "checklist": list[JsonValue](row.texts("checklist")),
                        "categories": categories,
                        "template": template,
                    },
                )

    def requests(self, item: Item, answers: Sequence[str]) -> dict[str, ChatRequest]:
        """Return the request for a rating; none without an answer."""
        if not answers[0]:
            return {}
        slots = {
            "history": shorten("\n\n".join(f"{message.role.upper()}: {message.text}" for message in item.history)),
            "user_query": shorten(item.prompts[0]),
            "model_output": shorten(answers[0]),
            "checklist": "\n".join(f"- {point}" for point in cast("list[str]", item.detail["checklist"])),
        }
        prompt = SLOT.sub(lambda slot: slots[slot[1]], str(item.detail["template"]))
        return {SCORE: judge_request(prompt, max_tokens=JUDGE_TOKENS)}

    def verdict_in(self, judgment: str) -> float | None:
        """Return the last score in a judgment in JSON or similar; None if it is not from 1 to 10."""
        scores = SCORED.findall(judgment)
        value = float(scores[-1]) if scores else 0.0
        return value if LOWEST <= value <= 10 else None

    def rate(self, judged: Judged[float], answers: Sequence[str]) -> Rating:
        """Return the WB-Score of an answer, from -8 to 10; None without a verdict. `values` holds the judge's score."""
        answer, detail = answers[0], {"categories": judged.item.detail["categories"]}
        score = judged.judgments[SCORE].verdict if answer else LOWEST
        values = {} if score is None else {"rating": score}
        if answer and shorten(answer) == answer:
            values["length"] = float(len(answer))  # of what the judge saw whole, as published
        if score is None:
            return Rating(None, "", values, detail)
        return Rating((score - 5) * 2, f"score {score:g} of 10" + ("" if answer else ": no answer"), values, detail)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return evalchemy's metrics, with estimates of the WB-Score over all tasks and by category."""
        all_samples = list(samples)
        by_category = dict[str, list[tuple[str, float]]]()
        scores = [(sample, sample.score) for sample in all_samples if sample.score is not None]
        for sample, score in scores:
            for name in cast("list[str]", sample.detail.get("categories") or []):
                by_category.setdefault(name, []).append((sample.item, score))
        whole = weighted_estimate(
            self.metric, sum_by_item((sample.item, score) for sample, score in scores), headline=True
        )
        parts = {
            name: part
            for name, values in sorted(by_category.items())
            if (part := weighted_estimate(self.metric, sum_by_item(values), part=f"group={name}"))
        }
        # categories without a task do not count
        weights = fsum(WEIGHTS[name] for name in parts)
        macro = fsum(part.value * WEIGHTS[name] for name, part in parts.items()) / weights if parts else None
        lengths = [sample.values["length"] for sample in all_samples if "length" in sample.values]
        counts = tally_samples(all_samples).counts
        metrics: dict[str, JsonValue] = {
            "score": whole.value / 2 + 5 if whole else None,
            "adjusted_score": whole.value if whole else None,
            "task_macro_score": macro,
            "adjusted_task_macro_score": macro,
            "task_categorized_scores": {name: part.value for name, part in parts.items()},
            "total_examples": counts.scored,
            "avg_output_length": fmean(lengths) if lengths else None,
        }
        return Summary(metrics | unscored_metric(counts), (whole, *parts.values()) if whole else (), counts)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems that the base class finds, and a judge's prompt that lacks some of its slots."""
        yield from super().check(items, tools)
        if items and len(set(SLOT.findall(str(items[0].detail["template"])))) < 4:
            yield f"{PROMPT.file}: expected the slots history, user_query, model_output and checklist"


def shorten(text: str) -> str:
    """Return the first thousand words of a text, with a mark if it has more."""
    words = text.split(" ", MOST_WORDS)
    return text if len(words) <= MOST_WORDS else " ".join(words[:MOST_WORDS]) + "... (truncated)"


BENCHMARK = WildBench()
