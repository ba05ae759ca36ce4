"""Evaluations on pages: the board, a run, samples by kind page by page, one sample, two runs, nights."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from html import unescape
from pathlib import Path

import pytest
import sqlalchemy as sa

from storage import connections
from storage.embedded import Cluster
from storage.evaluations import After, Evaluated, Evaluations
from storage.incidents import Incident, IncidentEvent, Incidents
from tasks.evaluation.evaluation_records import Counts, Sample
from tasks.evaluation.results.results_file import build_rows
from tasks.nightly.night_history import store_night
from tasks.resources import artifacts, forget
from tests.evaluation.reports import NOON, report, task_result
from tests.flows.asks import publish_texts
from tests.flows.web.served import Site, site
from tests.nightly.suites import Suite

pytestmark = pytest.mark.postgres
SCRIPT = "<script>alert(1)</script>"
FIRST, SECOND, LARGE = "1" * 32, "2" * 32, "3" * 32
ITEMS = 20_000
MOST_BYTES = 300_000


def graded(scores: dict[str, list[float | None]]) -> list[Sample]:
    return [
        Sample(
            item=item,
            repeat=repeat,
            score=score,
            status="unscored" if score is None else "scored",
            extracted=f"{score}{SCRIPT}",
            gold="1",
            reason="r",
            detail={"outcome": "refused"} if score is None else {},
        )
        for item, of_item in scores.items()
        for repeat, score in enumerate(of_item)
    ]


def evaluated(run: str, samples: Callable[[], Iterable[Sample]], *, n: int = 6) -> list[Evaluated]:
    result = task_result(counts=Counts(items=n, samples=n, scored=n), items=None, responses=(), samples=())
    return [build_rows(report(result, id=run), result, samples)]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    importlib.import_module("flows")  # configures the database

    forget()
    home = Path(os.environ["TRIVET_HOME"])
    locate = lambda: connections.locate(None, home)  # noqa: E731
    evaluations = Evaluations(locate)
    evaluations.write(evaluated(FIRST, lambda: graded({"a": [1, 1], "b/../x": [0, 1], SCRIPT: [1], "d": [None]})))
    evaluations.write(evaluated(SECOND, lambda: graded({"a": [0, 0], "b/../x": [1, 1], SCRIPT: [1], "d": [1]})))
    Incidents(locate).put(incident())
    folder = tmp_path_factory.mktemp("evaluated")
    with site(publish_texts(folder / "index"), folder / "home", {}) as running:
        yield running
    connections.engine(Cluster(home).start()).dispose()


def incident() -> Incident:
    event = IncidentEvent(night="n", at=NOON, run=SECOND, value=0.4, p=0.01, found="worse")
    return Incident(
        id="4" * 32,
        suite="/s.yaml",
        of=SCRIPT,
        task="Sums",
        metric="accuracy",
        kind="drop",
        baseline_run=FIRST,
        baseline_value=0.6,
        baseline_at=NOON,
        events=(event,),
    )


def test_the_board_leads_to_a_run_with_figures_intervals_settings_and_samples(served: Site) -> None:
    board = served.get("/ui/evaluations").text
    assert any(f'href="/ui/runs/{run}"' in board for run in (FIRST, SECOND))
    page = served.get(f"/ui/runs/{FIRST}").text
    assert "0.100–0.900" in page
    assert "<dt>sampling.temperature</dt><dd>0.7</dd>" in page
    assert f"/ui/runs/{FIRST}/samples?task=Sums&amp;kind=wrong" in page


@pytest.mark.parametrize(
    ("kind", "items"), [("all", 6), ("wrong", 1), ("unscored", 0), ("refused", 1), ("truncated", 0)]
)
def test_samples_of_a_kind(served: Site, kind: str, items: int) -> None:
    page = served.get(f"/ui/runs/{FIRST}/samples?task=Sums&kind={kind}").text
    assert page.count('<th scope="row">') == items
    assert SCRIPT not in page


@pytest.mark.parametrize(("words", "items"), [("B/..", {"b/../x"}), ("no such text", set()), ("%", set())])
def test_samples_are_searched(served: Site, words: str, items: set[str]) -> None:
    page = served.get(f"/ui/runs/{FIRST}/samples", params={"task": "Sums", "words": words}).text
    assert set(re.findall(r'<th scope="row"><a[^>]*>([^<]*)</a>', page)) == items


def test_one_sample_says_why_whatever_its_name(served: Site) -> None:
    link = re.findall(
        r'href="(/ui/runs/\w+/sample[^"]*b%2F[^"]*)"', served.get(f"/ui/runs/{FIRST}/samples?task=Sums").text
    )
    page = served.get(link[0].replace("&amp;", "&"))
    assert (page.status_code, "<h1>b/../x</h1>" in page.text, SCRIPT in page.text) == (200, True, False)


def test_where_something_comes_from_is_asked_for_in_a_form(served: Site) -> None:
    page = served.get("/ui/why")
    assert (page.status_code, '<form class="filters" method="get" action="/ui/why">' in page.text) == (200, True)
    assert served.get("/ui/why?thing=").status_code == 200
    assert FIRST[:8] in served.get(f"/ui/why?thing=+{FIRST[:8]}+").text


def test_two_runs_side_by_side_with_their_flips(served: Site) -> None:
    page = served.get(f"/ui/compare?a={FIRST}&b={SECOND}&task=Sums").text
    assert "1 better, 1 equal, 1 worse" in re.sub(r"\s+", " ", page)
    [link] = re.findall(r'<th scope="row"><a href="([^"]*)">a</a>', page)
    assert ">b/../x</a></th>" in served.get(f"/ui/compare?a={FIRST}&b={SECOND}&kind=better").text
    beside = served.get(unescape(link)).text
    assert (beside.count(f'/ui/runs/{FIRST}"'), beside.count(f'/ui/runs/{SECOND}"')) == (1, 1)


def test_nights_name_their_incidents(served: Site) -> None:
    page = served.get("/ui/nights?suite=/s.yaml").text
    assert ("0.600" in page, "0.400" in page, SCRIPT in page) == (True, True, False)


@pytest.fixture(scope="module")
def suite(served: Site) -> Suite:
    """A suite of three nights; in the last one its figure fell."""
    suite = Suite("drawn", connections.locate(None, Path(os.environ["TRIVET_HOME"])))
    for right in (36, 35, 16):
        suite.night(right)
        store_night(suite.nights[-1], artifacts())
    return suite


def test_nights_are_drawn_with_their_incidents(served: Site, suite: Suite) -> None:
    page = served.get(f"/ui/nights?suite={suite.file}").text
    assert page.count("<circle ") == 3
    assert "<title>small, since 2026-03-03: 0.875 → 0.400, open</title>" in page
    assert f'<a href="/ui/runs/{suite.nights[0].models[0].run}">0.900</a>' in page


def test_a_night_is_pinned_and_unpinned(served: Site, suite: Suite) -> None:
    first = suite.nights[0]
    page = served.post("/ui/nights/pin", suite=suite.file, run=first.run)
    assert (page.status_code, "Unpin" in page.text) == (200, True)
    assert [one.run for one in suite.incidents.pins(suite.file)] == [first.models[0].run]
    assert "Unpin" not in served.post("/ui/nights/unpin", suite=suite.file).text
    assert served.post("/ui/nights/pin", suite=suite.file, run="nobody").status_code == 404


def test_a_figure_that_got_worse_is_accepted_with_a_word(served: Site, suite: Suite) -> None:
    (one,) = suite.known()
    told = {"suite": suite.file, "incident": one.id}
    assert served.post("/ui/nights/accept", why=" ", **told).status_code == 422
    assert suite.known()[0].open
    page = served.post("/ui/nights/accept", why=f"a harder prompt {SCRIPT}", **told).text
    assert ("a harder prompt &lt;script&gt;" in page, SCRIPT in page) == (True, False)
    assert suite.known()[0].status == "accepted"
    assert served.post("/ui/nights/accept", why="again", **told).status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "/ui/runs/nobody",
        "/ui/nights?suite=/etc/passwd",
        f"/ui/runs/{FIRST}/samples?task=No",
        f"/ui/runs/{FIRST}/samples?task=Sums&kind=no",
        f"/ui/runs/{FIRST}/sample?task=Sums&item=no",
        f"/ui/compare?a={FIRST}&b=nobody",
        f"/ui/runs/{FIRST}/samples?task=Sums&item=a&repeat=x",
    ],
)
def test_what_is_not_there_is_a_sentence(served: Site, path: str) -> None:
    reply = served.get(path)
    assert (reply.status_code, 'role="alert"' in reply.text) == (404, True)


def test_a_run_is_never_a_file(served: Site, tmp_path: Path) -> None:
    (tmp_path / "results_1.json").write_text("{}")
    reply = served.get(f"/ui/compare?a={tmp_path}/results_1.json&b={FIRST}")
    assert (reply.status_code, "no results file, no run and no model" in reply.text) == (404, True)


def test_pages_of_samples_join(served: Site) -> None:
    evaluations = Evaluations(lambda: connections.locate(None, Path(os.environ["TRIVET_HOME"])))
    first = evaluations.sample_page(FIRST, "Sums", kind="all", after=None, most=2)
    after = After(first[-1].item, first[-1].repeat)
    rest = evaluations.sample_page(FIRST, "Sums", kind="all", after=after, most=9)
    joined = [(one.item, one.repeat) for one in (*first, *rest)]
    assert (len(joined), joined) == (6, sorted(joined))


MANY = sa.text("""
    insert into samples (run, task, dataset, item, repeat, detail, status, score, extracted, gold, reason, truncated)
    select :run, 'Sums', (select dataset from eval_tasks where run = :run), 'q-' || lpad(n::text, 6, '0'), 0,
        jsonb_build_object('said', repeat('x', 200)), 'scored', case when n % :wrong = 0 then 0 else 1 end,
        n::text, n::text, '', n = :items - 1
    from generate_series(0, :items - 1) n""")


@pytest.mark.slow
def test_every_page_is_small_with_twenty_thousand_samples(served: Site) -> None:
    url = connections.locate(None, Path(os.environ["TRIVET_HOME"]))
    evaluations = Evaluations(lambda: url)
    for run, wrong in ((LARGE, 3), ("5" * 32, 5)):
        evaluations.write(evaluated(run, list, n=ITEMS))
        with connections.engine(url).begin() as connection:
            connection.execute(MANY, {"run": run, "wrong": wrong, "items": ITEMS})
    at = f"/ui/runs/{LARGE}"
    weighed = dict[str, int]()
    for path in (
        *("/ui/evaluations", "/ui/runs", at),
        *(f"{at}/samples?task=Sums&kind={kind}" for kind in ("all", "wrong", "unscored", "truncated")),
        f"{at}/samples?task=Sums&item=q-019900&repeat=0",
        f"{at}/samples?task=Sums&kind=wrong&item=q-019900&repeat=0",
        f"{at}/sample?task=Sums&item=q-012345",
        f"/ui/compare?a={LARGE}&b={'5' * 32}",
        f"/ui/compare?a={LARGE}&b={'5' * 32}&kind=better&start=2000",
    ):
        answer = served.get(path, timeout=600)
        assert answer.status_code == 200
        weighed[path] = len(answer.content)
    # each is cut by the database
    assert {path: size for path, size in weighed.items() if size > MOST_BYTES} == {}
