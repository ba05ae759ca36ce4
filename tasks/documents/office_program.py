"""Runs LibreOffice on one document: it fetches nothing, runs no macros, and ends with the process that asked for it.

Word, Excel and PowerPoint of 97–2003 (DOC, XLS, PPT) are read as it converts them, where it is installed.
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Literal, NoReturn
from xml.sax.saxutils import quoteattr

from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import Reader, ReadOptions

PROGRAM = "soffice"
CPU_S = 25
"""CPU seconds of each of its processes: less than a reader has for a page."""
WALL_S = 120.0
_PR_SET_PDEATHSIG = 1
_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_SCRIPTING = "/org.openoffice.Office.Common/Security/Scripting"
_SETTINGS = (
    # of a linked picture, text or sheet, in the network or on this machine, nothing is loaded
    (_SCRIPTING, "BlockUntrustedRefererLinks", "true"),
    (_SCRIPTING, "DisableMacrosExecution", "true"),
    (_SCRIPTING, "MacroSecurityLevel", "3"),
    ("/org.openoffice.Office.Writer/Content/Update", "Link", "2"),  # never
    ("/org.openoffice.Office.Calc/Content/Update", "Link", "1"),  # never
)


class ProgramFailed(Exception):
    """LibreOffice did not convert the document; the message says why."""


def open_doc(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a Word document of 97–2003, as LibreOffice converts it. Raises UnsupportedDocument without LibreOffice."""
    from tasks.documents.docx.docx_reader import open_docx

    return _read_converted(path, "doc", "docx", lambda copy: open_docx(copy, password=None, options=options))


def open_xls(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read an Excel workbook of 97–2003, as LibreOffice converts it. Raises UnsupportedDocument without LibreOffice."""
    from tasks.documents.sheets.xlsx_reader import open_xlsx

    return _read_converted(path, "xls", "xlsx", lambda copy: open_xlsx(copy, password=None, options=options))


def open_ppt(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a PowerPoint file of 97–2003, as LibreOffice converts it. Raises UnsupportedDocument without LibreOffice."""
    from tasks.documents.pptx_reader import open_pptx

    return _read_converted(path, "ppt", "pptx", lambda copy: open_pptx(copy, password=None, options=options))


def _read_converted(
    path: Path, format: str, to: Literal["docx", "xlsx", "pptx"], opened: Callable[[Path], Reader]
) -> Reader:
    """Return the reader of the converted document, which has read all of it before the copy is removed."""
    if shutil.which(PROGRAM) is None:
        raise UnsupportedDocument(
            f"The file is {format.upper()}; install LibreOffice, which Trivet reads it with, or save it as .{to}."
        )
    try:
        with convert_document(path, suffix=format, to=to) as copy:
            reader = opened(copy)
    except ProgramFailed as failure:
        raise UnsupportedDocument(f"{failure}; save the file as .{to}.") from failure
    changes = {"format": format, "reader": f"LibreOffice, {reader.header.reader}"}
    reader.header = reader.header.model_copy(update=changes)
    return reader


@contextmanager
def convert_document(path: Path, *, suffix: str, to: Literal["docx", "xlsx", "pptx"]) -> Generator[Path]:
    """Yield the path of a converted copy of a document, which is removed when the context ends.

    Raises ProgramFailed. suffix: of the document's own format, by which LibreOffice decides how to read it.
    """
    program = shutil.which(PROGRAM)
    if program is None:
        raise ProgramFailed(f"LibreOffice ({PROGRAM}) is not installed")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        source = scratch / f"document.{suffix}"
        shutil.copyfile(path, source)  # LibreOffice goes by the suffix, and the stored file may have another
        # a profile of its own: one that is in use, or trusts macros, is no help
        settings = "".join(
            f"<item oor:path={quoteattr(section)}><prop oor:name={quoteattr(name)} oor:op='fuse'>"
            f"<value>{value}</value></prop></item>"
            for section, name, value in _SETTINGS
        )
        (scratch / "profile" / "user").mkdir(parents=True)
        (scratch / "profile" / "user" / "registrymodifications.xcu").write_text(
            "<?xml version='1.0' encoding='UTF-8'?>\n<oor:items xmlns:oor='http://openoffice.org/2001/registry'>"
            f"{settings}</oor:items>",
            "utf-8",
        )
        profile = f"-env:UserInstallation={(scratch / 'profile').as_uri()}"
        command = [program, profile, "--headless", "--norestore", "--convert-to", to]
        output = _run([*command, "--outdir", str(scratch / "made"), str(source)], scratch / "output")
        copy = scratch / "made" / f"document.{to}"
        if not copy.is_file():
            raise ProgramFailed(f"LibreOffice cannot convert the document ({output})")
        yield copy


def _run(command: list[str], log: Path) -> str:
    """Run the program and return what it printed, or its exit code. Raises ProgramFailed when its time is up.

    `soffice` starts further processes, which outlive it. So a process in between leads a group of all of them, and ends
    the group when it is done, when it is asked to, or when this process dies.
    """
    asking = os.getpid()
    leader = os.fork()
    if not leader:
        _lead(command, log, asking)
    deadline = time.monotonic() + WALL_S
    try:
        while True:
            ended, status, _ = os.wait4(leader, os.WNOHANG)  # its CPU seconds count as ours
            if ended:
                break
            if time.monotonic() > deadline:
                raise ProgramFailed(f"LibreOffice took more than {WALL_S:g} s")
            time.sleep(0.02)
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(leader, signal.SIGKILL)
        os.waitpid(leader, 0)
        raise
    output = " ".join(log.read_text("utf-8", "replace").split())[:120] if log.is_file() else ""
    return output or f"exit code {os.waitstatus_to_exitcode(status)}"


def _lead(command: list[str], log: Path, asking: int) -> NoReturn:
    """Run the program as leader of a group of processes, then end the group and this process."""
    code = 1
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, _end_group)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)  # SIGKILL would leave the rest of the group
        if os.getppid() != asking:  # it died before the line above
            _end_group()
        _leave_network()
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with log.open("wb") as errors:
            code = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors, check=False
            ).returncode
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # its own signal to the group must not end it
        with suppress(ProcessLookupError):
            os.killpg(0, signal.SIGTERM)
        os._exit(code & 0xFF)  # without what the forked interpreter would do at its end


def _end_group(*_: object) -> None:
    os.killpg(0, signal.SIGKILL)


def _leave_network() -> None:
    """Enter an empty network namespace, if the kernel lets users do so; LibreOffice's settings hold in any case."""
    libc = ctypes.CDLL(None)
    if libc.unshare(_NEW_NETWORK):
        libc.unshare(_NEW_USER | _NEW_NETWORK)  # who is not root needs a user namespace for it
