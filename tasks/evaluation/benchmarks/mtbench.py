"""MT-Bench: 80 questions of two turns each, every turn rated from 1 to 10 by a judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, cast

from pydantic import JsonValue

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.base import Judge, JudgedBenchmark, Summary, Tools
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row, distinct
from tasks.grading import judge_grading as judging
from tasks.grading.judge_grading import Judged
from tasks.grading.sample_statistics import tally, unscored_metric
from tasks.measure.estimates import Share, weighted_estimate

SOURCE = "It is in fastchat/llm_judge/data of github.com/lm-sys/FastChat (Apache-2.0), there named"
QUESTIONS = DataFile(file="mtbench_question.jsonl", get=f"{SOURCE} mt_bench/question.jsonl.")
REFERENCES = DataFile(file="mtbench_reference_gpt-4.jsonl", get=f"{SOURCE} mt_bench/reference_answer/gpt-4.jsonl.")
PROMPTS = DataFile(file="mtbench_judge_prompts.jsonl", get=f"{SOURCE} judge_prompts.jsonl.")

TEMPERATURES = {
    "writing": 0.7,
    "roleplay": 0.7,
    "extraction": 0.0,
    "math": 0.0,
    "coding": 0.0,
    "reasoning": 0.0,
    "stem": 0.1,
    "humanities": 0.1,
    "arena-hard-200": 0.0,
}
"""Source: temperature_config of fastchat/llm_judge/common.py."""
OTHER_TEMPERATURE = 0.7
WITH_REFERENCE = ("math", "reasoning", "coding", "arena-hard-200")
"""Source: NEED_REF_CATS, there."""
TURNS = ("Turn 1", "Turn 2")
AVERAGE = "Average"
PROMPT_OF = {("Turn 1", False): "single-v1", ("Turn 1", True): "single-math-v1"} | {
    ("Turn 2", False): "single-v1-multi-turn",
    ("Turn 2", True): "single-math-v1-multi-turn",
}
JUDGE_TOKENS = 2048
"""Source: run_judge_single, there."""
LOWEST = 1.0


class MTBench(JudgedBenchmark):
    """Single-answer grading as in FastChat, with its prompts, references and temperatures.

    A turn without an answer gets the lowest rating, 1, without a judge. The score of a question is the mean over its
    turns; if a judge failed on one, the question is unscored, but its rated turn counts in the figures of that turn and
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
        """The questions; `detail` holds temperature, references, and the judge's prompt of each turn."""
        prompts = {row.text("name"): row for row in data.rows(PROMPTS)}
        references = {row.id: row.answer_turns() for row in data.rows(REFERENCES)}
        for row in distinct(data.rows(QUESTIONS)):
            yield _item(row, prompts, references.get(row.id, []))

    def requests(self, item: Item, response: Response) -> dict[str, ChatRequest]:
        answers = judging.answers_of(item, response)
        asked = dict[str, ChatRequest]()
        for turn, answer in zip(TURNS, answers, strict=False):
            if answer:
                prompt = _judge_prompt(item, turn)
                text = judging.fill(prompt["template"], _slots(item, turn, answers))
                asked[turn] = judging.judge_request(text, system=prompt["system"], max_tokens=JUDGE_TOKENS)
        return asked

    def verdict_in(self, judgment: str) -> float | None:
        return judging.rating(judgment)

    def judged_sample(self, judged: Judged[float], judge: Judge) -> Sample:
        """Scored by the mean rating; `values` has the rating of each turn that was rated."""
        turns = TURNS[: len(judged.item.prompts)]
        silent = [turn for turn in turns if turn not in judged.judgments]
        found = {turn: LOWEST if turn in silent else judged.judgments[turn].verdict for turn in turns}
        ratings = {turn: rated for turn, rated in found.items() if rated is not None}
        said = [f"{turn}: {rated:g}" + (" (no answer)" if turn in silent else "") for turn, rated in ratings.items()]
        return judging.sample_of(
            judged,
            judge=judge,
            score=sum(ratings.values()) / len(ratings) if ratings else None,
            values=ratings,
            reason="; ".join(said),
            missing=bool(silent),
        )

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """`Turn 1`, `Turn 2` and `Average`, over all questions and by category."""
        kept = list(samples)
        ratings = dict[tuple[str, str], dict[str, Share]]()  # by category, empty for all, and figure
        for sample in kept:
            for turn in TURNS:
                if (rated := sample.values.get(turn)) is not None:
                    for key in ((part, name) for part in {"", sample.group or ""} for name in (turn, AVERAGE)):
                        shares = ratings.setdefault(key, {})
                        shares[sample.item] = shares.get(sample.item, Share(0, 0)).plus(rated)
        whole = {
            name: weighted_estimate(name, ratings.get(("", name), {}), headline=name == AVERAGE)
            for name in (*TURNS, AVERAGE)
        }
        of_parts = [
            weighted_estimate(name, ratings.get((part, name), {}), part=f"group={part}")
            for part in sorted({part for part, _ in ratings} - {""})
            for name in whole
        ]
        counts = tally(kept).counts
        metrics: dict[str, JsonValue] = {name: one.value if one else None for name, one in whole.items()}
        metrics |= {"num_total": counts.items} | unscored_metric(counts)
        return Summary(metrics, tuple(one for one in (*whole.values(), *of_parts) if one), counts)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class; prompts show a rating that can be read, and references are there."""
        for item in items:
            yield from _problems(item)
        yield from super().check(items, tools)


def _item(row: Row, prompts: Mapping[str, Row], references: list[str]) -> Item:
    turns, category = row.texts("turns"), row.text("category")
    if not 1 <= len(turns) <= len(TURNS):
        row.unusable(f"`turns` has {len(turns)} turns; a question of MT-Bench has one or two")
    wants_reference = category in WITH_REFERENCE
    judges: dict[str, JsonValue] = {}
    for turn in TURNS[: len(turns)]:
        name = PROMPT_OF[turn, wants_reference]
        if name not in prompts:
            row.unusable(f"its judge prompt {name!r} is not in {PROMPTS.file}")
        prompt = prompts[name]
        if (form := prompt.get("output_format")) != "[[rating]]":
            prompt.unusable(f"`output_format` of {name!r} must be [[rating]], found {form!r}")
        system = str(prompt.get("system_prompt") or "")
        judges[turn] = {"name": name, "system": system, "template": prompt.text("prompt_template")}
    return Item(
        id=row.id,
        prompts=tuple(turns),
        group=category,
        detail={
            "temperature": TEMPERATURES.get(category, OTHER_TEMPERATURE),
            "references": cast("list[JsonValue]", references),
            "judge_prompts": judges,
        },
    )


def _judge_prompt(item: Item, turn: str) -> dict[str, str]:
    return cast("dict[str, dict[str, str]]", item.detail["judge_prompts"])[turn]


def _slots(item: Item, turn: str, answers: Sequence[str]) -> dict[str, str]:
    references = cast("list[str]", item.detail.get("references") or [])
    slots = {f"ref_answer_{number}": text for number, text in enumerate(references, start=1)}
    if turn == "Turn 1":
        return slots | {"question": item.prompts[0], "answer": answers[0]}
    slots |= {f"question_{number}": text for number, text in enumerate(item.prompts, start=1)}
    return slots | {f"answer_{number}": text for number, text in enumerate(answers, start=1)}


def _problems(item: Item) -> Iterator[str]:
    references = cast("list[Any]", item.detail.get("references") or [])
    if item.group in WITH_REFERENCE and len(references) < len(item.prompts):
        yield f"{item.id}: {item.group} is graded against references, and {REFERENCES.file} has none for it"
        return
    for turn in TURNS[: len(item.prompts)]:
        prompt = _judge_prompt(item, turn)
        if judging.rating(f"{prompt['system']}\n{prompt['template']}") is None:
            yield f"{item.id}, {prompt['name']}: it shows the judge no rating that can be read, such as [[5]]"


BENCHMARK = MTBench()
