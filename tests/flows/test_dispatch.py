"""What becomes of a step on a pool comes back to its parent as it was: a value, or the error itself."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from uuid import UUID, uuid4

import pytest

from flows.running.settings import configure_steps

configure_steps()

from prefect.client.schemas.objects import FlowRun  # noqa: E402
from prefect.results import ResultRecord, ResultRecordMetadata  # noqa: E402  # pyright: ignore[reportPrivateImportUsage]
from prefect.serializers import JSONSerializer  # noqa: E402
from prefect.states import Completed, Crashed, Failed, Running  # noqa: E402

from flows.running import dispatch  # noqa: E402
from flows.running.dispatch import PoolStepFailed, inputs_of, keep_outcome  # noqa: E402
from models.model_errors import ModelUnavailable, TransientModelError  # noqa: E402
from storage.records import Record, Ref  # noqa: E402
from tasks.rag.rag_errors import TooManyFailed  # noqa: E402
from tasks.resources import SentStep, artifacts, results  # noqa: E402
from tasks.step import GPU, Incomplete, step, with_device  # noqa: E402


class Counted(Record):
    """What a step of these tests returns."""

    count: int
    of: Ref


COUNTED = Counted(count=2, of=Ref(kind="text", digest="a" * 64, size=3))


class Unheard(Exception):
    """An error of nobody's house."""


def outcome(work: object) -> object:
    """What a parent gets of a child that does `work`, or raises it."""
    if isinstance(work, Exception):
        with pytest.raises(type(work)):
            keep_outcome("run", lambda: (_ for _ in ()).throw(work))
    else:
        keep_outcome("run", lambda: work)
    return dispatch.open_outcome(results().read(dispatch.outcome_of("run")) or b"")


@pytest.mark.parametrize("value", [COUNTED, (COUNTED, COUNTED), None, 3, "글"], ids=lambda value: type(value).__name__)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    back = outcome(value)
    assert back == (list(value) if isinstance(value, tuple) else value), "JSON knows no tuples, as in every record"


def test_what_is_not_finished_comes_back_with_the_rest() -> None:
    with pytest.raises(Incomplete) as raised:
        outcome(Incomplete([COUNTED], {"page 3": "the model is away"}))
    assert raised.value.result == [COUNTED]
    assert raised.value.items == {"page 3": "the model is away"}


@pytest.mark.parametrize(
    "error",
    [ModelUnavailable("no weights at /models/x"), TransientModelError("busy"), ValueError("K is 0"), KeyError("k")],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_itself(error: Exception) -> None:
    with pytest.raises(type(error)) as raised:
        outcome(error)
    assert str(raised.value) == str(error)


@pytest.mark.parametrize("error", [Unheard("oh"), TooManyFailed(0.9, allowed=0.5)], ids=["unheard", "keywords"])
def test_an_error_that_cannot_be_made_again_comes_back_with_its_words(error: Exception) -> None:
    with pytest.raises(PoolStepFailed, match=type(error).__name__) as raised:
        outcome(error)
    assert str(error) in str(raised.value)


class Client:
    """What Prefect's client tells of one child that is read again; it notes what is cancelled."""

    def __init__(self, child: FlowRun | None = None) -> None:
        self.child = child or SimpleNamespace(name="index notices", state=None)
        self.cancelled = list[UUID]()

    def read_flow_run(self, _: UUID) -> object:
        return self.child

    def set_flow_run_state(self, run: UUID, _: object) -> None:
        self.cancelled.append(run)


def send(
    monkeypatch: pytest.MonkeyPatch,
    key: str,
    *,
    child: FlowRun | None = None,
    is_own: bool = True,
    start: Callable[..., FlowRun] | None = None,
    wait: Callable[..., FlowRun] = lambda _, child, __: child,
    client: Client | None = None,
) -> object:
    """What a run gets of a step. child: is under way on the pool, sent by that run or by another one."""
    run = uuid4()
    parents = {run: [run]} | ({child.id: [child.id, run if is_own else uuid4()]} if child else {})
    context = SimpleNamespace(get=lambda: SimpleNamespace(task_run=SimpleNamespace(flow_run_id=run)))
    monkeypatch.setattr(dispatch, "TaskRunContext", context)
    monkeypatch.setattr(dispatch, "get_client", lambda **_: nullcontext(client or Client()))
    monkeypatch.setattr(dispatch, "_run_and_parents", lambda _, of: parents[of])
    monkeypatch.setattr(dispatch, "_find_under_way", lambda *_: child)
    monkeypatch.setattr(dispatch, "_start", start)
    monkeypatch.setattr(dispatch, "_wait_for", wait)
    monkeypatch.setattr(dispatch, "say", lambda _: None)
    monkeypatch.setattr(dispatch, "PAUSE_S", 0)
    return dispatch.send(SentStep("tasks.x.steps.x", key * 64, {}, "embed 1/1"), "run-step/gpu")


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "of another run"])
def test_every_run_that_waits_for_a_step_gets_its_error(is_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    child = FlowRun(flow_id=uuid4(), name="embed 1/1", state=Failed(message="no"))
    with pytest.raises(ModelUnavailable):
        keep_outcome(child.id, lambda: (_ for _ in ()).throw(ModelUnavailable("no weights")))
    with pytest.raises(ModelUnavailable, match="no weights"):
        send(monkeypatch, "o", child=child, is_own=is_own)


def test_who_waits_for_a_child_without_an_outcome_gets_the_record_of_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    about = ResultRecordMetadata(storage_key="k" * 64, serializer=JSONSerializer())
    results().write("k" * 64, ResultRecord(metadata=about, result=COUNTED).serialize())
    child = FlowRun(flow_id=uuid4(), name="embed 1/1", state=Completed())
    assert send(monkeypatch, "k", child=child) == COUNTED
    with pytest.raises(PoolStepFailed, match=r"embed 1/1 ended as Completed .* Retry this run"):
        send(monkeypatch, "l", child=child)


def test_a_step_that_fails_after_its_process_was_killed_once_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    states, children = [Crashed(), Failed(message="out of memory"), Failed(message="out of memory")], list[FlowRun]()

    def start(*_: object, **__: object) -> FlowRun:
        children.append(FlowRun(flow_id=uuid4(), name="embed 1/1", state=states[len(children)]))
        return children[-1]

    with pytest.raises(PoolStepFailed, match="out of memory"):
        send(monkeypatch, "m", start=start)
    assert len(children) == 2


@pytest.mark.parametrize("is_own", [True, False], ids=["own", "of another run"])
def test_a_run_that_goes_on_cancels_the_child_that_it_had_sent(is_own: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    child = FlowRun.model_validate({"flow_id": uuid4(), "state": Running(), "start_time": "2026-11-30T23:00:00Z"})
    client = Client(child)

    def end(*_: object) -> FlowRun:
        raise ModelUnavailable("The program is ending.")

    with pytest.raises(ModelUnavailable):
        send(monkeypatch, "n", child=child, is_own=is_own, wait=end, client=client)
    assert client.cancelled == ([child.id] if is_own else [])


def test_inputs_are_what_the_step_is_annotated_with() -> None:
    def work(counted: tuple[Counted, ...], *, folder: Path, limit: int | None) -> None: ...

    told = {"counted": [COUNTED.model_dump(mode="json")], "folder": "/tmp", "limit": None}
    assert inputs_of(work, told) == {"counted": (COUNTED,), "folder": Path("/tmp"), "limit": None}


def test_large_inputs_travel_as_an_artifact() -> None:
    def work(words: list[str]) -> None: ...

    ref = artifacts().put("step-inputs", b'{"words": ["a", "b"]}')
    assert inputs_of(work, ref.model_dump(mode="json")) == {"words": ["a", "b"]}


def test_a_step_whose_model_is_elsewhere_claims_no_device() -> None:
    @step(version=1, gpu=True)
    def ask() -> None: ...

    ask.tags = {GPU}
    assert with_device(ask, in_process=True).tags == {GPU}
    assert with_device(ask, in_process=False).tags == set()
    assert ask.tags == {GPU}
