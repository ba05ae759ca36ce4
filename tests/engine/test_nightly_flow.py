"""A suite night after night: a planted regression is found and named, and a retry does only what is missing."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from flows.running.environment import prepare_environment
from tests.command import Done, run_here
from tests.drills.evaluating import adder, asked, write_sums
from tests.models.server import Reply, Server, serving

prepare_environment()

from prefect.client.orchestration import SyncPrefectClient, get_client  # noqa: E402
from prefect.client.schemas.filters import (  # noqa: E402
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    FlowRunFilter,
    FlowRunFilterParentFlowRunId,
)
from prefect.flow_engine import run_flow  # noqa: E402
from prefect.settings import PREFECT_API_URL, temporary_settings  # noqa: E402
from prefect.states import AwaitingRetry  # noqa: E402

from tasks import progress  # noqa: E402

pytestmark = [pytest.mark.engine, pytest.mark.postgres]

SAMPLES = Path(__file__).parents[1] / "samples"


class Nights:
    """The sample suite in a folder of its own, run four times: one model gets worse, which is accepted in the end."""

    def __init__(self, folder: Path) -> None:
        self.folder = shutil.copytree(SAMPLES / "nightly", folder / "suite")
        self.suite, self.out = self.folder / "suite.yaml", self.folder / "out"
        self.counted = run_here("nightly", "run", self.suite, "--dry-run", "--json")
        self.first = run_here("nightly", "run", self.suite, "--json")
        shutil.copytree(self.folder / "hasty-worse", self.folder / "hasty", dirs_exist_ok=True)
        self.second = run_here("nightly", "run", self.suite, "--json")
        self.page = (self.out / "report.html").read_text()
        self.third = run_here("nightly", "run", self.suite, "--json")
        (one,) = self.third.json["incidents"]
        self.refused = run_here("nightly", "accept", one["events"][0]["night"][:8], "--why", "none", self.suite)
        self.accepted = run_here("nightly", "accept", one["id"], "--why", "a harder prompt", self.suite)
        self.last = run_here("nightly", "run", self.suite, "--json")


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Nights:
    return Nights(tmp_path_factory.mktemp("nightly"))


def scores(done: Done) -> dict[tuple[str, str], float]:
    return {(one["model"], one["task"]): one["measure"]["value"] for one in done.json["scores"]}


def verdicts(done: Done) -> dict[tuple[str, str], str]:
    return {(one["of"], one["task"]): one["verdict"] for one in done.json["changes"]}


def test_the_first_night_measures_every_model_on_every_benchmark(nights: Nights) -> None:
    assert (nights.first.code, nights.first.json["state"]) == (0, "Completed"), nights.first.stderr
    assert scores(nights.first) == {
        ("careful", "MATH500"): pytest.approx(29 / 30),
        ("careful", "AIME24"): pytest.approx(14 / 15),
        ("hasty", "MATH500"): pytest.approx(27 / 30),
        ("hasty", "AIME24"): pytest.approx(13 / 15),
    }
    assert set(verdicts(nights.first).values()) == {"first"}
    assert [one["backend"] for one in nights.first.json["models"]] == ["replay", "replay"]


def test_a_planted_regression_ends_the_night_as_regressed(nights: Nights) -> None:
    assert nights.second.code == 1
    assert nights.second.json["state"] == "Regressed"
    assert "error: Regressed: 1 regression: hasty on MATH500 0.900 → 0.533 (-0.367, p = " in nights.second.stderr
    assert verdicts(nights.second) == {
        ("careful", "MATH500"): "same run",
        ("careful", "AIME24"): "same run",
        ("hasty", "MATH500"): "worse",
        ("hasty", "AIME24"): "within noise",
    }
    change = next(one for one in nights.second.json["changes"] if one["verdict"] == "worse")
    assert (change["wins"], change["losses"], change["high"] < 0) == (0, 11, True)
    assert change["before"]["run"] == nights.first.json["models"][1]["run"]
    assert change["now"]["run"] == nights.second.json["models"][1]["run"]


def test_a_model_that_did_not_change_is_not_measured_again(nights: Nights) -> None:
    before, now = nights.first.json["models"], nights.second.json["models"]
    assert [one["run"] == two["run"] for one, two in zip(before, now, strict=True)] == [True, False]


def test_a_dry_run_counts_every_benchmark_of_a_model(nights: Nights) -> None:
    hasty = nights.counted.json["models"]["hasty"]  # another test of this home may have evaluated it
    assert {*(one["task"] for one in hasty["tasks"]), *hasty["skipped"]} == {"MATH500", "AIME24"}


def test_a_night_stays_regressed_until_its_figure_is_accepted_from_the_command_line(nights: Nights) -> None:
    assert (nights.third.code, nights.third.json["state"]) == (1, "Regressed"), nights.third.stderr
    assert verdicts(nights.third)["hasty", "MATH500"] == "worse", "against the first night, not against the second"
    (one,) = nights.third.json["incidents"]
    assert [event["value"] for event in one["events"]] == [pytest.approx(16 / 30)] * 2
    assert "accepted: a harder prompt" in nights.accepted.stdout
    assert (nights.last.code, nights.last.json["state"]) == (0, "Completed"), nights.last.stderr


def test_an_unknown_incident_is_refused_with_the_open_ones(nights: Nights) -> None:
    assert nights.refused.code == 2
    assert "open are: " in nights.refused.stderr
    assert "(hasty on MATH500)" in nights.refused.stderr


def test_the_report_lies_below_the_output_of_the_suite(nights: Nights) -> None:
    assert {file.name for file in nights.out.iterdir()} == {"report.md", "report.html", "results"}
    assert "Worse beyond noise" in nights.page
    assert nights.second.json["models"][1]["run"] in nights.page
    assert len(list((nights.out / "results").glob("*/results_*.json"))) >= 3


def test_every_figure_is_one_that_its_run_has_stored(nights: Nights) -> None:
    for score in nights.second.json["scores"]:
        shown = run_here("eval", "show", score["run"], "--json")
        stored = next(one for one in shown.json["results"] if one["task"] == score["task"])
        headline = next(one for one in stored["estimates"] if one["headline"])
        assert score["measure"]["value"] == headline["value"]


def test_the_report_can_be_made_again(nights: Nights, tmp_path: Path) -> None:
    page, words = tmp_path / "night.html", tmp_path / "night.md"
    told = run_here("nightly", "report", nights.suite, "--out", page, "--json")
    assert told.json["night"]["run"] == nights.last.json["night"]["run"]
    assert run_here("nightly", "report", "--out", words).code == 0, "without a suite: the last one that ran"
    assert page.read_text() == (nights.out / "report.html").read_text()
    assert words.read_text().startswith("# Night of ")
    assert run_here("nightly", "report", "--out", tmp_path / "night.pdf").code == 2
    assert "never ran here" in run_here("nightly", "report", SAMPLES / "nightly" / "suite.yaml").stderr


def test_the_ui_shows_the_report(nights: Nights, client: SyncPrefectClient) -> None:
    run = UUID(nights.second.json["night"]["run"])
    found = client.read_artifacts(artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run])))
    assert [(one.type, one.key) for one in found] == [("markdown", "nightly-suite-report")]
    assert "Worse than the baseline, beyond noise" in str(found[0].data)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as running:
        running.answer, running.models = adder(pause_s=0), ("well", "ill")
        yield running


@pytest.fixture
def client() -> Iterator[SyncPrefectClient]:
    with temporary_settings({PREFECT_API_URL: os.environ["PREFECT_API_URL"]}), get_client(sync_client=True) as client:
        yield client


def children(client: SyncPrefectClient, run: Any) -> list[tuple[str, str]]:
    """Names and states of the flow runs below a run."""
    chosen = FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[run]))
    found = client.read_flow_runs(flow_run_filter=chosen)
    return sorted((one.name, str(one.state and one.state.name)) for one in found)


def test_a_retry_asks_only_the_model_that_was_away(server: Server, client: SyncPrefectClient, tmp_path: Path) -> None:
    from flows.nightly import nightly

    write_sums(tmp_path / "data", 12)
    entry = "{model: openai, model_name: %s, base_url: '%s', model_args: {max_retries: 0}}"
    models = "\n".join(f"  - {entry % (name, server.base_url)}" for name in ("well", "ill"))
    suite = tmp_path / "retried.yaml"
    suite.write_text(f"tasks: [MATH500]\nsettings: {{data_dir: data}}\nmodels:\n{models}\n")

    def away(path: str, body: dict[str, Any]) -> Reply | None:
        return Reply(503, b"{}") if body.get("model") == "ill" else None

    server.misbehave = away
    parameters = {"config": {"suite": str(suite)}}
    run = client.create_flow_run(nightly, parameters=parameters)
    first: Any = run_flow(nightly, flow_run=client.read_flow_run(run.id), parameters=parameters, return_type="state")
    assert (first.name, first.type.value) == ("Failed", "FAILED")
    assert "not finished: model ill (" in first.message
    assert "Retry does only these" in first.message
    assert "12" in (tmp_path / "nightly" / "retried" / "report.md").read_text(), "the rest is published"
    answered = sum(asked(server).values())

    server.misbehave = None
    client.set_flow_run_state(run.id, AwaitingRetry(), force=True)
    second: Any = run_flow(nightly, flow_run=client.read_flow_run(run.id), parameters=parameters, return_type="state")
    assert second.is_completed(), second.message
    of_well = [one for one in server.requests if one["body"].get("model") == "well"]
    assert len(of_well) == 12, "the model that was whole is not asked again"
    assert sum(asked(server).values()) == answered + 12
    report = run_here("nightly", "report", suite, "--json").json
    assert (report["state"], report["failures"], len(report["scores"])) == ("Completed", [], 2)
    found = children(client, run.id)
    assert [name for name, _ in found].count("evaluate well MATH500 of nightly retried") == 1
    assert ("evaluate ill MATH500 of nightly retried", "Completed") in found


def test_a_night_over_its_budget_says_so_once_and_goes_on(
    server: Server, client: SyncPrefectClient, tmp_path: Path
) -> None:
    write_sums(tmp_path / "data", 6, first=100)  # nobody has asked for these
    entry = "{model: openai, model_name: %s, base_url: '%s'}"
    models = "\n".join(f"  - {entry % (name, server.base_url)}" for name in ("well", "ill"))
    suite = tmp_path / "costly.yaml"
    suite.write_text(f"tasks: [MATH500]\nsettings: {{data_dir: data}}\nbudget: {{tokens: 1}}\nmodels:\n{models}\n")

    done = run_here("nightly", "run", suite, "--json")

    assert (done.code, len(done.json["scores"])) == (0, 2), done.stderr
    wanted = {"event": {"name": ["trivet.night.over-budget"]}}
    told: list[dict[str, Any]] = []
    deadline = time.monotonic() + 120
    while not told and time.monotonic() < deadline:  # a busy machine hears of events late
        told = client.request("POST", "/events/filter", json={"filter": wanted}).json()["events"]
        time.sleep(0.2)
    [text] = [event["payload"]["text"] for event in told if "costly" in event["payload"]["text"]]
    assert re.fullmatch(r"nightly costly is over its budget: [\d,]+ of 1 tokens spent so far, after well\.", text)


@pytest.mark.slow
def test_an_index_is_refreshed_before_it_is_measured_and_a_selector_is_trained(tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    for name in ("슬기시_공공데이터 품질진단 컨설팅.docx", "하늬군_마을 약국 재고연계 시스템 구축.hwpx"):
        shutil.copy(SAMPLES / "documents" / name, documents)
    lines = (SAMPLES / "questions.jsonl").read_text().splitlines()
    (tmp_path / "questions.jsonl").write_text("\n".join(line for line in lines if "슬기시" in line) + "\n")
    (tmp_path / "lever.yaml").write_text(
        json.dumps(
            {
                "digits": {"judge_steps": 60, "candidates": 90},
                "dataset": {"train_queries": 80, "validation": 20, "test": 20},
                "pool_size": 8,
                "beams": {"queries": 20},
                "sft": {"epochs": 2},
                "rce": {"epochs": 2},
                "grpo": {"rounds": 2, "draws": 6},
                "oracle": {"most_judgments": 200},
            }
        )
    )
    suite = tmp_path / "whole.yaml"
    suite.write_text(
        "index: {documents: documents, index: index, questions: questions.jsonl, strategy: bm25, answers: true}\n"
        "selector: lever.yaml\n"
    )
    counted: Counter[str] = Counter()
    with progress.listening(lambda stage, done, expected: counted.update({stage: expected - done})):
        done = run_here("nightly", "run", suite, "--json")
    assert done.code == 0, done.stderr
    assert counted.keys() >= {"search", "answer", "train SFT", "train RCE", "train GRPO", "evaluate", "search best"}
    assert set(counted.values()) == {0}, "each stage did what it said"
    night = done.json["night"]
    assert (night["index"]["documents"], night["index"]["measured"]) == (2, night["run"])
    figures = {one["metric"]: one["value"] for one in done.json["index"]}
    assert figures["document.mrr@10"] > 0.5
    assert "answers.correct" in figures
    assert {one["metric"] for one in done.json["selector"]} >= {"accuracy.random", "accuracy.grpo"}
    assert {(one["of"], one["verdict"]) for one in done.json["changes"]} == {("index", "first"), ("selector", "first")}
    again = run_here("nightly", "run", suite, "--json")
    assert again.json["state"] == "Completed"
    assert {one["difference"] for one in again.json["changes"]} == {0.0}


def test_a_mistake_in_the_suite_is_refused_with_its_line(tmp_path: Path) -> None:
    suite = tmp_path / "wrong.yaml"
    suite.write_text("tasks: [MATH500]\nmodels:\n  - model: scripted\n    limt: 3\n")
    done = run_here("nightly", "run", suite)
    assert done.code == 2
    assert f"{suite}, line 4: 'limt' is not known" in done.stderr
    assert "Traceback" not in done.stderr
