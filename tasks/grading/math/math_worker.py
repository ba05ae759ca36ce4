"""Compares formulas with sympy in a separate process: reads pairs and writes verdicts, as JSON lines.

Run as a file in isolated mode; imports nothing of this project. math-verify parses LaTeX through its grammar; its
parser of plain expressions, which evaluates Python, is never used.
"""

from __future__ import annotations

import json
import os
import re
import resource
import sys

MEMORY_BYTES = 3 * 1024**3
MAX_CHARS = 4_000
_TOWER = re.compile(r"\^\s*\{?\s*(?:\(?\s*\d+\s*\)?\s*\^|\d{5,})|\^\s*\{?[^{}]*\d\s*\^")
_LARGE_FACTORIAL = re.compile(r"\d{4,}\s*\}?\)?\s*!|!\s*\)?\s*!")


def is_bomb(latex: str) -> bool:
    """Return whether LaTeX has an enormous value: towers of powers, factorials of thousands."""
    return bool(len(latex) > MAX_CHARS or _TOWER.search(latex) or _LARGE_FACTORIAL.search(latex))


def _are_equal(gold: str, answer: str) -> bool:
    """Return whether math-verify or sympy finds two formulas in LaTeX equal."""
    from math_verify import LatexExtractionConfig, parse, verify
    from sympy import Expr, Integral, Product, Sum, simplify

    config = [LatexExtractionConfig(boxed_match_priority=-1)]  # -1: boxes are not looked for
    # without its own time-outs, which are SIGALRM: RLIMIT_CPU and the parent's deadline end it here
    left, right = (
        parse(f"${latex}$", config, fallback_mode="no_fallback", parsing_timeout=None)  # type: ignore[arg-type]
        for latex in (gold, answer)
    )
    if not left or not right:
        return False
    if verify(left, right, timeout_seconds=None, allow_set_relation_comp=True):  # type: ignore[arg-type]
        return True
    # once sums, products and integrals are evaluated, which math-verify rarely does
    first, second = left[0], right[0]
    if not isinstance(first, Expr) or not isinstance(second, Expr):
        return False
    if not any(side.has(Sum, Product, Integral) for side in (first, second)):
        return False
    return simplify(first.doit() - second.doit()) == 0


def main() -> None:
    """Read pairs from stdin and write verdicts until it closes."""
    import logging

    verdicts = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # what libraries print is no verdict
    os.dup2(quiet, 2)
    logging.disable(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    _are_equal("1", "2")  # sympy and the grammar are loaded now, not within the first deadline
    verdicts.write('{"ready": true}\n')
    for line in sys.stdin:
        request = json.loads(line)
        # the kernel ends this process if one comparison takes that long, even if its parent is gone
        usage = resource.getrusage(resource.RUSAGE_SELF)
        cpu_s = int(usage.ru_utime + usage.ru_stime) + 1 + request["cpu_s"]
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.getrlimit(resource.RLIMIT_CPU)[1]))
        try:
            equal = (
                not is_bomb(request["gold"])
                and not is_bomb(request["answer"])
                and _are_equal(request["gold"], request["answer"])
            )
        except Exception:  # noqa: BLE001  # sympy raises anything; what it cannot read is not equal
            equal = False
        verdicts.write(json.dumps({"equal": equal}) + "\n")


if __name__ == "__main__":
    main()
