"""AlpacaEval 2.0: the published annotator weighs its one-token verdict by log-probabilities."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import ClassVar

from pydantic import JsonValue

from models.protocols import ChatRequest, ChatResponse, Message, Text
from tasks.evaluation.benchmarks.base import Judge, JudgedBenchmark, Rating, Summary, Tools
from tasks.evaluation.evaluation_errors import PreflightFailed
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, published_files
from tasks.grading.judge_grading import Judged
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import estimate_groups, scale_estimate

INSTRUCTIONS, PROMPT = published_files("AlpacaEval")
TOP_LOGPROBS = 5
"""Number of likeliest tokens among which the judge's verdict is looked for."""
FIRST, SECOND = "m", "M"
"""Names under which the judge's prompt shows the first and the second output; the judge answers with one of them."""
PREFERENCE = "preference"
"""Name of the only judgment of an item."""
SLOT = re.compile(r"\{(instruction|output_1|output_2)\}")
"""Matches the slots of the judge's prompt."""
TURN = re.compile(r"<\|im_start\|>(system|user|assistant)\n(.*?)\n?<\|im_end\|>", re.DOTALL)
"""Matches the turns of the judge's prompt, which is written in ChatML."""


class AlpacaEval(JudgedBenchmark):
    """AlpacaEval 2.0's win rate: the mean probability that the judge names the model's output, in per cent.

    The judge is asked for one token, m or M, at temperature 1, and its verdict is p(m) / (p(m) + p(M)) among the five
    likeliest tokens. A hash of the instruction decides which output stands first. Without an answer the model loses.
    Prompt, parameters and formula: tatsu-lab/alpaca_eval, evaluators_configs/weighted_alpaca_eval_gpt4_turbo and
    completion_parsers.py (logprob_parser); its regression for the length of outputs is not computed. Tested on items
    and a prompt of our own in these schemas; no published score was verified.
    """

    name = "AlpacaEval"
    version = 2
    summary = "AlpacaEval 2.0: its own judge prompt, verdicts weighted by log-probabilities"
    files = (INSTRUCTIONS, PROMPT)
    sampling = Sampling(temperature=0.5, max_tokens=1024)
    judge = "openai:gpt-4-turbo"
    format_checked_only = True
    metric: ClassVar[str] = "win_rate"

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the instructions; `detail` holds reference and judge's prompt."""
        template = data.text(PROMPT)
        for row in data.rows(INSTRUCTIONS):
            with data.leave_out_odd(row):
                instruction = row.text("instruction")
                # by a hash, so that the order of the outputs is balanced and yet the same in every run
                detail: dict[str, JsonValue] = {
                    "reference": row.text("output"),
                    "generator": str(row.get("generator") or ""),
                    "model_is": FIRST if hashlib.sha256(instruction.encode()).digest()[0] % 2 == 0 else SECOND,
                    "template": template,
                }
                group = str(row["dataset"]) if row.get("dataset") else None
                yield Item(id=row.id, prompts=(instruction,), group=group, detail=detail)

    def requests(self, item: Item, answers: Sequence[str]) -> dict[str, ChatRequest]:
        """Return one request for the likelier output, put in the order drawn for the item; none without an answer."""
        if not answers[0]:
            return {}
        outputs = (answers[0], str(item.detail["reference"]))
        first, second = outputs if item.detail["model_is"] == FIRST else reversed(outputs)
        slots = {"instruction": item.prompts[0], "output_1": first, "output_2": second}
        # in one pass: a slot's name that an output contains is not filled
        messages = tuple(
            Message(role=role, content=(Text(text=SLOT.sub(lambda slot: slots[slot[1]], text)),))
            for role, text in TURN.findall(str(item.detail["template"]))
        )
        return {PREFERENCE: ChatRequest(messages=messages, temperature=1.0, max_tokens=1, top_logprobs=TOP_LOGPROBS)}

    def read_verdict(self, judge: Judge, reply: ChatResponse) -> float | None:
        """Return the probability that the first output is better; None if neither name is among the likeliest tokens.

        Raises PreflightFailed for a judge that tells no log-probabilities.
        """
        if not reply.top_logprobs:
            raise PreflightFailed(
                f"AlpacaEval weighs verdicts by log-probabilities, and the judge {judge.id} tells none; name one "
                "behind an OpenAI-compatible endpoint with top_logprobs"
            )
        # exp(-inf) is 0: a name that is not among the likeliest tokens
        first, second = (math.exp(reply.top_logprobs.get(name, -math.inf)) for name in (FIRST, SECOND))
        return first / (first + second) if first + second else None

    def rate(self, judged: Judged[float], answers: Sequence[str]) -> Rating:
        """Return the probability that the judge prefers the model's output: 0 without answer, None without verdict."""
        detail, answer = judged.item.detail, answers[0]
        score = judged.judgments[PREFERENCE].verdict if answer else 0.0
        if answer and score is not None and detail["model_is"] == SECOND:
            score = 1 - score
        return Rating(
            score,
            f"preferred with p = {score:.3f}" if answer and score is not None else "lost: no answer",
            values={"length": float(len(answer))},
        )

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return alpaca_eval's metrics, in per cent."""
        all_samples = list(samples)
        totals = tally_samples(all_samples)
        rates = tuple(
            scale_estimate(estimate, 100)
            for estimate in estimate_groups(self.metric, totals.scores, groups=totals.groups, headline=True)
        )
        scores = [sample.score for sample in all_samples if sample.score is not None]
        metrics: dict[str, JsonValue] = {
            "win_rate": rates[0].value if rates else None,
            "standard_error": rates[0].std_err if rates else None,
            "n_wins": sum(score > 0.5 for score in scores),
            "n_wins_base": sum(score < 0.5 for score in scores),
            "n_draws": scores.count(0.5),
            "n_total": len(scores),
            "avg_length": fmean(sample.values["length"] for sample in all_samples) if all_samples else None,
        }
        return Summary(metrics | unscored_metric(totals.counts), rates, totals.counts)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        yield from super().check(items, tools)
        template = str(items[0].detail["template"]) if items else ""
        if items and not (TURN.search(template) and len(set(SLOT.findall(template))) == 3):
            yield f"{PROMPT.file}: expected turns in <|im_start|> and the slots instruction, output_1 and output_2"


BENCHMARK = AlpacaEval()
