"""The board is one that Grafana reads, and it asks for figures that the server has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard

from flows.service import figures
from flows.service.deploying import find_deployments_folder

BOARD: dict[str, Any] = json.loads((find_deployments_folder() / "grafana.json").read_text("utf-8"))
NAMES = {
    f"{name}_total" if kind == "Counter" else name
    for kind, name in re.findall(r'(Counter|Gauge)MetricFamily\(\s*"(\w+)"', Path(figures.__file__).read_text("utf-8"))
}
QUERIES: list[str] = [target["expr"] for panel in BOARD["panels"] for target in panel["targets"]]


def test_grafanas_own_types_hold_all_of_it() -> None:
    again = json.loads(json.dumps(Dashboard.from_json(BOARD), cls=JSONEncoder))
    assert again["title"] == "Trivet"
    for panel, read in zip(BOARD["panels"], again["panels"], strict=True):
        assert {name: read[name] for name in ("title", "type", "gridPos", "targets", "options")} == {
            name: panel[name] for name in ("title", "type", "gridPos", "targets", "options")
        }


@pytest.mark.parametrize("query", QUERIES)
def test_a_panel_asks_for_what_there_is(query: str) -> None:
    asked = set(re.findall(r"\btrivet_\w+", query))
    assert asked
    assert asked <= NAMES


def test_every_figure_is_on_the_board() -> None:
    assert {name for query in QUERIES for name in re.findall(r"\btrivet_\w+", query)} == NAMES


def test_no_panel_lies_over_another() -> None:
    places = [
        (column, row)
        for panel in BOARD["panels"]
        for column in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for row in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(places) == len(set(places))
    assert max(column for column, _ in places) < 24
