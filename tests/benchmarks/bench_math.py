"""Our grading of mathematics beside math-verify's, in CPU seconds with all processes; and long responses.

    python -m tests.benchmarks.bench_math [--data DIR] [--comparisons N] [--responses N]

Compared are the labelled pairs of tests/grading/math and, with DIR, golds of the published benchmarks beside
themselves rewritten and beside the next one. Both graders run in a fresh process each, imports included.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

from tests.benchmarks.measuring import options, part, processor_s

PAIRS = Path(__file__).parents[1] / "grading" / "math" / "pairs.jsonl"
LONG_CHARS = (4_000, 16_000, 40_000, 100_000)
Case = tuple[str, str, bool]


def main() -> None:
    """Run both graders in processes of their own and print them side by side."""
    parser = options(__doc__)
    parser.add_argument("--data", type=Path, default=Path(__file__).parents[3] / "shared" / "data")
    parser.add_argument("--comparisons", type=int, default=1_000)
    parser.add_argument("--responses", type=int, default=800)
    parser.add_argument("--run", choices=["trivet", "math-verify", "long"])
    parser.add_argument("--cases", type=Path)
    chosen = parser.parse_args()
    if chosen.run:
        print(json.dumps(_measured(_GRADERS[chosen.run], json.loads(chosen.cases.read_text("utf-8")))))
        return
    compared = list(islice(cases(chosen.data), chosen.comparisons))
    ours, theirs = _in_a_process("trivet", compared), _in_a_process("math-verify", compared)
    long = _in_a_process("long", [(gold, text, True) for gold, text in islice(long_responses(), chosen.responses)])
    if chosen.json:
        print(json.dumps({"trivet": ours, "math-verify": theirs, "long": long}))
        return
    for name, figures in (("trivet", ours), ("math-verify", theirs)):
        agreed = f"{figures['agreement']:.1%} agree, {figures['false']} false accepts"
        print(f"{name:12} {figures['cpu_s']:7.2f} CPU s, {agreed}")
    print(f"{theirs['cpu_s'] / ours['cpu_s']:.1f} times math-verify's throughput on {len(compared)} comparisons")
    print(f"{chosen.responses} long responses: {long['cpu_s']:.2f} CPU s, {long['agreement']:.1%} right")


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


def _in_a_process(run: str, compared: list[Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "cases.json"
        path.write_text(json.dumps(compared), "utf-8")
        return part("math", "--run", run, "--cases", path)


def _measured(grade: Callable[[list[Case]], list[bool]], compared: list[Case]) -> dict[str, Any]:
    before = processor_s()
    verdicts = grade(compared)
    cpu_s = processor_s() - before
    right = [verdict == case[2] for verdict, case in zip(verdicts, compared, strict=True)]
    false = sum(verdict and not case[2] for verdict, case in zip(verdicts, compared, strict=True))
    return {"cpu_s": cpu_s, "agreement": sum(right) / len(right), "false": false}


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


_GRADERS: dict[str, Callable[[list[Case]], list[bool]]] = {"trivet": _ours, "math-verify": _theirs, "long": _ours}

if __name__ == "__main__":
    main()
