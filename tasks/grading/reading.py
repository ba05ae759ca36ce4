"""Reading policies: a response is read strictly, flexibly, and as the source of its benchmark reads it.

strict     an answer that is announced: the last box, `####`, `the answer is …`, a JSON field
flexible   strict; else what stands where answers stand: bold, the last line, the last number, a letter in prose
published  the rule of the benchmark's source, a list of steps of which the first that finds something decides
"""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from time import monotonic
from typing import Any, Literal, NamedTuple, cast, get_args

import regex
from pydantic import JsonValue, field_validator, model_validator

from storage.records import Record
from tasks.grading.grading_records import Item, Response, Sample, graded_sample

log = logging.getLogger(__name__)

Policy = Literal["published", "strict", "flexible"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
READINGS = "readings"
"""Key of `Sample.detail`: what policies other than the headline's read, where it differs."""
MOST_BOX_CHARS = 40_000
"""A longer box is no answer; its equality with one would not be tried."""
PATTERN_S = 2.0
"""Time for one pattern on one response; it then matches nothing, with a warning."""
_BRACE = re.compile(r"[{}]")


class Pattern(Record):
    """A regular expression; the answer is its first group that matched."""

    first: str | None = None
    """The first match decides."""
    last: str | None = None
    """The last match decides."""
    within_line: bool = False
    """No match holds a line break: of `last`, lines are searched from the last one on."""

    @field_validator("first", "last")
    @classmethod
    def _has_a_group(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                groups = regex.compile(pattern).groups
            except regex.error as error:
                raise ValueError(f"not a regular expression ({error})") from error
            if not groups:
                raise ValueError("expected a group, the answer; it has none")
        return pattern

    @model_validator(mode="after")
    def _one_of_both(self) -> Pattern:
        if (self.first is None) == (self.last is None):
            raise ValueError("give `first` or `last`, a regular expression of which that match decides")
        return self


Step = Literal["last_box", "strict", "flexible"] | Pattern
"""One step of a published rule."""


class Readings(NamedTuple):
    """What each policy reads in one response; None: no answer."""

    published: str | None
    strict: str | None
    flexible: str | None

    def of(self, policy: Policy) -> str | None:
        """What `policy` reads."""
        return cast("str | None", getattr(self, policy))

    @property
    def distinct(self) -> tuple[str | None, ...]:
        """Each reading once."""
        return tuple(dict.fromkeys(self))


UNREAD = Readings(None, None, None)
"""Of a response without a visible answer."""


class Rule(NamedTuple):
    """How the responses to a benchmark are read."""

    published: tuple[Step, ...]
    headline: Policy = "published"
    """The policy that decides the score."""

    def read(self, visible: str, strict: str | None, flexible: str | None) -> Readings:
        """The readings of a response; `visible`: its text without reasoning."""
        published = None
        for step in self.published:
            if isinstance(step, Pattern):
                published = _matched(step, visible)
            else:
                published = last_box(visible) if step == "last_box" else strict if step == "strict" else flexible
            if published:
                break
        return Readings(published or None, strict, flexible)


STRICT, FLEXIBLE = Rule(("strict",)), Rule(("flexible",))
"""Rules of benchmarks without a published one."""


def last_box(text: str) -> str | None:
    """Content of the last `\\boxed{…}`, or of the last `\\fbox{…}` where there is none.

    None if it is never closed, or longer than MOST_BOX_CHARS.

    Source: `last_boxed_only_string` and `remove_boxed` of hendrycks/math, as lm_eval and evalchemy have them.
    """
    start = text.rfind("\\boxed")
    start = start if start >= 0 else text.rfind("\\fbox")
    if start < 0:
        return None
    if text.startswith("\\boxed ", start):
        return text[start + len("\\boxed ") :].partition("$")[0][:MOST_BOX_CHARS].strip()
    depth = 0
    for found in _BRACE.finditer(text, start):
        depth += 1 if found.group() == "{" else -1
        if depth == 0:
            content = text[text.index("{", start) + 1 : found.start()].strip()
            return content if len(content) <= MOST_BOX_CHARS else None
    return None


def _matched(pattern: Pattern, text: str) -> str | None:
    try:
        if pattern.first is not None:
            compiled, timeout_s = _compiled(pattern.first)
            found = compiled.search(text, timeout=timeout_s)
        else:
            found = _last_match(*_compiled(cast("str", pattern.last)), text, within_line=pattern.within_line)
    except TimeoutError:
        log.warning("published pattern took over %g s on %d characters: %s", PATTERN_S, len(text), pattern)
        return None
    return next((group.strip() for group in found.groups() if group), None) if found else None


def _last_match(
    pattern: regex.Pattern[str], timeout_s: float | None, text: str, *, within_line: bool
) -> regex.Match[str] | None:
    end = len(text)
    until = monotonic() + PATTERN_S
    while end >= 0:
        start = text.rfind("\n", 0, end) + 1 if within_line else 0
        if last := deque(pattern.finditer(text, start, end, timeout=timeout_s), maxlen=1):
            return last[0]
        if monotonic() > until:
            raise TimeoutError
        end = start - 1
    return None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[regex.Pattern[str], float | None]:
    """The pattern and its limit of time: one without repetition cannot backtrack for long and needs none."""
    return regex.compile(pattern), PATTERN_S if set("*+{") & set(pattern) else None


def graded_by(
    rule: Rule, readings: Readings, item: Item, response: Response, grade: Callable[[str | None], dict[str, Any]]
) -> Sample:
    """The sample of the headline's reading, with what other policies read where that differs; each is graded once.

    grade: fields of the sample of what was read, `score` and `extracted` among them.
    """
    graded = {said: grade(said) for said in readings.distinct}
    headline = graded[readings.of(rule.headline)]
    if len(graded) > 1 and (differing := _differing(headline, graded, readings)):
        headline["detail"] = headline.get("detail", {}) | {READINGS: differing}
    return graded_sample(item, response, **headline)


def _differing(
    headline: dict[str, Any], graded: Mapping[str | None, dict[str, Any]], readings: Readings
) -> dict[str, JsonValue]:
    others = {policy: graded[said] for policy, said in zip(POLICIES, readings, strict=True)}
    return {
        policy: {"extracted": other["extracted"], "score": other["score"]}
        for policy, other in others.items()
        if other["extracted"] != headline["extracted"] or other["score"] != headline["score"]
    }


def readings_of(sample: Sample) -> Mapping[str, Mapping[str, JsonValue]]:
    """Policy → `extracted` and `score`, of policies that read another answer than the headline's."""
    return cast("Mapping[str, Mapping[str, JsonValue]]", sample.detail.get(READINGS) or {})


def score_under(policy: Policy, sample: Sample) -> float | None:
    """The score of a sample under a policy; None where it could not be graded."""
    other = readings_of(sample).get(policy)
    return sample.score if other is None else cast("float | None", other["score"])


def policies_beside(headline: Policy) -> tuple[Policy, ...]:
    """The policies that are reported beside the headline's."""
    return ("strict", "flexible") if headline == "published" else POLICIES
