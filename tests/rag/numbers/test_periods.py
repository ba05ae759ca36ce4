"""Periods as headers write them."""

from __future__ import annotations

from datetime import date

import pytest

from tasks.rag.numbers.periods import Period, period_in


@pytest.mark.parametrize(
    ("text", "label", "year", "start", "end"),
    [
        ("Years Ended December 3, 2021", "FY2021", 2021, date(2020, 12, 4), date(2021, 12, 3)),
        ("Year ended February 29, 2020", "FY2019", 2019, date(2019, 3, 1), date(2020, 2, 29)),
        (
            "Thirty-nine weeks ended October 29, 2022",
            "9 months to 2022-10-29",
            2022,
            date(2022, 1, 30),
            date(2022, 10, 29),
        ),
        (
            "Nine-month period ended 30 September 2020",
            "9 months to 2020-09-30",
            2020,
            date(2020, 1, 1),
            date(2020, 9, 30),
        ),
        ("FY19", "FY2019", 2019, None, None),
        ("Fourth quarter of 2022", "Q4 2022", 2022, None, None),
        ("2022년 3분기", "Q3 2022", 2022, None, None),
    ],
)
def test_spans(text: str, label: str, year: int, start: date | None, end: date | None) -> None:
    assert period_in(text) == Period(kind="duration", start=start, end=end, year=year, label=label)


@pytest.mark.parametrize("text", ["As of November 27, 2015", "November 27, 2015", "2015. 11. 27. 현재"])
def test_points_in_time(text: str) -> None:
    assert period_in(text) == Period(kind="instant", end=date(2015, 11, 27), year=2015, label="2015-11-27")


def test_a_year_alone_tells_neither() -> None:
    assert period_in("Change in 2019") == Period(kind="none", year=2019, label="2019")


@pytest.mark.parametrize("text", ["", "% Change", "$ 2,019", "Amount", "2,019.5", "Note 12", "1,2020"])
def test_no_period(text: str) -> None:
    assert period_in(text) is None
