"""What a heading says of bare numbers: their scale and their currency, of whichever country."""

from __future__ import annotations

from decimal import Decimal

import pytest

from tasks.language.scales import is_scale, read_scales

STATED = """
$’000 | 3 USD
US$000 | 3 USD
$000 | 3 USD
$ '000 | 3 USD
£m | 6 GBP
2019 €m | 6 EUR
Revenue, $M | 6 USD
A$’000 | 3 AUD
HK$’000 | 3 HKD
NT$ thousands | 3 TWD
RMB’Million | 6 CNY
RMB million | 6 CNY
RM'000 | 3 MYR
Rm | 6 ZAR
S/. 000 | 3 PEN
₦'000 | 3 NGN
Kshs'000 | 3
'000,000 | 6
(000s) | 3
(in 000's) | 3
in EUR k | 3 EUR
TEUR | 3 EUR
MSEK | 6 SEK
DKKm | 6 DKK
in CHF 1'000 | 3 CHF
in Mio. € | 6 EUR
(Rs. in lakhs) | 5 INR
₹ in Crores | 7 INR
US$ Million | 6 USD
PKR in thousand | 3 PKR
Taka in thousands | 3 BDT
Dollars in billions | 9 USD
Consolidated statement of income (in thousands of euros) | 3 EUR
(In millions of dollars) | 6 USD
in thousands of United States dollars | 3 USD
in thousands of Canadian dollars | 3 CAD
in thousands of Namibian dollars | 3
(in millions) | 6
(thousands) | 3
(In thousands, except per share data) | 3
(In thousands, except share and per share data) | 3, 0 shares
(In millions, except number of shares, which are reflected in thousands) | 6, 3 shares
(Dollars in millions; shares in thousands) | 6 USD, 3 shares
(Unit: 100 million KRW) | 8 KRW
(in euros) | 0 EUR
천원 | 3 KRW
| 금액 | 백만원 | 6 KRW
금액(억원) | 8 KRW
2019 | 조 | 12 KRW
(단위: 백만원, %) | 6 KRW, 0 %
[단위 : 천US$] | 3 USD
<단위: 억원> | 8 KRW
〔단위 : 천원, %〕 | 3 KRW, 0 %
<수출입 동향(억 달러, %)> | 8 USD, 0 %
(단위: 1,000원) | 3 KRW
(단위: 원) | 0 KRW
(단위: 천명) | 3 people
(단위: 천원, 주) | 3 KRW, 0 shares
원화 단위: 억 원 | 8 KRW
아래 표의 금액 단위는 천원이다. | 3 KRW
금액의 단위는 백만원이며 부가세는 별도이다. | 6 KRW
금액은 천원 단위임 | 3 KRW
모든 금액은 백만원 단위로 표시하였다. | 6 KRW
"""


@pytest.mark.parametrize("line", STATED.strip().splitlines())
def test_a_heading_states_scale_and_currency(line: str) -> None:
    text, _, stated = line.rpartition(" | ")
    parts = (one.partition(" ") for one in stated.split(", "))
    assert list(read_scales(text)) == [(Decimal(10) ** int(power), unit) for power, _, unit in parts]


@pytest.mark.parametrize(
    "text",
    [
        *("3 million people", "5 million dollars", "a million dollars", "has won thousands of fans", "$5 million"),
        *(
            "천원 단위로",
            "천원 단위로 절사한다",
            "(1,000원)",
            "만 19세",
            "(주)한빛",
            "조",
            "(12) months",
            "Page 000123",
            "1 000",
            "$ 1,000",
            "(m)",
        ),
        *("(m)", "in mm", "RM", "Loans in euros", "the 1000s"),
    ],
)
def test_a_sentence_or_an_amount_states_none(text: str) -> None:
    assert read_scales(text) == ()


def test_a_cell_of_zeros_behind_a_currency_is_a_scale_and_no_amount() -> None:
    assert [is_scale(text) for text in ("$000", "(000s)", "000", "0", "0.0", "$0", "₩ 0")] == [True] * 3 + [False] * 4


@pytest.mark.parametrize("piece", ["000 ", "'000", "in ", "단위", "(", "US$", "million ", "dollars and ", "except "])
@pytest.mark.timeout(60)
def test_no_text_of_100_kb_keeps_it_for_long(piece: str) -> None:
    assert isinstance(read_scales((piece * 100_000)[:100_000]), tuple)
