"""MixEval: questions of other benchmarks that real users' queries are matched with, and its harder part.

Fields as in the data set card of MixEval/MixEval and the files of Psycoy/MixEval: problem_type, context, prompt,
target, benchmark_name, and options. Questions are asked in the words of mix_eval/prompts/evaluation_prompts.py. Free
answers are scored by a judge, from 0 to 1 as there, with a prompt of our own. Letters are read by rule, where the
source asks a judge or, if told so, reads them by rule; an answer without a letter is wrong, where the source guesses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, cast

from models.protocols import ChatRequest
from tasks.evaluation.benchmarks.base import BaseBenchmark, Summary, Tools, needed_judge, no_judge
from tasks.evaluation.benchmarks.fields import text, texts
from tasks.evaluation.benchmarks.yaml_graders import summarise_scores
from tasks.evaluation.evaluation_records import Item, Response, Sample, Sampling
from tasks.evaluation.running.benchmark_data import Data, DataFile, Row
from tasks.grading import judge_grading as judging
from tasks.grading.choice import LETTERS, grade_one
from tasks.grading.judge_grading import Judge, Judged
from tasks.grading.reading import FLEXIBLE, Policy

HUB = "MixEval/MixEval"
FREE, CHOICE = "Answer the question shortly.", "Answer with the option letter from the given choices directly."
STEPWISE = "Answer the question. \nLet's think step by step."
REASONED = ("BBH", "GSM8k", "MATH")
"""Sources whose questions are to be answered step by step."""
SCORE = "score"
JUDGE_TOKENS = 999
JUDGE_PROMPT = """\
Judge whether an answer to a question is right. Each of the reference answers is right by itself; an answer that means
the same in other words, units or notation is right too. You do not see the text that the question may be about.

=== question ===
{asked}
=== end of question ===
=== reference answers ===
{golds}
=== end of reference answers ===
=== answer ===
{answer}
=== end of answer ===

Say in a sentence or two how the answer agrees with a reference answer or contradicts it. Then end with one line that
holds a number from 0.0 (wrong) to 1.0 (right), in steps of 0.1, in double brackets, such as [[0.5]].
"""
"""Our own words."""


class MixEval(BaseBenchmark):
    """Groups are the benchmarks that the questions come from."""

    name = "MixEval"
    summary = "questions of other benchmarks that queries of real users are matched with; judge's prompt of our own"
    family = "judge"
    files: tuple[DataFile, ...] = (
        DataFile(file="mixeval_free_form.jsonl", hub=HUB, hub_config="MixEval", hub_split="free_form"),
        DataFile(file="mixeval_multiple_choice.jsonl", hub=HUB, hub_config="MixEval", hub_split="multiple_choice"),
    )
    sampling = Sampling(temperature=1.0, max_tokens=2048)
    judge = "openai:gpt-4o-mini-2024-07-18"
    format_checked_only = True
    metric: ClassVar[str] = "overall"

    def items(self, data: Data) -> Iterator[Item]:
        """Free questions, then those with options."""
        for file, kind in zip(self.files, ("free", "choice"), strict=True):
            for row in data.rows(file):
                yield _item(row, f"{kind}-{row.id}")

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        judge = needed_judge(self, tools)
        judged = judging.judge_all(answered, asks=_asks, parse=score_in, judge=judge)
        return (_sample(one, judge, tools.extract) for one in judged)

    def summarise(self, samples: Iterable[Sample]) -> Summary:
        return summarise_scores(samples, self.metric)

    def check(self, items: Sequence[Item], tools: Tools) -> Iterator[str]:
        """As in the base class; and there is a judge."""
        if tools.judge is None:
            yield no_judge(self)
        else:
            yield from super().check(items, tools)

    def gold_response(self, item: Item) -> str | None:
        """The letter; of free answers the judge would be asked."""
        return super().gold_response(item) if "options" in item.detail else None


class MixEvalHard(MixEval):
    """The part that is hardest for models."""

    name = "MixEvalHard"
    summary = "MixEval's harder part; judge's prompt of our own"
    files = (
        DataFile(file="mixeval_hard_free_form.jsonl", hub=HUB, hub_config="MixEval_Hard", hub_split="free_form"),
        DataFile(
            file="mixeval_hard_multiple_choice.jsonl",
            hub=HUB,
            hub_config="MixEval_Hard",
            hub_split="multiple_choice",
        ),
    )


def asked(row: Row) -> str:
    """The question in the source's words."""
    options = _options(row)
    told = CHOICE if options else STEPWISE if row.get("benchmark_name") in REASONED else FREE
    listed = [f"{letter}. {option}" for letter, option in zip(LETTERS, options, strict=False)]
    context = str(row.get("context") or "").strip()
    shown = [context] if context.casefold() not in ("", "none", "null") else []
    lines = "\n".join([*shown, text(row, "prompt"), *listed, told])
    return lines if options else f"Question: {lines}"


def score_in(judgment: str) -> float | None:
    """The score in a judgment; None where there is none from 0 to 1."""
    return judging.rating(judgment, low=0, high=1)


def _item(row: Row, item_id: str) -> Item:
    options = _options(row)
    gold = _letter(row, options) if options else [str(one) for one in texts(row, "target")]
    return Item(
        id=item_id,
        prompts=(asked(row),),
        gold=cast("Any", gold),
        group=text(row, "benchmark_name"),
        detail={"options": cast("Any", options)} if options else {"question": text(row, "prompt")},
    )


def _options(row: Row) -> list[str]:
    options = texts(row, "options") if row.get("options") else []
    if len(options) == 1 or len(options) > len(LETTERS):
        row.unusable(f"`options` must hold 2 to {len(LETTERS)} texts, found {len(options)}")
    return options


def _letter(row: Row, options: Sequence[str]) -> str:
    """The letter of the right option, from its index."""
    target: Any = row.get("target")
    index = str(
        cast("list[Any]", target)[0] if isinstance(target, list) and len(cast("list[Any]", target)) == 1 else target
    )
    if not index.isdecimal() or int(index) >= len(options):
        row.unusable(f"`target` must be the index of one of {len(options)} options, found {str(target)[:80]}")
    return LETTERS[int(index)]


def _asks(item: Item, response: Response) -> dict[str, ChatRequest]:
    answer = judging.answers_of(item, response)[0]
    if not answer or "options" in item.detail:
        return {}
    golds = "\n".join(f"- {gold}" for gold in cast("list[str]", item.gold))
    slots = {"asked": str(item.detail["question"]), "golds": golds, "answer": answer}
    return {SCORE: judging.judge_request(judging.fill(JUDGE_PROMPT, slots), max_tokens=JUDGE_TOKENS)}


def _sample(judged: Judged[float], judge: Judge, extract: Policy) -> Sample:
    if "options" in judged.item.detail:
        return grade_one(judged.item, judged.response, FLEXIBLE._replace(headline=extract))
    score = judged.judgments[SCORE].verdict if judged.judgments else 0.0
    reason = "no answer was found" if not judged.judgments else f"score {score}"
    return judging.sample_of(judged, judge=judge, score=score, reason=reason, missing=not judged.judgments)


BENCHMARKS = (MixEval(), MixEvalHard())
