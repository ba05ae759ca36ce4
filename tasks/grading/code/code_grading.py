"""Grades answers that are programs: the verdict on one becomes a sample."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tasks.grading.grading_records import Item, Response, Sample
from tasks.grading.reasoning import visible_text
from tasks.sandbox import Execution, Sandbox

EXTRACTED_CHARS = 20_000
"""Most characters of a program kept in a sample; the response store has all of it."""
STDERR_CHARS = 2_000
BROKEN = "sandbox: "
"""How the reason begins of a sample that is unscored since it could not be executed."""


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
    answer = visible_text(response.text)
    if answer is None or not answer.strip():
        why = "no answer was found: the reasoning was never closed" if answer is None else "no answer was found"
        why = f"no response: {response.missed}" if response.missed else why
        return Sample(
            item=item.id,
            repeat=response.repeat,
            score=0.0,
            reason=why,
            group=item.group,
            missing=True,
            truncated=response.truncated,
            keys=_keys(response),
        )
    verdict = try_out(item, answer.strip("\n").rstrip(), sandbox)
    return Sample(
        item=item.id,
        repeat=response.repeat,
        status="scored" if verdict.score is not None else "unscored",
        score=verdict.score,
        extracted=_storable(verdict.code[:EXTRACTED_CHARS]) or None,
        reason=_storable(verdict.reason),
        group=item.group,
        values=dict(verdict.values),
        detail={"stderr": _storable(verdict.stderr[-STDERR_CHARS:])} if verdict.stderr else {},
        truncated=response.truncated,
        missing=not verdict.code,
        keys=_keys(response),
    )


def verdict_of(execution: Execution, code: str) -> Verdict:
    """Right when the program passed; nothing is known when the sandbox was broken."""
    if execution.status == "broken":
        return Verdict(None, f"{BROKEN}{execution.reason}", code)
    return Verdict(float(execution.passed), execution.reason or execution.status, code, stderr=execution.stderr)


def _storable(text: str) -> str:
    """Without NUL, which no database holds in a text."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _keys(response: Response) -> tuple[str, ...]:
    return tuple(reply.key for reply in response.turns if reply.key)
