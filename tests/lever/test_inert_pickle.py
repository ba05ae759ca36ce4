"""An honest pickle reads as the value it stands for; of the rest there is a description."""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tasks.lever.compat.inert_pickle import Global, Made, Outside, read_inert
from tasks.lever.lever_errors import FileUnusable

plain = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9)
values = st.recursive(
    plain, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner)
)


@given(values, st.integers(0, 5))
def test_plain_values_are_read_as_they_are(value: Any, protocol: int) -> None:
    assert read_inert(pickle.dumps(value, protocol), "x") == value


def test_values_that_are_shared_stay_shared() -> None:
    one = ["a"]
    first, second = read_inert(pickle.dumps([one, one]), "x")
    assert first is second


@pytest.mark.parametrize("protocol", range(6))
def test_an_ordered_dict_is_described_with_its_items(protocol: int) -> None:
    made = read_inert(pickle.dumps(OrderedDict(a=1, b=2), protocol), "x")
    assert isinstance(made, Made)
    assert made.by == Global("collections", "OrderedDict")
    assert list(made.items.items()) == [("a", 1), ("b", 2)]


class Kept:
    """Something with a state."""

    def __init__(self) -> None:
        self.size = 3


@pytest.mark.parametrize("protocol", range(6))
def test_an_object_is_described_by_its_class_and_state(protocol: int) -> None:
    made = read_inert(pickle.dumps(Kept(), protocol), "x")
    assert isinstance(made, Made)
    assert made.state == {"size": 3}


@pytest.mark.parametrize(
    ("opcodes", "by", "args"),
    [
        pytest.param(b"cm\nn\n(K\x01tR.", Global("m", "n"), (1,), id="reduce"),
        pytest.param(b"(K\x01im\nn\n.", Global("m", "n"), (1,), id="inst"),
        pytest.param(b"(cm\nn\nK\x01o.", Global("m", "n"), (1,), id="obj"),
        pytest.param(b"cm\nn\n(K\x01t\x81.", Global("m", "n"), (1,), id="newobj"),
        pytest.param(b"cm\nn\n)}\x92.", Global("m", "n"), ((), {}), id="newobj_ex"),
        pytest.param(b"K\x01K\x02R.", 1, 2, id="what nobody can call"),
    ],
)
def test_every_way_to_call_is_described(opcodes: bytes, by: Any, args: Any) -> None:
    made = read_inert(opcodes, "x")
    assert (made.by, made.args) == (by, args)


def test_persistent_ids_are_described() -> None:
    assert read_inert(b"(Pone\nK\x02Qt.", "x") == (Outside("one"), Outside(2))


@pytest.mark.parametrize(
    "opcodes",
    [b"", b".", b"K", b"K\x01", b"0.", b"t.", b"R.", b"h\x09.", b"K\x01K\x02s.", b"(K\x01d.", b"\xff.", b"\x97."],
    ids=["empty", "nothing", "cut", "no stop", "pop", "tuple", "call", "memo", "item", "odd dict", "noise", "buffer"],
)
def test_what_is_no_pickle_is_refused(opcodes: bytes) -> None:
    with pytest.raises(FileUnusable, match="x: not a whole pickle"):
        read_inert(opcodes, "x")
