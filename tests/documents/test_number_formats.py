"""Numbers of cells are shown as spreadsheet programs show them; each expectation was worked out by hand."""

from __future__ import annotations

import pytest

from tasks.documents.sheets.number_formats import BUILT_IN, format_number, is_date


@pytest.mark.parametrize(
    ("value", "code", "expected"),
    [
        (1234567.891, "General", "1234567.891"),
        (1e21, "General", "1E+21"),
        (1200000, "#,##0", "1,200,000"),
        (-1234.5, "#,##0.00", "-1,234.50"),
        (2.5, "0", "3"),
        (0.125, "0.0%", "12.5%"),
        (1234567, "#,##0,", "1,235"),
        (1500000000, '0.0,,,"십억"', "1.5십억"),
        (1350, "[$₩-412]#,##0;[Red]-[$₩-412]#,##0", "₩1,350"),
        (-868, "#,##0;(#,##0)", "(868)"),
        (-868, '_-* #,##0_-;-* #,##0_-;_-* "-"_-;_-@_-', "-868"),
        (0, '_-* #,##0_-;-* #,##0_-;_-* "-"_-;_-@_-', "-"),
        (1208147521, "000-00-00000", "120-81-47521"),
        (1.5, "0.##", "1.5"),
        (12345.678, "0.00E+00", "12345.678"),
        (120, '[>=100]"많음";[<0]"음수";0', "많음"),
        (1234567, '[>=1000000]0.0,,"M";[>=1000]#,##0,"K";0', "1.2M"),
        (-12, '[>=1000000]0.0,,"M";[>=1000]#,##0,"K";0', "-12"),
        (12, "[>100]0", "12"),
        (1234567, "#,##0,.00", "1,234.57"),
        (-1234567, '#,##0,_);(#,##0,);"-"', "(1,235)"),
        (-0.001, "0.0", "0.0"),
        (0.5, "# ?/?", "0.5"),
        (45443, BUILT_IN[14], "2024-05-31"),
        (45443.75, "yyyy/m/d h:mm", "2024/5/31 18:00"),
        (45443.75, "h:mm AM/PM", "6:00 PM"),
        (45443, 'yyyy"년" m"월" d"일" aaaa', "2024년 5월 31일 금요일"),
        (45443, "[$-409]d-mmm-yy;@", "31-May-24"),
        (1.5, "[h]:mm", "36:00"),
        (1, "yyyy-mm-dd", "1900-01-01"),
        (61, "yyyy-mm-dd", "1900-03-01"),
        (99999999, "yyyy-mm-dd", "99999999"),
    ],
)
def test_numbers_and_dates(value: float, code: str, expected: str) -> None:
    assert format_number(value, code) == expected


def test_dates_may_count_from_1904() -> None:
    assert format_number(43981, "yyyy-mm-dd", since_1904=True) == "2024-05-31"


def test_a_literal_d_is_no_date() -> None:
    assert [is_date(code) for code in ("yyyy", "[h]:mm")] == [True, True]
    assert [is_date(code) for code in ('0" days"', "[Red]0", "General")] == [False, False, False]
