"""The child process that reads documents: a parser that hangs, exhausts memory or crashes affects no other process.

`python -m tasks.documents.reader_child MEMORY_MB PARENT_PID` reads jobs from stdin and answers on stdout, one JSON
object a line.
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
from pkgutil import resolve_name
from typing import Any, cast

from tasks.documents.document_errors import DocumentError, ReaderUnusable
from tasks.documents.document_readers import ReadOptions

PR_SET_PDEATHSIG = 1
OUT_OF_MEMORY = re.compile(
    r"bad_alloc|\b(m|c|re)alloc\b.* failed|cannot allocate memory|failed to map segment", re.IGNORECASE
)
"""Messages of C libraries and of the dynamic loader when memory has run out."""


def main(memory_mb: int, parent: int) -> None:
    """Answer jobs until stdin closes."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="replace")
    os.dup2(2, 1)  # what libraries print goes to stderr
    _die_with(parent)
    _limit_memory(memory_mb)
    # PyMuPDF's layout models take a CPU second and 90 MB, and no reader here uses them; None: `import` raises
    sys.modules.update(cast("dict[str, Any]", {"pymupdf.layout": None, "pymupdf4llm": None}))
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
        yield '{"done":true}'
    except Exception as error:  # noqa: BLE001 a parser's bug on hostile bytes is an answer too
        if _is_out_of_memory(error) and not isinstance(error, DocumentError):
            kind, message = "MemoryError", "reading it takes more memory than allowed"
        elif isinstance(error, DocumentError | ReaderUnusable):
            kind, message = type(error).__name__, str(error)
        else:
            kind, message = "Crash", f"{type(error).__name__}: {error}"[:500]
        yield json.dumps({"error": kind, "message": message})


def _is_out_of_memory(error: BaseException | None) -> bool:
    """Whether the error, or one of its causes, is a lack of memory."""
    while error and not isinstance(error, MemoryError) and not OUT_OF_MEMORY.search(str(error)):
        error = error.__cause__ or error.__context__
    return error is not None


def _pages(job: dict[str, Any]) -> Iterator[str]:
    options = ReadOptions.model_validate(job["options"])
    reader = _target(job)(Path(job["path"]), password=job["password"], options=options)
    yield json.dumps({"header": reader.header.model_dump(mode="json")})
    for page in reader.pages(first=job["first"]):
        yield '{"page":' + page.model_dump_json() + "}"


def _images(job: dict[str, Any]) -> Iterator[str]:
    for number, candidate in enumerate(_target(job)(Path(job["path"]), password=job["password"])):
        file = _written(job, number, candidate.png)
        yield json.dumps({"image": candidate.model_dump(mode="json", exclude={"png"}), "file": file})


def _render(job: dict[str, Any]) -> Iterator[str]:
    boxes = {int(page): [tuple(box) for box in drawn] for page, drawn in job["boxes"].items()}
    for number, png in _target(job)(Path(job["path"]), boxes, password=job["password"]):
        yield json.dumps({"page": number, "file": _written(job, number, png)})


def _written(job: dict[str, Any], number: int, png: bytes) -> str:
    """Path of the picture in the scratch folder: it is too large for a line of JSON."""
    file = Path(job["scratch"]) / f"{number:06d}.png"
    file.write_bytes(png)
    return str(file)


_TASKS: dict[str, Callable[[dict[str, Any]], Iterator[str]]] = {"read": _pages, "images": _images, "render": _render}


def _target(job: dict[str, Any]) -> Callable[..., Any]:
    """The function that the job names, imported now. Raises ReaderUnusable."""
    try:
        return resolve_name(job["target"])
    except Exception as error:
        owner = job["reader"] or "Trivet"
        message = f"The reader `{job['target']}` of {owner} cannot be imported ({error!r}); install what it needs."
        raise ReaderUnusable(message) from error


def _die_with(parent: int) -> None:
    """Ask the kernel (Linux) to kill this process when its parent dies, however it dies."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit()  # the parent died during start-up: the kernel signals later deaths only
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C


def _limit_memory(memory_mb: int) -> None:
    """Limit the memory that jobs may map on top of the interpreter's own."""
    with contextlib.suppress(OSError, ValueError):
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        limit = mapped + memory_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _log(job: dict[str, Any], event: str) -> None:
    """Append a line in one write to the log of parsed documents, if there is one."""
    if job.get("log"):
        handle = os.open(job["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(handle, f"{event} {job['task']} {job['digest']}\n".encode())
        os.close(handle)


if __name__ == "__main__":
    main(int(sys.argv[1]), parent=int(sys.argv[2]))
