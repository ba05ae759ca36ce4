"""The child process that reads documents: a parser that hangs, exhausts memory or crashes affects no other process.

`python -m tasks.documents.reader_child MEMORY_MB PARENT_PID` answers jobs of stdin on stdout, a line of JSON each.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import resource
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, cast

from tasks.documents.blocks import Page
from tasks.documents.document_errors import DocumentError, ReaderUnusable
from tasks.documents.document_readers import PROGRESS, ReadOptions
from tasks.documents.receipt import compare_letters, count_source_letters

PR_SET_PDEATHSIG = 1
OUT_OF_MEMORY = re.compile(
    r"bad_alloc|\b(m|c|re)alloc\b.* failed|cannot allocate memory|failed to map segment", re.IGNORECASE
)
"""Messages of C libraries and of the dynamic loader when memory has run out."""


def main(memory_mb: int, parent: int) -> None:
    """Answer jobs of stdin on stdout until it closes; memory_mb: for jobs alone; parent: process to end with."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what libraries print goes to stderr

    # the kernel (Linux) kills this process when its parent dies, however it dies
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()  # the parent died during start-up: the kernel signals later deaths only
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C

    # the limit is on the memory that jobs map on top of the interpreter's own
    with contextlib.suppress(OSError, ValueError):
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = mapped + memory_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # PyMuPDF's layout models take a CPU second and 90 MB, and no reader here uses them; None: `import` raises
    sys.modules.update(cast("dict[str, Any]", {"pymupdf.layout": None, "pymupdf4llm": None}))

    def send(answer: str) -> None:
        answers.write(answer + "\n")
        answers.flush()

    PROGRESS.set(lambda: send('{"progress":true}'))
    for line in sys.stdin:
        job = json.loads(line)
        _log(job, "start")
        for answer in _answers(job):
            send(answer)
        _log(job, "finish")


def _answers(job: dict[str, Any]) -> Iterator[str]:
    """Run one job and yield its answers, at last that it is done, or its error: every failure becomes an answer."""
    try:
        yield from _run(job)
        yield '{"done":true}'
    except Exception as error:  # noqa: BLE001 a parser's bug on hostile bytes is an answer too
        # whether the error, or one of its causes, is a lack of memory
        cause: BaseException | None = error
        while cause and not isinstance(cause, MemoryError) and not OUT_OF_MEMORY.search(str(cause)):
            cause = cause.__cause__ or cause.__context__
        if cause and not isinstance(error, DocumentError):
            kind, message = "MemoryError", "reading it takes more memory than allowed"
        elif isinstance(error, DocumentError | ReaderUnusable):
            kind, message = type(error).__name__, str(error)
        else:
            kind, message = "Crash", f"{type(error).__name__}: {error}"[:500]
        yield json.dumps({"error": kind, "message": message})


def _run(job: dict[str, Any]) -> Iterator[str]:
    """Yield a job's answers as JSON: header and pages, pictures, or pages with boxes drawn. Raises ReaderUnusable."""
    try:
        target = resolve_name(job["target"])
    except Exception as error:
        owner = job["reader"] or "Trivet"
        message = f"The reader `{job['target']}` of {owner} cannot be imported ({error!r}); install what it needs."
        raise ReaderUnusable(message) from error
    path, password = Path(job["path"]), job["password"]
    if job["task"] == "read":
        reader = target(path, password=password, options=ReadOptions.model_validate(job["options"]))
        yield json.dumps({"header": reader.header.model_dump(mode="json")})
        source = count_source_letters(path, reader.header.format)
        pages: list[Page] = []  # of a package alone, whose letters are compared on its last page
        for page in reader.pages(first=job["first"]):
            if source is not None:
                pages.append(page)
                if len(pages) == reader.header.page_count:  # only where no child died before
                    page = compare_letters(page, source, earlier=pages[:-1])
            yield '{"page":' + page.model_dump_json() + "}"
    elif job["task"] == "images":
        for number, candidate in enumerate(target(path, password=password)):
            file = _write_picture(job, number, candidate.png)
            yield json.dumps({"image": candidate.model_dump(mode="json", exclude={"png"}), "file": file})
    else:
        boxes = {int(page): [tuple(box) for box in drawn] for page, drawn in job["boxes"].items()}
        for number, png in target(path, boxes, password=password):
            yield json.dumps({"page": number, "file": _write_picture(job, number, png)})


def _write_picture(job: dict[str, Any], number: int, png: bytes) -> str:
    """Write the picture to the scratch folder and return its path: it is too large for a line of JSON."""
    file = Path(job["scratch"]) / f"{number:06d}.png"
    file.write_bytes(png)
    return str(file)


def _log(job: dict[str, Any], event: str) -> None:
    """Append a line in one write to the log of parsed documents, if there is one."""
    if job.get("log"):
        handle = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{event} {job['task']} {job['digest']}\n".encode())
        os.close(handle)


if __name__ == "__main__":
    main(int(sys.argv[1]), parent=int(sys.argv[2]))
