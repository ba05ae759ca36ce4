"""Documents are read in children with budgets: what a document or a person does to a child stays with that document."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pymupdf as untyped_pymupdf
import pytest

from tasks.documents.document_readers import ReadOptions
from tasks.documents.isolation import DocumentUnreadable, Failure, Job, ReadLimits, close_idle_readers, read_document
from tests.drills.processes import Process, processes_below, survivors

pymupdf: Any = untyped_pymupdf  # its annotations know few of its names

OPTIONS = ReadOptions(ocr="off")
CHILD = "tasks.documents.reader_child"
LETTER = "notices/supplier_day.html"
PATIENCE_S = 60.0
ROOT = Path(__file__).parents[2]

_memory_mb = count(1000)


@pytest.fixture
def limits() -> ReadLimits:
    """Those of this test alone: children are shared by jobs of the same memory budget."""
    return ReadLimits(memory_mb=next(_memory_mb))


@pytest.fixture(scope="module")
def heavy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three pages; the second draws so many lines that it takes seconds to read."""
    document = pymupdf.open()
    for number in (1, 2, 3):
        document.new_page().insert_text((72, 72), f"This is page {number}.")
    lines = b"".join(b"%d 0 m %d 842 l S\n" % (x % 595, x * 7 % 595) for x in range(400_000))
    drawing = document.get_new_xref()
    document.update_object(drawing, "<<>>")
    document.update_stream(drawing, lines)
    page = document[1]
    document.xref_set_key(page.xref, "Contents", f"[{page.get_contents()[0]} 0 R {drawing} 0 R]")
    file = tmp_path_factory.mktemp("heavy") / "heavy.pdf"
    document.save(file, deflate=True)
    return file


def statuses(file: Path, limits: ReadLimits) -> list[tuple[str, str | None]]:
    pages = read_document(job(file), options=OPTIONS, limits=limits).document.pages
    return [(page.status.value, page.reason) for page in pages]


def failure(file: Path, limits: ReadLimits) -> Failure:
    with pytest.raises(DocumentUnreadable) as raised:
        read_document(job(file), options=OPTIONS, limits=limits)
    return raised.value.failure


def job(file: Path) -> Job:
    return Job(path=file, digest=file.stem, format=file.suffix[1:])


def children(limits: ReadLimits) -> list[Process]:
    """Reading children of this process that work under these limits."""
    return [child for child in processes_below(os.getpid()) if f"{CHILD} {limits.memory_mb} " in f"{child.command} "]


def eventually(condition: Callable[[], Any]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.005)


@pytest.fixture
def background() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_page_over_its_cpu_budget_is_a_timeout_and_the_next_one_is_read(heavy: Path, limits: ReadLimits) -> None:
    budget = limits.model_copy(update={"page_cpu_s": 3.0})
    message = "it took more than 3 CPU seconds; raise the page budget to read it"
    assert statuses(heavy, budget) == [("ok", None), ("timeout", message), ("ok", None)]


def test_a_child_that_never_answers_ends_by_the_clock_and_is_worth_a_retry(
    samples: Path, limits: ReadLimits, background: ThreadPoolExecutor
) -> None:
    reading: Future[Failure] = background.submit(
        failure, samples / LETTER, limits.model_copy(update={"page_wall_s": 1.0})
    )
    eventually(lambda: children(limits))
    (child,) = children(limits)
    os.kill(child.pid, signal.SIGSTOP)
    assert reading.result() == Failure(reason="timeout", message="no answer within 1 s", retryable=True)
    assert survivors((child,)) == []


@pytest.mark.parametrize("memory_mb", [1, 30, 60], ids=lambda mb: f"{mb} MB")
def test_too_little_memory_is_the_reason_that_is_given(samples: Path, memory_mb: int) -> None:
    found = failure(samples / "english/Verdane_Climate_Report_2023.pdf", ReadLimits(memory_mb=memory_mb))
    assert (found.reason, found.retryable) == ("memory", False)


def test_a_kill_from_outside_is_worth_a_retry_and_costs_one_page(
    heavy: Path, limits: ReadLimits, background: ThreadPoolExecutor
) -> None:
    reading = background.submit(read_document, job(heavy), options=OPTIONS, limits=limits)
    eventually(lambda: [child for child in children(limits) if cpu_s(child) > 2])  # at the second page
    os.kill(children(limits)[0].pid, signal.SIGKILL)
    read = reading.result()
    assert [page.status.value for page in read.document.pages] == ["ok", "error", "ok"]
    assert read.retryable == ("page 2: the reader died (signal 9)",)


def cpu_s(process: Process) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def test_idle_children_end_when_asked_and_one_at_work_does_not(
    samples: Path, heavy: Path, limits: ReadLimits, background: ThreadPoolExecutor
) -> None:
    assert statuses(samples / LETTER, limits) == [("ok", None)]
    close_idle_readers()
    assert children(limits) == []
    reading = background.submit(statuses, heavy, limits)
    eventually(lambda: children(limits))
    close_idle_readers()
    assert reading.result() == [("ok", None)] * 3


def test_a_child_knows_no_secrets(samples: Path, limits: ReadLimits, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("DATABASE_URL", "postgresql://user:secret@host/name")
    statuses(samples / LETTER, limits)
    (child,) = children(limits)
    environment = Path(f"/proc/{child.pid}/environ").read_bytes()
    assert b"PATH=" in environment
    assert b"secret" not in environment


BUSY_PARENT = """
import sys
from pathlib import Path
from tasks.documents.isolation import Job, ReadLimits, read_document
from tasks.documents.document_readers import ReadOptions
read_document(Job(Path(sys.argv[1]), "", "pdf"), options=ReadOptions(ocr="off"), limits=ReadLimits())
"""


def test_a_child_at_work_dies_with_its_parent(heavy: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", BUSY_PARENT, str(heavy)], cwd=ROOT) as parent:
        eventually(lambda: [child for child in processes_below(parent.pid) if cpu_s(child) > 1])
        orphans = processes_below(parent.pid)
        parent.kill()
    assert CHILD in orphans[0].command
    assert survivors(orphans) == []
