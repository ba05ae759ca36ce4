"""Figures that a monitor reads, where their sources are there and where not."""

from __future__ import annotations

import pytest
from prometheus_client import generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import CollectorRegistry

from flows.service.figures import Figures
from storage.storage_errors import DatabaseUnavailable


def scraped(figures: Figures) -> list[str]:
    registry = CollectorRegistry()
    registry.register(figures)
    return [line for line in generate_latest(registry).decode().splitlines() if not line.startswith("#")]


@pytest.mark.parametrize("error", [DatabaseUnavailable("it does not run"), RuntimeError("of a driver")], ids=repr)
def test_a_source_that_is_away_takes_no_other_with_it(error: Exception) -> None:
    there = True

    def database() -> list[GaugeMetricFamily]:
        if not there:
            raise error
        return [GaugeMetricFamily("trivet_of_database", "One.", value=1)]

    disk = GaugeMetricFamily("trivet_of_disk", "Two.", value=2)
    figures = Figures({"database": database, "disk": lambda: [disk]})
    assert scraped(figures) == []
    figures.look()
    assert scraped(figures) == [
        'trivet_source_up{source="database"} 1.0',
        'trivet_source_up{source="disk"} 1.0',
        "trivet_of_database 1.0",
        "trivet_of_disk 2.0",
    ]
    there = False
    figures.look()
    assert scraped(figures) == [
        'trivet_source_up{source="database"} 0.0',
        'trivet_source_up{source="disk"} 1.0',
        "trivet_of_disk 2.0",
    ]
