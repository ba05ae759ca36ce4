"""What makes another version of a benchmark, whose figures are not those of the one before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tasks.evaluation.benchmarks.benchmark_registry import benchmarks, definition_digest, find_benchmark

OWN = """\
from tasks.evaluation.benchmarks.base import BaseBenchmark


class Own(BaseBenchmark):
    words = "How many?"
"""


def test_every_benchmark_has_a_digest_of_its_own() -> None:
    found = benchmarks().values()
    assert len({definition_digest(one) for one in found}) == len(found)


def test_of_a_class_of_ours_the_version_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    benchmark = find_benchmark("CruxEval")
    before = definition_digest(benchmark)
    monkeypatch.setattr(benchmark, "version", benchmark.version + 1)
    assert definition_digest(benchmark) != before


def test_of_a_benchmark_of_the_users_own_the_file_counts(tmp_path: Path) -> None:
    digests = set[str]()
    for name, source in (("one", OWN), ("two", OWN), ("three", OWN.replace("many", "much"))):
        (tmp_path / f"{name}.py").write_text(source, "utf-8")
        digests.add(definition_digest(find_benchmark(str(tmp_path / f"{name}.py"))))
    assert len(digests) == 2
