"""No process that Trivet starts takes a module of the current folder for its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from flows.service import gpu_doctor
from tasks.documents.document_readers import ReadOptions
from tasks.documents.isolation import Job, ReadLimits, read_document

ROOT = Path(__file__).parents[1]
PACKAGES = ("flows", "tasks", "models", "storage")
UNSAFE = re.compile(r'(sys\.executable, |[(\[])"-m", ')
"""A command without `-P` before `-m`."""


@pytest.fixture
def namesakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The current folder has packages that are called as ours, and end whoever imports them."""
    for package in PACKAGES:
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("raise SystemExit('code of the current folder')\n")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("namesakes")
def test_a_trial_of_the_doctor_is_our_own() -> None:
    assert "code of the current folder" not in gpu_doctor.examine_gpu().model_dump_json()


@pytest.mark.usefixtures("namesakes")
def test_a_reader_of_documents_is_our_own(samples: Path) -> None:
    job = Job(path=samples / "notices/supplier_day.html", digest="0", format="html")
    read = read_document(job, options=ReadOptions(ocr="off"), limits=ReadLimits(memory_mb=999))
    assert [page.status.value for page in read.document.pages] == ["ok"]


def test_python_is_never_told_to_run_a_module_with_the_current_folder_on_its_path() -> None:
    files = [path for package in PACKAGES for path in (ROOT / package).rglob("*.py")]
    unsafe = [str(path.relative_to(ROOT)) for path in files if UNSAFE.search(path.read_text("utf-8"))]
    assert unsafe == []
