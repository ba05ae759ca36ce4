"""Grades answers that are programs: the verdict on one becomes a sample, and samples become pass@k.

pass@k: the chance that one of k programs passes its tests, estimated from the n that were drawn for each item.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pydantic import JsonValue

from tasks.grading.grading_records import Counts, Item, Response, Sample, Summary
from tasks.grading.reasoning import visible_text
from tasks.grading.sample_statistics import tally, unbiased_pass, unscored_metric
from tasks.measure.estimates import ByItem, Estimate, estimate
from tasks.sandbox import Execution, Sandbox
from tasks.sandbox.languages import language_named

EXTRACTED_CHARS = 20_000
"""Most characters of a program kept in a sample; the response store has all of it."""
STDERR_CHARS = 2_000
BROKEN = "sandbox: "
"""How the reason begins of a sample that is unscored since it could not be executed."""
USUAL_KS = (1, 10, 100)
"""Source: openai/human-eval, human_eval/evaluate_functional_correctness.py."""


class Verdict(NamedTuple):
    """What a benchmark says of one answer."""

    score: float | None
    """None: the sandbox was broken or a library that the item needs is missing, so nothing is known about the code."""
    reason: str
    code: str
    """As it was taken out of the answer."""
    values: Mapping[str, float] = {}
    """More figures of the sample by name."""
    stderr: str = ""
    """The end of what it wrote, for people who look."""


TryOut = Callable[[Item, str, Sandbox], Verdict]
"""Executes the code in an answer, which is not empty and has no reasoning in it."""


def grade_program(item: Item, response: Response, try_out: TryOut, sandbox: Sandbox) -> Sample:
    """The sample of one response; one without an answer is scored 0 and `missing`."""
    graded = partial(Sample.graded, item, response, keys=response.call_keys)
    answer = visible_text(response.text)
    if answer is None or not answer.strip():
        why = "no answer was found: the reasoning was never closed" if answer is None else "no answer was found"
        return graded(score=0.0, reason=f"no response: {response.missed}" if response.missed else why, missing=True)
    verdict = try_out(item, answer.strip("\n").rstrip(), sandbox)
    return graded(
        status="scored" if verdict.score is not None else "unscored",
        score=verdict.score,
        extracted=_storable(verdict.code[:EXTRACTED_CHARS]) or None,
        reason=_storable(verdict.reason),
        values=dict(verdict.values),
        detail={"stderr": _storable(verdict.stderr[-STDERR_CHARS:])} if verdict.stderr else {},
        missing=not verdict.code,
    )


def verdict_of(execution: Execution, code: str) -> Verdict:
    """Right when the program passed; nothing is known when the sandbox was broken."""
    if execution.status == "broken":
        return Verdict(None, f"{BROKEN}{execution.reason}", code)
    return Verdict(float(execution.passed), execution.reason or execution.status, code, stderr=execution.stderr)


def _storable(text: str) -> str:
    """Without NUL, which no database holds in a text."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def summarise_code(samples: Iterable[Sample], *, ks: Sequence[int] = ()) -> Summary:
    """pass@k over all items and over those of each group. Scores are 0 or 1.

    The headline is pass@1 over all. Of several languages it is that of Python, `python_pass@1`: the published figure,
    whatever translations are at hand beside it; those are groups.

    ks: those that were asked for, besides 1; none: the usual ones that fit. A k fits where each item that was scored
    at all has as many scored samples; one that was asked for and does not fit is in `k_left_out`, with the reason.
    Keys are `pass@k`, and `python_pass@k` where a group is a language, as mlfoundations/evalchemy has them
    (eval/chat_benchmarks/HumanEval); other groups, such as levels of difficulty, are among the estimates alone.
    """
    groups = set[str]()
    found = tally(_noting_groups(samples, groups))
    first = _published(groups)
    whole = Part("", "", found.scores, headline=first is None)
    parts = [whole, *(_of_group(name, found.groups.get(name, {}), headline=name == first) for name in sorted(groups))]
    wanted = sorted({1, *(ks or USUAL_KS)})
    found_of = [(part, dict(part.passes(wanted))) for part in parts]
    metrics: dict[str, JsonValue] = {}
    left_out: dict[str, JsonValue] = {}
    for part, passes in found_of:
        if part.prefix is not None:
            metrics[f"{part.prefix}pass@1"] = None  # where nothing was scored
            metrics |= {f"{part.prefix}pass@{k}": one.value for k, one in passes.items()}
            left_out |= part.left_out(wanted, found.counts) if ks else {}
    metrics |= {"num_total": found.counts.items} | unscored_metric(found.counts)
    metrics |= {"k_left_out": left_out} if left_out else {}
    return Summary(metrics, tuple(one for _, passes in found_of for one in passes.values()), found.counts)


class Part(NamedTuple):
    """Items that figures are given of."""

    prefix: str | None
    """Prefix of its keys among the metrics; None: it has none there."""
    name: str
    """As `Estimate.part` has it."""
    scores: ByItem
    """Those that were scored, each with one score or more."""
    headline: bool = False

    @property
    def fewest(self) -> int:
        """Scored samples of the item that has the fewest; 0 without items."""
        return min(map(len, self.scores.values()), default=0)

    def passes(self, ks: Sequence[int]) -> Iterator[tuple[int, Estimate]]:
        """Each k that fits, with its pass@k."""
        for k in ks:
            if k <= self.fewest:
                # the mean itself, which the product is but for the last bit
                by_item = self.scores if k == 1 else {item: [_pass(own, k)] for item, own in self.scores.items()}
                metric = f"{self.prefix if self.headline else ''}pass@{k}"
                yield k, estimate(metric, by_item, part=self.name, headline=self.headline and k == 1)

    def left_out(self, ks: Sequence[int], counts: Counts) -> dict[str, JsonValue]:
        """Key of each k that does not fit → why; nothing where nothing was scored."""
        item = next((item for item, own in self.scores.items() if len(own) == self.fewest), None)
        if item is None:
            return {}
        what = f"{'scored ' if counts.unscored else ''}sample{'s' if self.fewest > 1 else ''}"
        return {f"{self.prefix}pass@{k}": f"{item} has {self.fewest} {what}" for k in ks if k > self.fewest}


def _published(groups: Collection[str]) -> str | None:
    """The group that others are translations of; None: there are no several languages, or none of them is Python."""
    languages = {language: name for name in groups if (language := language_named(name))}
    return languages.get("python") if len(languages) > 1 else None


def _of_group(name: str, scores: ByItem, *, headline: bool) -> Part:
    prefix = f"{name}_" if language_named(name) else None
    return Part(prefix, "" if headline else f"group={name}", scores, headline)


def _pass(scores: Sequence[float], k: int) -> float:
    return unbiased_pass(len(scores), int(sum(scores)), k)


def _noting_groups(samples: Iterable[Sample], groups: set[str]) -> Iterator[Sample]:
    """Samples on their way; a group of which nothing was scored is a group too."""
    for sample in samples:
        if sample.group is not None:
            groups.add(sample.group)
        yield sample
