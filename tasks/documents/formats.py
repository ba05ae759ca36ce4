"""The table of document formats, built in or of installed packages, and the detection of a file's format.

A package adds a format with an entry point in the group `trivet.readers` whose object is a DocumentFormat:

    [project.entry-points."trivet.readers"]
    slides = "my_reader:SLIDES"

The indexing process loads the entry point, so its module should import little; the child process that reads the
document imports the functions that it names. The content of a file determines its format; the suffix only
distinguishes kinds of text.
"""

from __future__ import annotations

import tomllib
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import BeforeValidator, Field, TypeAdapter

from storage.records import Record
from tasks.documents import document_errors as errors
from tasks.documents.archives import OLE_MAGIC, ZIP_MAGIC, ZipCaps, explain_refusal, open_zip, read_member

ENTRY_POINTS = "trivet.readers"

Suffix = Annotated[str, Field(pattern=r"^\.[a-z0-9]+$")]
Target = Annotated[str, Field(pattern=r"^[\w.]+:[\w.]+$")]
"""A function by its import path, `package.module:function`."""
Magic = Annotated[bytes, BeforeValidator(lambda given: given.encode("latin-1") if isinstance(given, str) else given)]


class DocumentFormat(Record):
    """How a format is recognized, and which functions read it.

    A format with a signature (magic, zip_members or ole_streams) is recognized by its content under any suffix, a kind
    of text, which has none, by its suffix.
    """

    name: str = Field(pattern=r"^[a-z][a-z0-9]*$")
    suffixes: tuple[Suffix, ...] = Field(min_length=1)
    """Lower case, with the dot. `trivet rag index` takes files with these suffixes unless `--include` is given."""
    opener: Target
    """`(path: Path, *, password: str | None, options: ReadOptions) -> tasks.documents.document_readers.Reader`."""
    image_finder: Target | None = None
    """`(path: Path, *, password: str | None) -> Iterator[tasks.documents.blocks.ImageCandidate]`."""
    page_renderer: Target | None = None
    """`(path: Path, boxes: Mapping[int, Sequence[BBox]], *, password: str | None) -> Iterator[(page number, PNG)]`."""
    magic: tuple[Magic, ...] = ()
    """Bytes that the file begins with; one of them is enough. In TOML, each character is one byte (Latin-1)."""
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
        """Return whether the content alone identifies the format."""
        return bool(self.magic or self.zip_members or self.ole_streams)

    def matches(self, head: bytes) -> bool:
        """Return whether a file that starts with `head` bears the format's magic bytes."""
        return any(head.startswith(magic) or magic in head[: self.magic_within] for magic in self.magic)


_TABLE = tomllib.loads(Path(__file__).with_name("formats.toml").read_text("utf-8"))
BUILT_IN = TypeAdapter(tuple[DocumentFormat, ...]).validate_python(_TABLE["format"])


def formats() -> tuple[DocumentFormat, ...]:
    """Return the built-in formats, then those of installed packages. Raises ReaderUnusable, which names the package."""
    registered = list(BUILT_IN)
    for point in sorted(entry_points(group=ENTRY_POINTS), key=lambda point: (point.name, point.value)):
        try:
            added = point.load()
        except Exception as error:  # code of another package runs here, and raises what it likes
            raise _unusable(point, f"it cannot be loaded ({error!r})") from error
        if not isinstance(added, DocumentFormat):
            raise _unusable(point, f"it is a {type(added).__name__}, not a tasks.documents.formats.DocumentFormat")
        for earlier in registered:
            _refuse_clash(point, added, earlier)
        registered.append(added.model_copy(update={"distribution": _distribution(point)}))
    return tuple(registered)


def suffixes() -> tuple[str, ...]:
    """Return the suffixes of all formats, in the order of the formats. Raises ReaderUnusable."""
    return tuple(suffix for format in formats() for suffix in format.suffixes)


def find_format(name: str) -> DocumentFormat:
    """Return the format called `name`. Raises UnsupportedDocument or ReaderUnusable."""
    built_in = {format.name: format for format in BUILT_IN}
    # the entry points are loaded only for a format that is not built in
    if format := built_in.get(name) or next((format for format in formats() if format.name == name), None):
        return format
    names = ", ".join(format.name for format in formats())
    raise errors.UnsupportedDocument(
        f"There is no reader for the format `{name}`, only for {names}; install its package."
    )


def find_format_by_suffix(suffix: str) -> DocumentFormat | None:
    """Return the format to which a suffix belongs, None where there is none. Raises ReaderUnusable."""
    return next((format for format in formats() if suffix in format.suffixes), None)


def _refuse_clash(point: EntryPoint, added: DocumentFormat, earlier: DocumentFormat) -> None:
    """Raise ReaderUnusable if both formats claim the same files, or the added one claims every zip or OLE file."""
    owner = earlier.distribution or "Trivet itself"
    if added.name == earlier.name:
        raise _unusable(point, f"{owner} already reads a format named {added.name!r}")
    for field in ("suffixes", "magic", "zip_members", "ole_streams"):
        if shared := [claim for claim in getattr(added, field) if claim in getattr(earlier, field)]:
            raise _unusable(point, f"its {field} {shared} belong to the format {earlier.name!r} of {owner}")
    containers = (OLE_MAGIC, *ZIP_MAGIC)
    if too_short := [magic for magic in added.magic if any(container.startswith(magic) for container in containers)]:
        raise _unusable(point, f"its magic {too_short} matches every zip or OLE file; use zip_members or ole_streams")


def _unusable(point: EntryPoint, why: str) -> errors.ReaderUnusable:
    return errors.ReaderUnusable(
        f"The reader `{point.name} = {point.value}` of {_distribution(point)} cannot be used: {why}. "
        "Update that package, or uninstall it."
    )


def _distribution(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else "an unnamed package"


HEAD_BYTES = 8192
_UNREAD: dict[str, dict[str, str]] = _TABLE["unread"]


class DetectedFormat(NamedTuple):
    """The name of the format that a file is read as, with notes for the owner of the file."""

    format: str
    notes: tuple[str, ...]


def sniff(path: Path, *, suffix: str | None = None) -> DetectedFormat:
    """Return the format of a file; `suffix` replaces that of `path`. Raises DocumentError or ReaderUnusable."""
    suffix = (path.suffix if suffix is None else suffix).lower()
    format = _format_by_content(path, suffix)
    by_suffix = find_format_by_suffix(suffix)
    if by_suffix is None or by_suffix.name == format:
        return DetectedFormat(format, ())
    note = f"The file is named `{suffix}` but is {format.upper()} by its content; read as such."
    return DetectedFormat(format, (note,))


def find_outside_reader(path: Path, *, suffix: str) -> str | None:
    """Return the package, with version, that reads a file; None if Trivet or nothing does. Raises ReaderUnusable."""
    try:
        return find_format(sniff(path, suffix=suffix).format).distribution
    except errors.DocumentError:
        return None


def _format_by_content(path: Path, suffix: str) -> str:
    """Return the name of the format that the first bytes show. Raises DocumentError for a file of none."""
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    if not head:
        raise errors.EmptyDocument("The file has no bytes; get it again, or remove it from the folder.")
    for format in formats():
        if format.matches(head):
            return format.name
    if head.startswith(OLE_MAGIC):
        return _ole_format(path, suffix)
    if head.startswith(ZIP_MAGIC):
        return _zip_format(path)
    for magic, description in _UNREAD["magic"].items():
        if head.startswith(magic.encode("latin-1")):
            raise errors.UnsupportedDocument(f"The file is {description}.")
    return _text_format(head, suffix)


def _ole_format(path: Path, suffix: str) -> str:
    """Return the format whose stream an OLE file holds. Raises CorruptDocument, UnsupportedDocument."""
    import olefile

    names: list[str] = []
    try:
        with olefile.OleFileIO(str(path)) as container:
            streams = {"/".join(entry) for entry in container.listdir()}
            for format in formats():
                for stream, start in format.ole_streams:
                    if stream in streams and container.openstream(stream).read(len(start)) == start:
                        names.append(format.name)
    except Exception as error:  # olefile raises what it likes over a damaged container
        raise errors.CorruptDocument(
            "The file is damaged or cut: what it holds cannot be read; get it again."
        ) from error
    if names:  # an encrypted document may be of several formats, which only its suffix tells apart
        by_suffix = find_format_by_suffix(suffix)
        return by_suffix.name if by_suffix and by_suffix.name in names else names[0]
    raise errors.UnsupportedDocument("The file is of no known kind; save it as PDF, HWPX or DOCX.")


def _zip_format(path: Path) -> str:
    """Return the format whose members a zip holds. Raises DocumentError for another zip, a damaged or hostile one."""
    with open_zip(path, caps=ZipCaps()) as archive:
        names = frozenset(archive.namelist())
        if format := detect_by_members(names):
            return format
        if "[Content_Types].xml" in names:  # it may declare a body under another name than the usual one
            info = archive.getinfo("[Content_Types].xml")
            if message := explain_refusal(info, caps=ZipCaps()):
                raise errors.RefusedDocument(f"{message}.")
            listing = read_member(archive, info)
            for kind, format in ((b"wordprocessingml.document", "docx"), (b"spreadsheetml.sheet", "xlsx")):
                if kind + b".main" in listing:
                    return format
        # HWPX without its package file, which the reader can do without
        if any(name.startswith("Contents/") and name.endswith((".hpf", ".xml")) for name in names):
            return "hwpx"
    for name, description in _UNREAD["zip"].items():
        if name in names:
            raise errors.UnsupportedDocument(f"The file is {description}.")
    raise errors.UnsupportedDocument(
        "The file is a zip, but not a document; give it the suffix .zip to index what is in it."
    )


def detect_by_members(names: frozenset[str]) -> str | None:
    """Return the format whose packages hold members of these names; None for an archive of files."""
    return next((format.name for format in formats() if not names.isdisjoint(format.zip_members)), None)


def _text_format(head: bytes, suffix: str) -> str:
    """Return the kind of text, by suffix and first tag. Raises UnsupportedDocument, CorruptDocument for no text."""
    from tasks.documents.text_reader import looks_like_text

    by_suffix = find_format_by_suffix(suffix)
    if not looks_like_text(head):
        if by_suffix and by_suffix.has_signature:
            raise errors.CorruptDocument(f"The file does not begin as {by_suffix.name.upper()} files do; get it again.")
        raise errors.UnsupportedDocument("The file is neither a known document nor text; save it as PDF, HWPX or DOCX.")
    # between .txt and .html the first tag decides
    if by_suffix and not by_suffix.has_signature and by_suffix.name not in ("txt", "html"):
        return by_suffix.name
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()  # UTF-8's byte order mark
    if start.startswith((b"<!doctype html", b"<html")) or (start.startswith(b"<?xml") and b"<html" in start):
        return "html"
    if start.startswith(b"<?xml"):
        raise errors.UnsupportedDocument("The file is XML of no known kind; save it as PDF, HWPX or DOCX.")
    return "html" if by_suffix and by_suffix.name == "html" else "txt"
