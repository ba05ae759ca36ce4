"""The graders that a YAML benchmark can name: mathematics, letters, words, rules, scores of texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

import regex
from pydantic import JsonValue, field_validator, model_validator

from storage.records import Record
from tasks.evaluation.evaluation_records import Item, Response, Sample
from tasks.grading.choice import grade_choice
from tasks.grading.exact import Measure, f1, grade_exact, grade_text, includes, matches
from tasks.grading.grading_records import Summary
from tasks.grading.judge_grading import Tools
from tasks.grading.reading import FLEXIBLE, STRICT, Policy, Rule, Step
from tasks.grading.sample_statistics import tally_samples, unscored_metric
from tasks.measure.estimates import estimate_groups

READING = ("math", "choice", "exact")
"""Kinds of graders that extract an answer from each response, under several policies."""
MEASURES: dict[str, Measure] = {"includes": includes, "f1": f1}
WITHOUT_GOLD = ("rules", "regex")
HARNESS_METRIC = "was removed: a YAML task of the lm-evaluation-harness has it in `metric_list`, and runs here too"
REMOVED = {
    "rouge": HARNESS_METRIC,
    "bleu": HARNESS_METRIC,
    "rubric": "was removed, as its judge's words were ours and compare with nothing; a class has a judge's prompt of "
    "your own (JudgedBenchmark; tests/recipes/add_a_benchmark.md shows one)",
}
"""Kind of grader of earlier versions → what takes its place."""


class Grader(Record):
    """The grader that a YAML benchmark names, with its options."""

    kind: Literal["math", "choice", "exact", "rules", "includes", "regex", "f1"]
    several: bool = False
    """True for multiple choice with several right letters and partial credit."""
    published: tuple[Step, ...] = ()
    """How the source reads answers: the first step that finds one decides. A step is `last_box`, `strict`, `flexible`,
    or a regular expression whose first group is the answer, `{first: …}` or `{last: …}` by the match that decides.
    Unset: strict for mathematics, flexible for letters and words."""
    pattern: str | None = None
    """Of `regex`: is sought in the response; what its group matched last is compared with the gold, if there is one."""

    @field_validator("kind", mode="before")
    @classmethod
    def _is_still_here(cls, kind: object) -> object:
        if why := REMOVED.get(str(kind)):
            raise ValueError(why)
        return kind

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
        if (self.pattern is not None) != (self.kind == "regex"):
            needed = "needs" if self.kind == "regex" else "does not take"
            raise ValueError(f"a {self.kind} grader {needed} `pattern`")
        if self.published and self.kind not in READING:
            raise ValueError(f"a {self.kind} grader reads no answer, so it takes no `published`")
        return self

    def rule(self, headline: Policy) -> Rule:
        """Return the rule by which answers are extracted; `headline` is the policy of the headline metric."""
        default = STRICT if self.kind == "math" else FLEXIBLE
        return Rule(self.published or default.published, headline)

    def grade(self, answered: Iterable[tuple[Item, Response]], tools: Tools) -> Iterator[Sample]:
        """Yield a sample for each response, in order, by the grader of this kind."""
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
            case _:
                return grade_text(answered, matches(self.pattern) if self.pattern else MEASURES[self.kind])

    def gold_response(self, golds: Sequence[JsonValue]) -> str | None:
        """Return an answer that must be graded as right; None where this kind of grader does not define one."""
        return str(golds[0]) if golds and self.kind in MEASURES else None


def summarise_f1(samples: Iterable[Sample]) -> Summary:
    """Return the mean of the scores, from 0 to 1, as `f1`: they are no shares of right answers."""
    totals = tally_samples(samples)
    headline = estimate_groups("f1", totals.scores, groups=totals.groups, headline=True)
    metrics: dict[str, JsonValue] = {"num_total": totals.counts.items, "f1": headline[0].value if headline else None}
    return Summary(metrics | unscored_metric(totals.counts), headline, totals.counts)
