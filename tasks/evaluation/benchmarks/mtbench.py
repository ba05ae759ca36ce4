"""MT-Bench: 80 questions of two turns each, every turn rated from 1 to 10 by a judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar, cast

from pydantic import JsonValue

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.base import PUBLISHED, JudgedBenchmark, Rating, Summary, Tools, sum_by_item
from tasks.evaluation.evaluation_records import Estimate, Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, published_files
from tasks.grading.judge_grading import Judged, fill_template, judge_request, read_rating
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import weighted_estimate

QUESTIONS, REFERENCES, PROMPTS = published_files("MTBench")
TEMPERATURES: dict[str, float] = PUBLISHED["mtbench"]["temperatures"]
"""Sampling temperature by category. Source: temperature_config of fastchat/llm_judge/common.py."""
OTHER_TEMPERATURE = 0.7
"""Sampling temperature of all other categories."""
WITH_REFERENCE = ("math", "reasoning", "coding", "arena-hard-200")
"""Categories whose judge sees a reference answer. Source: NEED_REF_CATS of fastchat/llm_judge/common.py."""
TURNS = ("Turn 1", "Turn 2")
AVERAGE = "Average"
PROMPT_OF = {("Turn 1", False): "single-v1", ("Turn 1", True): "single-math-v1"} | {
    ("Turn 2", False): "single-v1-multi-turn",
    ("Turn 2", True): "single-math-v1-multi-turn",
}
JUDGE_TOKENS = 2048
"""Most tokens of a judgment. Source: run_judge_single of fastchat/llm_judge/common.py."""
LOWEST = 1.0
"""Lowest rating, which a turn without an answer gets."""


class MTBench(JudgedBenchmark):
    """Single-answer grading as in FastChat, with its prompts, references and temperatures.

    A turn without an answer gets the lowest rating, 1, without a judge. The score of a question is the mean over its
    turns; if a judge failed on one, the question is unscored, but its rated turn counts in the scores of that turn and
    in Average, which are means over all ratings, as in evalchemy. max_tokens 1024 is FastChat's (gen_model_answer.py)
    and evalchemy's.
    """

    name = "MTBench"
    summary = "80 questions of two turns, each turn rated 1 to 10 by a judge"
    files = (QUESTIONS, REFERENCES, PROMPTS)
    sampling = Sampling(temperature=OTHER_TEMPERATURE, max_tokens=1024)
    judge = "openai:gpt-4-0613"
    metric: ClassVar[str] = AVERAGE

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the questions; `detail` holds temperature, references, and the judge's prompt for each turn."""
        prompts = {row.text("name"): row for row in data.rows(PROMPTS)}
        references = {row.id: row.answer_turns() for row in data.rows(REFERENCES)}
        for row in data.rows(QUESTIONS):
            with data.leave_out_odd(row):
                turns, category = row.texts("turns"), row.text("category")
                if not 1 <= len(turns) <= len(TURNS):
                    row.unusable(f"`turns` has {len(turns)} turns; a question of MT-Bench has one or two")
                judges: dict[str, JsonValue] = {}
                for turn in TURNS[: len(turns)]:
                    name = PROMPT_OF[turn, category in WITH_REFERENCE]
                    if name not in prompts:
                        row.unusable(f"its judge prompt {name!r} is not in {PROMPTS.file}")
                    prompt = prompts[name]
                    form = prompt.get("output_format")
                    if form != "[[rating]]":
                        prompt.unusable(f"`output_format` of {name!r} must be [[rating]], found {form!r}")
                    system = str(prompt.get("system_prompt") or "")
                    judges[turn] = {"name": name, "system": system, "template": prompt.text("prompt_template")}
                yield Item(
                    id=row.id,
                    prompts=tuple(turns),
                    group=category,
                    detail={
                        "temperature": TEMPERATURES.get(category, OTHER_TEMPERATURE),
                        "references": list[JsonValue](references.get(row.id, [])),
                        "judge_prompts": judges,
                    },
                )

    def requests(self, item: Item, answers: Sequence[str]) -> dict[str, ChatRequest]:
        """Return the request for the judge by turn, for each turn that was answered."""
        requests = dict[str, ChatRequest]()
        for turn, answer in zip(TURNS, answers, strict=False):
            if not answer:
                continue
            slots = {f"ref_answer_{number}": text for number, text in enumerate(_references(item), start=1)}
            # the prompts of the second turn number their slots: question_1, answer_1, question_2, answer_2
            if turn == "Turn 1":
                slots |= {"question": item.prompts[0], "answer": answers[0]}
            else:
                slots |= {f"question_{number}": text for number, text in enumerate(item.prompts, start=1)}
                slots |= {f"answer_{number}": text for number, text in enumerate(answers, start=1)}
            prompt = _judge_prompt(item, turn)
            text = fill_template(prompt["template"], slots)
            requests[turn] = judge_request(text, system=prompt["system"], max_tokens=JUDGE_TOKENS)
        return requests

    def verdict_in(self, judgment: str) -> float | None:
        return read_rating(judgment)

    def rate(self, judged: Judged[float], answers: Sequence[str]) -> Rating:
        """Return the mean rating, from 1 to 10, None without any; `values` holds that of each turn that was rated."""
        ratings, reasons = dict[str, float](), list[str]()
        for turn, answer in zip(TURNS, answers, strict=False):
            rating = judged.judgments[turn].verdict if answer else LOWEST
            if rating is not None:
                ratings[turn] = rating
                reasons.append(f"{turn}: {rating:g}" + ("" if answer else " (no answer)"))
        score = sum(ratings.values()) / len(ratings) if ratings else None
        return Rating(score, "; ".join(reasons), values=ratings)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return the mean ratings `Turn 1`, `Turn 2` and `Average`, over all questions and by category."""
        all_samples = list(samples)

        def estimates(samples: Sequence[Sample], part: str = "") -> dict[str, Estimate | None]:
            """Return the mean rating of each turn and of all, by name; None where nothing was rated."""
            return {
                name: weighted_estimate(
                    name,
                    sum_by_item(
                        (sample.item, sample.values[turn])
                        for sample in samples
                        for turn in (TURNS if name == AVERAGE else (name,))
                        if turn in sample.values
                    ),
                    part=part,
                    headline=name == AVERAGE and not part,
                )
                for name in (*TURNS, AVERAGE)
            }

        whole = estimates(all_samples)
        categories = sorted({sample.group for sample in all_samples if sample.group})
        part_estimates = [
            part
            for category in categories
            for part in estimates(
                [sample for sample in all_samples if sample.group == category], f"group={category}"
            ).values()
        ]
        counts = tally_samples(all_samples).counts
        metrics: dict[str, JsonValue] = {name: estimate.value if estimate else None for name, estimate in whole.items()}
        metrics |= {"num_total": counts.items} | unscored_metric(counts)
        return Summary(metrics, tuple(estimate for estimate in (*whole.values(), *part_estimates) if estimate), counts)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems that the base class finds, prompts without a readable rating, and missing references."""
        for item in items:
            if item.group in WITH_REFERENCE and len(_references(item)) < len(item.prompts):
                yield f"{item.id}: {item.group} is graded against references, and {REFERENCES.file} has none for it"
                continue
            for turn in TURNS[: len(item.prompts)]:
                prompt = _judge_prompt(item, turn)
                if read_rating(f"{prompt['system']}\n{prompt['template']}") is None:
                    yield f"{item.id}, {prompt['name']}: it shows the judge no rating that can be read, such as [[5]]"
        yield from super().check(items, tools)


def _judge_prompt(item: Item, turn: str) -> dict[str, str]:
    return cast("dict[str, dict[str, str]]", item.detail["judge_prompts"])[turn]


def _references(item: Item) -> list[str]:
    return cast("list[str]", item.detail.get("references") or [])


BENCHMARK = MTBench()
