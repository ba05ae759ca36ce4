# ruff: noqa: E501  a row of a table, or a paragraph, stays on one line
"""Questions with gold pages, and the metadata CSV of the requests for proposals."""

from __future__ import annotations

import csv
import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pymupdf
from make_rfps import RFPS

COLUMNS = (
    "공고 번호", "공고 차수", "사업명", "사업 금액", "발주 기관", "공개 일자", "입찰 참여 시작일", "입찰 참여 마감일", "사업 요약", "파일형식", "파일명",
)  # fmt: skip
OTHER_ROWS = (
    ("20240610552", "0", "공공데이터 품질진단 컨설팅", "98700000", "슬기시", "2024-06-10", "2024-06-12 10:00", "2024-06-20 17:00",
     "공개 데이터 64종의 품질 진단, 오류 원인 분석, 담당자 교육", "docx", "슬기시_공공데이터 품질진단 컨설팅.docx"),
    ("20241007314", "0", "버스정류장 한파쉼터 설치", "312500000", "라온군", "2024-10-07", "2024-10-10 09:00", "2024-10-24 18:00",
     "밀폐형 쉼터 12곳, 바람막이 13곳, 온열 의자 25개 설치", "hwp", "라온군_버스정류장 한파쉼터 설치.hwp"),
    ("20240902771", "0", "마을 약국 재고연계 시스템 구축", "157300000", "하늬군 보건소", "2024-09-02", "2024-09-05 09:00", "2024-09-27 18:00",
     "약국 9곳의 재고 연계와 주민 검색 서비스", "hwpx", "하늬군_마을 약국 재고연계 시스템 구축.hwpx"),
    ("RFP 24-017", "0", "Account-Based Fare Collection System", "", "Port Ellery Transit Authority", "2024-02-05", "2024-02-05 09:00", "2024-04-12 14:00",
     "Design, supply and five years of operation of a fare collection system for buses, trams and ferries", "pdf",
     "RFP 24-017 Account-Based Fare Collection System.pdf"),
    ("20240719060", "0", "해양쓰레기 수거 로봇 실증", "640000000", "아람군", "2024-07-19", "2024-07-22 10:00", "2024-08-12 17:00",
     "수거 로봇 2대의 제작과 6개월 실증 (문서는 공개되지 않음)", "pdf", "아람군_해양쓰레기 수거 로봇 실증.pdf"),
)  # fmt: skip

T0, T1, T2, CITY, LIBRARY, CARE, MUSEUM = RFPS
REPORT = "reports/한누리소재_제23기_사업보고서.pdf"
YEARBOOK = "reports/2024_해든도_통계연보_발췌.pdf"
BRIEF = "reports/해든연구원_정책브리프_제112호.pdf"
MINUTES = "reports/제7차 스마트도시 사업협의회 회의록.pdf"
HEAT_SCAN = "reports/열수송관 현장점검 결과보고(스캔).pdf"
TENK = "english/CalderRidge_FY2023_Annual_Report.pdf"
FARES = "english/RFP 24-017 Account-Based Fare Collection System.pdf"
WATER = "english/Lakeshore_Water_Quarterly_2024_Spring.pdf"
CLIMATE = "english/Verdane_Climate_Report_2023.pdf"
LETTER_SCAN = "english/Harbor_Master_Letter_scan.pdf"
QUALITY = "슬기시_공공데이터 품질진단 컨설팅.docx"
TIDE = "docx/Tide_Gauge_Maintenance_SOW.docx"
SHELTER = "라온군_버스정류장 한파쉼터 설치.hwp"
MEDICINE = "하늬군_마을 약국 재고연계 시스템 구축.hwpx"
SNOW = "hwp/마루군_제설 협조 안내.hwp"
FAQ = "notices/전자조달_자주묻는질문.md"
NOTICE = "notices/새봄시립도서관_정정공고.txt"
SUPPLIERS = "notices/supplier_day.html"


class Ask(NamedTuple):
    kind: str
    """text, table, borderless, split (after a page break), chart, raster, scan, merged, near (near-duplicates), office, plain"""
    document: str
    question: str
    answer: str
    """As it stands on the page."""
    evidence: str | tuple[int, ...] = ""
    """More text of the same page, to find it; or its number, where the page has no such text."""


ASKS = (
    Ask("near", T0, "가람시 지능형 교통신호 통합관제시스템 구축 최초 공고의 사업 예산은 얼마인가?", "1,250,000,000원", "사업 예산"),
    Ask("near", T1, "가람시 지능형 교통신호 통합관제시스템 구축 재공고의 입찰 참여 마감 일시는?", "2024. 5. 7. 17:00", "입찰 참여 마감"),
    Ask("near", T2, "가람시 지능형 교통신호 통합관제시스템 구축 2차 재공고의 사업 예산은?", "1,380,000,000원", "사업 예산"),
    Ask("near", T2, "사업 예산이 13억 8천만 원인 교통신호 통합관제시스템 사업의 발주 기관은?", "가람시 교통정책과", "1,380,000,000원"),
    Ask("near", CITY, "나래시 지능형 교통신호 통합관제시스템 구축의 사업 예산은?", "1,190,000,000원", "사업 예산"),
    Ask("near", CITY, "사업 예산이 1,190,000,000원인 교통신호 통합관제시스템 구축은 어느 기관이 발주하였는가?", "나래시 교통정책과", "1,190,000,000원"),
    Ask("near", CITY, "나래시의 신호교차로 412개소 가운데 중앙에서 제어할 수 있는 곳은 몇 개소인가?", "158개소", "나래시의 신호교차로"),
    Ask("near", T0, "가람시 교통신호 통합관제 사업 최초 공고에서 긴급차량 우선신호가 끝난 뒤 몇 주기 안에 원래 연동으로 회복해야 하는가?", "3주기", "우선신호가 끝난 뒤"),
    Ask("table", CITY, "나래시 교통신호 사업의 PER-003 검지 정확도 요구사항에서 야간 정확도 기준은?", "야간 90% 이상", "PER-003"),
    Ask("table", CITY, "나래시 교통신호 사업에서 COR-001 변환 장치의 지연은 얼마 이하여야 하는가?", "100밀리초 이하", "COR-001"),
    Ask("merged", T0, "가람시 교통신호 사업의 기술능력 평가 배점표에서 기능 요구사항의 배점은 몇 점인가?", "20", "기능 요구사항 신호 관제와 최적화"),
    Ask("merged", CITY, "나래시의 통신이 되지 않는 신호제어기는 몇 대인가?", "254대", "신호제어기 (통신 불가)"),
    Ask("borderless", T1, "가람시 교통신호 사업 재공고의 입찰 참여 시작 일시는?", "2024. 3. 25. 10:00", "입찰 참여 시작"),
    Ask("chart", CITY, "나래시 제안요청서에서 연도별 신호 장애 건수 그림의 2023년 통신 장애는 몇 건인가?", "239", "연도별 신호 장애 건수"),
    Ask("text", LIBRARY, "새봄시립도서관의 소장 자료는 몇 권인가?", "61만 4천 권", "소장 자료"),
    Ask("table", LIBRARY, "새봄시립도서관 통합자료관리시스템 고도화의 사업 예산은?", "482,600,000원", "사업 예산"),
    Ask("table", LIBRARY, "도서관 시스템 SFR-002 목록 관리는 오류 규칙을 몇 종 자동 검사해야 하는가?", "42종", "SFR-002 요구사항 명칭"),
    Ask("text", LIBRARY, "새봄시립도서관 사업에서 상호대차 신청부터 도착까지 평균 며칠이 걸린다고 하는가?", "5.6일", "신청에서 도착까지"),
    Ask("borderless", LIBRARY, "새봄시립도서관 입찰 참여 마감 일시는?", "2024. 6. 28. 16:00", "입찰 참여 마감"),
    Ask("raster", LIBRARY, "새봄시립도서관의 2023년 전자책 대출 건수는 몇 천 건인가?", "126", "<그림 1> 연도별 전자자료 대출 건수"),
    Ask("merged", LIBRARY, "도서관 사업의 평가에서 목록 정비의 배점은?", "12", "정비 절차와 검수 방법"),
    Ask("text", CARE, "늘푸른복지재단이 돌보는 혼자 사는 어르신 가운데 매일 안부를 확인할 수 있는 분은 몇 명인가?", "740명", "3,260명 가운데"),
    Ask("table", CARE, "돌봄전화 서비스에서 1등급 위험은 몇 분 안에 알려야 하는가?", "1등급은 5분", "SFR-003"),
    Ask("table", CARE, "돌봄전화의 음성 인식 낱말 오류율 기준은?", "12% 이하", "PER-001"),
    Ask("borderless", CARE, "인공지능 돌봄전화 서비스 운영 위탁의 입찰 마감은 언제인가?", "2024. 9. 2. 12:00", "입찰 참여 마감"),
    Ask("chart", CARE, "계절별 안부 확인 실패 건수 그림에서 2023년 겨울은 몇 건인가?", "276", "계절별 안부 확인 실패 건수"),
    Ask("text", MUSEUM, "누리과학관의 2023년 관람객은 몇 명인가?", "84만 6천 명", "전시 해설사는"),
    Ask("table", MUSEUM, "누리과학관 안내 로봇의 최고 속도는 얼마로 제한되는가?", "초속 0.8m", "SFR-001"),
    Ask("merged", MUSEUM, "누리과학관 로봇 사업의 평가에서 주행과 안전의 배점은?", "22", "충돌 방지와 비상 정지"),
    Ask("raster", MUSEUM, "누리과학관의 2023년 5월 관람객은 몇 천 명인가?", "96", "<그림 1> 월별 관람객 수"),
    Ask("text", REPORT, "한누리소재의 제23기 연결 매출액은 얼마인가?", "4,128억 원", "사업의 개요"),
    Ask("merged", REPORT, "한누리소재 제22기 방열 시트 부문의 매출 비중은?", "26.1%", "<표 Ⅱ-1>"),
    Ask("borderless", REPORT, "한누리소재의 구리 매입처는 어디인가?", "서림제련", "<표 Ⅱ-2>"),
    Ask("chart", REPORT, "한누리소재의 2021년 동박 생산 능력은 몇 톤인가?", "12,000", "<그림 Ⅱ-2>"),
    Ask("raster", REPORT, "한누리소재의 2022년 연구개발비는 몇 억 원인가?", "149", "<그림 Ⅱ-3>"),
    Ask("split", REPORT, "한누리소재 제23기 말 이익잉여금은 몇 백만 원인가?", "137,224", "이익잉여금"),
    Ask("split", REPORT, "한누리소재 연결 재무상태표에서 제23기 장기차입금은?", "86,000", "순확정급여부채"),
    Ask("table", REPORT, "한누리소재의 한길산업은행 차입금 이자율은?", "3.90%", "한길산업은행"),
    Ask("text", REPORT, "한누리소재 외부감사인의 감사보수는 얼마인가?", "285백만 원", "정온회계법인"),
    Ask("borderless", REPORT, "한누리소재의 최대주주 누리홀딩스의 지분율은?", "29.0%", "<표 Ⅵ-1>"),
    Ask("raster", REPORT, "한누리소재 제23기 4분기 영업이익률은 몇 퍼센트인가?", "8.5", "<그림 Ⅴ-1>"),
    Ask("borderless", YEARBOOK, "해든도 가온시의 인구는 몇 명인가?", "241,870", "가온시"),
    Ask("table", YEARBOOK, "바름군의 쌀 생산량은 몇 톤인가?", "18,768", "<표 2>"),
    Ask("split", YEARBOOK, "하늬군 하늬읍의 경로당은 몇 곳인가?", "45", "하늬읍"),
    Ask("split", YEARBOOK, "아람군 아람동면의 공원 면적은 몇 천㎡인가?", "89", "아람동면"),
    Ask("merged", YEARBOOK, "해든도의 2022년 등록 전기차는 몇 대인가?", "13,920", "<표 4>"),
    Ask("raster", YEARBOOK, "해든도의 2015년 쌀 생산량은 몇 천 톤인가?", "214", "<그림 2> 쌀 생산량"),
    Ask("text", BRIEF, "학부모 1,036명 가운데 전학의 이유로 통학 시간을 첫째로 꼽은 비율은?", "43%", "1,036명"),
    Ask("table", BRIEF, "통학 시간이 40~60분인 학생의 전학 비율은?", "11.2%", "<표 1>"),
    Ask("text", BRIEF, "노선 개편 뒤 65세 이상 승객은 얼마나 늘었는가?", "28%", "65세 이상 승객이"),
    Ask("text", MINUTES, "주차 정보를 공개할 공영주차장 52곳 가운데 바로 연계할 수 있는 곳은 몇 곳인가?", "38곳", "52곳"),
    Ask("table", MINUTES, "스마트도시 사업협의회 의결 7-3의 기한은?", "2024. 7. 10.", "7-3"),
    Ask("scan", HEAT_SCAN, "열수송관 현장점검에서 새솔교 아래 구간의 온도차는 몇 ℃인가?", "11.7", (1,)),
    Ask("scan", HEAT_SCAN, "열수송관 점검에서 긴급 구간의 교체 비용은 얼마인가?", "3억 7,500만 원", (1,)),
    Ask("scan", HEAT_SCAN, "새솔교 아래 열수송관의 남은 두께는 몇 ㎜였는가?", "2.1㎜", (2,)),
    Ask("scan", LETTER_SCAN, "When will the lock gate of the inner basin be put back?", "Friday, April 5", (1,)),
    Ask("scan", LETTER_SCAN, "How many berths are free in the outer harbor of Port Ellery?", "Forty-two", (1,)),
    Ask("text", TENK, "How much did the additional week add to net sales of Calder Ridge Outfitters in fiscal 2023?", "$31.6 million", "53 weeks"),
    Ask("table", TENK, "What were net sales of the Wholesale segment of Calder Ridge in fiscal 2023?", "198.4", "Net sales FY2023"),
    Ask("text", TENK, "What ratio of debt to adjusted earnings does the credit agreement of Calder Ridge allow?", "3.25", "June 2022"),
    Ask("split", TENK, "How many Calder Ridge stores are in Stonewater?", "11", "Stonewater"),
    Ask("split", TENK, "What is the selling space of the Calder Ridge stores in Tarn, in thousands of square meters?", "10.4", "Total 214"),
    Ask("borderless", TENK, "What did Calder Ridge spend on capital expenditures in fiscal 2023, in thousands of dollars?", "(64,512)", "Investing activities"),
    Ask("table", TENK, "What were total assets of Calder Ridge at February 3, 2024, in thousands of dollars?", "1,472,470", "Consolidated Balance Sheets"),
    Ask("merged", TENK, "What was the operating income of the Services segment of Calder Ridge in fiscal 2022?", "5.1", "Note 4"),
    Ask("borderless", TENK, "How much operating lease payment falls due for Calder Ridge in fiscal 2027?", "78,330", "Fiscal year Payments"),
    Ask("chart", TENK, "What were net sales of Calder Ridge in the fourth quarter of fiscal 2022, in millions of dollars?", "618", "Figure 3. Net sales by quarter"),
    Ask("raster", TENK, "How many stores did Calder Ridge have at the end of fiscal 2021?", "197", "Figure 2. Stores at the end"),
    Ask("text", TENK, "When is the hearing in the Brightwell Canvas case against Calder Ridge?", "September 16, 2024", "Brightwell Canvas"),
    Ask("text", FARES, "What is the budget of the account-based fare collection system in Port Ellery?", "$18,750,000", "Offers above"),
    Ask("table", FARES, "What is the daily cap for seniors in the Port Ellery fare rules?", "$2.50", "Daily cap"),
    Ask("split", FARES, "For how many years must spare parts of the fare collection system be available?", "ten years after final acceptance", "TR-002"),
    Ask("merged", FARES, "What credit is due for each point missed in account engine availability?", "$12,500", "Table 4"),
    Ask("borderless", FARES, "When does the Port Ellery Transit Authority hold interviews with proposers?", "May 13 to 17, 2024", "Interviews"),
    Ask("chart", FARES, "How many bank card taps per weekday, in thousands, are forecast for 2027?", "84", "Figure 2. Forecast of taps"),
    Ask("merged", FARES, "How many points does the fare collection evaluation give to security and privacy?", "10", "Security and privacy"),
    Ask("text", WATER, "How deep below the surface is the new intake at Gull Point?", "31 meters", "Gull Point lies"),
    Ask("table", WATER, "How many million liters of water were lost through service pipes?", "269", "Million liters"),
    Ask("text", WATER, "How many service pipes of lead or unknown metal remain at Lakeshore?", "611", "lead or of unknown"),
    Ask("text", CLIMATE, "What does the capture plant at Hallesund cost?", "640 million euros", "Hallesund"),
    Ask("borderless", CLIMATE, "What is the clinker share of Verdane's plant Monte Calvo?", "69%", "Table 1. Plants"),
    Ask("merged", CLIMATE, "Who pays for quay and loading of the Verdane capture plant?", "State grant", "Quay and loading"),
    Ask("chart", CLIMATE, "What high price of emission allowances does Verdane assume for 2028, in euros per tonne?", "130", "Figure 4. Price"),
    Ask("raster", CLIMATE, "What share of heat came from alternative fuel at Verdane's Orsta plant?", "38", "Figure 3. Alternative fuel"),
    Ask("office", QUALITY, "슬기시가 품질을 진단할 공개 데이터는 몇 종인가?", "64종"),
    Ask("office", QUALITY, "슬기시 품질진단에서 유효성 지표의 기준값은?", "98% 이상"),
    Ask("office", QUALITY, "슬기시 자체 점검에서 좌표계가 잘못 적힌 기록은 몇 건인가?", "1,128건"),
    Ask("office", TIDE, "What is the fee for tide gauge maintenance in 2026?", "$423,900"),
    Ask("office", TIDE, "Who pays for helicopter access to the Skerry gauge?", "the observatory"),
    Ask("office", SHELTER, "라온군 한파쉼터 사업의 사업 금액은?", "312,500,000원"),
    Ask("office", SHELTER, "라온군 면 지역에는 바람막이를 몇 곳에 설치하는가?", "10"),
    Ask("office", MEDICINE, "하늬군 약국 재고연계에서 SFR-002의 검수 방법은?", "시연"),
    Ask("office", MEDICINE, "하늬군 약국 재고연계 사업의 평가에서 화면의 쉬움은 몇 점인가?", "25"),
    Ask("office", SNOW, "마루군이 소금물을 먼저 뿌리는 구간의 길이는?", "6.2㎞"),
    Ask("plain", FAQ, "전자조달에서 정성 제안서는 몇 쪽까지 낼 수 있는가?", "100쪽"),
    Ask("plain", NOTICE, "새봄시립도서관 현장 설명회는 언제 열리는가?", "2024년 6월 5일 14시"),
    Ask("plain", SUPPLIERS, "Where does the tour of a tram take place on the supplier day?", "Track 7"),
)  # fmt: skip


def write_questions(documents: Path, target: Path) -> None:
    """A line per question; its gold pages are those that hold both the evidence and the answer."""
    counts: dict[str, int] = {}
    lines: list[str] = []
    for ask in ASKS:
        counts[ask.kind] = counts.get(ask.kind, 0) + 1
        line = {
            "id": f"{ask.kind}-{counts[ask.kind]:02}",
            "question": ask.question,
            "document": unicodedata.normalize("NFC", ask.document),
            "pages": gold_pages(documents, ask),
            "answer": ask.answer,
        }
        lines.append(json.dumps(line, ensure_ascii=False) + "\n")
    target.write_text("".join(lines), "utf-8")


def gold_pages(documents: Path, ask: Ask) -> list[int]:
    if isinstance(ask.evidence, tuple):
        return list(ask.evidence)
    if not ask.document.endswith(".pdf"):
        return []
    keys = [ask.evidence] if ask.kind == "raster" else [ask.evidence, ask.answer]
    with pymupdf.open(next(stored(documents, ask.document))) as pdf:
        found = [
            n
            for n, page in enumerate(pdf.pages(), 1)
            if all(squeezed(key) in squeezed(page.get_text()) for key in keys)
        ]
    if len(found) != 1:
        raise ValueError(f"{ask.document}: {keys} stand on pages {found}; make the evidence fit exactly one page")
    return found


def stored(documents: Path, name: str) -> Iterator[Path]:
    """The file of this name, whatever the Unicode form of its name on the disk."""
    return (
        p for p in documents.rglob("*") if unicodedata.normalize("NFC", p.relative_to(documents).as_posix()) == name
    )


def squeezed(text: str) -> str:
    return "".join(unicodedata.normalize("NFC", text).split())


def iso(date: str) -> str:
    """`2024. 3. 25. 10:00` as `2024-03-25 10:00`."""
    year, month, day, *time = date.replace(".", "").split()
    return " ".join([f"{year}-{int(month):02}-{int(day):02}", *time])


def write_metadata(documents: Path) -> None:
    """One row for each request for proposals; the last names a file that does not exist."""
    rows = [
        (s.notice_id, s.notice_round, s.project, str(s.amount_won), s.issuer, iso(s.published), iso(s.bid_start), iso(s.bid_end),
         s.summary, "pdf", unicodedata.normalize("NFC", name))
        for name, s in RFPS.items()
    ]  # fmt: skip
    with (documents / "metadata.csv").open("w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        writer.writerows([*rows, *OTHER_ROWS])
