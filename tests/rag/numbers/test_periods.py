"""Periods as headers write them."""

from __future__ import annotations

from datetime import date

import pytest

from tasks.rag.numbers.periods import (
    WHOLE_YEAR,
    Part,
    Period,
    PeriodColumns,
    find_parts,
    find_period,
    part_of_year,
    write_years_out,
)


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
    assert find_period(text) == Period(kind="duration", start=start, end=end, year=year, label=label)


@pytest.mark.parametrize("text", ["As of November 27, 2015", "November 27, 2015", "2015. 11. 27. 현재"])
def test_points_in_time(text: str) -> None:
    assert find_period(text) == Period(kind="instant", end=date(2015, 11, 27), year=2015, label="2015-11-27")


def test_a_year_alone_tells_neither() -> None:
    assert find_period("Change in 2019") == Period(kind="none", year=2019, label="2019")


@pytest.mark.parametrize("text", ["", "% Change", "$ 2,019", "Amount", "2,019.5", "Note 12", "1,2020"])
def test_no_period(text: str) -> None:
    assert find_period(text) is None


@pytest.mark.parametrize(
    ("question", "part"),
    [
        ("revenue in FY2022", WHOLE_YEAR),
        ("2022년 1분기 매출액", Part(1, 3)),
        ("revenue of the nine months ended September 30, 2022", Part(None, 9, (9, 30))),
        ("the first half of 2022", Part(None, 6)),
        ("2022년 상반기 매출액", Part(None, 6)),
        ("the quarter ended June 30, 2022", Part(None, 3, (6, 30))),
        ("Q1 2022 against Q2 2022", None),
    ],
)
def test_the_part_that_a_question_names(question: str, part: Part | None) -> None:
    assert part_of_year(question) == part


@pytest.mark.parametrize(
    ("question", "labels"),
    [
        ("Q2 2023 vs Q2 2022", ["Q2 FY2023", "Q2 FY2022"]),
        ("3Q23 versus 2Q23", ["Q3 FY2023", "Q2 FY2023"]),
        ("Q4 2022 and Q1 2023", ["Q4 FY2022", "Q1 FY2023"]),
        ("three months ended June 30, 2023 and 2022", ["3 months to 6/30 FY2023", "3 months to 6/30 FY2022"]),
        ("2023년 2분기와 1분기", ["Q2 FY2023", "Q1 FY2023"]),
        ("2017년 6월 말", ["to 6/30 FY2017"]),
        ("FY19 and 2018-19", []),
        ("2023년 13월 5일", []),
    ],
)
def test_the_parts_that_a_question_names(question: str, labels: list[str]) -> None:
    assert [when.label for when in find_parts(write_years_out(question))] == labels


def test_years_of_two_digits_are_spelled_out() -> None:
    assert write_years_out("FY19 to FY'21, 2018-19, Q3'22") == "FY2019 to FY2021, 2018-2019, Q3 2022"


def period(header: str) -> Period:
    found = find_period(header)
    assert found
    return found


YEAR, MONTHS, DAY, QUARTER = WHOLE_YEAR, Part(None, 3, (6, 30)), Part(None, None, (6, 30)), Part(2, 3)


@pytest.mark.parametrize(
    ("part", "balance", "held", "others"),
    [
        (YEAR, False, "Year ended December 31, 2022; 2022", "Three months ended June 30, 2022; December 31, 2022"),
        (YEAR, True, "December 31, 2022", "December 31, 2021"),
        (MONTHS, False, "Three months ended June 30, 2022; Thirteen weeks ended July 2, 2022", "Q1 2022; 2022"),
        (DAY, True, "June 30, 2022", "December 31, 2022"),
        (QUARTER, False, "Three months ended June 30, 2022; Q2 2022", "Six months ended June 30, 2022; Q1 2022"),
        (QUARTER, True, "June 30, 2022", "December 31, 2022"),
    ],
)
def test_the_columns_that_a_part_is(part: Part, balance: bool, held: str, others: str) -> None:
    wanted = PeriodColumns(2022, part, frozenset({("d", date(2022, 6, 30))}))
    held_or_not = {text: text in held.split("; ") for text in f"{held}; {others}".split("; ")}
    assert {text: wanted.includes("d", period(text), balance=balance) for text in held_or_not} == held_or_not


@pytest.mark.parametrize(
    ("question", "spelled"),
    [
        ("23기 매출은?", "제23기 매출은?"),
        ("제23기 매출은?", "제23기 매출은?"),
        ("25년 2분기 총액", "2025년 2분기 총액"),
        ("25년 동안", "25년 동안"),
    ],
)
def test_korean_terms_and_years_are_written_out(question: str, spelled: str) -> None:
    assert write_years_out(question) == spelled
