"""Selectors on pages: figures, curves, and a query with what each selector showed and what the judge made of it."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from storage import connections
from storage.embedded import Cluster
from storage.evaluations import Evaluations
from storage.lineage import EVERY, Edge, StepRun
from storage.records import Ref
from tasks.lever.learning.lever_results import LeverReport, rows_of
from tasks.lever.learning.selector_comparison import summarise
from tasks.lever.lever_records import Curve, CurvePoint, Dataset, TextItem
from tasks.resources import artifacts, forget, lineage
from tests.evaluation.reports import NOON
from tests.flows.asks import publish_texts
from tests.flows.web.served import Site, site
from tests.lever.outcomes import seed_of
from tests.lever.small_dataset import dataset, item, png

pytestmark = pytest.mark.postgres
RUN, LOST = "6" * 32, "7" * 32
SCRIPT = "<script>alert(1)</script>"
SEEDS = [seed_of(3, {"random": [0, 0, 0], "similarity": [0, 1.0, 1.0], "grpo": [1.0, 1.0, 0]})]
"""Of the queries q0, q1 and q2; each selector showed a and b."""


def measured(run: str, of: Dataset) -> None:
    """Write a run as `trivet lever run` does."""
    told = {"started_at": NOON, "ended_at": NOON, "version": "0", "git_commit": None, "environment": {}, "config": {}}
    report = LeverReport.model_validate(told | {"run": run, "stages": (), "summary": summarise(SEEDS)})
    home = Path(os.environ["TRIVET_HOME"])
    Evaluations(lambda: connections.locate(None, home)).write([rows_of(report, of, lambda: SEEDS)])


def recorded(step: str, used: list[Ref], made: Edge) -> None:
    """Keep the edges of a step."""
    told = {"key": f"{step}{made.digest}"[:64], "version": 1, "run": "r", "code": "0", "at": NOON, "seconds": 1.0}
    ran = StepRun.model_validate(told | {"step": f"tasks.lever.steps.{step}", "parameters": {}})
    lineage().record(ran, [*(Edge(EVERY, False, ref.kind, ref.digest, "") for ref in used), made])


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    importlib.import_module("flows")  # configures the database

    forget()
    folder = tmp_path_factory.mktemp("selectors")
    queries = [item(f"q{n}", picture=png(n), question=f"how many {n}? {SCRIPT}", folder=folder) for n in range(3)]
    shown = [item("a", picture=png(200), folder=folder), TextItem(id="b", text=f"a text {SCRIPT}", label="Place")]
    of = dataset(shown, test=queries)
    measured(RUN, of)
    measured(LOST, of)
    curve = Curve(points=tuple(CurvePoint(step=n, epoch=0, figures={"loss": 1 / (n + 1)}) for n in range(500)))
    kept, learnt = artifacts().save("vqa-dataset", of), artifacts().save("curve", curve)
    recorded("train_grpo", [], Edge(EVERY, True, "curve", learnt.digest, ""))
    recorded("write_database", [kept, learnt], Edge(EVERY, True, "run", RUN, ""))
    with site(publish_texts(folder / "index"), folder / "home", {}) as running:
        yield running
    connections.engine(Cluster(Path(os.environ["TRIVET_HOME"])).start()).dispose()


def test_a_run_shows_figures_gains_and_curves(served: Site) -> None:
    assert f'href="/ui/selectors/{RUN}"' in served.get("/ui/selectors").text
    page = served.get(f"/ui/selectors/{RUN}").text
    assert "grpo − nearest neighbours +0.000" in page
    assert page.count('<tr class="best">') == 1
    [points] = re.findall(r'<polyline points="([^"]*)"', page)
    assert 100 < len(points.split()) <= 200


@pytest.mark.parametrize(("kind", "queries"), [("all", 3), ("better", 1), ("worse", 1), ("wrong", 1), ("unscored", 0)])
def test_queries_of_a_kind(served: Site, kind: str, queries: int) -> None:
    page = served.get(f"/ui/selectors/{RUN}/queries?kind={kind}").text
    assert (page.count('<th scope="row">'), SCRIPT in page) == (queries, False)


def test_a_query_shows_what_each_selector_chose(served: Site) -> None:
    page = served.get(f"/ui/selectors/{RUN}/query?item=q0").text
    assert page.count("a text &lt;script&gt;") == 3
    assert page.count(f'<img src="/ui/selectors/{RUN}/picture?item=a"') == 3
    assert served.get(f"/ui/selectors/{RUN}/picture?item=a").content == png(200)
    assert served.get(f"/ui/selectors/{RUN}/picture?item=b").status_code == 404


def test_a_run_whose_dataset_is_gone_names_the_demonstrations(served: Site) -> None:
    page = served.get(f"/ui/selectors/{LOST}/query?item=q0").text
    assert ("only ids are known" in page, "<p>a</p>" in page, "<img" in page) == (True, True, False)


@pytest.mark.parametrize(
    "path", ["nobody", f"{RUN}/queries?kind=no", f"{RUN}/query?item=no", f"{RUN}/picture?item=../../etc/passwd"]
)
def test_what_is_not_there_is_a_sentence(served: Site, path: str) -> None:
    reply = served.get(f"/ui/selectors/{path}")
    assert (reply.status_code, 'role="alert"' in reply.text) == (404, True)
