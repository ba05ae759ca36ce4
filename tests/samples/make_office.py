# ruff: noqa: E501  a row of a table, or a paragraph, stays on one line
"""Documents of word processors and plain files: DOCX, HWP 5, HWPX, TXT, Markdown, HTML, and a ZIP of attachments."""

from __future__ import annotations

import io
import json
import subprocess
import zipfile
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from docx import Document
from docx.enum.table import WD_TABLE_ALIGNMENT
from docx.enum.text import WD_ALIGN_PARAGRAPH
from docx.opc.constants import CONTENT_TYPE, RELATIONSHIP_TYPE
from docx.opc.packuri import PackURI
from docx.opc.part import Part
from docx.oxml import OxmlElement
from docx.oxml.ns import nsdecls, qn
from docx.shared import Cm, Pt
from make_charts import raster_bars

PASSWORD = "trivet-2024"
FIXED_TIME = (2024, 6, 3, 9, 0, 0)


class Word:
    """A DOCX in the making, with footnotes, which python-docx does not write by itself."""

    def __init__(self, *, title: str, header: str, footer: str) -> None:
        self.doc: Any = Document()
        style = self.doc.styles["Normal"]
        style.font.name, style.font.size = "NanumGothic", Pt(10.5)
        style.element.rPr.rFonts.set(qn("w:eastAsia"), "NanumGothic")
        core = self.doc.core_properties
        core.title, core.author, core.created = title, "", datetime(*FIXED_TIME, tzinfo=UTC)
        core.modified, core.last_modified_by = core.created, ""
        section = self.doc.sections[0]
        section.page_width, section.page_height = Cm(21), Cm(29.7)
        section.header.paragraphs[0].text = header
        section.footer.paragraphs[0].text = footer
        section.footer.paragraphs[0].alignment = WD_ALIGN_PARAGRAPH.CENTER
        self.footnotes: list[str] = []

    def title(self, text: str) -> None:
        paragraph = self.doc.add_paragraph()
        paragraph.alignment = WD_ALIGN_PARAGRAPH.CENTER
        run = paragraph.add_run(text)
        run.bold, run.font.size = True, Pt(20)

    def heading(self, text: str, level: int = 1) -> None:
        heading = self.doc.add_heading(text, level)
        for run in heading.runs:
            run.font.name = "NanumGothic"
            run._element.rPr.rFonts.set(qn("w:eastAsia"), "NanumGothic")

    def text(self, text: str, *, footnote: str = "") -> None:
        paragraph = self.doc.add_paragraph(text)
        if footnote:
            self.footnotes.append(footnote)
            run = paragraph.add_run()
            run.font.superscript = True
            reference = OxmlElement("w:footnoteReference")
            reference.set(qn("w:id"), str(len(self.footnotes)))
            run._element.append(reference)

    def items(self, *texts: str, numbered: bool = False) -> None:
        for text in texts:
            self.doc.add_paragraph(text, style="List Number" if numbered else "List Bullet")

    def table(self, rows: Sequence[Sequence[str]], merges: Sequence[tuple[int, int, int, int]] = ()) -> None:
        """merges: first row, first column, last row, last column; covered cells are empty in `rows`."""
        table = self.doc.add_table(len(rows), len(rows[0]), style="Table Grid")
        table.alignment = WD_TABLE_ALIGNMENT.CENTER
        for r, row in enumerate(rows):
            for c, text in enumerate(row):
                table.cell(r, c).text = text
        for r0, c0, r1, c1 in merges:
            text = table.cell(r0, c0).text
            table.cell(r0, c0).merge(table.cell(r1, c1)).text = text
        self.doc.add_paragraph()

    def picture(self, image: bytes, caption: str) -> None:
        self.doc.add_picture(io.BytesIO(image), width=Cm(14))
        self.doc.add_paragraph(caption).alignment = WD_ALIGN_PARAGRAPH.CENTER

    def save(self, path: Path) -> None:
        if self.footnotes:
            self._attach_footnotes()
        stream = io.BytesIO()
        self.doc.save(stream)
        path.write_bytes(repacked(stream.getvalue()))

    def _attach_footnotes(self) -> None:
        notes = "".join(
            f'<w:footnote w:id="{i}"><w:p><w:r><w:footnoteRef/></w:r><w:r><w:t xml:space="preserve"> {text}</w:t></w:r></w:p></w:footnote>'
            for i, text in enumerate(self.footnotes, 1)
        )
        xml = (
            f"<?xml version='1.0' encoding='UTF-8' standalone='yes'?><w:footnotes {nsdecls('w')}>{notes}</w:footnotes>"
        )
        package = self.doc.part.package
        part = Part(PackURI("/word/footnotes.xml"), CONTENT_TYPE.WML_FOOTNOTES, xml.encode(), package)
        self.doc.part.relate_to(part, RELATIONSHIP_TYPE.FOOTNOTES)


def repacked(archive: bytes) -> bytes:
    """The same ZIP with a fixed time on each entry, so that two runs give the same bytes."""
    with zipfile.ZipFile(io.BytesIO(archive)) as source:
        return zipped({info.filename: source.read(info) for info in source.infolist()})


def zipped(files: dict[str, bytes]) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as target:
        for name, data in files.items():
            target.writestr(zipfile.ZipInfo(name, FIXED_TIME), data, zipfile.ZIP_DEFLATED)
    return stream.getvalue()


def quality_rfp(path: Path) -> None:
    word = Word(
        title="공공데이터 품질진단 컨설팅 제안요청서",
        header="슬기시 데이터 품질진단 컨설팅",
        footer="슬기시 정보기획과",
    )
    word.title("공공데이터 품질진단 컨설팅 제안요청서")
    word.heading("1. 사업 개요")
    word.table(
        [
            ["사업명", "공공데이터 품질진단 컨설팅"],
            ["발주 기관", "슬기시 정보기획과"],
            ["사업 예산", "98,700,000원 (부가가치세 포함)"],
            ["사업 기간", "2024. 7. 1. ~ 2024. 11. 30."],
        ]
    )
    word.text("슬기시는 공개한 데이터 312종 가운데 이용 신청이 많은 64종의 품질을 진단하고 개선 방안을 마련하려 한다.",
              footnote="이용 신청이 많은 데이터란 최근 1년 동안 내려받기가 500회를 넘은 데이터를 말한다.")  # fmt: skip
    word.text(
        "2023년 자체 점검에서 좌표가 빠진 기록이 전체의 7.4%로 나타났다.",
        footnote="좌표계가 잘못 적힌 기록 1,128건을 포함한다.",
    )
    word.heading("2. 과업 내용")
    word.items(
        "데이터 64종의 값, 구조, 표준 진단", "오류 원인 분석과 개선 방안 제시", "담당자 120명 교육과 안내서 배포"
    )
    word.heading("2.1 진단 지표", 2)
    word.table(
        [
            ["영역", "지표", "기준값", "산식"],
            ["값", "완전성", "99% 이상", "값이 있는 칸 ÷ 전체 칸"],
            ["", "유효성", "98% 이상", "규칙을 지킨 칸 ÷ 값이 있는 칸"],
            ["", "최신성", "30일 이내", "기준일과 갱신일의 차이"],
            ["구조", "식별자 유일성", "100%", "겹치지 않는 식별자 ÷ 전체 기록"],
            ["", "참조 무결성", "99.5% 이상", "짝이 있는 참조 ÷ 전체 참조"],
        ],
        merges=[(1, 0, 3, 0), (4, 0, 5, 0)],
    )
    word.heading("3. 추진 일정")
    word.table(
        [
            ["단계", "기간", "산출물"],
            ["착수", "7월 1주", "수행계획서"],
            ["진단", "7월 2주 ~ 9월 2주", "진단 보고서"],
            ["개선", "9월 3주 ~ 11월 2주", "개선 방안, 정비 데이터"],
            ["종료", "11월 4주", "최종 보고서, 안내서"],
        ]
    )
    chart = raster_bars(
        "데이터 종류별 오류 건수", ("시설", "교통", "환경", "복지", "문화"), (842, 615, 277, 391, 158), unit="단위: 건"
    )
    word.picture(chart, "그림 1. 2023년 자체 점검에서 찾은 오류 건수")
    word.heading("4. 평가")
    word.text(
        "기술 평가 80점과 가격 평가 20점을 합하여 협상 순서를 정한다. 기술 평가에서 68점을 넘지 못하면 협상하지 않는다."
    )
    word.save(path)


def maintenance_sow(path: Path) -> None:
    word = Word(
        title="Statement of Work: Tide Gauge Maintenance",
        header="Ellery Coast Observatory",
        footer="Statement of Work SOW-2024-031",
    )
    word.title("Statement of Work: Tide Gauge Maintenance")
    word.heading("1. Background")
    word.text("The Ellery Coast Observatory runs 27 tide gauges along 640 kilometers of coast. Eleven of them are older than fifteen years.",
              footnote="Age is counted from the first entry in the station log, not from the date of purchase.")  # fmt: skip
    word.heading("2. Tasks")
    word.items(
        "Visit each gauge twice a year, in April and in September.",
        "Compare the gauge with a levelled benchmark and record the difference in millimeters.",
        "Replace batteries after 30 months, whatever their state.",
        numbered=True,
    )
    word.heading("3. Response times")
    word.table(
        [
            ["Class", "Example", "Response", "Repair"],
            ["A", "No data from a gauge used for flood warnings", "4 hours", "24 hours"],
            ["B", "No data from another gauge", "1 working day", "5 working days"],
            ["C", "Drift of more than 8 mm", "5 working days", "20 working days"],
        ]
    )
    word.heading("4. Fees")
    word.text(
        "The yearly fee is $412,600. Visits outside the plan cost $1,150 each, boats included.",
        footnote="Helicopter access to the Skerry gauge is paid by the observatory.",
    )
    word.table(
        [
            ["Year", "Fee", ""],
            ["", "Fixed", "Per extra visit"],
            ["2025", "$412,600", "$1,150"],
            ["2026", "$423,900", "$1,180"],
            ["2027", "$435,500", "$1,215"],
        ],
        merges=[(0, 0, 1, 0), (0, 1, 0, 2)],
    )
    word.heading("5. Reports")
    word.text(
        "A report is due on the tenth of each month. Three late reports in a year entitle the observatory to withhold two percent of the yearly fee."
    )
    word.save(path)


Block = dict[str, Any]


def _heading(text: str) -> Block:
    return {"text": text, "size": 1400, "bold": True}


SHELTER_NOTICE: list[Block] = [
    {"text": "버스정류장 한파쉼터 설치 제안요청서", "size": 1900, "bold": True, "align": "center"},
    {"text": "2024. 10.  라온군 건설교통과", "align": "center"},
    {"text": ""},
    _heading("1. 사업 개요"),
    {"text": "가. 사업명: 버스정류장 한파쉼터 설치"},
    {"text": "나. 사업 금액: 금 312,500,000원 (부가가치세 포함)"},
    {"text": "다. 사업 기간: 계약일로부터 90일"},
    {
        "text": "라. 사업 대상: 군내 버스정류장 486곳 가운데 어르신 이용이 많은 25곳",
        "footnoteAfter": "25곳",
        "footnote": "65세 이상 승차 인원이 하루 30명을 넘는 정류장",
    },
    {"text": ""},
    _heading("2. 설치 규모"),
    {"text": "지역별 설치 수량은 다음 표와 같다."},
    {
        "rows": [
            ["구분", "읍 지역", "면 지역", "합계"],
            ["밀폐형 쉼터", "8", "4", "12"],
            ["바람막이", "3", "10", "13"],
            ["온열 의자", "11", "14", "25"],
        ],
        "widths": [14000, 9500, 9500, 9500],
    },
    {"text": ""},
    _heading("3. 설치 기준"),
    {"text": "□ 밀폐형 쉼터는 너비 3.0m, 깊이 1.6m 이상으로 하고 출입문은 자동문으로 한다."},
    {"text": "□ 온열 의자는 겉면 온도 38℃를 넘지 않으며, 바깥 온도가 5℃ 아래로 내려가면 저절로 켜져야 한다."},
    {"text": "□ 유리는 두께 10㎜ 접합 강화유리로 하고, 새가 부딪치지 않도록 무늬를 넣는다."},
    {"text": ""},
    _heading("4. 문의"),
    {"text": "라온군 건설교통과 교통시설팀 (☎ 000-552-1190)"},
]
MEDICINE_RFP: list[Block] = [
    {"text": "마을 약국 재고연계 시스템 구축 제안요청서", "size": 1900, "bold": True, "align": "center"},
    {"text": "하늬군 보건소", "align": "center"},
    {"text": ""},
    _heading("제1장 사업 안내"),
    {
        "text": "하늬군에는 약국이 9곳뿐이어서, 찾는 약이 어느 약국에 있는지 몰라 이웃 군까지 나가는 주민이 많다. 이 사업은 약국의 재고를 이어 휴대전화로 알려 주는 시스템을 만든다."
    },
    {"text": "사업 금액은 금 157,300,000원이며, 사업 기간은 계약일로부터 5개월이다."},
    {"text": ""},
    _heading("제2장 요구사항"),
    {"text": "요구사항은 기능 3건과 보안 2건이다."},
    {
        "rows": [
            ["구분", "고유번호", "요구사항", "검수 방법"],
            ["기능", "SFR-001", "약국 재고를 10분마다 모은다", "시험"],
            ["", "SFR-002", "주민이 약 이름으로 가까운 약국을 찾는다", "시연"],
            ["", "SFR-003", "처방 약이 없으면 대체 약을 약사에게 제안한다", "시연"],
            ["보안", "SER-001", "주민의 검색 기록을 남기지 않는다", "점검"],
            ["", "SER-002", "약국별 판매량을 다른 약국에 보이지 않는다", "점검"],
            ["합계", "", "", "5건"],
        ],
        "widths": [6000, 8500, 21000, 7000],
        "merges": [[1, 0, 3, 0], [4, 0, 5, 0], [6, 0, 6, 2]],
    },
    {"text": ""},
    _heading("제3장 평가"),
    {"text": "기술과 가격을 더하여 100점 만점으로 평가한다."},
    {
        "rows": [
            ["평가 부문", "평가 항목", "배점"],
            ["기술 (80점)", "재고 연계 방안", "35"],
            ["", "화면의 쉬움", "25"],
            ["", "개인정보 보호", "20"],
            ["가격", "입찰 가격", "20"],
        ],
        "widths": [12000, 22000, 8500],
        "merges": [[1, 0, 3, 0]],
    },
    {"text": ""},
    {"text": "○ 제출 마감: 2024년 9월 27일 18시, 하늬군 보건소 2층"},
]
JUDGES: list[Block] = [
    {"text": "제안서 평가위원 명단 (대외비)", "size": 1700, "bold": True, "align": "center"},
    {"text": ""},
    {"text": "이 문서는 평가가 끝날 때까지 공개하지 않는다. 평가일은 2024년 10월 8일이다."},
    {
        "rows": [
            ["순번", "성명", "소속", "분야"],
            ["1", "도연우", "해든연구원", "정보화"],
            ["2", "소미르", "가온대학교", "약학"],
            ["3", "한별이", "도담소프트", "보안"],
        ],
        "widths": [5000, 9000, 16000, 9000],
    },
    {"text": ""},
    {"text": "예비 위원은 백나래 (미르대학교, 통계)이다."},
]
PROMPT_NOTICE: list[Block] = [
    {"text": "겨울철 도로 제설 협조 안내", "size": 1700, "bold": True, "align": "center"},
    {"text": ""},
    {"text": "1. 귀 기관의 발전을 기원합니다."},
    {
        "text": "2. 마루군은 2024년 11월 15일부터 2025년 3월 15일까지를 제설 대책 기간으로 정하고, 굴착기와 살포기 34대를 운영합니다."
    },
    {"text": "3. 염화칼슘 대신 소금물을 먼저 뿌리는 구간은 마루교에서 장터삼거리까지 6.2㎞입니다."},
    {"text": "4. 마을 안길의 눈은 이장의 신청을 받아 새벽 5시부터 치우며, 신청은 전날 밤 9시까지 문자로 받습니다."},
    {"text": ""},
    {"text": "마루군수", "size": 1500, "bold": True, "align": "center"},
]
HWP_SAMPLES: dict[str, list[Block]] = {
    "라온군_버스정류장 한파쉼터 설치.hwp": SHELTER_NOTICE,
    "라온군_버스정류장 한파쉼터 설치.hwpx": SHELTER_NOTICE,
    "하늬군_마을 약국 재고연계 시스템 구축.hwpx": MEDICINE_RFP,
    "hwp/하늬군_마을 약국 재고연계 시스템 구축.hwp": MEDICINE_RFP,
    "hwp/마루군_제설 협조 안내.hwp": PROMPT_NOTICE,
    "hwp/평가위원 명단(암호).hwp": JUDGES,
}


def write_hwp_samples(folder: Path) -> None:
    """Through node and the npm package @rhwp/core; see make-hwp/."""
    jobs = [
        {
            "out": str(folder / name),
            "header": blocks[0]["text"],
            "blocks": blocks,
            "password": PASSWORD if "암호" in name else None,
        }
        for name, blocks in HWP_SAMPLES.items()
    ]
    script = Path(__file__).parent / "make-hwp" / "make.js"
    subprocess.run(["node", script], input=json.dumps(jobs), text=True, check=True)


FAQ_MARKDOWN = """# 전자조달 제안서 제출 자주 묻는 질문

## 1. 파일 크기

제안서 파일은 하나에 **300MB**까지, 모두 더해 1GB까지 올릴 수 있다.

## 2. 마감 직전에 고칠 수 있는가

마감 시각 전까지는 몇 번이든 다시 올릴 수 있으며, 마지막에 올린 파일만 평가한다.

| 구분 | 허용 형식 | 쪽수 제한 |
|---|---|---|
| 정량 제안서 | PDF | 30쪽 |
| 정성 제안서 | PDF | 100쪽 |
| 발표 자료 | PDF, PPTX | 25쪽 |

## 3. 문의

- 평일 09:00~18:00 상담 전화 (☎ 000-900-7710)
- 점심시간 12:00~13:00에는 받지 않는다.
"""
NOTICE_TEXT = """입찰 공고 정정 안내

공고 번호: 20240517236
사업명: 통합자료관리시스템 고도화 (새봄시립도서관)

정정 사항
1. 현장 설명회를 2024년 6월 5일 14시에 본관 지하 1층 시청각실에서 연다.
2. 무인예약대출기의 설치 높이를 1.6m에서 1.4m 이하로 바꾼다.
3. 그 밖의 사항은 처음 공고한 내용과 같다.

2024년 5월 27일
새봄시립도서관장
"""
EVENT_HTML = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><title>Supplier day at the Port Ellery Transit Authority</title></head>
<body>
<nav><a href="#programme">Programme</a></nav>
<h1>Supplier day at the Port Ellery Transit Authority</h1>
<p>The supplier day for RFP 24-017 takes place on <b>February 21, 2024</b> in the tram depot at Quarry Lane. Up to three people of each firm may attend.</p>
<h2 id="programme">Programme</h2>
<table>
<tr><th>Time</th><th>Topic</th><th>Room</th></tr>
<tr><td>09:30</td><td>Fare rules and caps</td><td>Hall 2</td></tr>
<tr><td>11:00</td><td>Tour of a tram, with measuring of the validator poles</td><td>Track 7</td></tr>
<tr><td rowspan="2">13:30</td><td>Interfaces for parking operators</td><td>Hall 2</td></tr>
<tr><td>Small business meeting</td><td>Canteen</td></tr>
</table>
<p>Safety shoes are required on the tracks &amp; are lent at the gate.</p>
<script>console.log("not part of the text")</script>
</body>
</html>
"""
SITE_TEXT = """현장 조사 기록 (첨부 1)

조사일: 2024년 8월 20일
장소: 늘푸른복지재단 관제실

- 관제 좌석은 8석이며 전원은 이중으로 들어온다.
- 방음 기준 45데시벨을 넘는 자리가 2석 있다.
- 서버실 온도는 24.5℃였다.
"""


def write_plain_samples(folder: Path) -> None:
    (folder / "notices").mkdir(exist_ok=True)
    (folder / "notices/전자조달_자주묻는질문.md").write_text(FAQ_MARKDOWN, "utf-8")
    (folder / "notices/새봄시립도서관_정정공고.txt").write_text(NOTICE_TEXT, "utf-8")
    (folder / "notices/새봄시립도서관_정정공고_cp949.txt").write_bytes(
        NOTICE_TEXT.replace("정정 안내", "정정 안내 (사본)").encode("cp949")
    )
    (folder / "notices/supplier_day.html").write_text(EVENT_HTML, "utf-8")


def attachments(pdf: bytes) -> bytes:
    """A ZIP as it hangs on a notice: text, Markdown and a PDF in a folder."""
    table = (
        "# 관제 요원 배치표 (첨부 2)\n\n| 시간대 | 인원 |\n|---|---|\n| 주간 09~18시 | 4명 |\n| 야간 18~22시 | 2명 |\n"
    )
    return zipped(
        {
            "첨부/현장 조사 기록.txt": SITE_TEXT.encode(),
            "첨부/관제 요원 배치표.md": table.encode(),
            "첨부/보안 점검표.pdf": pdf,
        }
    )
