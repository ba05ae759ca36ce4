# ruff: noqa: E501  a row of a table, or a paragraph, stays on one line
"""English documents: an annual report in the manner of a 10-K, a request for proposals, a newsletter, a climate report."""

from __future__ import annotations

from collections.abc import Sequence

from make_charts import boxes, logo, raster_bars, raster_lines, vector_bars, vector_lines, vector_pie
from make_pages import Cell, Look, Row, Sheet

SERIF = Look(body="tiro", bold="tibo", size=11.4, accent=(0.1, 0.1, 0.12))
SANS = Look(body="helv", bold="hebo", size=10.6, accent=(0.05, 0.36, 0.38))


def money(value: float) -> str:
    """Accounting style: thousands with commas, negatives in brackets, a dash for nothing."""
    if value == 0:
        return "-"
    digits = f"{abs(value):,.1f}" if isinstance(value, float) else f"{abs(value):,}"
    return f"({digits})" if value < 0 else digits


def ledger(lines: Sequence[tuple[str, tuple[float, ...] | None]]) -> list[Row]:
    """Rows of a statement; a line that starts with `=` is a total, one without values a caption."""
    rows: list[list[str | Cell | None]] = []
    for name, values in lines:
        total = name.startswith("=") or values is None
        rows.append([Cell(name.lstrip("="), bold=total), *[Cell(money(v), bold=total) for v in values or ()]])
    width = max(len(row) for row in rows)
    return [[*row, *[""] * (width - len(row))] for row in rows]


def annual_report() -> Sheet:
    sheet = Sheet(
        title="Calder Ridge Outfitters, Inc. - Annual Report for Fiscal 2023", created="D:20240322160000-05'00'", look=SERIF,
        footer="Calder Ridge Outfitters, Inc.   |   {page} of {pages}", covers=1,
    )  # fmt: skip
    _report_cover(sheet)
    sheet.contents("Table of Contents")
    _business(sheet)
    _risks(sheet)
    _properties(sheet)
    _discussion(sheet)
    _statements(sheet)
    _notes(sheet)
    _governance(sheet)
    return sheet


def _report_cover(sheet: Sheet) -> None:
    sheet.centered("ANNUAL REPORT", 13, y=150)
    sheet.centered("for the fiscal year ended February 3, 2024", 11, bold=False)
    sheet.centered("CALDER RIDGE OUTFITTERS, INC.", 22, y=240)
    sheet.centered("4100 Mill Race Road, Tarn Harbor", 11, bold=False)
    sheet.y = 360
    sheet.table(
        [
            ["Title of each class", "Symbol", "Shares outstanding at March 15, 2024"],
            ["Common stock, par value $0.01", "CRDO", "61,482,907"],
        ],
        [2, 1, 2], align="lcc", ruling="rules",
    )  # fmt: skip
    sheet.text(
        "The aggregate market value of common stock held by non-affiliates at July 29, 2023 was about $2.31 billion, based on the "
        "closing price on that day. The company, its stores and its figures are invented; any likeness to a real company is an accident."
    )
    sheet.new_page()


def _business(sheet: Sheet) -> None:
    sheet.chapter("Item 1. Business")
    sheet.heading("Overview", 2)
    sheet.text(
        "Calder Ridge Outfitters sells footwear, clothing and equipment for hiking, paddling and winter sports. We opened our first store "
        "in Tarn Harbor in 1987 and operated 214 stores in 19 regions at the end of fiscal 2023, together with a web shop, a rental "
        "business and a repair workshop that serves customers by post.",
        "Fiscal 2023 had 53 weeks. The additional week added $31.6 million to net sales and about $0.07 to diluted earnings per share. "
        "Where we compare sales of comparable stores, we leave the additional week out.",
    )
    sheet.heading("Segments", 2)
    sheet.text(
        "We report three segments. Retail holds our stores and web shop, Wholesale sells our own brands to other shops, and Services holds rental, repair and guided trips."
    )
    sheet.table(
        [
            ["Segment", "Net sales FY2023", "Share", "Employees"],
            ["Retail", "1,486.2", "84.1%", "7,910"],
            ["Wholesale", "198.4", "11.2%", "640"],
            ["Services", "82.9", "4.7%", "1,130"],
            [Cell("Total", bold=True), Cell("1,767.5", bold=True), Cell("100.0%", bold=True), Cell("9,680", bold=True)],
        ],
        [2, 1.4, 1, 1.2], align="lrrr", ruling="rules", unit="dollars in millions",
    )  # fmt: skip
    vector_pie(
        sheet,
        "Figure 1. Net sales by product group, fiscal 2023",
        {"Footwear": 38, "Clothing": 34, "Equipment": 21, "Services": 7},
        unit="%",
    )
    sheet.heading("Merchandise and sourcing", 2)
    sheet.text(
        "We buy from about 430 vendors. Our ten largest vendors supplied 41% of purchases, and no vendor supplied more than 9%. Own brands "
        "(Calder Ridge, Fellside and Little Tarn) accounted for 27% of retail sales, compared with 24% in the year before.",
        "Most own-brand goods are made in factories that we do not own. We place orders eight to ten months before the season and carry the "
        "risk that demand differs from what we expected. In fiscal 2023 we moved 18% of own-brand volume to factories that accept orders in "
        "smaller lots and deliver within twelve weeks.",
    )
    sheet.heading("Stores and distribution", 2)
    sheet.text(
        "A typical store has 1,450 square meters of selling space. We lease all stores but six. Two distribution centers, at Orrin Falls and "
        "at Pell Junction, receive about 96% of goods. The center at Pell Junction was extended by 22,000 square meters in fiscal 2022 and now "
        "prepares all web orders.",
    )
    sheet.heading("People", 2)
    sheet.text(
        "At February 3, 2024 we employed 9,680 people, of whom 3,870 worked full time. Turnover among store staff fell from 58% to 49%. "
        "Each employee may spend two paid days a year on trail maintenance; 4,216 days were used in fiscal 2023.",
    )


RISKS = (
    (
        "Weather decides much of our winter season.",
        "About 37% of annual sales fall into the thirteen weeks of our fourth quarter. A warm or dry winter reduces demand for skis, snowshoes and insulated clothing, and leaves us with stock that we can sell only at lower prices. In fiscal 2022 a late first snow lowered comparable sales of the quarter by an estimated 3.2 percentage points.",
    ),
    (
        "We depend on a small number of ports.",
        "Some 71% of our imported goods pass through two ports. Strikes, storms or congestion there can delay goods beyond the season for which they were bought. We hold options on capacity at a third port, which would cost more and would not cover the whole volume.",
    ),
    (
        "Our own brands expose us to costs that vendors otherwise carry.",
        "For own-brand goods we bear the cost of design, of unsold stock and of recalls. A recall of a child carrier in fiscal 2021 cost $4.8 million, of which insurance paid $1.9 million.",
    ),
    (
        "Information systems may fail or be attacked.",
        "We process card payments and keep addresses and purchase histories of about 8.4 million members. An intrusion could interrupt sales, lead to fines and damage trust. We keep insurance of $25 million for such events, which may not be enough.",
    ),
    (
        "Leases bind us for years.",
        "The average remaining term of our store leases is 6.3 years. If a store does badly, we usually cannot end its lease early without a payment.",
    ),
    (
        "Wages rise faster than prices.",
        "Minimum wages rose in eleven of the nineteen regions in which we operate stores. A rise of one dollar in the average hourly wage of store staff would cost about $13.5 million a year before any offset.",
    ),
    (
        "Competitors can match our prices within hours.",
        "Large web shops adjust prices several times a day. We match the prices of five named competitors, which lowered gross margin by about 40 basis points in fiscal 2023.",
    ),
    (
        "Our credit agreement limits what we may do.",
        "The agreement of June 2022 requires a ratio of debt to adjusted earnings of no more than 3.25 and restricts dividends when the ratio exceeds 2.50. At the end of fiscal 2023 the ratio was 1.18.",
    ),
    (
        "Rental and guided trips carry the risk of injury.",
        "Participants in trips and users of rented equipment may be hurt. We train guides, inspect equipment after each rental and keep liability insurance of $40 million for each event.",
    ),
    (
        "Changes in customs duties may raise our costs.",
        "Footwear carries duties of up to 37.5% of its value. A change in classification of waterproof shoes that was proposed in 2023 would raise our yearly duties by about $6 million.",
    ),
    (
        "We may not be able to keep our trade names free of copies.",
        "We found 312 offers of counterfeit Fellside jackets on marketplaces in fiscal 2023. Removing them takes time, and customers who receive a poor copy may hold it against us.",
    ),
)


def _risks(sheet: Sheet) -> None:
    sheet.chapter("Item 1A. Risk Factors")
    sheet.text(
        "The risks below could harm our business, our financial position and the price of our stock. Others that we do not know or hold to be minor may do so as well."
    )
    for title, text in RISKS:
        sheet.heading(title, 3)
        sheet.text(text)


STORES = (
    ("Alder Coast", 21, 31.2), ("Brannoch", 18, 26.4), ("Carrow Valley", 16, 22.7), ("Dunmere", 9, 13.3), ("East Fells", 14, 20.1),
    ("Farrow", 7, 9.8), ("Glenhaven", 12, 17.5), ("Harrowgate Plains", 11, 15.2), ("Iron Lakes", 19, 28.8), ("Juniper Basin", 8, 11.9),
    ("Kestrel Sound", 13, 18.6), ("Lower Marren", 6, 8.4), ("Marren Heights", 10, 14.6), ("Northbank", 15, 21.3), ("Orrin", 5, 7.7),
    ("Pell", 9, 12.5), ("Quill River", 4, 5.6), ("Stonewater", 11, 15.9), ("Tarn", 6, 10.4),
)  # fmt: skip


def _properties(sheet: Sheet) -> None:
    sheet.chapter("Item 2. Properties")
    sheet.text(
        "The table shows our stores by region at February 3, 2024. Selling space is in thousands of square meters. All stores are leased, "
        "save for two in Tarn, two in Alder Coast and one each in Brannoch and Iron Lakes, which we own."
    )
    chart = raster_bars(
        "Stores at year end",
        ("FY2019", "FY2020", "FY2021", "FY2022", "FY2023"),
        (188, 191, 197, 206, 214),
        unit="stores",
    )
    sheet.picture(chart, 215, "Figure 2. Stores at the end of each fiscal year")
    rows: list[Row] = [["Region", "Stores", "Selling space", "Opened in 2023", "Closed in 2023"]]
    rows += [
        [name, str(n), f"{space:.1f}", str(i % 4 % 3), str(i % 5 // 4)] for i, (name, n, space) in enumerate(STORES)
    ]
    total = sum(n for _, n, _ in STORES)
    rows.append(
        [
            Cell("Total", bold=True),
            Cell(str(total), bold=True),
            Cell(f"{sum(s for *_, s in STORES):.1f}", bold=True),
            "",
            "",
        ]
    )
    sheet.table(rows, [2.2, 1, 1.3, 1.3, 1.3], align="lrrrr", ruling="none", caption="Table 2. Stores by region")
    sheet.heading("Item 3. Legal Proceedings", 1)
    sheet.text(
        "In October 2022 a former supplier, Brightwell Canvas, sued us over the end of a supply agreement and asked for $11.4 million. We hold "
        "the claim to be without merit and have recorded no liability. The hearing is set for September 16, 2024."
    )
    sheet.heading("Item 5. Market for Our Common Stock", 1)
    sheet.table(
        [
            ["Fiscal 2023", "High", "Low", "Dividend declared"],
            ["First quarter", "$38.42", "$31.07", "$0.15"],
            ["Second quarter", "$41.15", "$35.60", "$0.15"],
            ["Third quarter", "$39.88", "$30.94", "$0.15"],
            ["Fourth quarter", "$44.73", "$36.18", "$0.15"],
        ],
        [2, 1, 1, 1.5], align="lrrr", ruling="rules",
    )  # fmt: skip
    sheet.text(
        "We bought back no shares in fiscal 2023. About $129.8 million remains under the authorization of May 2022."
    )


def _discussion(sheet: Sheet) -> None:
    sheet.chapter("Item 7. Management's Discussion and Analysis")
    sheet.heading("Results of operations", 2)
    sheet.table(
        [
            ["Fiscal year", Cell("2023", align="r"), Cell("2022", align="r"), Cell("2021", align="r")],
            *ledger([
                ("Net sales", (1767.5, 1689.3, 1604.8)),
                ("Cost of sales", (-1099.4, -1068.1, -997.0)),
                ("=Gross profit", (668.1, 621.2, 607.8)),
                ("Selling, general and administrative", (-521.9, -494.7, -468.5)),
                ("Depreciation and amortization", (-46.8, -43.2, -39.9)),
                ("=Operating income", (99.4, 83.3, 99.4)),
                ("Interest expense, net", (-9.7, -8.1, -6.3)),
                ("Income taxes", (-21.5, -18.2, -22.4)),
                ("=Net income", (68.2, 57.0, 70.7)),
            ]),
        ],
        [3, 1, 1, 1], align="lrrr", ruling="rules", unit="dollars in millions",
    )  # fmt: skip
    sheet.text(
        "Net sales rose 4.6% to $1,767.5 million. Comparable sales rose 2.3%: the number of transactions was up 0.9% and the average "
        "transaction 1.4%, to $78.60. Web sales were 24.8% of retail sales, compared with 23.1%.",
        "Gross margin was 37.8%, an increase of 100 basis points. Lower freight costs contributed 120 basis points and the larger share of "
        "own brands 50; price matching and higher shrink took 70 away.",
        "Selling, general and administrative expenses were 29.5% of net sales, up from 29.3%, mostly because of wages in stores and the new "
        "membership program.",
    )
    vector_bars(sheet, "Figure 3. Net sales by quarter", ("Q1", "Q2", "Q3", "Q4"),
                {"FY2022": (352, 371, 348, 618), "FY2023": (366, 389, 361, 652)}, unit="dollars in millions")  # fmt: skip
    sheet.heading("Liquidity and capital resources", 2)
    sheet.text(
        "Cash provided by operations was $141.3 million, compared with $88.6 million. Inventory fell by 6.4% to $402.7 million, while sales "
        "rose. Capital expenditures were $64.5 million and will be between $70 million and $78 million in fiscal 2024, of which about half "
        "goes to twelve new stores and seven relocations.",
        "We may borrow up to $350 million under the credit agreement; $85 million was drawn at the end of the year, at an interest rate of 6.42%.",
    )
    sheet.picture(raster_lines("Comparable sales growth by segment", ("FY2019", "FY2020", "FY2021", "FY2022", "FY2023"),
                  {"Retail": (3.1, 1.2, 9.8, 1.6, 2.3), "Wholesale": (2.4, 0.6, 7.1, 2.9, 4.4)}, unit="percent"), 205,
                  "Figure 4. Comparable sales growth")  # fmt: skip
    sheet.heading("Critical estimates", 2)
    sheet.text(
        "Inventory is carried at the lower of cost and net realizable value. We reduce it for goods that we expect to sell below cost; a "
        "change of ten percentage points in the expected markdown rate would change the reserve of $14.9 million by $2.2 million.",
        "Store assets are tested when a store loses money for two years. In fiscal 2023 we wrote off $3.1 million for five stores.",
    )


def _statements(sheet: Sheet) -> None:
    sheet.chapter("Item 8. Financial Statements")
    years: Row = ["", Cell("February 3,\n2024", align="r"), Cell("January 28,\n2023", align="r")]
    sheet.table([years, *ledger([
        ("Current assets", None), ("Cash and cash equivalents", (118_430, 92_715)), ("Receivables", (41_208, 38_944)),
        ("Inventory", (402_716, 430_252)), ("Prepaid expenses", (27_385, 24_801)), ("=Total current assets", (589_739, 586_712)),
        ("Property and equipment, net", (318_664, 303_127)), ("Operating lease assets", (486_921, 471_508)),
        ("Goodwill", (57_300, 57_300)), ("Other assets", (19_846, 17_233)), ("=Total assets", (1_472_470, 1_435_880)),
        ("Current liabilities", None), ("Accounts payable", (196_352, 188_417)), ("Accrued wages", (48_609, 43_975)),
        ("Gift cards and member rewards", (39_718, 36_240)), ("Current lease liabilities", (83_156, 80_394)),
        ("=Total current liabilities", (367_835, 349_026)), ("Long-term debt", (85_000, 120_000)),
        ("Long-term lease liabilities", (431_277, 419_862)), ("Deferred taxes", (22_904, 21_518)),
        ("=Total liabilities", (907_016, 910_406)), ("Shareholders' equity", None), ("Common stock", (615, 632)),
        ("Additional capital", (214_830, 206_117)), ("Retained earnings", (350_009, 318_725)),
        ("=Total equity", (565_454, 525_474)), ("=Total liabilities and equity", (1_472_470, 1_435_880)),
    ])], [3, 1.2, 1.2], align="lrr", ruling="rules", caption="Consolidated Balance Sheets", unit="dollars in thousands")  # fmt: skip
    sheet.new_page()
    flows: Row = ["Fiscal year", Cell("2023", align="r"), Cell("2022", align="r")]
    sheet.table([flows, *ledger([
        ("Operating activities", None), ("Net income", (68_204, 57_012)), ("Depreciation and amortization", (46_812, 43_190)),
        ("Stock-based compensation", (11_436, 10_208)), ("Write-off of store assets", (3_108, 1_944)), ("Change in inventory", (27_536, -31_870)),
        ("Change in payables", (7_935, 4_116)), ("Other", (-23_731, 4_000)), ("=Cash provided by operations", (141_300, 88_600)),
        ("Investing activities", None), ("Capital expenditures", (-64_512, -71_840)), ("Sale of property", (2_406, 0)),
        ("=Cash used for investing", (-62_106, -71_840)), ("Financing activities", None), ("Repayment of debt, net", (-35_000, -10_000)),
        ("Dividends paid", (-36_920, -33_105)), ("Employee share purchases and other", (18_441, 12_345)), ("=Cash used for financing", (-53_479, -30_760)),
        ("=Change in cash", (25_715, -14_000)),
    ])], [3, 1.2, 1.2], align="lrr", ruling="none", caption="Consolidated Statements of Cash Flows", unit="dollars in thousands")  # fmt: skip


def _notes(sheet: Sheet) -> None:
    sheet.chapter("Notes to Financial Statements")
    sheet.heading("Note 1. Accounting policies", 2)
    sheet.text(
        "The statements include all subsidiaries. The fiscal year ends on the Saturday nearest to January 31. Sales are recorded when the "
        "customer takes the goods or, for web orders, when they are handed to the carrier. Revenue from gift cards that will probably never "
        "be used is recorded in proportion to use; it was $3.4 million in fiscal 2023.",
        "Members earn one point for each dollar. A point is worth five cents when used within eighteen months. The value of points not yet "
        "used is deferred.",
    )
    sheet.heading("Note 2. Property and equipment", 2)
    sheet.table(
        [
            ["", Cell("Useful life", align="c"), Cell("2023", align="r"), Cell("2022", align="r")],
            ["Land", "-", "14,210", "14,210"],
            ["Buildings", "25-40 years", "118,375", "112,640"],
            ["Leasehold improvements", "lease term", "284,912", "266,301"],
            ["Fixtures and equipment", "3-10 years", "241,508", "225,874"],
            ["Software", "3-7 years", "96,433", "84,120"],
            ["Accumulated depreciation", "", "(436,774)", "(400,018)"],
            [Cell("Net", bold=True), "", Cell("318,664", bold=True), Cell("303,127", bold=True)],
        ],
        [2.4, 1.3, 1, 1], align="lcrr", ruling="rules", unit="dollars in thousands",
    )  # fmt: skip
    sheet.heading("Note 3. Leases", 2)
    sheet.text(
        "Future payments under operating leases at February 3, 2024 were as follows. The weighted average discount rate was 4.9%."
    )
    sheet.table(
        [
            ["Fiscal year", "Payments"], ["2024", "103,480"], ["2025", "98,215"], ["2026", "89,746"], ["2027", "78,330"], ["2028", "66,915"],
            ["Later", "165,204"], [Cell("Total", bold=True), Cell("601,890", bold=True)], ["Less interest", "(87,457)"],
            [Cell("Lease liabilities", bold=True), Cell("514,433", bold=True)],
        ],
        [3, 1.2], align="lr", ruling="none", unit="dollars in thousands",
    )  # fmt: skip
    sheet.heading("Note 4. Segments", 2)
    sheet.table(
        [
            [Cell("Segment", rows=2), Cell("Fiscal 2023", cols=2), None, Cell("Fiscal 2022", cols=2), None],
            [None, "Net sales", "Operating income", "Net sales", "Operating income"],
            ["Retail", "1,486.2", "88.9", "1,425.6", "74.8"],
            ["Wholesale", "198.4", "24.7", "187.1", "21.9"],
            ["Services", "82.9", "6.3", "76.6", "5.1"],
            ["Corporate", "-", "(20.5)", "-", "(18.5)"],
            [Cell("Total", bold=True), Cell("1,767.5", bold=True), Cell("99.4", bold=True), Cell("1,689.3", bold=True), Cell("83.3", bold=True)],
        ],
        [1.6, 1, 1.3, 1, 1.3], align="lrrrr", head=2, unit="dollars in millions",
    )  # fmt: skip
    sheet.heading("Note 5. Income taxes", 2)
    sheet.text(
        "The effective tax rate was 24.0%, compared with 24.2%. Unrecognized tax benefits were $2.7 million at the end of fiscal 2023; about $0.9 million may be settled within twelve months."
    )
    sheet.heading("Note 6. Stock-based compensation", 2)
    sheet.table(
        [
            ["Restricted stock units", "Units", "Average value"],
            ["Unvested at January 28, 2023", "742,300", "$33.18"],
            ["Granted", "338,150", "$36.02"],
            ["Vested", "(291,480)", "$31.77"],
            ["Forfeited", "(46,220)", "$34.09"],
            ["Unvested at February 3, 2024", "742,750", "$34.97"],
        ],
        [2.6, 1, 1.2], align="lrr", ruling="rules",
    )  # fmt: skip
    sheet.text("Unrecognized cost of $15.8 million will be recorded over a weighted average of 1.9 years.")


def _governance(sheet: Sheet) -> None:
    sheet.chapter("Item 10. Directors and Officers")
    sheet.table(
        [
            ["Name", "Age", "Position", "Since"],
            ["Ottilie Marsh", "57", "Chief Executive Officer and director", "2018"],
            ["Dov Carrigan", "49", "Chief Financial Officer", "2021"],
            ["Priya Holloway", "52", "Chief Merchandising Officer", "2016"],
            ["Ansel Trujillo-Reed", "45", "Chief Information Officer", "2022"],
            ["Marguerite Oyelaran", "63", "Chair of the board, independent", "2015"],
            ["Tobias Fenwick", "60", "Chair of the audit committee, independent", "2019"],
        ],
        [1.8, 0.6, 2.8, 0.7], align="lclc",
    )  # fmt: skip
    sheet.heading("Item 11. Executive Compensation", 1)
    sheet.table(
        [
            ["Name", "Salary", "Stock awards", "Bonus", "Total"],
            ["Ottilie Marsh", "980,000", "3,420,000", "1,176,000", "5,576,000"],
            ["Dov Carrigan", "610,000", "1,150,000", "457,500", "2,217,500"],
            ["Priya Holloway", "595,000", "980,000", "416,500", "1,991,500"],
            ["Ansel Trujillo-Reed", "520,000", "720,000", "312,000", "1,552,000"],
        ],
        [2, 1, 1.2, 1, 1.2], align="lrrrr", ruling="none", unit="in dollars",
    )  # fmt: skip
    sheet.text(
        "Bonuses depend on operating income (60%), comparable sales (25%) and employee turnover (15%). For fiscal 2023 the board set the payout at 100% of the target."
    )
    sheet.heading("Item 9A. Controls and Procedures", 1)
    sheet.text(
        "Our chief executive and chief financial officers concluded that disclosure controls were effective at February 3, 2024. One "
        "significant deficiency, in the approval of changes to supplier bank details, was found in June 2023 and remedied by November 2023."
    )


def fare_collection_rfp() -> Sheet:
    sheet = Sheet(
        title="RFP 24-017 Account-Based Fare Collection System", created="D:20240205090000-05'00'", look=SANS,
        header="Port Ellery Transit Authority - RFP 24-017", footer="Page {page}", logo=logo("PETA", "#0b5d5e"), covers=1,
    )  # fmt: skip
    sheet.centered("REQUEST FOR PROPOSALS", 14, y=180)
    sheet.centered("RFP 24-017", 12, bold=False)
    sheet.centered("Account-Based Fare Collection System", 24, y=250, color=SANS.accent)
    sheet.centered("Port Ellery Transit Authority", 16, y=430)
    sheet.centered("Issued February 5, 2024", 11, bold=False)
    sheet.centered("Proposals due April 12, 2024, 2:00 p.m.", 11)
    sheet.new_page()
    sheet.contents("Contents")
    _fare_sections(sheet)
    return sheet


def _fare_sections(sheet: Sheet) -> None:
    sheet.chapter("1. Introduction")
    sheet.heading("1.1 Purpose", 2)
    sheet.text(
        "The Port Ellery Transit Authority (the Authority) seeks a contractor to design, supply, install and operate for five years an "
        "account-based fare collection system for its buses, trams and ferries. Riders shall be able to pay with a bank card, a telephone "
        "or a card issued by the Authority, and shall never pay more than the cheapest fare for the trips that they made.",
        "The budget for delivery and the first five years of operation is $18,750,000. Offers above this amount will not be evaluated.",
    )
    sheet.heading("1.2 The Authority", 2)
    sheet.text(
        "The Authority carries 41.3 million passengers a year with 286 buses, 44 trams and 9 ferries. The present magnetic ticket system dates from 2003."
    )
    sheet.table(
        [
            ["Mode", "Vehicles", "Stops", "Validators today", "Boardings in 2023 (millions)"],
            ["Bus", "286", "1,912", "302", "24.6"], ["Tram", "44", "118", "176", "14.9"], ["Ferry", "9", "12", "24", "1.8"],
        ],
        [1, 1, 1, 1.4, 1.8], align="lrrrr", caption="Table 1. Network and equipment",
    )  # fmt: skip
    sheet.heading("1.3 Schedule of this procurement", 2)
    sheet.table(
        [
            ["Step", "Date"], ["Conference for proposers", "February 21, 2024"], ["Last day for questions", "March 8, 2024"],
            ["Answers published", "March 20, 2024"], ["Proposals due", "April 12, 2024"], ["Interviews", "May 13 to 17, 2024"],
            ["Award", "June 27, 2024"], ["Start of work", "August 1, 2024"],
        ],
        [2, 1.5], align="ll", ruling="none",
    )  # fmt: skip
    sheet.chapter("2. Scope of Work")
    sheet.heading("2.1 Architecture", 2)
    boxes(
        sheet,
        (
            ("Rider app", "Web account", "Call center", "Retail points"),
            ("Account engine", "Fare engine", "Payment gateway"),
            ("Bus validators", "Tram validators", "Ferry gates"),
        ),
    )
    sheet.text("Figure 1. Components of the system", size=9, align="c")
    sheet.heading("2.2 Phases", 2)
    sheet.items("1.", "Design and factory test, to be completed within seven months of the start of work.",
                "Pilot on tram line 4 and ferry route B with at least 2,500 riders for ten weeks.",
                "Installation in the whole fleet, at a rate of at least 20 vehicles a week.",
                "Parallel operation with magnetic tickets for six months, then their withdrawal.")  # fmt: skip
    sheet.heading("2.3 Fare rules", 2)
    sheet.table(
        [
            ["Rider class", "Single ride", "Daily cap", "Weekly cap", "Transfer"],
            ["Adult", "$2.75", "$6.50", "$26.00", "120 minutes"], ["Youth (6-17)", "$1.25", "$3.00", "$12.00", "120 minutes"],
            ["Senior (65+)", "$1.25", "$2.50", "$10.00", "180 minutes"], ["Reduced income", "$1.00", "$2.00", "$8.00", "180 minutes"],
        ],
        [1.5, 1, 1, 1, 1.2], align="lrrrr", caption="Table 2. Fares and caps",
    )  # fmt: skip
    sheet.chapter("3. Requirements")
    sheet.text("Each requirement is mandatory (M) or desired (D). The proposal shall answer each by its number.")
    rows: list[Row] = [["No.", "Requirement", "M/D", "Verified by"]]
    rows += [list(line) for line in FARE_REQUIREMENTS]
    sheet.table(rows, [0.9, 5, 0.6, 1.1], align="clcc", caption="Table 3. Requirements")
    sheet.heading("3.1 Service levels", 2)
    sheet.table(
        [
            [Cell("Measure", rows=2), Cell("Target", cols=2), None, Cell("Credit for each point missed", rows=2)],
            [None, "Year 1", "Years 2 to 5", None],
            ["Validators in working order", "99.0%", "99.5%", "$4,000"], ["Account engine available", "99.90%", "99.95%", "$12,500"],
            ["Calls answered within 60 seconds", "80%", "85%", "$1,500"], ["Refunds paid within 5 days", "95%", "98%", "$2,000"],
        ],
        [2.4, 1, 1.2, 1.6], align="lccr", head=2, caption="Table 4. Service levels and credits",
    )  # fmt: skip
    vector_lines(sheet, "Figure 2. Forecast of taps per weekday", ("2025", "2026", "2027", "2028", "2029"),
                 {"Bank card": (38, 61, 84, 101, 112), "Agency card": (72, 69, 60, 52, 47)}, unit="thousands")  # fmt: skip
    sheet.chapter("4. Evaluation")
    sheet.table(
        [
            ["Criterion", "What is judged", "Points"],
            [Cell("Technical\n(55 points)", rows=3), "Fit with the requirements of section 3", "30"], [None, "Design of validators and their mounting", "15"],
            [None, "Security and privacy", "10"], [Cell("Delivery\n(25 points)", rows=2), "Plan, key staff and pilot", "15"],
            [None, "Experience with three similar systems", "10"], ["Price", "Total of delivery and five years of operation", "20"],
            [Cell("Total", cols=2, bold=True), None, Cell("100", bold=True)],
        ],
        [1.4, 3.6, 0.8], align="llc", caption="Table 5. Evaluation criteria",
    )  # fmt: skip
    sheet.text(
        "A proposal that scores fewer than 38 of the 55 technical points will not be considered further. Price points are given in proportion to the lowest price."
    )
    sheet.heading("4.1 Key staff", 2)
    sheet.text(
        "The project manager shall have delivered at least two fare collection systems with 200 or more vehicles and shall be present in Port Ellery for at least three days a week until the end of installation."
    )
    sheet.chapter("5. Commercial Terms")
    sheet.items("(a)", "Payment follows the milestones of Table 6; ten percent of each payment is retained until final acceptance.",
                "Delay of final acceptance costs $3,200 for each calendar day, up to eight percent of the price of delivery.",
                "The Authority owns all data about trips and riders. The contractor shall erase its copies within 30 days of the end of the contract.",
                "A performance bond of $2,000,000 is due within 15 days of the award.",
                "Small businesses shall receive at least 12 percent of the price of delivery.")  # fmt: skip
    sheet.table(
        [
            ["Milestone", "Share of the price of delivery"], ["Approval of the design", "15%"], ["Factory test passed", "15%"], ["Pilot accepted", "20%"],
            ["Fleet installed", "30%"], ["Final acceptance", "20%"],
        ],
        [2, 1.5], align="lc", caption="Table 6. Milestones",
    )  # fmt: skip
    sheet.chapter("Form A. Price Sheet")
    sheet.table(
        [
            ["Item", "Unit", "Quantity", "Unit price", "Amount"],
            *[[name, unit, quantity, "", ""] for name, unit, quantity in (
                ("Bus validator", "each", "640"), ("Tram validator", "each", "192"), ("Ferry gate", "each", "30"), ("Retail terminal", "each", "85"),
                ("Account engine", "lot", "1"), ("Rider app", "lot", "1"), ("Installation", "vehicle", "339"), ("Training", "day", "60"),
                ("Operation", "year", "5"))],
            [Cell("Total", cols=4, bold=True), None, None, None, ""],
        ],
        [2.2, 1, 1, 1.2, 1.2], align="lcrrr", size=9.5,
    )  # fmt: skip
    sheet.text("The undersigned offers to perform the work at the prices above, which stay valid for 180 days.")
    sheet.space(20)
    sheet.text("Name ______________________     Title ______________________     Date ______________")


FARE_REQUIREMENTS = (
    (
        "FR-001",
        "The validator shall accept contactless bank cards, telephones and agency cards and shall answer within 500 milliseconds.",
        "M",
        "Test",
    ),
    (
        "FR-002",
        "The validator shall work without a connection for at least 72 hours and keep 20,000 taps.",
        "M",
        "Test",
    ),
    (
        "FR-003",
        "The fare engine shall apply caps and transfers across modes, and correct a fare when a late tap arrives within seven days.",
        "M",
        "Test",
    ),
    (
        "FR-004",
        "Fare rules shall be changed by staff of the Authority, tried on the taps of the last month, and put into force on a given date.",
        "M",
        "Demonstration",
    ),
    ("FR-005", "A rider shall be able to open an account without giving a name.", "M", "Demonstration"),
    ("FR-006", "Cash may be loaded at retail points; the value shall be usable within 60 seconds.", "M", "Test"),
    ("FR-007", "Inspectors shall read a card and see the last five taps in less than two seconds.", "M", "Test"),
    ("FR-008", "The rider app shall speak English, Spanish, Tagalog and Korean.", "M", "Inspection"),
    (
        "FR-009",
        "The app should propose the cheapest product for the trips of the last four weeks.",
        "D",
        "Demonstration",
    ),
    (
        "FR-010",
        "Employers shall be able to pay passes for their staff and stop them at the end of a month.",
        "D",
        "Demonstration",
    ),
    (
        "PR-001",
        "The account engine shall process 250 taps per second for one hour with no tap later than 3 seconds.",
        "M",
        "Test",
    ),
    (
        "PR-002",
        "Validators shall withstand -25 to +55 degrees Celsius and vibration as found on trams.",
        "M",
        "Certificate",
    ),
    ("PR-003", "Mean distance between failures of a bus validator shall exceed 90,000 kilometers.", "M", "Record"),
    (
        "SR-001",
        "Card data shall be encrypted from the reader to the payment gateway; the Authority shall never hold card numbers.",
        "M",
        "Audit",
    ),
    (
        "SR-002",
        "Trips shall be kept under a pseudonym and be separated from the account after 14 months.",
        "M",
        "Audit",
    ),
    (
        "SR-003",
        "An outside firm shall test the system against intrusion each year and report to the Authority.",
        "M",
        "Report",
    ),
    (
        "SR-004",
        "Staff access shall need two factors; every view of a rider's trips shall be recorded with its reason.",
        "M",
        "Inspection",
    ),
    (
        "IR-001",
        "Taps shall be joined with vehicle positions so that boardings are known by stop and trip.",
        "M",
        "Test",
    ),
    ("IR-002", "The Authority shall receive all taps each night in an open, documented format.", "M", "Inspection"),
    (
        "IR-003",
        "Paratransit and parking operators should be able to join by a documented interface.",
        "D",
        "Inspection",
    ),
    (
        "TR-001",
        "The contractor shall train 420 drivers, 36 inspectors and 18 mechanics before installation ends.",
        "M",
        "Record",
    ),
    ("TR-002", "Spare parts shall be available for ten years after final acceptance.", "M", "Certificate"),
)


def newsletter() -> Sheet:
    sheet = Sheet(
        title="Lakeshore Water Quarterly, Spring 2024", created="D:20240410090000-05'00'", look=Look(body="tiro", bold="tibo", size=10.2, accent=(0.05, 0.3, 0.5)),
        header="Lakeshore Water Quarterly", footer="{page}",
    )  # fmt: skip
    sheet.centered("Lakeshore Water Quarterly", 24, color=(0.05, 0.3, 0.5))
    sheet.centered("Spring 2024, number 37 - published by the Lakeshore Regional Water District", 10, bold=False)
    sheet.space(12)
    sheet.set_columns(2)
    for title, paragraphs in NEWS:
        sheet.heading(title, 2)
        sheet.text(*paragraphs)
        if title.startswith("Where the water"):
            sheet.table(
                [["Loss", "Million liters", "Share"], ["Mains", "412", "46%"], ["Service pipes", "269", "30%"], ["Meters", "134", "15%"], ["Theft", "81", "9%"]],
                [1.5, 1.2, 0.8], align="lrr", ruling="rules",
            )  # fmt: skip
        if title.startswith("Lake level"):
            vector_lines(
                sheet,
                "Lake level at Gull Point",
                ("Oct", "Nov", "Dec", "Jan", "Feb", "Mar"),
                {"meters": (74.2, 74.0, 73.7, 73.9, 74.6, 75.1)},
                unit="above sea level",
                height=150,
            )
    return sheet


NEWS = (
    ("A new intake below the warm layer", (
        "After nine dry summers the district will draw its water from deeper in the lake. The new intake at Gull Point lies 31 meters below the surface, twelve meters deeper than the present one, and stays under the warm layer in which algae grow. Work began on March 4 and is to end in November 2025.",
        "The intake costs $27.4 million. A state loan at 1.8 percent pays for $19 million; the rest comes from reserves. Rates will not rise because of it before 2027, the board decided on January 23 by six votes to one.",
        "Divers will set the last section of pipe from a barge. Boats must keep 200 meters away while it is in place, and the beach at Gull Point will be closed from June 10 to June 28.")),
    ("Where the water goes that nobody pays for", (
        "Of each hundred liters that leave the plant, eleven never reach a meter that works. Last year that was 896 million liters. The table shows where it went, as far as it is known.",
        "In 2023 crews listened to 418 kilometers of mains with microphones and found 203 leaks. The largest, under Foundry Street, lost 14 liters a second and had never come to the surface.")),
    ("Meters that call home", (
        "Some 12,600 of our 38,900 meters now report every hour. Customers who have one can ask for a warning when water runs through the night. The district sent 1,744 such warnings in the first quarter, and two of three pointed to a leaking toilet.",
        "The remaining meters will be changed street by street until the end of 2026. The new meter is free; a customer who declines it pays $9 a month for reading by hand.")),
    ("Lake level: back above the mark", (
        "A wet February brought the lake back above 74.5 meters, the level below which watering of lawns is limited to two days a week. The limits ended on March 1.",
        "The snow on the hills holds water for about 38 days of use, compared with 21 days a year ago. The district still asks everyone to water before eight in the morning.")),
    ("Lead pipes: 611 to go", (
        "The list of service pipes is complete. It shows 611 pipes of lead or of unknown metal, most of them in houses built before 1938 between Mill Street and the canal. Owners pay nothing for the part up to the meter and may borrow up to $4,500 without interest for the part behind it.",
        "Until the pipe is changed, let the tap run for two minutes in the morning, or ask for a filter jug at the office. In tests last autumn 7 of 120 homes were above the limit of ten micrograms per liter.")),
    ("Questions that we hear often", (
        "Why does the water smell of chlorine in spring? When the intake is moved between depths we add a little more for some days. A jug left in the refrigerator for an hour loses the smell.",
        "May I use the hydrant in front of my house? No. Open hydrants tore two mains last year, and each repair cost more than $60,000. Builders may rent a hydrant meter for $85 a week.",
        "How hard is the water? It has 112 milligrams of lime per liter: moderately hard. Dishwashers should be set to level three.")),
    ("Apprentices wanted", (
        "The district will train five apprentices from September: two in the plant, two with the pipe crews and one in the laboratory. Training lasts three years and pays $21.40 an hour at the start. Applications are due on May 31.",
        "Visitors may see the plant on the first Saturday of each month at ten. Groups of more than eight should write two weeks ahead.")),
    ("From the laboratory", (
        "Our laboratory took 9,312 samples in 2023 and found bacteria in four of them; none was found again in the second sample. The water met all limits of the state on every day of the year.",
        "Since January we also look for 29 fluorinated compounds. Two were found in traces, the higher at 1.3 nanograms per liter, a third of the limit that will hold from 2029.")),
)  # fmt: skip


def climate_report() -> Sheet:
    look = Look(body="helv", bold="hebo", size=11.5, accent=(0.16, 0.42, 0.24))
    sheet = Sheet(
        title="Verdane Cement Group - Climate Report 2023", created="D:20240515090000+02'00'", look=look,
        header="Verdane Cement Group - Climate Report 2023", footer="{page}", logo=logo("Verdane", "#2b6b3e"), covers=1,
    )  # fmt: skip
    sheet.centered("Climate Report 2023", 28, y=260, color=look.accent)
    sheet.centered("Verdane Cement Group", 16, bold=False)
    sheet.new_page()
    sheet.heading("Letter from the chief executive")
    sheet.text(
        "Cement is the grey part of every green plan. Each tonne that we sold in 2023 came with 587 kilograms of carbon dioxide, 21 less than in 2022 "
        "and 118 less than in 1990. That is the largest yearly step we ever made, and it is not enough.",
        "Our target for 2030 is 475 kilograms. We know how to reach 510 with what we have: more clay in place of clinker, more waste in place of coal. "
        "The rest needs the capture plant at Hallesund, which we decided to build in December at a cost of 640 million euros.",
    )
    vector_bars(
        sheet,
        "Figure 1. Emissions per tonne of cement",
        ("1990", "2010", "2020", "2022", "2023", "2030 target"),
        {"kg CO2": (705, 668, 621, 608, 587, 475)},
        unit="kilograms of CO2 per tonne",
    )
    sheet.chapter("Where our emissions come from")
    vector_pie(
        sheet,
        "Figure 2. Sources of emissions in 2023",
        {"Limestone": 61, "Fuel": 29, "Electricity": 6, "Transport": 4},
        unit="%",
    )
    sheet.text(
        "Two thirds of our emissions leave the stone itself when it is heated. They cannot be avoided by cleaner fuel; they can only be captured, or avoided by using less clinker."
    )
    sheet.table(
        [
            ["Plant", "Clinker share", "Alternative fuel", "kg CO2 per tonne", "Production (kt)"],
            ["Hallesund", "71%", "64%", "561", "1,840"], ["Brevika", "74%", "52%", "588", "1,320"], ["Orsta", "78%", "38%", "624", "970"],
            ["Monte Calvo", "69%", "47%", "549", "1,150"], ["Dravograd East", "80%", "29%", "652", "720"],
        ],
        [1.6, 1.1, 1.2, 1.4, 1.3], align="lrrrr", ruling="none", caption="Table 1. Plants in 2023",
    )  # fmt: skip
    sheet.chapter("Fuel")
    sheet.text(
        "We burned 412,000 tonnes of waste in place of coal in 2023: tyres, sewage sludge, solvents and sorted household waste. Alternative fuels covered 48.6 percent of the heat, up from 44.1 percent."
    )
    sheet.picture(raster_bars("Alternative fuel share by plant", ("Hallesund", "Brevika", "Orsta", "Calvo", "Dravograd"), (64, 52, 38, 47, 29), unit="percent of heat", source="Plant records 2023"), 240,
                  "Figure 3. Alternative fuel by plant")  # fmt: skip
    sheet.text(
        "Dravograd East lacks a permit for tyres. The application was filed in March 2023, and a decision is expected in autumn 2024."
    )
    sheet.chapter("The capture plant at Hallesund")
    boxes(sheet, (("Kiln gas", "Cooling tower"), ("Absorber (amine)", "Stripper"), ("Compressor", "Ship to storage")))
    sheet.text(
        "The plant will take 400,000 tonnes of carbon dioxide a year from the kiln gas, about 85 percent of what the kiln emits. Heat for the stripper comes "
        "from the clinker cooler and covers 40 percent of the need; the rest is bought as steam.",
        "A ship will carry liquid carbon dioxide to a store 2,600 meters below the sea bed. Transport and storage cost 58 euros per tonne under a contract that runs until 2042.",
    )
    sheet.table(
        [
            [Cell("Item", rows=2), Cell("Million euros", cols=2), None, Cell("Paid by", rows=2)], [None, "2024-2025", "2026-2027", None],
            ["Absorber and stripper", "118", "142", "Group"], ["Compression and tanks", "46", "84", "Group"],
            ["Steam and power lines", "31", "29", "Utility"], ["Quay and loading", "22", "48", "State grant"], ["Reserve", "40", "80", "Group"],
        ],
        [2, 1, 1, 1.2], align="lrrc", head=2, caption="Table 2. Budget of the capture plant",
    )  # fmt: skip
    sheet.chapter("Targets and governance")
    sheet.table(
        [
            ["Target", "Base", "2023", "2030"], ["kg CO2 per tonne of cement", "705 (1990)", "587", "475"], ["Clinker share", "86% (1990)", "74%", "68%"],
            ["Alternative fuel", "2% (1990)", "48.6%", "65%"], ["Renewable electricity", "31% (2020)", "54%", "90%"], ["Dust (g per tonne)", "210 (2005)", "17", "12"],
        ],
        [2.2, 1.2, 1, 1], align="lccc", caption="Table 3. Targets",
    )  # fmt: skip
    sheet.text(
        "A quarter of the yearly bonus of the executive board depends on emissions per tonne. The board's climate committee, chaired by Ingunn Straume, met five times in 2023."
    )
    vector_lines(
        sheet,
        "Figure 4. Price of emission allowances assumed in investment decisions",
        ("2024", "2026", "2028", "2030"),
        {"low": (65, 75, 85, 95), "high": (80, 105, 130, 160)},
        unit="euros per tonne",
    )
    return sheet


ENGLISH = {
    "english/CalderRidge_FY2023_Annual_Report.pdf": annual_report,
    "english/RFP 24-017 Account-Based Fare Collection System.pdf": fare_collection_rfp,
    "english/Lakeshore_Water_Quarterly_2024_Spring.pdf": newsletter,
    "english/Verdane_Climate_Report_2023.pdf": climate_report,
}
