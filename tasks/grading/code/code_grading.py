"""Grades answers that are programs: verdicts become samples, and samples pass@k.

pass@k: the chance that one of k programs passes its tests, estimated from the n that were drawn for each item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pydantic import JsonValue

from tasks.grading.grading_records import Counts, Item, Response, Sample, Summary, make_sample
from tasks.grading.reading import visible_text, why_missing
from tasks.grading.sample_statistics import pass_by_item, tally_samples, unscored_metric
from tasks.measure.estimates import ByItem, Estimate, estimate
from tasks.sandbox import Execution, Sandbox
from tasks.sandbox.languages import find_language_name

EXTRACTED_CHARS = 20_000
"""Most characters of a program kept in a sample; the response store has all of it."""
STDERR_CHARS = 2_000
BROKEN = "sandbox: "
"""Prefix of the reason of a sample that is unscored since its program could not be executed."""
USUAL_KS = (1, 10, 100)
"""Source: openai/human-eval, human_eval/evaluate_functional_correctness.py."""


PLAIN_RESULTS = """
def plain_results(function):
    namespace = getattr(function, "__globals__", None)
    def call(*arguments, **named):
        result, seen = function(*arguments, **named), 0
        pending = [result]
        while pending and seen < 10_000:
            value, seen = pending.pop(), seen + 1
            assert getattr(type(value).__eq__, "__globals__", 0) is not namespace, "a result with its own =="
            pending += value if isinstance(value, (list, tuple, set)) else []
        return result
    return call
"""
"""Python for the tests of a function: a result whose class the program defines with `==` would equal all golds."""


class Verdict(NamedTuple):
    """The verdict of a benchmark on one program."""

    score: float | None
    """None: nothing is known about the code, since the sandbox broke or a library that the item needs is missing."""
    reason: str
    code: str
    values: Mapping[str, float] = {}
    stderr: str = ""


TryOut = Callable[[Item, str, Sandbox], Verdict]
"""Executes the code in an answer, which is not empty and holds no reasoning."""


def grade_program(item: Item, response: Response, try_out: TryOut, sandbox: Sandbox) -> Sample:
    """Return the sample of one response; one without an answer is scored 0 and `missing`."""
    graded = partial(make_sample, item, response)
    answer = visible_text(response.text)
    if answer is None or not answer.strip():
        return graded(score=0.0, reason=why_missing(response), missing=True)
    verdict = try_out(item, answer.strip("\n").rstrip(), sandbox)
    return graded(
        status="scored" if verdict.score is not None else "unscored",
        score=verdict.score,
        extracted=verdict.code[:EXTRACTED_CHARS] or None,
        reason=verdict.reason,
        values=dict(verdict.values),
        detail={"stderr": verdict.stderr[-STDERR_CHARS:]} if verdict.stderr else {},
        missing=not verdict.code,
    )


def verdict_of(execution: Execution, code: str) -> Verdict:
    """Return score 1 if the program passed, 0 if not, and no score if the sandbox broke."""
    if execution.status == "broken":
        return Verdict(None, f"{BROKEN}{execution.reason}", code)
    return Verdict(float(execution.passed), execution.reason or execution.status, code, stderr=execution.stderr)


def summarise_code(samples: Iterable[Sample], *, ks: Sequence[int] = ()) -> Summary:
    """Return pass@k over all items and over those of each group; scores must be 0 or 1.

    The headline is pass@1 over all items; with several languages it is Python's, `python_pass@1`, the published metric.
    ks: requested besides 1; empty: the usual ones. A k fits where every scored item has as many scored samples; a
    requested one that does not is in `k_left_out`, with the reason. Keys are `pass@k` and, where a group is a language,
    `python_pass@k`, as in evalchemy (eval/chat_benchmarks/HumanEval); other groups are among the estimates alone.
    """
    totals = tally_samples(samples)
    languages = {language: name for name in totals.groups if (language := find_language_name(name))}
    first = languages.get("python") if len(languages) > 1 else None  # the others are translations of it
    parts = [Part("", "", totals.scores, headline=first is None)]
    for name, scores in sorted(totals.groups.items()):
        prefix, part = f"{name}_" if find_language_name(name) else None, "" if name == first else f"group={name}"
        parts.append(Part(prefix, part, scores, headline=name == first))
    sizes = sorted({1, *(ks or USUAL_KS)})  # pass@1 is the headline, whatever is requested
    passes_by_part = [(part, dict(part.passes(sizes))) for part in parts]
    metrics: dict[str, JsonValue] = {}
    left_out: dict[str, JsonValue] = {}
    for part, passes in passes_by_part:
        if part.prefix is not None:
            metrics[f"{part.prefix}pass@1"] = None  # where nothing was scored
            metrics |= {f"{part.prefix}pass@{k}": pass_estimate.value for k, pass_estimate in passes.items()}
            left_out |= part.left_out(sizes, totals.counts) if ks else {}
    metrics |= {"num_total": totals.counts.items} | unscored_metric(totals.counts)
    metrics |= {"k_left_out": left_out} if left_out else {}
    estimates = tuple(pass_estimate for _, passes in passes_by_part for pass_estimate in passes.values())
    return Summary(metrics, estimates, totals.counts)


class Part(NamedTuple):
    """All items, or the items of one group."""

    prefix: str | None
    """Prefix of its keys among the metrics; None: it is not among them."""
    name: str
    scores: ByItem
    """Scored items, each with one score or more."""
    headline: bool = False

    @property
    def fewest(self) -> int:
        """Return the number of scored samples of the item that has the fewest; 0 without items."""
        return min(map(len, self.scores.values()), default=0)

    def passes(self, ks: Sequence[int]) -> Iterator[tuple[int, Estimate]]:
        """Yield each k that fits with its pass@k."""
        for k in ks:
            if k <= self.fewest:
                # the mean itself, which the product is but for the last bit
                by_item = self.scores if k == 1 else pass_by_item(self.scores, k)
                metric = f"{self.prefix if self.headline else ''}pass@{k}"
                yield k, estimate(metric, by_item, part=self.name, headline=self.headline and k == 1)

    def left_out(self, ks: Sequence[int], counts: Counts) -> dict[str, JsonValue]:
        """Return the key of each k that does not fit with the reason; empty where nothing was scored."""
        item = next((item for item, own in self.scores.items() if len(own) == self.fewest), None)
        if item is None:
            return {}
        noun = f"{'scored ' if counts.unscored else ''}sample{'s' if self.fewest > 1 else ''}"
        return {f"{self.prefix}pass@{k}": f"{item} has {self.fewest} {noun}" for k in ks if k > self.fewest}
