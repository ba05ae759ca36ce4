"""Reading policies: a response is read strictly, flexibly, and as the source of its benchmark reads it.

strict     an answer that is announced: the last box, `####`, `the answer is …`, a JSON field
flexible   strict; else what stands where answers stand: bold, the last line, the last number, a letter in prose
published  the rule of the benchmark's source, a list of steps of which the first that finds something decides
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Literal, NamedTuple, cast, get_args

from pydantic import JsonValue, field_validator, model_validator

from storage.records import Record
from tasks.grading.grading_records import Sample

Policy = Literal["published", "strict", "flexible"]
POLICIES: tuple[Policy, ...] = get_args(Policy)
READINGS = "readings"
"""Key of `Sample.detail`: what policies other than the headline's read, where it differs."""
MOST_BOX_CHARS = 40_000
"""A longer box is no answer; its equality with one would not be tried."""
_BRACE = re.compile(r"[{}]")


class Pattern(Record):
    """A regular expression; the answer is its first group that matched."""

    first: str | None = None
    """The first match decides."""
    last: str | None = None
    """The last match decides."""

    @field_validator("first", "last")
    @classmethod
    def _has_a_group(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                groups = re.compile(pattern).groups
            except re.error as error:
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
        steps = (self._step(step, visible, strict, flexible) for step in self.published)
        return Readings(next((said for said in steps if said), None), strict, flexible)

    def _step(self, step: Step, visible: str, strict: str | None, flexible: str | None) -> str | None:
        if isinstance(step, Pattern):
            return _matched(step, visible)
        return last_box(visible) if step == "last_box" else strict if step == "strict" else flexible


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
    if pattern.first is not None:
        found = _compiled(pattern.first).search(text)
    else:
        last = deque(_compiled(cast("str", pattern.last)).finditer(text), maxlen=1)
        found = last[0] if last else None
    return next((group.strip() for group in found.groups() if group), None) if found else None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def graded_by(rule: Rule, readings: Readings, grade: Callable[[str | None], Sample]) -> Sample:
    """The sample of the headline's reading, with what other policies read where that differs; each is graded once."""
    distinct = readings.distinct
    if len(distinct) == 1:
        return grade(distinct[0])
    graded = {said: grade(said) for said in distinct}
    headline = graded[readings.of(rule.headline)]
    others = {policy: graded[readings.of(policy)] for policy in POLICIES}
    differing: dict[str, JsonValue] = {
        policy: {"extracted": other.extracted, "score": other.score}
        for policy, other in others.items()
        if (other.extracted, other.score) != (headline.extracted, headline.score)
    }
    return headline.model_copy(update={"detail": headline.detail | {READINGS: differing}}) if differing else headline


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
