"""Golds of the published benchmarks and full responses that hold them, rewritten as models write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FILES = {
    "AIME24": "aime24.jsonl",
    "AIME25": "aime25.jsonl",
    "AMC23": "amc23.jsonl",
    "MATH500": "math500.jsonl",
    "GSM8K": "gsm8k_test.jsonl",
    "Minerva": "minerva_math_test.jsonl",
    "OlympiadBench": "olympiadbench_test.jsonl",
}


def golds(shared: Path, task: str) -> list[str]:
    """The gold answers of a task, in order."""
    lines = (shared / "benchmarks" / FILES[task]).read_text("utf-8").splitlines()
    return [_gold(task, json.loads(line)) for line in lines]


def _gold(task: str, row: dict[str, Any]) -> str:
    from tasks.grading.math.boxes import last_boxed

    if task == "GSM8K":
        return row["answer"].rpartition("####")[2].strip()
    if task == "Minerva":
        return last_boxed(row["solution"]) or ""
    if task == "OlympiadBench":
        return ", ".join(row["final_answer"])
    return str(row["expected_answer"] if task == "AIME24" else row["answer"])


def bare(gold: str) -> str:
    """Without dollars around mathematics."""
    return re.sub(r"(?<!\\)\$", "", gold)


def responses(gold: str) -> Iterator[tuple[str, str]]:
    """Names of rewritings, and full responses with the gold in them."""
    inner = bare(gold)
    steps = "Let $n = 17$. Then $3 + 4 = 7$, and 12 remain.\n\n"
    yield "box", f"{steps}Therefore the answer is \\boxed{{{inner}}}"
    yield "box in dollars", f"{steps}So we get $\\boxed{{{inner}}}$."
    yield (
        "display",
        f"{steps}Hence\n\\[\n\\boxed{{ {inner.replace(chr(92) + 'frac', chr(92) + 'dfrac')} }}\n\\]\nas wanted.",
    )
    small = inner.replace("\\dfrac", "\\frac").replace("\\frac", "\\tfrac").replace("\\left", "").replace("\\right", "")
    yield "small, without left and right", f"{steps}That is $$\\boxed{{{small}}}.$$"
    yield "spaced", f"{steps}Thus \\(\\boxed{{\\displaystyle\\, {inner}\\;}}\\)."
    yield "phrase", f"{steps}The answer is: ${inner}$"
    yield "Minerva's words", f"{steps}Final Answer: The final answer is ${inner}$. I hope it is correct."
    if re.fullmatch(r"-?\d{4,6}", inner):
        yield "thousands", f"{steps}So $\\boxed{{{int(inner):,}}}$"
        yield "thin thousands", f"{steps}So $\\boxed{{{int(inner):,}}}$".replace(",", "{,}")
    if re.fullmatch(r"-?[\d.,]+", inner):
        yield "unit", f"{steps}So $\\boxed{{{inner}\\text{{ units}}}}$."
    if not re.search(r"[=<>]|\\(?:in|le|ge|geqslant|leq)\b|\(C\)|\(E\)|\(B\)", inner):
        yield "assigned", f"{steps}Finally \\(\\boxed{{x = {inner}}}\\)."
