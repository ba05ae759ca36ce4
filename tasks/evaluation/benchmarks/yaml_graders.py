"""Graders that a YAML benchmark names: mathematics, letters, words, rules, scores of texts, a rubric for a judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean
from typing import Any, Literal

import regex
from pydantic import Field, JsonValue, field_validator, model_validator

from models.protocols import ChatRequest
from storage.records import Record
from tasks.evaluation.evaluation_records import Item, Response, Sample
from tasks.grading import judge_grading as judging
from tasks.grading.choice import grade_choice
from tasks.grading.exact import Measure, bleu, f1, grade_exact, grade_text, includes, matches, rouge
from tasks.grading.grading_records import Summary
from tasks.grading.judge_grading import Judge, Judged, Tools
from tasks.grading.reading import FLEXIBLE, STRICT, Policy, Rule, Step
from tasks.grading.sample_statistics import tally, unscored_metric
from tasks.measure.estimates import estimates

READING = ("math", "choice", "exact")
"""Kinds that read an answer in each response, under several policies."""
METRICS = {"f1": "f1", "rouge": "rougeL", "bleu": "bleu", "rubric": "rubric"}
"""Headlines of kinds whose scores are no shares of right answers."""
MEASURES: dict[str, Measure] = {"includes": includes, "f1": f1, "rouge": rouge, "bleu": bleu}
WITHOUT_GOLD = ("rules", "regex", "rubric")
RUBRIC = "rubric"
MOST_POINTS = 10
JUDGE_TOKENS = 1024
JUDGE_PROMPT = """\
Grade an answer by a rubric. Judge nothing but what the rubric asks for; a long answer is no better for its length.

=== what was asked ===
{asked}
=== end of what was asked ===
{reference}
=== answer ===
{answer}
=== end of answer ===

=== rubric ===
{rubric}
=== end of rubric ===

Say in a few sentences how the answer meets the rubric and where it does not. Then end with one line that holds a whole
number from 0 (nothing of it is met) to 10 (all of it is met) in double brackets, such as [[7]].
"""
"""Our own words."""


class Grader(Record):
    kind: Literal["math", "choice", "exact", "rules", "includes", "regex", "f1", "rouge", "bleu", "rubric"]
    several: bool = False
    """True for multiple choice with several right letters and partial credit."""
    published: tuple[Step, ...] = ()
    """How the source reads answers: the first step that finds one decides. A step is `last_box`, `strict`, `flexible`,
    or a regular expression whose first group is the answer, `{first: …}` or `{last: …}` by the match that decides.
    Unset: strict for mathematics, flexible for letters and words."""
    pattern: str | None = None
    """Of `regex`: is sought in the response; what its group matched last is compared with the gold, if there is one."""
    rubric: str | None = Field(default=None, min_length=1)
    """Of `rubric`: what a good answer has, for the judge; `{field}` stands for a field of the row."""
    judge: str | None = None
    """Of `rubric`: the judge that `--annotator_model auto` takes. Unset: openai:gpt-4o-mini-2024-07-18."""

    @field_validator("pattern")
    @classmethod
    def _is_a_pattern(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                regex.compile(pattern)
            except regex.error as error:
                raise ValueError(f"not a regular expression ({error})") from error
        return pattern

    @model_validator(mode="after")
    def _has_its_own(self) -> Grader:
        for name, kind in (("pattern", "regex"), ("rubric", RUBRIC)):
            if (getattr(self, name) is not None) != (self.kind == kind):
                needed = "needs" if self.kind == kind else "does not take"
                raise ValueError(f"a {self.kind} grader {needed} `{name}`")
        if self.published and self.kind not in READING:
            raise ValueError(f"a {self.kind} grader reads no answer, so it takes no `published`")
        return self

    @property
    def default_judge(self) -> str | None:
        """The judge of a rubric; None for other kinds."""
        return (self.judge or "openai:gpt-4o-mini-2024-07-18") if self.kind == RUBRIC else None

    def rule(self, headline: Policy) -> Rule:
        """How responses are read."""
        own = STRICT if self.kind == "math" else FLEXIBLE
        return Rule(self.published or own.published, headline)

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """A sample for each response, in order."""
        match self.kind:
            case "math":
                from tasks.grading.math.math_grader import grade_math

                return grade_math(answered, tools.math, self.rule(tools.extract))
            case "choice":
                return grade_choice(answered, self.rule(tools.extract))
            case "exact":
                return grade_exact(answered, self.rule(tools.extract))
            case "rules":
                from tasks.grading.rules.rule_grading import grade_rules

                return grade_rules(answered)
            case "rubric":
                return grade_by_rubric(answered, tools.judge)
            case _:
                return grade_text(answered, matches(self.pattern) if self.pattern else MEASURES[self.kind])

    def gold_response(self, golds: Sequence[JsonValue]) -> str | None:
        """An answer that must be graded as right; None where the kind has none of its own."""
        return str(golds[0]) if golds and self.kind in MEASURES else None


def summarise_scores(samples: Iterable[Sample], metric: str) -> Summary:
    """The mean of scores from 0 to 1, and the means of further values of the samples."""
    further: dict[str, list[float]] = {}

    def watched() -> Iterator[Sample]:
        for sample in samples:
            for name, value in sample.values.items():
                further.setdefault(name, []).append(value)
            yield sample

    found = tally(watched())
    headline = estimates(metric, found.scores, groups=found.groups, headline=True)
    metrics: dict[str, JsonValue] = {"num_total": found.counts.items}
    metrics |= {name: fmean(values) for name, values in further.items()}
    metrics |= {metric: headline[0].value if headline else None}
    return Summary(metrics | unscored_metric(found.counts), headline, found.counts)


def grade_by_rubric(answered: Iterable[tuple[Item, Response]], judge: Judge | None) -> Iterator[Sample]:
    """A sample for each response, the judge's points from 0 to 10 as 0 to 1; `item.detail["rubric"]`: the rubric."""
    assert judge is not None, "the benchmark checks that there is one"
    judged = judging.judge_all(answered, asks=_asks, parse=points, judge=judge)
    return (_judged_sample(one, judge) for one in judged)


def rubric_request(item: Item, answer: str) -> ChatRequest:
    """What the judge is asked. Raises TemplateUnusable."""
    golds = item.gold if isinstance(item.gold, list) else [item.gold]
    listed = "\n".join(str(gold) for gold in golds if gold is not None)
    reference = f"\n=== reference answer ===\n{listed}\n=== end of reference answer ===\n" if listed else ""
    slots = {"asked": item.prompts[-1], "answer": answer, "rubric": str(item.detail[RUBRIC]), "reference": reference}
    return judging.judge_request(judging.fill(JUDGE_PROMPT, slots), max_tokens=JUDGE_TOKENS)


def points(judgment: str) -> float | None:
    """The points in a judgment; None where there are none from 0 to 10."""
    return judging.rating(judgment, low=0, high=MOST_POINTS)


def _asks(item: Item, response: Response) -> dict[str, ChatRequest]:
    answer = judging.answers_of(item, response)[-1]
    return {RUBRIC: rubric_request(item, answer)} if answer else {}


def _judged_sample(judged: Judged[float], judge: Judge) -> Sample:
    verdict: Any = judged.judgments[RUBRIC].verdict if judged.judgments else None
    reason = "no answer was found" if verdict is None else f"{verdict:g} of {MOST_POINTS} points"
    return judging.sample_of(
        judged, judge=judge, score=(verdict or 0.0) / MOST_POINTS, reason=reason, missing=not judged.judgments
    )
