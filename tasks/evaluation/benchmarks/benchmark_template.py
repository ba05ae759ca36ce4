"""The files of `trivet eval new`: a benchmark that runs as it is, to be adapted."""

from __future__ import annotations

import re
from pathlib import Path

from tasks.evaluation.benchmarks.simple import NAME
from tasks.evaluation.evaluation_errors import BenchmarkUnusable

FOLDER = Path(__file__).parent / "new"
"""Templates of the definition and the class, and two items."""


def files_of(name: str, *, python: bool) -> dict[str, str]:
    """File name → content, the definition first. Raises BenchmarkUnusable for an invalid name."""
    if not re.fullmatch(NAME, name):
        raise BenchmarkUnusable(f"{name!r} is no name of a benchmark: begin with a letter, then letters, digits, - _ .")
    stem = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    kind = re.sub(r"[^A-Za-z0-9]+", "", name[:1].upper() + name[1:]) + "Benchmark"
    template = (FOLDER / ("class.txt" if python else "definition.txt")).read_text("utf-8")
    written = template.format(name=name, stem=stem, kind=kind)
    items = (FOLDER / "items.jsonl").read_text("utf-8")
    return {f"{stem}.{'py' if python else 'yaml'}": written, f"{stem}.jsonl": items}
