"""Our own items of the judged benchmarks."""

from __future__ import annotations

import pytest

from tasks.evaluation.running.benchmark_data import Data
from tests.evaluation.judging.judges import SAMPLES


@pytest.fixture
def data() -> Data:
    """Our own items in the published schemas."""
    return Data(SAMPLES / "benchmarks")
