"""Arena-Hard v0.1: 500 prompts; a judge compares each answer with a baseline model's, twice, with sides swapped."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

import yaml
from pydantic import JsonValue

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.base import JudgedBenchmark, Rating, Summary, Tools
from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.evaluation_records import Item, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, published_files
from tasks.grading.judge_grading import Judged, fill_template, judge_request, read_label
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import Share, scale_estimate, weighted_estimate

QUESTIONS, BASELINE, PROMPT = published_files("ArenaHard")
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
    files = (QUESTIONS, BASELINE, PROMPT)
    sampling = Sampling(temperature=0.0, max_tokens=4096)
    judge = "openai:gpt-4-1106-preview"
    format_checked_only = True
    metric: ClassVar[str] = "score"

    def items(self, data: Data) -> Iterator[Item]:
        """Yield the prompts; `detail` holds the baseline's answer and the judge's prompt. Raises DataUnusable."""
        baselines = {row.id: row for row in data.rows(BASELINE)}
        try:
            config = yaml.safe_load(data.text(PROMPT))
            templates = config["prompt_template"]  # a list of one in the published file
            [template] = [templates] if isinstance(templates, str) else templates
            prompt = {"system": str(config["system_prompt"]), "template": str(template)}
        except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
            raise DataUnusable(f"{PROMPT.file}: expected `system_prompt` and one `prompt_template`") from error
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
        """Return two requests, the baseline first and then second; none without an answer."""
        answer, baseline = answers[0], str(item.detail["baseline"])
        sides = dict(zip(GAMES, ((baseline, answer), (answer, baseline)), strict=True)) if answer else {}
        return {
            game: judge_request(
                fill_template(
                    str(item.detail["template"]),
                    {"question_1": item.prompts[0], "answer_1": first, "answer_2": second},
                ),
                system=str(item.detail["system"]),
                max_tokens=JUDGE_TOKENS,
            )
            for game, (first, second) in sides.items()
        }

    def verdict_in(self, judgment: str) -> str | None:
        return read_label(judgment, labels=LABELS)

    def rate(self, judged: Judged[str], answers: Sequence[str]) -> Rating:
        """Return the share of its battles that an answer won; None if a game has no verdict. `values`: both counts."""
        verdicts = {
            game: judgment.verdict for game, judgment in judged.judgments.items() if judgment.verdict is not None
        }
        share = Share(0, 0) if answers[0] else Share(0, 2 * MUCH_BETTER)  # without an answer B>>A, A>>B
        for game, verdict in verdicts.items():
            a_share, battles = OUTCOMES[verdict]
            share = share.plus(1 - a_share if game == GAMES[0] else a_share, battles)  # the baseline is A in the first
        # a question with a game without verdict is left out, as in arena-hard-auto
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
        """Return the score with its 95 % interval, and the mean length of answers in tokens where the model counts."""
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
                yield f"{PROMPT.file}: the label [[{verdict}]] is not in the judge's prompt"


BENCHMARK = ArenaHard()
