"""Questions read as computations: all of a question or nothing."""

from __future__ import annotations

import pytest

from tasks.rag.numbers.computations import asks_to_work_out, defines, read_computation
from tests.rag.numbers.test_expressions import told


def read(question: str) -> list[tuple[str, str, str]]:
    """Formula, period and unit of each figure."""
    found = read_computation(question, said=["Marlow Mills", "말로우밀스"], names=["Marlow Mills 10-K"])
    return [(told(task.expression), task.label, task.shown) for task in found.tasks] if found else []


READ = """
What was Marlow Mills' inventory turnover in FY2019? | inventory_turnover | FY2019 | times
FY2019 loom ratio, that is, (revenue - COGS) / goodwill? | ((revenue - cost_of_sales) / goodwill) | FY2019 |
FY2019 inventory turnover? It is defined as COGS divided by inventory. | (cost_of_sales / inventory) | FY2019 | times
Revenue growth of Marlow Mills from FY2018 to FY2019? | ((revenue@2019 / revenue@2018) - 1) | FY2018 → FY2019 | %
By what percentage did net sales grow in FY2019? | ((revenue@2019 / revenue@2018) - 1) | FY2018 → FY2019 | %
By how much did gross margin change from FY2017 to FY2019? | change[gross_margin 2017 2019] | FY2017 → FY2019 | %
The change in inventory between FY2018 and FY2019? | change[inventory 2018 2019] | FY2018 → FY2019 | amount
What was the revenue CAGR from FY2016 to FY2019? | cagr[revenue 2016 2019] | FY2016 → FY2019 | %
Average goodwill from FY2017 to FY2019? | average[goodwill 2017 2018 2019] | FY2017 … FY2019 | amount
What was R&D as a percentage of revenue in FY2019? | (research_and_development / revenue) | FY2019 | %
Inventory of Marlow Mills in Q2 FY2022? | inventory | Q2 FY2022 | amount
말로우밀스의 2021년 영업이익률은 얼마인가? | operating_margin | FY2021 | %
2021년 매출액은 2020년 대비 몇 % 증가했나? | ((revenue@2021 / revenue@2020) - 1) | FY2020 → FY2021 | %
말로우밀스의 2021년 유동부채 대비 재고자산 비율은? | (inventory / current_liabilities) | FY2021 | %
What share of revenue was wool in FY2019? | («wool» / revenue) | FY2019 | %
"""


@pytest.mark.parametrize("case", READ.strip().split("\n"))
def test_a_question_is_read_as_one_figure(case: str) -> None:
    question, *figure = (part.strip() for part in case.split("|"))
    assert read(question) == [tuple(figure)]


def test_a_value_is_asked_for_each_year() -> None:
    found = read("What was goodwill of Marlow Mills in FY2018 and FY2019?")
    assert found == [("goodwill", f"FY{year}", "amount") for year in (2018, 2019)]


UNREAD = """
What was revenue?
Why did revenue grow in FY2019?
How is revenue recognized in FY2019?
Which policies apply to inventory in FY2019?
Who audited net income in FY2019?
2019년 매출액이 늘어난 이유는?
What was the weight of the loom shed doors near the mill pond when revenue fell in FY2019?
"""


@pytest.mark.parametrize("question", UNREAD.strip().split("\n"))
def test_a_question_that_asks_for_another_thing_is_not_computed(question: str) -> None:
    assert read(question) == []


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Revenue in FY2019?", (None, "", "en")),
        ("Revenue in FY2019 in millions, rounded to one decimal place?", (1, "millions", "en")),
        ("2019년 매출액은? 소수점 둘째 자리까지 반올림", (2, "", "ko")),
    ],
)
def test_decimals_and_scale_are_as_asked(question: str, asked: tuple[int | None, str, str]) -> None:
    found = read_computation(question)
    assert (found and (found.decimals, found.scale, found.language)) == asked


WORKED = """
What was the quick ratio in FY2019?
What was the revenue growth rate in FY2019?
How many times larger was revenue than goodwill?
2021년 매출액 성장률은?
2021년 매출액 증가율은?
"""


def test_a_text_of_thousands_of_characters_asks_for_no_figure() -> None:
    long = "% of revenue in 2019 " * 400
    assert read_computation(long) is None
    assert not defines(f"{'x' * 2_000} = revenue / inventory")


def test_what_takes_arithmetic() -> None:
    plain = ["Who audits Marlow Mills?", "What was revenue in FY2019?"]
    given = "Loom ratio = revenue / inventory. What was it in FY2019?"
    assert all(map(asks_to_work_out, [*WORKED.strip().split("\n"), given]))
    assert not any(map(asks_to_work_out, plain))
    assert [defines(one) for one in (given, *plain)] == [True, False, False]
