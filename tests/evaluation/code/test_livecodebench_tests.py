"""Published tests of LiveCodeBench are unpacked without loading a pickle, and what is none of them is refused."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.benchmarks.code import livecodebench_tests
from tasks.evaluation.benchmarks.code.livecodebench_tests import (
    checked_kind,
    pickled_text,
    read_tests,
    unpacked,
    value_of,
)

ADD = [{"input": "1 2\n", "output": "3\n", "testtype": "stdin"}]
CALL = [{"input": "1\n[2]", "output": "3", "testtype": "functional"}]


def packed(content: bytes) -> str:
    return base64.b64encode(zlib.compress(content)).decode()


def as_published(tests: Any) -> str:
    return packed(pickle.dumps(json.dumps(tests)))


class Attack:
    """Its pickle would make a folder when it is loaded."""

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("attacked",)


def test_public_tests_come_before_private_ones() -> None:
    tests = list(read_tests(json.dumps(ADD), as_published([*ADD, *ADD])))
    assert [test.name for test in tests] == ["public test 1", "private test 1", "private test 2"]
    assert tests[2] == ("private test 2", "1 2\n", "3\n", "stdin")


@given(st.text(), st.sampled_from([2, 3, 4, 5]))
def test_every_pickled_text_is_read(text: str, protocol: int) -> None:
    assert pickled_text(pickle.dumps(text, protocol)) == text


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(pickle.dumps(Attack()), id="a call"),
        pytest.param(b"cos\nsystem\n(S'true'\ntR.", id="os.system"),
        pytest.param(pickle.dumps([json.dumps(ADD)]), id="a list"),
        pytest.param(pickle.dumps("one")[:-1] + pickle.dumps("two"), id="two texts"),
        pytest.param(b"\x80\x04X\xff\xff\xff\x7fabc.", id="shorter than it says"),
        pytest.param(b"\x80\x04\x8d" + b"\xff" * 8 + b"abc.", id="longer than memory"),
        pytest.param(b"\xff\xff", id="no pickle"),
    ],
)
def test_every_other_pickle_is_refused_and_nothing_of_it_runs(
    content: bytes, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match=r"pickle"):
        unpacked(packed(content))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("private", "why"),
    [
        ("not base64!", "neither JSON nor base64"),
        (base64.b64encode(zlib.compress(pickle.dumps("[]"))[:-3]).decode(), "cut off"),
        (base64.b64encode(zlib.compress(pickle.dumps("[]")) + b"more").decode(), "stands behind"),
        (packed(pickle.dumps("{")), "private tests are not JSON"),
        (as_published({}), "private tests are no list"),
        (as_published([{"input": "1", "output": "2"}]), "private test 1 needs"),
        (as_published([{**ADD[0], "testtype": "magic"}]), "testtype 'magic' is none of stdin, functional"),
        (as_published([]), "it has no tests"),
        (as_published([*ADD, *CALL]), "both of stdin and of functions"),
        (as_published([{**CALL[0], "output": "three"}]), "'three' is not JSON"),
    ],
)
def test_tests_that_cannot_be_run_are_told_apart(private: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        checked_kind("[]", private)


def test_a_text_that_unpacks_to_more_than_the_cap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(livecodebench_tests, "MOST_BYTES", 1 << 20)
    assert len(unpacked(packed(pickle.dumps("a" * 1_000_000)))) == 1_000_000
    with pytest.raises(ValueError, match="more than 1 MiB when unpacked"):
        unpacked(packed(b"a" * (1 << 24)))


def test_integers_of_any_length_are_read() -> None:
    long = "7" * 6_000
    assert value_of(f"[{long}, 1]") == value_of(f"[{long}, 1]")
    assert value_of(f"[{long}]") != value_of(f"[{long[:-1]}8]")
