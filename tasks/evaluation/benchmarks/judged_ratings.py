"""Answers that a judge rates from 1 to 10: MT-Bench and WildBench.

MT-Bench has 80 questions of two turns, each rated. WildBench has 1,024 tasks of real users, whose answers the judge
scores by the checklist of each task.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import fsum
from statistics import fmean
from typing import ClassVar, cast

from pydantic import JsonValue

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.base import PUBLISHED, JudgedBenchmark, Rating, Summary, Tools, sum_by_item
from tasks.evaluation.evaluation_records import Estimate, Item, PriorTurn, Sample, Sampling
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
MTBENCH_TOKENS = 2048
"""Most tokens of a judgment. Source: run_judge_single of fastchat/llm_judge/common.py."""
LOWEST = 1.0
"""Lowest rating, which a turn or a task without an answer gets."""


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
            requests[turn] = judge_request(text, system=prompt["system"], max_tokens=MTBENCH_TOKENS)
        return requests

    def verdict_in(self, judgment: str) -> float | None:
        return read_rating(judgment)

    def rate(self, judged: Judged[float], answers: Sequence[str]) -> Rating:
        """Return the mean of the rated turns, 1 to 10 (1 without answer), or None; `values` holds that of each."""
        ratings, reasons = dict[str, float](), list[str]()
        for turn, answer in zip(TURNS, answers, strict=False):
            rating = judged.judgments[turn].verdict if answer else LOWEST
            if rating is not None:
                ratings[turn] = rating
                reasons.append(f"{turn}: {rating:g}" + ("" if answer else " (no answer)"))
        score = sum(ratings.values()) / len(ratings) if ratings else None
        return Rating(score, "; ".join(reasons), values=ratings)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return the mean ratings `Turn 1`, `Turn 2` and `Average` of all questions; by category only as estimates."""
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


WILD_TASKS, CHECKLIST_PROMPT = published_files("WildBench")
CATEGORIES: dict[str, str] = PUBLISHED["wildbench"]["categories"]
"""The category of each tag. Source: leaderboard/data_dir/_create_tables.py of allenai/WildBench."""
WEIGHTS: dict[str, float] = PUBLISHED["wildbench"]["weights"]
"""Weights of the categories in `task_macro_score`. Source: the same file."""
MOST_WORDS = 1000
"""Most words of a text that the judge sees. Source: max_words_to_eval, evalchemy and WildBench's scripts."""
SCORE = "score"
"""Name of the only judgment of an item."""
WILDBENCH_TOKENS = 4096
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
    files = (WILD_TASKS, CHECKLIST_PROMPT)
    sampling = Sampling(temperature=0.0, max_tokens=4096)
    judge = "openai:gpt-4-1106-preview"
    format_checked_only = True
    metric: ClassVar[str] = "adjusted_score"

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the tasks; `detail` holds checklist, categories and the judge's prompt."""
        template = data.text(CHECKLIST_PROMPT)
        for row in data.rows(WILD_TASKS):
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
        """Return the request for a rating, under `score`; its texts but the checklist are cut to a thousand words."""
        slots = {
            "history": shorten("\n\n".join(f"{message.role.upper()}: {message.text}" for message in item.history)),
            "user_query": shorten(item.prompts[0]),
            "model_output": shorten(answers[0]),
            "checklist": "\n".join(f"- {point}" for point in cast("list[str]", item.detail["checklist"])),
        }
        prompt = SLOT.sub(lambda slot: slots[slot[1]], str(item.detail["template"]))
        return {SCORE: judge_request(prompt, max_tokens=WILDBENCH_TOKENS)}

    def verdict_in(self, judgment: str) -> float | None:
        """Return the last score in a judgment in JSON or similar; None if it is not from 1 to 10."""
        scores = SCORED.findall(judgment)
        value = float(scores[-1]) if scores else 0.0
        return value if LOWEST <= value <= 10 else None

    def rate(self, judged: Judged[float], answers: Sequence[str]) -> Rating:
        """Return the WB-Score, from -8 (no answer) to 10; None without a verdict. `values` holds the judge's score."""
        answer, detail = answers[0], {"categories": judged.item.detail["categories"]}
        score = judged.judgments[SCORE].verdict if answer else LOWEST
        values = {} if score is None else {"rating": score}
        if answer and shorten(answer) == answer:
            values["length"] = float(len(answer))  # of what the judge saw whole, as published
        if score is None:
            return Rating(None, "", values, detail)
        return Rating((score - 5) * 2, f"score {score:g} of 10" + ("" if answer else ": no answer"), values, detail)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return evalchemy's metrics: `score` on the judge's scale of 1 to 10, the other scores from -8 to 10."""
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
            yield f"{CHECKLIST_PROMPT.file}: expected the slots history, user_query, model_output and checklist"


def shorten(text: str) -> str:
    """Return the first thousand words of a text, with a mark if it has more."""
    words = text.split(" ", MOST_WORDS)
    return text if len(words) <= MOST_WORDS else " ".join(words[:MOST_WORDS]) + "... (truncated)"


MT_BENCH, WILD_BENCH = BENCHMARKS = (MTBench(), WildBench())
