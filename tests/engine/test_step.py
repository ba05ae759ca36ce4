"""Steps on the real Prefect engine: cached by content, verified on a hit, resumable item by item."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from flows.running.settings import configure_steps
from storage.records import Record, Ref

configure_steps()

from prefect import flow  # noqa: E402
from prefect.serializers import JSONSerializer  # noqa: E402
from prefect.settings import get_current_settings  # noqa: E402

from flows.cli import engine  # noqa: E402
from tasks import step as steps  # noqa: E402
from tasks.resources import artifacts  # noqa: E402
from tasks.step import Incomplete, gather, step  # noqa: E402

pytestmark = pytest.mark.engine

RAN: list[str] = []


class Doubled(Record):
    number: int
    text: Ref


@step(version=1)
def double(number: int) -> Doubled:
    RAN.append(f"double {number}")
    return Doubled(number=2 * number, text=artifacts().put("text", str(2 * number).encode()))


@step(version=1)
def triple(number: int) -> int:
    RAN.append(f"triple {number}")
    return 3 * number


@step(version=1, reads_world=True)
def look(folder: str) -> int:
    RAN.append("look")
    return len(list(Path(folder).iterdir()))


def _file_stands(result: str, inputs: dict[str, str]) -> bool:
    return Path(inputs["path"]).exists()


@step(version=1, verify=_file_stands)
def write(path: str) -> str:
    RAN.append("write")
    Path(path).write_text("x")
    return path


@step(version=1)
def halves(numbers: tuple[int, ...]) -> tuple[int, ...]:
    RAN.append(f"halves {numbers}")
    odd = {str(number): "odd" for number in numbers if number % 2}
    done = tuple(number // 2 for number in numbers if number % 2 == 0)
    if odd:
        raise Incomplete(done, odd)
    return done


@pytest.fixture(autouse=True)
def _nothing_ran() -> None:
    RAN.clear()


def test_equal_inputs_run_once_and_two_steps_do_not_share_a_key() -> None:
    @flow
    def both() -> tuple[Doubled, int]:
        return double(7), triple(7)

    first, second = both(), both()

    assert first == second == (Doubled(number=14, text=artifacts().put("text", b"14")), 21)
    assert RAN == ["double 7", "triple 7"]


def test_a_lost_artifact_makes_a_hit_a_miss() -> None:
    @flow
    def one() -> Doubled:
        return double(8)

    ref = one().text
    artifacts().path(ref).unlink()

    assert artifacts().get(one().text) == b"16"
    assert RAN == ["double 8", "double 8"]


def test_a_step_that_reads_the_world_looks_again_in_the_next_run(tmp_path: Path) -> None:
    @flow
    def count() -> int:
        return look(str(tmp_path))

    before = count()
    (tmp_path / "new").touch()

    assert (before, count()) == (0, 1)


def test_a_hit_counts_only_while_the_effect_on_the_world_stands(tmp_path: Path) -> None:
    @flow
    def publish() -> str:
        return write(str(tmp_path / "out"))

    publish()
    publish()
    (tmp_path / "out").unlink()
    publish()

    assert RAN == ["write", "write"]


def test_an_incomplete_step_hands_on_what_it_has_and_is_never_cached() -> None:
    @flow
    def partly() -> tuple[list[tuple[int, ...]], dict[str, str]]:
        return tuple(gather([halves.submit((2, 4)), halves.submit((6, 7))]))  # pyright: ignore[reportReturnType]

    assert partly() == ([(1, 2), (3,)], {"7": "odd"})
    partly()
    assert sorted(RAN) == ["halves (2, 4)", "halves (6, 7)", "halves (6, 7)"]


def test_a_cache_hit_decodes_its_record_once(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[bytes] = []
    monkeypatch.setattr(
        steps, "_decoded", lru_cache(lambda blob: (decoded.append(blob), JSONSerializer().loads(blob))[1])
    )

    @flow
    def one() -> int:
        return triple(11)

    assert (one(), len(decoded)) == (33, 0)
    assert (one(), len(decoded), RAN) == (33, 1, ["triple 11"])


@pytest.mark.parametrize(("own", "beats"), [(True, False), (False, True)])
def test_a_flow_sends_heartbeats_only_to_a_server_that_somebody_watches(
    own: bool, beats: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "has_server", lambda: own)
    monkeypatch.setattr(engine, "wait_until_healthy", lambda _: None)
    outcome = engine.run_flow(lambda _: get_current_settings().flows.heartbeat_frequency, None)
    assert (outcome.report is not None) is beats
