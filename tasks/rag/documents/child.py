"""The process that reads documents, so that a parser that hangs, swells or crashes takes nothing else down.

`python -m tasks.rag.documents.child MEMORY_MB PARENT_PID` reads jobs from stdin and answers on stdout, one JSON object
a line.
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
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TextIO

from tasks.rag.documents.errors import DocumentError
from tasks.rag.documents.reading import Reader, ReadOptions

PR_SET_PDEATHSIG = 1
OUT_OF_MEMORY = re.compile(
    r"bad_alloc|\b(m|c|re)alloc\b.* failed|cannot allocate memory|failed to map segment", re.IGNORECASE
)
"""How C libraries, and the loader of the next one, say that memory has run out."""


def main(memory_mb: int, parent: int) -> None:
    """Answer jobs until stdin closes."""
    answers = _claim_stdout()
    _die_with(parent)
    _limit_memory(memory_mb)
    _leave_out_layout_models()
    for line in sys.stdin:
        job = json.loads(line)
        _log(job, "start")
        for answer in _answers(job):
            answers.write(answer + "\n")
            answers.flush()
        _log(job, "finish")


def _answers(job: dict[str, Any]) -> Iterator[str]:
    """Run one job; every failure becomes an answer."""
    try:
        yield from _TASKS[job["task"]](job)
    except DocumentError as error:
        yield json.dumps({"error": type(error).__name__, "message": str(error)})
    except Exception as error:  # noqa: BLE001 a parser's bug on hostile bytes is an answer too
        if _is_out_of_memory(error):
            yield json.dumps({"error": "MemoryError", "message": "reading it takes more memory than allowed"})
        else:
            yield json.dumps({"error": "Crash", "message": f"{type(error).__name__}: {error}"[:500]})


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether it, or an error that led to it, says so."""
    while error and not isinstance(error, MemoryError) and not OUT_OF_MEMORY.search(str(error)):
        error = error.__cause__ or error.__context__
    return error is not None


def _pages(job: dict[str, Any]) -> Iterator[str]:
    options = ReadOptions.model_validate(job["options"])
    reader = opener(job["format"])(Path(job["path"]), password=job["password"], options=options)
    yield json.dumps({"header": reader.header.model_dump(mode="json")})
    for page in reader.pages(first=job["first"]):
        yield '{"page":' + page.model_dump_json() + "}"
    yield '{"done":true}'


def _images(job: dict[str, Any]) -> Iterator[str]:
    from tasks.rag.documents.images import find_images

    for number, candidate in enumerate(find_images(Path(job["path"]), job["format"], password=job["password"])):
        # pictures are too big for a line of JSON: the parent takes them from the scratch folder
        file = Path(job["scratch"]) / f"{number:06d}.png"
        file.write_bytes(candidate.png)
        described = candidate.model_dump(mode="json", exclude={"png"})
        yield json.dumps({"image": described, "file": str(file)})
    yield '{"done":true}'


def _render(job: dict[str, Any]) -> Iterator[str]:
    from tasks.rag.documents.rendering import render_pages

    boxes = {int(page): [tuple(box) for box in drawn] for page, drawn in job["boxes"].items()}
    for number, png in render_pages(Path(job["path"]), boxes, password=job["password"]):
        file = Path(job["scratch"]) / f"{number:06d}.png"
        file.write_bytes(png)
        yield json.dumps({"page": number, "file": str(file)})
    yield '{"done":true}'


_TASKS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {"read": _pages, "images": _images, "render": _render}

Opener = Callable[..., Reader]


def opener(format: str) -> Opener:
    """The function that opens documents of a format; only the reader that is needed gets imported."""
    match format:
        case "pdf":
            from tasks.rag.documents.pdf import open_pdf as open_document
        case "hwp":
            from tasks.rag.documents.hwp import open_hwp as open_document
        case "hwpx":
            from tasks.rag.documents.hwpx import open_hwpx as open_document
        case "docx":
            from tasks.rag.documents.docx import open_docx as open_document
        case "md":
            from tasks.rag.documents.markdown import open_markdown as open_document
        case "html":
            from tasks.rag.documents.html import open_html as open_document
        case _:
            from tasks.rag.documents.text import open_text as open_document
    return open_document


def _claim_stdout() -> TextIO:
    """Keep stdout for answers: whatever a library prints goes to stderr."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)
    return answers


def _die_with(parent: int) -> None:
    """Ask the kernel (Linux) to kill this process when its parent dies, however it dies."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()  # it died while this process started: the kernel tells of later deaths only
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business


def _leave_out_layout_models() -> None:
    """Keep PyMuPDF from importing its layout models: a CPU second and 90 MB for what no reader here uses."""
    without: dict[str, Any] = {"pymupdf.layout": None, "pymupdf4llm": None}  # None: `import` raises ImportError
    sys.modules.update(without)


def _limit_memory(memory_mb: int) -> None:
    """Cap what the job may take on top of what the interpreter already maps."""
    with contextlib.suppress(OSError, ValueError):
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = mapped + memory_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _log(job: dict[str, Any], event: str) -> None:
    """Append to the log of parsed documents, when one is asked for: a line is written whole or not at all."""
    if job.get("log"):
        handle = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{event} {job['task']} {job['digest']}\n".encode())
        os.close(handle)


if __name__ == "__main__":
    main(int(sys.argv[1]), parent=int(sys.argv[2]))
