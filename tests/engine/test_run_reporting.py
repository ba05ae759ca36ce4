"""What the Prefect UI shows of a run: read back from the server, as the pages of the UI read it."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import numpy as np
import pymupdf
import pytest
from PIL import Image

from flows.running.settings import configure_steps

configure_steps()

from prefect import Flow, flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402

from flows.evaluate import EvaluateConfig, evaluate  # noqa: E402
from flows.gpu import run_step  # noqa: E402
from flows.lever import post_train  # noqa: E402
from flows.nightly import nightly  # noqa: E402
from flows.rag import IndexConfig, answer_batch, build_index  # noqa: E402
from flows.running import run_reporting  # noqa: E402
from flows.running.environment import program, program_version  # noqa: E402
from flows.running.lever_config import LeverConfig  # noqa: E402
from flows.running.run_reporting import as_part, first_names, watched  # noqa: E402
from storage.records import Ref  # noqa: E402
from tasks import progress  # noqa: E402
from tasks.evaluation.running.open_models import ModelSpec  # noqa: E402
from tasks.rag.indexing.scan import ScannedFile, ScanResult  # noqa: E402
from tasks.step import with_name  # noqa: E402
from tests.engine.deployed import Ran, artifacts_of, work  # noqa: E402

pytestmark = pytest.mark.engine

SAMPLES = Path(__file__).parents[1] / "samples"


def test_an_index_run_shows_its_stages_its_shards_and_what_failed(client: SyncPrefectClient, tmp_path: Path) -> None:
    documents = tmp_path / "Tender documents"
    documents.mkdir()
    for number in range(3):
        (documents / f"{number}.txt").write_text(f"Lot {number} costs {number} million.")
    (documents / "broken.docx").write_bytes(b"PK\x03\x04 no archive")
    write_figures(documents / "figures.pdf", 3)

    folders = {"documents": str(documents), "index": str(tmp_path / "Tender index")}
    ran = Ran(client, build_index, config={**folders, "vlm": "scripted"})

    assert ran.run.name == "index Tender documents"
    assert (ran.state.name, ran.state.message) == ("CompletedWithFailures", "1 could not be read: broken.docx")
    stages = ("parse", "extract-figures", "describe-figures", "chunk", "embed")
    assert ran.bars == {f"progress-{stage}": 100 for stage in stages}
    assert ran.artifacts["progress-parse"].description == "parse: 5 of 5"
    assert ran.artifacts["progress-describe-figures"].description == "describe figures: 3 of 3"
    assert ran.run.flow_version == program()
    assert "`broken.docx`" in str(ran.artifacts["rag-tender-index-report"].data)
    expected = {"parse 1/2", "parse 2/2", "embed 1/2", "embed 2/2"}
    assert ran.task_names(expected=expected) >= expected


def write_figures(path: Path, count: int) -> None:
    """A PDF with a picture a page, each another."""
    with pymupdf.open() as report:
        for number in range(count):
            squares = np.random.default_rng(number).integers(0, 255, (8, 8, 3), dtype=np.uint8)
            out = io.BytesIO()
            Image.fromarray(squares).resize((256, 256), Image.Resampling.NEAREST).save(out, "PNG")
            report.new_page().insert_image(pymupdf.Rect(72, 100, 328, 356), stream=out.getvalue())
        report.save(path, no_new_id=True)


def test_an_evaluation_shows_its_scores_its_plot_and_its_file(client: SyncPrefectClient, tmp_path: Path) -> None:
    config = {
        "model": {"backend": "replay", "name": "model-a", "args": {"path": str(SAMPLES / "recorded" / "model-a")}},
        "tasks": [{"task": "AIME24"}],
        "data_dir": str(SAMPLES / "benchmarks"),
        "output_path": str(tmp_path / "results.json"),
        "save": "file",
        "overwrite": True,
    }

    ran = Ran(client, evaluate, config=config)

    assert (ran.run.name, ran.state.name) == ("evaluate model-a AIME24", "Completed")
    assert ran.bars == {"progress-score-aime24": 100}
    report = str(ran.artifacts["evaluation-model-a-report"].data)
    assert f"`{tmp_path / 'results.json'}`" in report
    assert "| AIME24 |" in report
    expected = {"preflight AIME24", "recall AIME24", "score AIME24 1/1", "aggregate AIME24"}
    assert ran.task_names(expected=expected) >= expected


@pytest.mark.parametrize(
    ("flow", "config", "name"),
    [
        (
            evaluate,
            EvaluateConfig(
                model=ModelSpec(backend="vllm", name="Qwen/Qwen2.5-7B"),
                tasks=tuple({"task": f"own/{letter}.yaml"} for letter in "abcdef"),  # pyright: ignore[reportArgumentType]
                output_path=Path("out"),
            ),
            "evaluate Qwen2.5-7B a.yaml,b.yaml,c.yaml,d.yaml and 2 more",
        ),
        (post_train, LeverConfig(seeds=3), "post-train digits RetrievalSampler, 2 shots, 3 seeds"),
        (build_index, IndexConfig(documents=Path("docs/"), index=Path("out")), "index docs"),
    ],
    ids=["many tasks", "lever", "folder"],
)
def test_a_run_is_called_by_what_it_does(flow: Flow[..., Any], config: Any, name: str) -> None:
    assert str(flow.flow_run_name).format(config=config) == name


def test_a_part_carries_the_name_of_its_whole(client: SyncPrefectClient) -> None:
    @flow(name="inner", flow_run_name="index notices")
    def inner() -> None: ...

    @flow(name="outer", flow_run_name="watch notices")
    def outer() -> str:
        return str(as_part(inner, "index notices")(return_state=True).state_details.flow_run_id)

    assert client.read_flow_run(UUID(outer())).name == "index notices of watch notices"


def test_a_run_without_a_deployment_has_no_bars(client: SyncPrefectClient) -> None:
    @flow
    @watched
    def by_hand() -> None:
        work(3)

    state: Any = by_hand(return_state=True)
    assert artifacts_of(client, state.state_details.flow_run_id) == []


def test_a_stage_that_fails_stays_where_it_is_and_a_retry_completes_it(client: SyncPrefectClient) -> None:
    fails_after: list[int | None] = [3, None]

    @flow(name="fails-once")
    @watched
    def fails_once() -> None:
        work(10, fails_after=fails_after.pop(0))

    ran = Ran(client, fails_once)
    assert ran.state.is_failed()
    assert ran.bars == {"progress-train-sft": 30}

    ran.retry()
    assert ran.state.is_completed()
    assert {str(bar.data) for bar in artifacts_of(client, ran.id)} == {"30", "100"}


def test_bars_move_while_a_run_works_and_a_server_that_takes_none_costs_no_run(
    client: SyncPrefectClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_reporting, "LOOK_S", 0.05)
    seen: list[tuple[float, str]] = []

    def refuse(percent: float, key: str, words: str) -> UUID:
        seen.append((percent, words))
        raise httpx.ConnectError("the server is away")

    monkeypatch.setattr(run_reporting, "create_progress_artifact", refuse)

    @flow(name="unheard")
    @watched
    def unheard() -> None:
        progress.expect("embed", 10)
        for done in range(10):
            progress.advance("embed")
            if done == 4:
                time.sleep(1)

    assert Ran(client, unheard).state.is_completed()
    assert (50.0, "embed: 5 of 10") in seen
    assert seen[-1] == (100.0, "embed: 10 of 10")


def test_the_version_of_every_flow_is_the_program_that_runs() -> None:
    flows = (build_index, answer_batch, evaluate, post_train, nightly, run_step)
    assert {one.version for one in flows} == {program()}
    assert program().startswith(program_version())


def test_what_is_unfinished_is_named_by_its_file() -> None:
    content = Ref(kind="document", digest="5a" * 32, size=3)
    found = ScanResult(files=(ScannedFile(name="bids/offer.pdf", content=content, suffix=".pdf"),))
    assert found.by_name({"5a" * 6: "killed"}) == {"bids/offer.pdf": "killed"}


def test_a_name_with_braces_is_shown_as_it_is() -> None:
    assert str(with_name(work, "score {own}").task_run_name).format() == "score {own}"
    assert work.task_run_name is None


def test_names_are_short() -> None:
    assert first_names(["AIME24", "own/tasks.py:Sums"]) == "AIME24,tasks.py:Sums"
