"""How a run that failed tells of it: what happened comes first, then what to do; who called it gets the error."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.running.settings import configure_steps

configure_steps()

from prefect import flow  # noqa: E402
from prefect.client.orchestration import SyncPrefectClient  # noqa: E402
from prefect.client.schemas.filters import FlowRunFilter, FlowRunFilterParentFlowRunId  # noqa: E402
from prefect.context import FlowRunContext  # noqa: E402
from prefect.states import Cancelling  # noqa: E402

from flows.rag import build_index  # noqa: E402
from flows.running.run_reporting import watched  # noqa: E402
from tasks.rag.rag_errors import Unfinished  # noqa: E402
from tests.engine.deployed import Ran, artifacts_of, work  # noqa: E402

pytestmark = pytest.mark.engine


def test_an_index_that_is_not_published_names_the_first_files(client: SyncPrefectClient, tmp_path: Path) -> None:
    documents = tmp_path / "documents"
    documents.mkdir()
    for number in range(7):
        (documents / f"broken-{number}.docx").write_bytes(b"PK\x03\x04 no archive %d" % number)

    ran = Ran(client, build_index, config={"documents": str(documents), "index": str(tmp_path / "index")})

    assert ran.state.is_failed()
    said = ran.state.message or ""
    assert said.startswith("100% of the documents could not be read (broken-")
    assert " and 4 more: The file is damaged or cut" in said
    assert "), more than the 50% allowed, so nothing was published; " in said
    assert said.endswith("or raise `max_failed_share`.")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            Unfinished({"a.pdf": "killed"}, report=None),
            "1 document is unfinished (a.pdf: killed); run again, or retry the run, to redo just these.",
        ),
        (KeyError("shots"), "KeyError: 'shots'"),
        (TimeoutError(), "TimeoutError"),
    ],
    ids=["a sentence", "not one of ours", "without words"],
)
def test_the_message_of_a_failure_begins_with_what_happened(
    client: SyncPrefectClient, error: Exception, message: str
) -> None:
    @flow(name="fails")
    @watched
    def fails() -> None:
        raise error

    ran = Ran(client, fails)
    assert (ran.run.state and ran.run.state.name, ran.state.message) == ("Failed", message)
    with pytest.raises(type(error)) as raised:
        fails()
    assert raised.value is error, "who calls the flow gets the error itself"


def test_who_calls_a_flow_gets_its_error_though_the_run_is_being_cancelled(client: SyncPrefectClient) -> None:
    @flow(name="called-off")
    @watched
    def called_off() -> None:
        run = FlowRunContext.get()
        assert run
        assert run.flow_run
        client.set_flow_run_state(run.flow_run.id, Cancelling(), force=True)
        raise KeyError("shots")

    with pytest.raises(KeyError, match="shots"):
        called_off()


def test_a_part_of_a_run_has_bars_of_its_own_and_says_which_run_to_retry(client: SyncPrefectClient) -> None:
    @flow(name="part")
    @watched
    def part() -> None:
        work(10, fails_after=3)

    @flow(name="whole", flow_run_name="the night")
    @watched
    def whole() -> None:
        part()

    ran = Ran(client, whole)
    [child] = client.read_flow_runs(
        flow_run_filter=FlowRunFilter(parent_flow_run_id=FlowRunFilterParentFlowRunId(any_=[ran.id]))
    )
    remedy = f"this run is a part of the night, so retry that: prefect flow-run retry {ran.id}"
    assert child.state
    assert child.state.message == f"RuntimeError: no light; {remedy}"
    assert ran.state.message == "RuntimeError: no light"
    assert [one.data for one in artifacts_of(client, child.id)] == [30]
    assert ran.bars == {"progress-train-sft": 30}
