"""What Prefect keeps of old runs goes; runs that have not ended, and what they need, stay."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from flows.running.configuring import configure_steps
from flows.running.settings import settings
from tests.command import run_apart

configure_steps()

from prefect import flow  # noqa: E402
from prefect.artifacts import create_markdown_artifact  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId  # noqa: E402
from prefect.exceptions import ObjectNotFound  # noqa: E402
from prefect.runtime import flow_run  # noqa: E402

from flows.evaluate import evaluate  # noqa: E402
from flows.gpu import run_step  # noqa: E402
from flows.lever import post_train  # noqa: E402
from flows.rag import answer_batch, build_index  # noqa: E402
from flows.service.old_runs import FLOWS, Cleared, clear_history  # noqa: E402
from tasks.step import step  # noqa: E402

pytestmark = pytest.mark.engine

PATIENCE_S = 30.0


@step(version=1)
def echo(word: str) -> str:
    return word


@flow(name="rag", persist_result=False)
def ended() -> Any:
    """A run that leaves a step and an artifact."""
    echo(uuid4().hex)
    create_markdown_artifact("# report", key="old-report")
    return flow_run.id


def clear(*, dry_run: bool = False, shared: bool = True) -> Cleared:
    """As if long after all that these tests have done; the tests' server is one that the user has named."""
    later = datetime.now(UTC) + timedelta(hours=1)
    return clear_history(settings().home, ended_before=later, dry_run=dry_run, shared=shared)


def test_a_run_that_ended_goes_with_its_artifacts(client: SyncPrefectClient) -> None:
    run = ended()
    [done] = clear().histories
    assert (done.runs["rag"] >= 1, done.artifacts >= 1, done.trouble) == (True, True, None)
    with pytest.raises(ObjectNotFound):
        client.read_flow_run(run)
    assert client.read_artifacts(artifact_filter=ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[run]))) == []


def test_a_dry_run_only_tells(client: SyncPrefectClient) -> None:
    run = ended()
    assert clear(dry_run=True).histories[0].runs["rag"] >= 1
    assert client.read_flow_run(run).state


def test_a_run_that_has_not_ended_stays_and_so_does_what_it_needs(client: SyncPrefectClient) -> None:
    @flow(name="rag", persist_result=False)
    def under_way() -> tuple[Any, Cleared]:
        echo("needed")
        deadline = time.monotonic() + PATIENCE_S
        while record not in ((cleared := clear()).needed or ()) and time.monotonic() < deadline:
            time.sleep(0.2)  # the server hears of task runs a little later
        return flow_run.id, cleared

    key: Any = echo.cache_policy
    record = key.key_of({"word": "needed"}, run=None)
    run, cleared = under_way()
    assert client.read_flow_run(run).state
    assert record in (cleared.needed or ())
    assert cleared.histories[0].unfinished >= 1


def test_runs_of_other_houses_stay(client: SyncPrefectClient) -> None:
    @flow(name="somebody-elses", persist_result=False)
    def theirs() -> Any:
        return flow_run.id

    run = theirs()
    clear()
    assert client.read_flow_run(run).state


def test_a_server_that_the_user_has_named_is_left_alone_unless_asked(client: SyncPrefectClient) -> None:
    run = ended()
    done = clear(shared=False)
    assert client.read_flow_run(run).state
    assert "--shared-runs" in (done.histories[0].trouble or "")
    assert done.needed is not None


def test_every_flow_of_the_house_is_known() -> None:
    assert {each.name for each in (build_index, answer_batch, evaluate, post_train, run_step)} <= set(FLOWS)


def test_while_the_server_is_away_the_rest_is_done(tmp_path: Path) -> None:
    from storage.artifacts import Artifacts

    Artifacts(tmp_path / "store").put("document", b"abc")
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "key").write_text("{}")
    away = {"TRIVET_HOME": str(tmp_path), "PREFECT_API_URL": "http://127.0.0.1:9/api"}
    done = run_apart("gc", "--older-than", "0", "--json", before=None, **away)
    told = json.loads(done.stdout)
    assert (done.code, told["removed_bytes"], told["kept_results"]) == (3, 3, 1)
    assert "http://127.0.0.1:9/api: it cannot be asked" in done.stderr
