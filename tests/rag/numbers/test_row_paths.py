"""Headings of rows, where a table has totals of parts before that of the whole."""

from __future__ import annotations

from tests.rag.numbers.test_cell_facts import facts


def test_a_heading_goes_on_to_its_own_total() -> None:
    found = facts(
        [
            ("", "2021", "2020"),
            ("Revenues", "", ""),
            ("Felt", "$ 70", "$ 60"),
            ("Total Marlow brand", "70", "60"),
            ("Wool", "30", "20"),
            ("Total revenues", "$ 100", "$ 80"),
            ("Employees", "12", "11"),
        ]
    )
    assert [fact.row_path for fact in found[::2]] == [
        ("Revenues", "Felt"),
        ("Revenues", "Total Marlow brand"),
        ("Revenues", "Wool"),
        ("Revenues", "Total revenues"),
        ("Employees",),
    ]


def test_quarters_below_their_year_are_quarters_of_it() -> None:
    found = facts(
        [
            ("", "", "Year Ended December 31, 2021", ""),
            ("", "First", "Second", "Third"),
            ("", "Quarter", "Quarter", "Quarter (1)"),
            ("Net sales", "$ 70", "$ 60", "$ 50"),
            ("", "", "Year Ended December 31, 2020", ""),
            ("", "First", "Second", "Third"),
            ("", "Quarter", "Quarter", "Quarter"),
            ("Net sales", "$ 40", "$ 30", "$ 20"),
        ],
        headers=3,
    )
    assert [fact.period.label for fact in found if fact.period] == [
        f"Q{quarter} {year}" for year in (2021, 2020) for quarter in (1, 2, 3)
    ]


def test_parts_that_are_named_alike_are_parts_of_the_row_above_them() -> None:
    rows = [
        ("", "2024"),
        ("가구", "30"),
        ("수도권", "20"),
        ("그 외", "10"),
        ("청년가구", "9"),
        ("수도권", "6"),
        ("그 외", "3"),
    ]
    assert [fact.row_path for fact in facts(rows)] == [
        ("가구",),
        ("가구", "수도권"),
        ("가구", "그 외"),
        ("청년가구",),
        ("청년가구", "수도권"),
        ("청년가구", "그 외"),
    ]
