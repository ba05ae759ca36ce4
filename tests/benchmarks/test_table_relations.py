"""The measure of tables, by hand."""

from __future__ import annotations

from tests.benchmarks.bench_tables import Placed, relations


def test_relations_by_hand() -> None:
    """A title over two columns, a place that is empty, and signs that do not count."""
    table = [
        Placed(0, 0, 1, 2, "Years"),
        Placed(1, 1, 0, 0, "Sales"),
        Placed(1, 1, 1, 1, "—"),
        Placed(1, 1, 2, 2, "$ 15"),
        Placed(2, 2, 1, 1, "7"),
    ]
    assert relations(table) == {
        ("years", "15", "below"): 1,
        ("years", "7", "below"): 1,
        ("sales", "15", "right"): 1,
    }
    assert relations([]) == {}
