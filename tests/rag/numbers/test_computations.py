"""Questions read as computations: all of a question or nothing."""

from __future__ import annotations

import pytest

from tasks.rag.numbers.computation_reading import asks_to_work_out, read_computation, writes_formula
from tasks.rag.numbers.expressions import lines_of
from tasks.rag.numbers.operands import list_readings
from tasks.rag.numbers.periods import When
from tasks.rag.numbers.written_formulas import definitions
from tests.rag.numbers.test_expressions import told


def read(question: str) -> list[tuple[str, str, str]]:
    """Formula, period and unit of each figure."""
    found = read_computation(question, spoken_names=["Marlow Mills", "말로우밀스"], names=["Marlow Mills 10-K"])
    return [(told(task.expression), task.label, task.display_unit) for task in found.tasks] if found else []


READ = """
What was Marlow Mills' inventory turnover in FY2019? | inventory_turnover | FY2019 | times
FY2019 loom ratio, that is, (revenue - COGS) / goodwill? | ((revenue - cost_of_sales) / goodwill) | FY2019 |
FY2019 inventory turnover? It is defined as COGS divided by inventory. | (cost_of_sales / inventory) | FY2019 | times
Revenue growth of Marlow Mills from FY2018 to FY2019? | ((revenue@2019 / revenue@2018) - 1) | FY2018 → FY2019 | %
By how much did gross margin change from FY2017 to FY2019? | change[gross_margin 2017 2019] | FY2017 → FY2019 | %
What was the revenue CAGR from FY2016 to FY2019? | cagr[revenue 2016 2019] | FY2016 → FY2019 | %
Average goodwill from FY2017 to FY2019? | average[goodwill 2017 2018 2019] | FY2017 … FY2019 | amount
Inventory of Marlow Mills in Q2 FY2022? | inventory | Q2 FY2022 | amount
말로우밀스의 2021년 영업이익률은 얼마인가? | operating_margin | FY2021 | %
2021년 매출액은 2020년 대비 몇 % 증가했나? | ((revenue@2021 / revenue@2020) - 1) | FY2020 → FY2021 | %
Net sales of Marlow Mills: FY19 versus FY18, percent change? | ((revenue@2019 / revenue@2018) - 1) | FY2018 → FY2019 | %
In which year was revenue highest, FY2018 to FY2019? | highest[revenue 2018 2019] | FY2018 … FY2019 | amount
What was total net income over FY2018 to FY2019, added up? | sum[net_income 2018 2019] | FY2018 … FY2019 | amount
Assume that you are an analyst. What was FY2019 revenue? Answer in USD millions. | revenue | FY2019 | amount
How many points did gross margin change, FY2018 to FY2019? | change[gross_margin 2018 2019] | FY2018 → FY2019 | %
말로우밀스의 2021년 매출액에서 매출원가를 뺀 값은? | (revenue@2021 - cost_of_sales) | FY2021 |
말로우밀스의 2021년 영업이익은 전년 대비 얼마나 늘었나? | change[operating_income 2020 2021] | FY2020 → FY2021 | amount
2020년부터 2021년까지 매출액이 가장 높았던 해는? | highest[revenue 2020 2021] | FY2020 … FY2021 | amount
재무상태표를 기준으로 2021년 말 유동자산을 백만원 단위로 답해 줘 | current_assets | FY2021 | amount
FY2019 turns as COGS / average of opening and closing inventory? | (cost_of_sales / average[inventory]) | FY2019 |
FY2019 gap = sales less COGS. How much more than 2018? | change[(revenue - cost_of_sales) 2018 2019] | FY2018 → FY2019 |
Add up the goodwill (not of wool) of FY2018 and FY2019. | sum[goodwill 2018 2019] | FY2018 … FY2019 | amount
유동비율 = 유동자산 ÷ 유동부채 × 100 으로 정의하면 2021년 값은? | (current_assets / current_liabilities) | FY2021 | %
2021년 2분기 매출액은 전년 동기 대비 몇 % 증가했나? | ((revenue@2021 / revenue@2020) - 1) | Q2 FY2020 → Q2 FY2021 | %
"""


@pytest.mark.parametrize("case", READ.strip().split("\n"))
def test_a_question_is_read_as_one_figure(case: str) -> None:
    question, *figure = (part.strip() for part in case.split("|"))
    assert read(question) == [tuple(figure)]


PARTS = """
What was Felt segment revenue in FY2019? | Felt
What was revenue of the Felt segment in FY2019? | Felt
What revenue did the Felt segment make in FY2019? | Felt
What was domestic revenue in FY2019? | domestic
What was revenue excluding felt in FY2019? | excluding felt
2021년 해외 매출액은? | 해외
"""


@pytest.mark.parametrize("case", PARTS.strip().split("\n"))
def test_what_names_a_part_of_the_company_goes_with_the_line(case: str) -> None:
    question, of = case.split(" | ")
    found = read_computation(question, labels=lambda: {"felt": 9})
    assert found
    assert [line.of for task in found.tasks for line in lines_of(task.expression)] == [of]


def test_two_quarters_are_two_figures() -> None:
    assert [figure[1] for figure in read("What was revenue in Q1 2019 and Q2 2019?")] == ["Q1 FY2019", "Q2 FY2019"]


def test_without_a_year_the_documents_tell_it() -> None:
    found = read_computation("What was revenue?", latest=lambda: When(2020))
    assert found
    assert (found.tasks[0].label, found.assumed) == ("FY2020", True)


UNREAD = """
What was revenue?
Why did revenue grow in FY2019?
How is revenue recognized in FY2019?
What was the ratio of the 2018 total goodwill to 2019?
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


def test_what_takes_arithmetic() -> None:
    plain = ["Who audits Marlow Mills?", "What was revenue in FY2019?"]
    # a document states a weighted average, and `per the lease` is no division
    plain += ["What is the weighted-average life of the intangible assets?", "무형자산의 가중평균 내용연수는 얼마인가?"]
    plain += ["What are the ratios to be kept as per the loan agreement?", "What is the rent to be paid per the lease?"]
    given = "Loom ratio = revenue / inventory. What was it in FY2019?"
    assert all(map(asks_to_work_out, [*WORKED.strip().split("\n"), given]))
    assert not any(map(asks_to_work_out, plain))
    assert not any(list_readings(question, ()) for question in plain)
    assert [writes_formula(one) for one in (given, *plain[:2])] == [True, False, False]


ASKED = """
FY2019 CCC? CCC = DIO - DPO, where DIO = 9 x inventory / COGS and DPO = 9 x payables / COGS, all year-end. | \
(((9 * inventory) / cost_of_sales) - ((9 * accounts_payable) / cost_of_sales))
FY2019 free cash flow margin, where free cash flow = operating cash flow minus dividends paid? | \
((operating_cash_flow - dividends_paid) / revenue)
"""


@pytest.mark.parametrize("case", ASKED.strip().split("\n"))
def test_definitions_of_inputs_go_into_what_is_asked_for(case: str) -> None:
    question, formula = (part.strip() for part in case.split("|"))
    found = read_computation(question)
    assert found
    assert [told(task.expression) for task in found.tasks] == [formula]


def test_a_formula_ends_where_words_begin_that_are_none() -> None:
    (found,) = definitions("Loom ratio = inventory / goodwill, with both at their year-end values.")
    assert (found.name, told(found.expression)) == ("Loom ratio", "(inventory / goodwill)")
