"""LiveCodeBench: what is read and asked, how its tests are unpacked, what counts as equal, and the figures."""

from __future__ import annotations

import base64
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.evaluation.benchmarks.code import contest_tests
from tasks.evaluation.benchmarks.code.contest_tests import (
    build_program,
    check_kind,
    describe_output_difference,
    describe_value_difference,
    parse_value,
    read_pickled_text,
    read_tests,
    unpack,
)
from tasks.evaluation.benchmarks.code.contests import V2, V5, LiveCodeBench, extract_last_block
from tasks.evaluation.evaluation_records import Item, Sample
from tasks.evaluation.running.benchmark_data import Data

FOLDER = Path(__file__).parents[2] / "samples" / "benchmarks"
CASES = json.loads((FOLDER.parent / "programs" / "livecodebench_programs.json").read_text("utf-8"))


def items_of(benchmark: LiveCodeBench) -> dict[str, Item]:
    return {item.id: item for item in benchmark.items(Data(FOLDER))}


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        ("```python\nfirst\n```\nbetter:\n```python\nlast\n```", "last"),
        ("```python\ncode\n```\nIt prints\n```\n5\n```", "code"),
        ("```text\nnotes\n```\n```py\ncode\n```\n```text\n5\n```", "code"),
        ("```python\ncode", "code"),
        ("```python\r\ncode\r\n```", "code"),
    ],
)
def test_the_code_is_the_last_block(answer: str, code: str) -> None:
    assert extract_last_block(answer).strip() == code


def test_a_window_leaves_out_other_contests() -> None:
    assert list(items_of(V2)) == ["ferry_a", "9001_B", "boxes_f", "90001", "90002", "90003"]
    assert list(items_of(V5)) == ["clocks_a", "90004", "sums_e"]


def test_settings_are_those_of_evalchemy() -> None:
    assert [(one.name, one.repeats, one.sampling.temperature, one.sampling.max_tokens) for one in (V2, V5)] == [
        ("LiveCodeBench", 6, 0.7, 32768),
        ("LiveCodeBenchv5", 3, 0.7, 32768),
    ]


def test_prompts_are_those_of_evalchemy() -> None:
    for items in (items_of(V2), items_of(V5)):
        for item in items.values():
            assert item.system is None
            assert "class Solution" not in item.prompts[0]
    assert (
        items_of(V2)["ferry_a"]
        .prompts[0]
        .startswith(
            "Generate an executable Python function generated from the given prompt. The function should take stdin as "
            "input and print the output. Simply call the function after the definition.A ferry takes at most C cars"
        )
    )
    assert (
        items_of(V5)["90004"]
        .prompts[0]
        .startswith(
            "Generate an executable Python function generated from the given prompt. Return the function body without "
            "invoking it at the final solution.Return the median of numbers."
        )
    )


def written(folder: Path, **changed: Any) -> Data:
    """A data file with the fourth sample, changed."""
    row = json.loads((FOLDER / "livecodebench_v2.jsonl").read_text().splitlines()[3])
    (folder / "livecodebench_v2.jsonl").write_text(json.dumps(row | changed) + "\n")
    return Data(folder)


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        ({"contest_date": None}, "`contest_date` must begin as 2024-05-31, found None"),
        ({"private_test_cases": "rubbish"}, "its tests cannot be used: neither JSON nor base64"),
        ({"metadata": "{}"}, "`metadata` is not JSON with its `func_name`"),
        ({"metadata": json.dumps({"func_name": "f(); import os"})}, "`func_name` must be the name of a function"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_line(changed: dict[str, Any], why: str, tmp_path: Path) -> None:
    data = written(tmp_path, **changed)
    assert list(V2.items(data)) == []
    (said,) = data.left_out.values()
    assert "livecodebench_v2.jsonl, line 1: " in said
    assert why in said


def sample(item: str, repeat: int, score: float | None, group: str) -> Sample:
    status = "unscored" if score is None else "scored"
    return Sample(item=item, repeat=repeat, score=score, group=group, status=status, reason="so", extracted="code")


def test_figures_have_evalchemys_keys() -> None:
    samples = [
        *(sample("a", repeat, score, "easy") for repeat, score in enumerate([1, 1, 0])),
        *(sample("b", repeat, score, "hard") for repeat, score in enumerate([0, 1, 0])),
    ]
    found = V5.summarise(samples)
    assert found.metrics["accuracy_avg"] == found.metrics["pass@1"] == 0.5
    # by hand: repeats are solved by 1/2, 1 and 0; their standard deviation over n - 1 is 1/2
    assert found.metrics["accuracy_std_err"] == pytest.approx(0.5 / 3**0.5)
    assert found.metrics["accuracy_easy_avg"] == pytest.approx(2 / 3)
    assert found.metrics["accuracy_hard_avg"] == pytest.approx(1 / 3)
    assert found.metrics["accuracy_hard_std_err"] == pytest.approx(1 / 3)
    assert (found.metrics["num_total"], found.metrics["num_repeat"], found.metrics["solved_avg"]) == (2, 3, 1.0)
    assert found.metrics["run_stats"] == [
        {"repetition": number, "num_total": 2, "num_solved": solved, "accuracy": solved / 2}
        for number, solved in [(1, 1), (2, 2), (3, 0)]
    ]
    by_part = {one.part: one.value for one in found.estimates if one.metric == "pass@1"}
    assert by_part == {"": 0.5, "group=easy": pytest.approx(2 / 3), "group=hard": pytest.approx(1 / 3)}
    assert [one.metric for one in found.estimates if one.headline] == ["pass@1"]


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
    assert read_pickled_text(pickle.dumps(text, protocol)) == text


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
        unpack(packed(content))
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
        check_kind("[]", private)


def test_a_text_that_unpacks_to_more_than_the_cap_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contest_tests, "MOST_BYTES", 1 << 20)
    assert len(unpack(packed(pickle.dumps("a" * 1_000_000)))) == 1_000_000
    with pytest.raises(ValueError, match="more than 1 MiB when unpacked"):
        unpack(packed(b"a" * (1 << 24)))


def test_integers_of_any_length_are_read() -> None:
    long = "7" * 6_000
    assert parse_value(f"[{long}, 1]") == parse_value(f"[{long}, 1]")
    assert parse_value(f"[{long}]") != parse_value(f"[{long[:-1]}8]")


@pytest.mark.parametrize(("printed", "expected", "why"), CASES["outputs"])
def test_outputs_are_equal_by_line_and_number(printed: str, expected: str, why: str | None) -> None:
    found = describe_output_difference(printed, expected)
    assert found is None if why is None else (found or "").startswith(why)


@pytest.mark.parametrize(
    ("returned", "expected", "equal"),
    [*CASES["values"], ("\x1e" + "7" * 5000, "7" * 5000, True), ("\x1e" + "[" * 100_000, "[]", False)],
)
def test_values_are_equal_as_python_holds_them_equal(returned: str, expected: str, equal: bool) -> None:
    found = describe_value_difference(returned, expected)
    assert found is None if equal else (found or "").startswith("wrong answer: ")


def test_a_future_import_stays_first() -> None:
    source = build_program('"""Doc."""\nfrom __future__ import annotations\nprint(1)', None).source
    assert source == f'from __future__ import annotations\n{contest_tests.PRELUDE}\n"""Doc."""\nprint(1)'
