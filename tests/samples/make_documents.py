"""Write documents/, the metadata beside them and questions.jsonl: python tests/samples/make_documents.py

Needs the Nanum typefaces (Debian: fonts-nanum), python-docx and, for HWP, node with `npm install` in make-hwp/.
Two runs on one machine give the same bytes.
"""

from __future__ import annotations

import shutil
import unicodedata
from pathlib import Path

from make_charts import scanned
from make_english import ENGLISH
from make_korean import KOREAN, SCANS
from make_office import attachments, maintenance_sow, quality_rfp, write_hwp_samples, write_plain_samples
from make_pages import Look, Sheet, write_pdf
from make_questions import write_metadata, write_questions
from make_rfps import CARE, RFPS, rfp

HERE = Path(__file__).parent
DOCUMENTS = HERE / "documents"


def main() -> None:
    shutil.rmtree(DOCUMENTS, ignore_errors=True)
    for folder in ("reports", "english", "hwp", "notices", "docx"):
        (DOCUMENTS / folder).mkdir(parents=True)
    for name, spec in RFPS.items():
        # one name as macOS writes it: Hangul taken apart
        rfp(spec).save(DOCUMENTS / (unicodedata.normalize("NFD", name) if spec is CARE else name))
    for name, build in {**KOREAN, **ENGLISH}.items():
        build().save(DOCUMENTS / name)
    for seed, (name, build) in enumerate(SCANS.items()):
        write_pdf(scanned(build(), seed=seed), DOCUMENTS / name)
    quality_rfp(DOCUMENTS / "슬기시_공공데이터 품질진단 컨설팅.docx")
    maintenance_sow(DOCUMENTS / "docx/Tide_Gauge_Maintenance_SOW.docx")
    write_hwp_samples(DOCUMENTS)
    write_plain_samples(DOCUMENTS)
    minutes = next(name for name in KOREAN if "회의록" in name)
    shutil.copy(DOCUMENTS / minutes, DOCUMENTS / "notices/회의록 사본.pdf")
    checklist = security_checklist().close().tobytes(garbage=4, deflate=True, deflate_fonts=True, no_new_id=True)
    (DOCUMENTS / "notices/돌봄전화_첨부.zip").write_bytes(attachments(checklist))
    write_metadata(DOCUMENTS)
    write_questions(DOCUMENTS, HERE / "questions.jsonl")


def security_checklist() -> Sheet:
    sheet = Sheet(title="보안 점검표", created="D:20240805090000+09'00'", look=Look(size=11), footer="- {page} -")
    sheet.heading("보안 점검표 (첨부 3)")
    sheet.table(
        [
            ["번호", "점검 항목", "주기"],
            ["1", "관제실 출입 기록과 근무표를 맞추어 본다.", "매일"],
            ["2", "통화 녹음 저장소의 접근 권한을 확인한다.", "매주"],
            ["3", "외부 반출 대장과 승인 문서를 대조한다.", "매월"],
            ["4", "모의 훈련으로 대체 절차를 시험한다.", "반기"],
        ],
        [0.6, 4, 1], align="clc",
    )  # fmt: skip
    return sheet


if __name__ == "__main__":
    main()
