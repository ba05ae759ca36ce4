"""Reads documents in child processes with a budget of CPU seconds, wall time and memory per page.

A child that exceeds its budget is killed, and reading continues at the next page in a new child. The budget is CPU
time, so that a busy machine does not change the result.
"""

from __future__ import annotations

import atexit
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, LifoQueue
from typing import Any, Literal, NamedTuple

from storage.records import Record
from tasks.documents import document_errors
from tasks.documents.blocks import BBox, Document, Page, PageStatus
from tasks.documents.document_readers import Header, ReadOptions, join_pages
from tasks.documents.formats import find_format
from tasks.documents.pdf.pdf_line_ends import join_words

BEYOND = 1 << 30  # a page number that no document has
JOBS_PER_CHILD = 200  # parsers leak memory; a child is replaced after this many documents


class ReadLimits(Record):
    """The budget of CPU seconds, wall time and memory for reading one page."""

    page_cpu_s: float = 30.0
    """CPU seconds for a page, or for a part of a long document that is read as a whole."""
    page_wall_s: float = 180.0
    """Wall-clock seconds for a page: ends a child that waits forever."""
    memory_mb: int = 2048
    """Memory on top of the interpreter's own."""


class Failure(Record):
    """The reason why a document or a page could not be read."""

    reason: str
    """Short code: corrupt, needs_password, timeout, memory, crash …"""
    message: str
    retryable: bool = False
    """True if the same bytes may succeed another time: the child was killed from outside, or got no CPU time."""


class DocumentUnreadable(Exception):
    """Nothing of the document was read; `failure` gives the reason."""

    def __init__(self, reason: str, message: str, *, retryable: bool = False) -> None:
        super().__init__(message)
        self.failure = Failure(reason=reason, message=message, retryable=retryable)


class Job(NamedTuple):
    """A document to be read, with what its reader needs to open it."""

    path: Path
    digest: str
    format: str
    password: str | None = None


class ReadDocument(NamedTuple):
    """A document that was read, with those failures of its pages that are worth a retry."""

    document: Document
    retryable: tuple[str, ...]


def read_document(job: Job, *, options: ReadOptions, limits: ReadLimits, log: Path | None = None) -> ReadDocument:
    """Read every page of a document; a page that fails costs no other page. Raises DocumentUnreadable."""
    pages: list[Page] = []
    retryable: list[str] = []
    header: Header | None = None
    while header is None or len(pages) < header.page_count:
        first, opener = len(pages) + 1, find_format(job.format).opener
        try:
            for answer in _run(
                job, "read", opener, limits, log=log, options=options.model_dump(mode="json"), first=first
            ):
                if "header" in answer:
                    header = Header.model_validate(answer["header"])
                else:
                    pages.append(Page.model_validate(answer["page"]))
            break
        except DocumentUnreadable as error:
            if header is None or len(pages) >= header.page_count:
                raise
            failure, number = error.failure, len(pages) + 1
            status = PageStatus.TIMEOUT if failure.reason == "timeout" else PageStatus.ERROR
            page_number = None if header.page_source == "none" else number
            pages.append(Page(number=page_number, status=status, reason=failure.message))
            if failure.retryable:
                retryable.append(f"page {number}: {failure.message}")
    if header is None:
        raise DocumentUnreadable("crash", "the reader ended without a word", retryable=True)
    fields = header.model_dump(exclude={"page_count"})
    # PDFs are read page by page, without words and headings of other pages
    joined = join_pages(join_words(pages)) if header.format == "pdf" else tuple(pages)
    return ReadDocument(Document(pages=joined, **fields), tuple(retryable))


def check_password(job: Job, *, options: ReadOptions, limits: ReadLimits) -> None:
    """Open a document without reading its pages. Raises DocumentUnreadable."""
    opener, read_options = find_format(job.format).opener, options.model_dump(mode="json")
    for _ in _run(job, "read", opener, limits, options=read_options, first=BEYOND):
        pass


class FoundImage(NamedTuple):
    """A picture of a document: its ImageCandidate as JSON without `png`, and the PNG file."""

    about: dict[str, Any]
    file: Path


def find_images(job: Job, *, scratch: Path, limits: ReadLimits) -> Iterator[FoundImage]:
    """Yield the pictures of a document, written below `scratch`, if there is a finder. Raises DocumentUnreadable."""
    finder = find_format(job.format).image_finder
    if finder is None:
        return
    for answer in _run(job, "images", finder, limits, scratch=str(scratch)):
        yield FoundImage(answer["image"], Path(answer["file"]))


def render_pages(
    job: Job, boxes: Mapping[int, Sequence[BBox]], *, scratch: Path, limits: ReadLimits
) -> Iterator[tuple[int, Path]]:
    """Yield (1-based page, PNG below `scratch`) with boxes drawn, if there is a renderer. Raises DocumentUnreadable."""
    renderer = find_format(job.format).page_renderer
    if renderer is None:
        return
    drawn = {str(page): [list(box) for box in page_boxes] for page, page_boxes in boxes.items()}
    for answer in _run(job, "render", renderer, limits, scratch=str(scratch), boxes=drawn):
        yield answer["page"], Path(answer["file"])


def _run(
    job: Job,
    task: Literal["read", "images", "render"],
    target: str,
    limits: ReadLimits,
    *,
    log: Path | None = None,
    **inputs: Any,
) -> Iterator[dict[str, Any]]:
    """Yield the answers of a child to one job, each within its budget. Raises DocumentUnreadable.

    target: the function that the child calls, `module:function`. inputs: what else the task takes, as JSON.
    """
    message = job._asdict() | inputs | {"task": task, "target": target, "reader": find_format(job.format).distribution}
    message |= {"path": str(job.path), "log": str(log) if log else None}
    memory_mb = limits.memory_mb
    children = _by_memory.get(memory_mb) or _by_memory.setdefault(memory_mb, _Children(memory_mb))
    with children.borrow() as child:
        child.send(message)
        while not (answer := child.receive(limits)).get("done"):
            if "error" in answer:
                kind = getattr(document_errors, answer["error"], None)
                reason = kind.reason if kind else {"MemoryError": "memory"}.get(answer["error"], "crash")
                child.idle = reason not in ("memory", "crash")  # after other errors it can read on
                retryable = kind is document_errors.ReaderUnusable
                raise DocumentUnreadable(reason, answer["message"], retryable=retryable)
            if "progress" not in answer:
                yield answer
        child.idle = True


def close_idle_readers() -> None:
    """End the idle child processes, which frees some 90 MB each; the next document starts a new one."""
    for children in _by_memory.values():
        children.close_idle()


class _Child:
    """One child process with the pipes to it."""

    def __init__(self, memory_mb: int) -> None:
        # without secrets, as the child reads untrusted files, and for one thread, so that CPU time is comparable
        passed_names = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "VIRTUAL_ENV", "TESSDATA_PREFIX", "SYSTEMROOT")
        root = str(Path(__file__).resolve().parents[2])
        environment = {name: os.environ[name] for name in passed_names if name in os.environ} | {
            "PYTHONPATH": os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH")))),
            "OMP_NUM_THREADS": "1",
            "OMP_THREAD_LIMIT": "1",
        }
        self.process = subprocess.Popen(
            # -P: modules of the working folder are not imported
            [sys.executable, "-P", "-m", "tasks.documents.reader_child", str(memory_mb), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self.jobs = 0
        self.idle = True
        self._buffer = b""

    def send(self, task: dict[str, Any]) -> None:
        """Give the child a job. Raises DocumentUnreadable if it has died."""
        self.jobs += 1
        self.idle = False
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(task).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise self._death_error() from error

    def receive(self, limits: ReadLimits) -> dict[str, Any]:
        """Return the next answer. Raises DocumentUnreadable when the budget is spent or the child dies."""
        assert self.process.stdout is not None
        started, cpu = time.monotonic(), self._cpu_s()
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while b"\n" not in self._buffer:
                # a parser that is stuck sends nothing, so the budget is checked every half second
                if not selector.select(timeout=0.5):
                    if self._cpu_s() - cpu > limits.page_cpu_s:
                        over = f"it took more than {limits.page_cpu_s:g} CPU seconds; raise the page budget to read it"
                        raise DocumentUnreadable("timeout", over)
                    if time.monotonic() - started > limits.page_wall_s:
                        late = f"no answer within {limits.page_wall_s:g} s"
                        raise DocumentUnreadable("timeout", late, retryable=True)
                elif part := os.read(self.process.stdout.fileno(), 1 << 20):
                    self._buffer += part
                else:
                    raise self._death_error()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        """Kill the child and close the pipes to it."""
        self.process.kill()
        self.process.wait()
        for pipe in filter(None, (self.process.stdin, self.process.stdout)):
            with suppress(BrokenPipeError):
                pipe.close()

    def _cpu_s(self) -> float:
        """Return the CPU seconds of the child and of the children it has waited for (tesseract); 0 where it is gone."""
        try:
            # the name before the last `)` may hold spaces
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        # its own and its children's, user and system (proc_pid_stat(5))
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def _death_error(self) -> DocumentUnreadable:
        code = self.process.wait()
        message = f"the reader died (signal {-code})" if code < 0 else f"the reader ended with status {code}"
        # SIGKILL did not come from here but from the kernel's OOM killer or a user
        return DocumentUnreadable("crash", message, retryable=code == -signal.SIGKILL)


class _Children:
    """The idle child processes of one memory budget, ready for the next document."""

    def __init__(self, memory_mb: int) -> None:
        self._memory_mb = memory_mb
        self._idle: LifoQueue[_Child] = LifoQueue()
        # the kernel ties a child's life to the thread that started it, so one lasting thread starts them all
        self._starter = ThreadPoolExecutor(max_workers=1, thread_name_prefix="reader-starter")
        atexit.register(self.close_idle)

    @contextmanager
    def borrow(self) -> Generator[_Child]:
        """Lend a child for one document; it is killed if the job fails, and after JOBS_PER_CHILD of them."""
        try:
            child = self._idle.get_nowait()
        except Empty:
            child = self._starter.submit(_Child, self._memory_mb).result()
        try:
            yield child
        finally:
            if child.idle and child.jobs < JOBS_PER_CHILD and child.process.poll() is None:
                self._idle.put(child)
            else:
                child.close()

    def close_idle(self) -> None:
        """End the child processes that have nothing to do."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()


_by_memory: dict[int, _Children] = {}
"""The children of this process by the megabytes that a page may take."""
