"""The document formats that are read: one row per format, in this file or in an installed package.

A package adds a format with an entry point in the group `trivet.readers` whose object is a DocumentFormat:

    [project.entry-points."trivet.readers"]
    slides = "my_reader:SLIDES"

The indexing process loads the entry point, so its module should import little. The functions that a row names are
imported by the child process that reads the document.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated

from pydantic import Field

from storage.records import Record
from tasks.documents.document_errors import ReaderUnusable, UnsupportedDocument

ENTRY_POINTS = "trivet.readers"
OLE_MAGIC = bytes.fromhex("D0CF11E0A1B11AE1")
ZIP_MAGIC = (b"PK\3\4", b"PK\5\6")

Suffix = Annotated[str, Field(pattern=r"^\.[a-z0-9]+$")]
Target = Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
"""`package.module:function`."""


class DocumentFormat(Record):
    """How a format is recognized, and which functions read it.

    A format with a signature (magic, zip_members or ole_streams) is recognized by its content under any suffix. One
    without is a kind of text and is recognized by its suffix.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    suffixes: tuple[Suffix, ...] = Field(min_length=1)
    """Lower case, with the dot. `trivet rag index` takes files with these suffixes unless `--include` is given."""
    opener: Target
    """`(path: Path, *, password: str | None, options: ReadOptions) -> tasks.documents.read_options.Reader`."""
    image_finder: Target | None = None
    """`(path: Path, *, password: str | None) -> Iterator[tasks.documents.blocks.ImageCandidate]`."""
    page_renderer: Target | None = None
    """`(path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None) -> Iterator[(page number, PNG)]`."""
    magic: tuple[bytes, ...] = ()
    """Bytes that the file begins with; one of them is enough."""
    magic_within: int = 0
    """The magic may stand anywhere in this many first bytes."""
    zip_members: tuple[str, ...] = ()
    """Members of a zip; one of them is enough."""
    ole_streams: tuple[tuple[str, bytes], ...] = ()
    """Streams of an OLE container with the bytes that each begins with; one of them is enough."""
    distribution: str | None = None
    """Name and version of the package whose entry point this is, filled in by `formats`; None for built-in formats."""

    @property
    def has_signature(self) -> bool:
        """Whether the content alone tells the format."""
        return bool(self.magic or self.zip_members or self.ole_streams)

    def matches(self, head: bytes) -> bool:
        """Whether a file that starts with `head` has the magic."""
        return any(head.startswith(magic) or magic in head[: self.magic_within] for magic in self.magic)


BUILT_IN = (
    DocumentFormat(
        name="pdf",
        suffixes=(".pdf",),
        magic=(b"%PDF",),
        magic_within=1024,
        opener="tasks.documents.pdf.pdf_reader:open_pdf",
        image_finder="tasks.documents.images.pdf_images:pdf_images",
        page_renderer="tasks.documents.pdf.page_rendering:render_pages",
    ),
    DocumentFormat(
        name="hwp",
        suffixes=(".hwp",),
        ole_streams=(("FileHeader", b"HWP Document File"),),
        opener="tasks.documents.hwp.hwp_reader:open_hwp",
        image_finder="tasks.documents.hwp.hwp_reader:hwp_images",
    ),
    DocumentFormat(
        name="hwpx",
        suffixes=(".hwpx",),
        zip_members=("Contents/content.hpf",),
        opener="tasks.documents.hwp.hwpx_reader:open_hwpx",
        image_finder="tasks.documents.hwp.hwpx_reader:hwpx_images",
    ),
    DocumentFormat(
        name="docx",
        suffixes=(".docx", ".docm"),
        zip_members=("word/document.xml",),
        ole_streams=(("EncryptedPackage", b""),),  # its reader says what to do
        opener="tasks.documents.docx.docx_reader:open_docx",
        image_finder="tasks.documents.docx.docx_reader:docx_images",
    ),
    DocumentFormat(name="txt", suffixes=(".txt", ".text"), opener="tasks.documents.text.text_reader:open_text"),
    DocumentFormat(
        name="md", suffixes=(".md", ".markdown"), opener="tasks.documents.text.markdown_reader:open_markdown"
    ),
    DocumentFormat(
        name="html", suffixes=(".html", ".htm", ".xhtml"), opener="tasks.documents.text.html_reader:open_html"
    ),
)


@cache
def formats() -> tuple[DocumentFormat, ...]:
    """Built-in formats, then those of installed packages. Raises ReaderUnusable naming the package."""
    known = list(BUILT_IN)
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        added = _load(point)
        for other in known:
            _refuse_clash(point, added, other)
        known.append(added)
    return tuple(known)


def suffixes() -> tuple[str, ...]:
    """Suffixes of all formats, in the order of the formats. Raises ReaderUnusable."""
    return tuple(suffix for format in formats() for suffix in format.suffixes)


def format_named(name: str) -> DocumentFormat:
    """The format called `name`. Raises UnsupportedDocument, ReaderUnusable."""
    for format in BUILT_IN:  # without looking for entry points
        if format.name == name:
            return format
    for format in formats():
        if format.name == name:
            return format
    known = ", ".join(format.name for format in formats())
    raise UnsupportedDocument(f"There is no reader for the format `{name}`, only for {known}; install its package.")


def format_with_suffix(suffix: str) -> DocumentFormat | None:
    """The format that a file name promises. Raises ReaderUnusable."""
    return next((format for format in formats() if suffix in format.suffixes), None)


def _load(point: EntryPoint) -> DocumentFormat:
    try:
        added = point.load()
    except Exception as error:  # code of another package runs here, and raises what it likes
        raise _unusable(point, f"it cannot be loaded ({error!r})") from error
    if not isinstance(added, DocumentFormat):
        raise _unusable(point, f"it is a {type(added).__name__}, not a tasks.documents.formats.DocumentFormat")
    return added.model_copy(update={"distribution": _distribution(point)})


def _refuse_clash(point: EntryPoint, added: DocumentFormat, other: DocumentFormat) -> None:
    """Raises ReaderUnusable if both formats claim the same files."""
    owner = other.distribution or "Trivet itself"
    if added.name == other.name:
        raise _unusable(point, f"{owner} already reads a format named {added.name!r}")
    for what in ("suffixes", "magic", "zip_members", "ole_streams"):
        if shared := [claim for claim in getattr(added, what) if claim in getattr(other, what)]:
            raise _unusable(point, f"its {what} {shared} belong to the format {other.name!r} of {owner}")
    containers = (OLE_MAGIC, *ZIP_MAGIC)
    if taken := [magic for magic in added.magic if any(container.startswith(magic) for container in containers)]:
        raise _unusable(point, f"its magic {taken} matches every zip or OLE file; use zip_members or ole_streams")


def _unusable(point: EntryPoint, why: str) -> ReaderUnusable:
    return ReaderUnusable(
        f"The reader `{point.name} = {point.value}` of {_distribution(point)} cannot be used: {why}. "
        "Update that package, or uninstall it."
    )


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"
