"""Our grading of mathematics beside math-verify's, in CPU seconds with all processes; and long responses.

Compared are the labelled pairs of tests/grading/math and, where `data` is, golds of the published benchmarks beside
themselves rewritten and beside the next one. Both graders run in a fresh process each, imports included.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from itertools import cycle, islice, pairwise
from pathlib import Path

from tests.benchmarks.measuring import Figures, part, processor_s

DATA = Path(__file__).parents[3] / "shared" / "data"
PAIRS = Path(__file__).parents[1] / "grading" / "math" / "pairs.jsonl"
LONG_CHARS = (4_000, 16_000, 40_000, 100_000)
Case = tuple[str, str, bool]


def measure(data: Path = DATA, comparisons: int = 1_000, responses: int = 800) -> Figures:
    """Both graders in processes of their own."""
    compared = list(islice(cases(data), comparisons))
    long = [(gold, text, True) for gold, text in islice(long_responses(), responses)]
    with tempfile.TemporaryDirectory() as folder:
        for name, given in (("trivet", compared), ("math-verify", compared), ("long responses", long)):
            path = Path(folder) / f"{name}.json"
            path.write_text(json.dumps(given), "utf-8")
            yield from ((f"{name}: {figure}", value) for figure, value in part(grade_all, name, path).items())


def cases(data: Path) -> Iterator[Case]:
    """Labelled comparisons: half golds in responses, half pairs of our own."""
    from tests.grading.math.golds import FILES, bare, golds, responses

    listed = [json.loads(line) for line in PAIRS.read_text("utf-8").splitlines()]
    own = [(g["gold"], answer, kind == "equal") for g in listed for kind in ("equal", "unequal") for answer in g[kind]]
    published: list[Case] = []
    for task in FILES if data.is_dir() else ():
        some = golds(data, task)[:120]
        for index, (gold, after) in enumerate(pairwise(some)):
            rewritten = list(responses(gold))
            published.append((gold, rewritten[index % len(rewritten)][1], True))
            if gold != after:
                published.append((gold, f"So $\\boxed{{{bare(after)}}}$.", False))
    yield from (
        case
        for pair in zip(own, cycle(published[:: max(1, len(published) // 600)] or own), strict=False)
        for case in pair
    )


def long_responses() -> Iterator[tuple[str, str]]:
    """Responses of 4 to 100 KB with steps, wrong turns and an answer at the end."""
    step = "We try $x_{{{n}}} = \\frac{{{n}}}{{7}}$, which gives ${n} + 3 = {m}$; that is not \\boxed{{{n}}} yet.\n"
    for number, chars in enumerate(cycle(LONG_CHARS)):
        steps = "".join(step.format(n=n, m=n + 3) for n in range(chars // 95))
        thought = f"<think>{steps}</think>" if number % 2 else steps
        ending = f"\\boxed{{\\frac{{{number}}}{{7}}}}" if number % 3 else f"The answer is $\\frac{{{number}}}{{7}}$."
        yield (
            f"{number}/7",
            f"{thought}\n\nSo, after all of this work, we have\n\n{ending}"
            if number % 3 or number % 2
            else f"{thought}\n\n\\boxed{{{number}/7}}",
        )


def grade_all(name: str, path: str) -> dict[str, float]:
    """The cost of a grader over the cases of a file, and how far it agrees with their labels."""
    compared: list[Case] = json.loads(Path(path).read_text("utf-8"))
    before = processor_s()
    verdicts = (_theirs if name == "math-verify" else _ours)(compared)
    cpu_s = processor_s() - before
    right = [verdict == case[2] for verdict, case in zip(verdicts, compared, strict=True)]
    false = sum(verdict and not case[2] for verdict, case in zip(verdicts, compared, strict=True))
    return {"CPU s": cpu_s, "agreement": sum(right) / len(right), "false accepts": false}


def _ours(compared: list[Case]) -> list[bool]:
    from tasks.grading.math.math_grader import MathGrader

    with MathGrader() as grader:
        return [grader.compare(gold, text).equal for gold, text, _ in compared]


def _theirs(compared: list[Case]) -> list[bool]:
    import logging

    from math_verify import parse, verify

    logging.disable(logging.CRITICAL)

    def equal(gold: str, text: str) -> bool:
        # as its authors advise: a gold, and an answer that is nothing else, stand in dollars
        bare = not any(sign in text for sign in ("$", "\\boxed", "\\(", "\\[")) and len(text) < 200
        gold = gold if "$" in gold else f"${gold}$"
        return bool(verify(parse(gold), parse(f"${text}$" if bare else text)))

    return [equal(gold, text) for gold, text, _ in compared]
