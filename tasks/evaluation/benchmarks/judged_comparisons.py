"""Answers that a judge compares with those of another model: AlpacaEval 2.0 and Arena-Hard v0.1.

AlpacaEval's published annotator weighs its one-token verdict by log-probabilities. Arena-Hard has 500 prompts, whose
answers the judge compares with a baseline model's, twice, with sides swapped.
"""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import ClassVar

import yaml
from pydantic import JsonValue

from models.protocols import ChatRequest, ChatResponse, Message, Text
from tasks.evaluation.benchmarks.base import Judge, JudgedBenchmark, Rating, Summary, Tools
from tasks.evaluation.evaluation_errors import DataUnusable, PreflightFailed
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, published_files
from tasks.grading.judge_grading import Judged, fill_template, judge_request, read_label
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import Share, estimate_groups, scale_estimate, weighted_estimate

INSTRUCTIONS, ANNOTATOR = published_files("AlpacaEval")
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
    files = (INSTRUCTIONS, ANNOTATOR)
    sampling = Sampling(temperature=0.5, max_tokens=1024)
    judge = "openai:gpt-4-turbo"
    format_checked_only = True
    metric: ClassVar[str] = "win_rate"

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the instructions; `detail` holds reference, judge's prompt, and `model_is`, the name of our output."""
        template = data.text(ANNOTATOR)
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
        """Return one request, under `preference`, for the better of two outputs; `model_is` sets their order."""
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
        """Return p(the judge prefers the answer): 0 without answer, None without verdict. `values`: its characters."""
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
        """Return alpaca_eval's metrics: rate and standard error in per cent, wins as counts, length in characters."""
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
            yield f"{ANNOTATOR.file}: expected turns in <|im_start|> and the slots instruction, output_1 and output_2"


QUESTIONS, BASELINE, JUDGE_CONFIG = published_files("ArenaHard")
GAMES = ("game 1", "game 2")
"""The two games of a question: the baseline's answer is A in the first and B in the second."""
MUCH_BETTER = 3
"""Number of battles for which a verdict of `much better` counts."""
OUTCOMES = {"A>>B": (1.0, MUCH_BETTER), "A>B": (1.0, 1), "A=B": (0.5, 1), "B>A": (0.0, 1), "B>>A": (0.0, MUCH_BETTER)}
"""For each verdict of the judge the share that A wins, from 0 to 1, and the number of battles that it counts for."""
LABELS = tuple(OUTCOMES)
JUDGE_TOKENS = 4096


class ArenaHard(JudgedBenchmark):
    """Share of battles won against the baseline, in per cent: a tie counts half, `much better` as three battles.

    The published score is a win rate predicted by Bradley-Terry strengths; where a model meets only the baseline, it
    equals this share. The 95 % interval resamples questions; the published one resamples battles, up to six dependent
    ones of a question, and is narrower. A question with a game without verdict is left out, as there. No answer loses
    both games by far, without a judge. Source: lmarena/arena-hard-auto v0.1 (show_result.py, gen_judgment.py,
    config/judge_config.yaml: judge, its prompt, weights, temperature 0 and 4,096 tokens of answers and judge). Tested
    on items and a prompt of our own in these schemas, without the real data.
    """

    name = "ArenaHard"
    version = 2
    summary = "500 hard prompts, battles won against a baseline by a judge, both sides"
    files = (QUESTIONS, BASELINE, JUDGE_CONFIG)
    sampling = Sampling(temperature=0.0, max_tokens=4096)
    judge = "openai:gpt-4-1106-preview"
    format_checked_only = True
    metric: ClassVar[str] = "score"

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the prompts; `detail` holds the baseline's answer and the judge's prompt. Raises DataUnusable."""
        baselines = {row.id: row for row in data.rows(BASELINE)}
        try:
            config = yaml.safe_load(data.text(JUDGE_CONFIG))
            templates = config["prompt_template"]  # a list of one in the published file
            [template] = [templates] if isinstance(templates, str) else templates
            prompt = {"system": str(config["system_prompt"]), "template": str(template)}
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            raise DataUnusable(f"{JUDGE_CONFIG.file}: expected `system_prompt` and one `prompt_template`") from error
        for row in data.rows(QUESTIONS):
            with data.leave_out_odd(row):
                if row.id not in baselines:
                    row.unusable(f"{BASELINE.file} has no answer to question {row.id}")
                baseline = baselines[row.id]
                # `prompt` and `messages` in the files of arena-hard-auto since its v2, `turns` and `choices` before
                turns = [row.text("prompt")] if "prompt" in row else [turn["content"] for turn in row.contents("turns")]
                answers = baseline.answer_turns()
                if len(turns) != 1 or len(answers) != 1:
                    row.unusable(
                        f"a prompt of Arena-Hard has one turn and one answer, found {len(turns)} and {len(answers)}"
                    )
                yield Item(
                    id=row.id,
                    prompts=(turns[0],),
                    detail={
                        "cluster": str(row.get("cluster") or ""),
                        "baseline": answers[0],
                        "baseline_model": str(baseline.get("model_id") or baseline.get("model") or ""),
                        **prompt,
                    },
                )

    def requests(self, item: Item, answers: Sequence[str]) -> dict[str, ChatRequest]:
        """Return a request for each of GAMES: the baseline's answer is A in the first and B in the second."""
        system, template = str(item.detail["system"]), str(item.detail["template"])
        requests = dict[str, ChatRequest]()
        sides = (str(item.detail["baseline"]), answers[0])
        for game, (first, second) in zip(GAMES, (sides, sides[::-1]), strict=True):
            slots = {"question_1": item.prompts[0], "answer_1": first, "answer_2": second}
            requests[game] = judge_request(fill_template(template, slots), system=system, max_tokens=JUDGE_TOKENS)
        return requests

    def verdict_in(self, judgment: str) -> str | None:
        return read_label(judgment, labels=LABELS)

    def rate(self, judged: Judged[str], answers: Sequence[str]) -> Rating:
        """Return the share of battles won, else None; `values`: won, battles (0 of 6 without answer), tokens."""
        verdicts = {
            game: judgment.verdict for game, judgment in judged.judgments.items() if judgment.verdict is not None
        }
        share = Share(0, 0) if answers[0] else Share(0, 2 * MUCH_BETTER)  # without an answer B>>A, A>>B
        for game, verdict in verdicts.items():
            a_share, battles = OUTCOMES[verdict]
            share = share.plus(1 - a_share if game == GAMES[0] else a_share, battles)  # the baseline is A in the first
        is_complete = len(verdicts) == len(judged.judgments)
        values = {"won": share.total, "battles": share.weight} if is_complete else {}
        token_counts = [reply.completion_tokens for reply in judged.response.turns]
        if len(token_counts) == 1 and token_counts[0] is not None:
            values["tokens"] = float(token_counts[0])
        return Rating(
            share.total / share.weight if is_complete else None,
            "; ".join(f"{game}: {verdict}" for game, verdict in verdicts.items()) or "both games lost: no answer",
            values,
        )

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        """Return the score and its 95 % interval, in per cent, and the mean tokens of answers, None if not counted."""
        all_samples, shares = list(samples), dict[str, Share]()
        for sample in all_samples:
            if battles := sample.values.get("battles"):
                earlier = shares.get(sample.item, Share(0, 0))
                shares[sample.item] = Share(earlier.total + sample.values["won"], earlier.weight + battles)
        tokens = [sample.values["tokens"] for sample in all_samples if "tokens" in sample.values]
        counts = tally_samples(all_samples).counts
        estimate = weighted_estimate(self.metric, shares, headline=True)
        score = scale_estimate(estimate, 100) if estimate else None
        metrics: dict[str, JsonValue] = {
            "score": score.value if score else None,
            "rating_q025": score.low if score else None,
            "rating_q975": score.high if score else None,
            "avg_tokens": sum(tokens) / len(tokens) if tokens else None,
            "num_total": counts.items,
        }
        return Summary(metrics | unscored_metric(counts), (score,) if score else (), counts)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """Yield the problems that the base class finds, and those labels that the judge's prompt does not mention."""
        yield from super().check(items, tools)
        for verdict in LABELS if items else ():
            if f"[[{verdict}]]" not in f"{items[0].detail['system']}{items[0].detail['template']}":
                yield f"{JUDGE_CONFIG.file}: the label [[{verdict}]] is not in the judge's prompt"


ALPACA_EVAL, ARENA_HARD = BENCHMARKS = (AlpacaEval(), ArenaHard())
