"""Lays HWP and HWPX out as pages (rhwp), and draws pages with boxes.

The engine draws each sign as an SVG element of its own. The text is read from these elements directly: MuPDF needs
0.3 seconds for a page of them, and is used to draw only.
"""

from __future__ import annotations

import ctypes
import gzip
import html
import json
import os
import re
import resource
import signal
import subprocess
import sys
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from importlib.metadata import version
from itertools import dropwhile
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, NamedTuple, cast

import wasmtime

from tasks.documents.blocks import BBox
from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import PROGRESS
from tasks.documents.page_join import LaidPage, LayoutFailed

_POINTS = 0.75
"""Points in a pixel of the engine, of which an inch has 96."""
_ELEMENT = re.compile(r"<text ([^>]*)>([^<]*)</text>|<(image|rect) ([^>]*)>|<g\b[^>]*>|</g>")
_ATTRIBUTE = re.compile(r'\b([A-Za-z-]+)="([^"]*)"')
_SIZE = re.compile(r'<svg [^>]*?width="([\d.]+)" height="([\d.]+)"')
_BODY = re.compile(r'<clipPath id="body-clip[^"]*"><rect x="[\d.-]+" y="([\d.-]+)" width="[\d.]+" height="([\d.]+)"')
_COLOUR = re.compile(r"#[0-9A-Fa-f]{6}")
_MOVED = re.compile(r"translate\(([\d.-]+)[ ,]+([\d.-]+)\)")
_LEAST_CONTRAST = 8
"""Difference of a colour's red, green or blue (0 to 255) from which on a text is seen on its ground."""
_ASCENT, _DESCENT = 0.86, 0.14
"""Shares of the font size above and below the base line."""
CPU_S = 20
"""A part has 30 seconds in all, and its layout takes one or two; one that takes longer is stuck."""
PART_BYTES = 1 << 20
"""Records of HWP 5 in a part: some 30 pages dense with tables."""
PART_XML_BYTES = 5 * PART_BYTES
"""Size in bytes of a part of an HWPX document, whose XML is longer than HWP's records."""
WHOLE_PARTS = 3
"""A document of no more parts is laid out as a whole, in some ten seconds: the time grows with the length squared."""
WALL_S = 60.0
_PR_SET_PDEATHSIG = 1


Laid = list[LaidPage] | str
"""The pages of a document, or why there are none."""


class Part(NamedTuple):
    """A document that the engine reads at once: a whole one, or some sections of a long one, with all its styles."""

    data: bytes
    sections: range = range(0)
    """Its sections; the others are there, and empty. None of them for a whole document."""
    continues: bool = False
    """Whether its first section begins in an earlier part: the first paragraph of that section is in both, since it
    says how pages look.
    """


def divide(sections: Sequence[Sequence[tuple[int, bool]]], *, part_bytes: int) -> Iterator[dict[int, range]]:
    """Yield the paragraphs of each part of a long document, by their sections; nothing for a shorter document.

    sections: the bytes of each paragraph, and whether a page begins with it. A part begins where a page does, so that
    the pages of all parts are those of the document.
    """
    if sum(size for section in sections for size, _ in section) <= WHOLE_PARTS * part_bytes:
        return
    part, filled = dict[int, range](), 0
    for number, section in enumerate(sections):
        start = 0
        for at, (size, begins_page) in enumerate(section):
            if filled > part_bytes and (begins_page or at == 0 or filled > 2 * part_bytes):
                yield part | ({number: range(start, at)} if at > start else {})
                part, filled, start = {}, 0, at
            filled += size
        part[number] = range(start, len(section))
    yield part


def convert_and_lay_out(
    parts: Iterable[Part], *, draws: bool = True, converts: bool = True, password: str | None = None
) -> tuple[list[tuple[bytes, Part]], Laid]:
    """Return parts as HWPX if it `converts`; pages if it `draws`, or why not. Raises LayoutFailed without HWPX."""
    converted, pages, failure = list[tuple[bytes, Part]](), list[LaidPage](), ""
    for part in parts:
        if failure and not converts:
            break
        answers = run_in_own_process(partial(_work, part, password, converts=converts, draws=draws and not failure))
        if converts:
            converted.append((b64decode(next(answers)), part))
        try:
            for width, height, signs, zones, boxes, images, curves in answers:
                if part.continues:  # it counts its pages anew, so that headers and footers with numbers are left out
                    numbered = {
                        zone for sign, zone in zip(signs, zones, strict=True) if zone in "hf" and sign.isdigit()
                    }
                    zones = "".join("-" if zone in numbered else zone for zone in zones)
                placed = tuple(map(_box, boxes)), tuple(map(_box, images))
                pages.append(LaidPage(width, height, signs, zones, *placed, curves))
        except LayoutFailed as error:
            failure = str(error)
        PROGRESS.get()()
    return converted, failure or pages


def _work(part: Part, password: str | None, *, converts: bool, draws: bool) -> Iterator[Any]:
    """Yield the HWPX of a part in Base64 if it `converts`, then its pages, as LaidPage, if it `draws`."""
    engine = Engine(part.data, password)
    if converts:
        yield b64encode(engine.hwpx()).decode()
    yield from map(_parse_page, _drawn_pages(engine, part) if draws else ())


def run_in_own_process(work: Callable[[], Iterable[Any]]) -> Iterator[Any]:
    """Yield the JSON values that `work` yields in a forked process with limits.

    Raises LayoutFailed. An engine that crashes, hangs or exhausts the memory costs the pages and not the text.
    """
    load_module()  # here, so that no limit is on its compilation and every fork has it
    context = get_context("fork")  # `work` is a closure, which other ways of starting cannot pickle
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_send_results, args=(work, sender))
    child.start()
    sender.close()  # else reading would not end when the child dies
    try:
        while receiver.poll(WALL_S):
            reply = json.loads(receiver.recv_bytes())  # no pickle: the engine has read hostile bytes
            if "failed" in reply:
                raise LayoutFailed(reply["failed"])
            if "value" not in reply:
                return
            yield reply["value"]
    except EOFError:
        pass  # it died
    finally:
        receiver.close()
        child.kill()
        child.join()
    ended = f"the layout engine crashed or took more than {CPU_S} CPU seconds"
    raise LayoutFailed(f"{ended} (exit code {child.exitcode})")


def _send_results(work: Callable[[], Iterable[Any]], sender: Connection) -> None:
    """Send each value of `work`, then {} or why it failed, from the forked process, which ends here."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))  # counted from the fork
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    last: dict[str, Any] = {}
    try:
        for value in work():
            sender.send_bytes(json.dumps({"value": value}).encode())
    except LayoutFailed as error:
        last = {"failed": str(error)}
    except Exception:  # noqa: BLE001 an engine raises what it likes over hostile bytes
        last = {"failed": "the layout engine crashed"}
    sender.send_bytes(json.dumps(last).encode())


def _box(edges: Sequence[float]) -> BBox:
    return edges[0], edges[1], edges[2], edges[3]


def _drawn_pages(engine: Engine, part: Part) -> Iterator[str]:
    """Yield the SVG of each page of a part, or of a document from the first that holds anything.

    The engine moves a table that is a little too high to the next page and leaves an empty one before it.
    """
    pages = engine.pages(part.sections, after_first=part.continues)
    is_later = part.continues or part.sections.start > 0
    return pages if is_later else dropwhile(lambda page: "<text " not in page and "<image " not in page, pages)


def _parse_page(svg: str) -> LaidPage:
    """Read a drawn page: its size, its signs with their zones and boxes, and its images, all in points."""
    size, body = _SIZE.search(svg), _BODY.search(svg)
    width, height = (float(size[1]), float(size[2])) if size else (0.0, 0.0)
    top = float(body[1]) if body else 0.0
    bottom = top + (float(body[2]) if body else height)
    signs, zones, boxes, images = list[str](), list[str](), list[BBox](), list[BBox]()
    depth, body_depth, grounds = 0, None, list[tuple[BBox, str]]()
    for element in _ELEMENT.finditer(svg):
        if element[0].startswith("<g"):
            depth += 1
            if body_depth is None and "#body-clip" in element[0]:
                body_depth = depth
            continue
        if element[0] == "</g>":
            body_depth = None if body_depth == depth else body_depth
            depth -= 1
            continue
        attributes = dict(_ATTRIBUTE.findall(element[1] or element[4] or ""))
        if element[1] is None:
            x, y, across, down = (_number(attributes, name) for name in ("x", "y", "width", "height"))
            place = _points(x, y, x + across, y + down)
            if element[3] == "image":
                images.append(place)
            if (fill := attributes.get("fill", "")) != "none":
                grounds.append((place, fill))
            continue
        text = unicodedata.normalize("NFC", html.unescape(element[2]))
        for sign, box in _sign_boxes(text, attributes):
            middle = (box[1] + box[3]) / 2 / _POINTS
            # what stands in the group of the body may run over its bottom
            inside = body_depth is not None or top <= middle <= bottom
            zone = "b" if inside else "h" if middle < top else "f"
            if hidden := _find_hidden(attributes, box, grounds):
                zone = hidden if inside else ""  # in the margins, which repeat, it is left out
            if zone:
                signs.append(sign)
                zones.append(zone)
                boxes.append(box)
    width, height = round(width * _POINTS, 2), round(height * _POINTS, 2)
    curves = svg.count("<path ")
    return LaidPage(width, height, "".join(signs), "".join(zones), tuple(boxes), tuple(images), curves)


def _find_hidden(attributes: Mapping[str, str], box: BBox, grounds: Sequence[tuple[BBox, str]]) -> str:
    """Return the zone of a sign that nobody sees: "s" for no size, "c" for the colour of what is below; else ""."""
    if _number(attributes, "font-size") * _POINTS < 1:
        return "s"
    colour = attributes.get("fill", "")
    if all(_contrast(colour, fill) >= _LEAST_CONTRAST for fill in {"#ffffff", *(fill for _, fill in grounds)}):
        return ""
    x, y = (box[0] + box[2]) / 2, (box[1] + box[3]) / 2
    below = (fill for (x0, y0, x1, y1), fill in reversed(grounds) if x0 <= x <= x1 and y0 <= y <= y1)
    return "c" if _contrast(colour, next(below, "#ffffff")) < _LEAST_CONTRAST else ""


def _contrast(colour: str, other: str) -> int:
    """Return how far two colours are apart; a picture or a pattern is far from every colour."""
    if not (_COLOUR.fullmatch(colour) and _COLOUR.fullmatch(other)):
        return 255
    return max(abs(a - b) for a, b in zip(bytes.fromhex(colour[1:]), bytes.fromhex(other[1:]), strict=True))


def _sign_boxes(text: str, attributes: Mapping[str, str]) -> Iterator[tuple[str, BBox]]:
    """Yield the signs of a text element but white space, with their boxes, among which its width is shared."""
    x, y, size = (_number(attributes, name) for name in ("x", "y", "font-size"))
    if translation := _MOVED.search(attributes.get("transform", "")):
        x, y = x + float(translation[1]), y + float(translation[2])
    # Hangul and Han characters fill a square, others about half of one
    advances = [size * (1.0 if unicodedata.east_asian_width(sign) in "WF" else 0.5) for sign in text]
    stretch = _number(attributes, "textLength") / (sum(advances) or 1.0) or 1.0
    for sign, width in zip(text, advances, strict=True):
        if not sign.isspace():
            yield sign, _points(x, y - _ASCENT * size, x + width * stretch, y + _DESCENT * size)
        x += width * stretch


def _points(*edges: float) -> BBox:
    x0, y0, x1, y1 = (round(edge * _POINTS, 2) for edge in edges)
    return x0, y0, x1, y1


def _number(attributes: Mapping[str, str], name: str) -> float:
    try:
        return float(attributes.get(name, "0"))
    except ValueError:
        return 0.0


def draw_boxes(parts: Iterable[Part], boxes: Mapping[int, Sequence[BBox]]) -> Iterator[tuple[int, bytes]]:
    """Yield the 1-based number and the PNG of each existing page of `boxes`. Raises UnsupportedDocument."""
    import pymupdf

    from tasks.documents.pdf.pdf_document import draw_page

    try:
        drawn = (run_in_own_process(lambda part=part: _drawn_pages(Engine(part.data), part)) for part in parts)
        pages = [page for of_part in drawn for page in of_part]
    except LayoutFailed as error:
        raise UnsupportedDocument(f"The document cannot be laid out ({error}); convert it to PDF.") from error
    for number in sorted(boxes):
        if 1 <= number <= len(pages):
            with pymupdf.open(stream=pages[number - 1].encode(), filetype="svg") as drawing:
                units = [(x0 / _POINTS, y0 / _POINTS, x1 / _POINTS, y1 / _POINTS) for x0, y0, x1, y1 in boxes[number]]
                yield number, draw_page(drawing[0], units)


VERSION = "0.8.6"
"""Version of @rhwp/core."""
_WASM = Path(__file__).with_name("rhwp.wasm.gz")
_MEMORY_BYTES = 1 << 30
_STACK_BYTES = 2 << 20  # the most that wasmtime gives


class Engine:
    """The engine with one document open. Its methods raise LayoutFailed, or wasmtime's errors where it crashes.

    password: of an encrypted HWPX; of HWP 5, the engine knows only one of the two ciphers.
    """

    def __init__(self, data: bytes, password: str | None = None) -> None:
        module = load_module()
        self._store = wasmtime.Store(_configure())
        self._store.set_limits(memory_size=_MEMORY_BYTES)
        functions = [
            self._browser_function(item.name or "", cast("wasmtime.FuncType", item.type)) for item in module.imports
        ]
        self._exports: Any = wasmtime.Instance(self._store, module, functions).exports(self._store)
        self._call("__wbindgen_start")
        inputs = [data] if password is None else [data, password.encode()]
        opener = "hwpdocument_new" if password is None else "hwpdocument_openWithPassword"
        self._document, _, failed = self._call(opener, *(number for value in inputs for number in self._write(value)))
        if failed:
            raise LayoutFailed("the layout engine does not read the document")

    def pages(self, sections: range, *, after_first: bool) -> Iterator[str]:
        """Yield the pages of `sections` (empty: all) as SVG; after_first: without paragraph 1. Raises LayoutFailed."""
        first = 0
        if after_first:
            first = json.loads(self._content("hwpdocument_getPageOfPosition", sections.start, 1))["page"]
        for index in range(first, self._call("hwpdocument_pageCount", self._document)):
            if not sections or json.loads(self._content("hwpdocument_getPageInfo", index))["sectionIndex"] in sections:
                yield self._content("hwpdocument_renderPageSvg", index).decode()

    def hwpx(self) -> bytes:
        """Return the document, of any format that the engine reads, as HWPX."""
        return self._content("hwpdocument_exportHwpx")

    def _content(self, name: str, *arguments: int) -> bytes:
        """Return the bytes that a function of the document gives. Raises LayoutFailed."""
        address, size, _, failed = self._call(name, self._document, *arguments)
        if failed:
            raise LayoutFailed("the layout engine does not draw the document")
        content = self._read(address, size)
        self._call("__wbindgen_free", address, size, 1)
        return content

    def _call(self, name: str, *arguments: int) -> Any:
        return self._exports[name](self._store, *arguments)

    def _write(self, value: bytes) -> tuple[int, int]:
        address = self._call("__wbindgen_malloc", len(value), 1)
        self._exports["memory"].write(self._store, value, address)
        return address, len(value)

    def _read(self, address: int, size: int) -> bytes:
        start = address & 0xFFFFFFFF  # addresses are unsigned, and wasmtime gives them signed
        return bytes(self._exports["memory"].read(self._store, start, start + size))

    def _browser_function(self, name: str, kind: wasmtime.FuncType) -> wasmtime.Func:
        """Return a function that the engine imports: there is no window, no document and no canvas."""
        takes_text = [str(part) for part in kind.params] == ["i32", "i32"]
        nothing = 0 if [str(part) for part in kind.results] == ["i32"] else None

        def call(*arguments: Any) -> Any:
            """Answer the engine's call to its host: decode a text, raise LayoutFailed for an error, else do nothing."""
            if name == "__wbindgen_init_externref_table":
                table = self._exports["__wbindgen_externrefs"]
                first = table.grow(self._store, 4, None)  # undefined, null, true, false
                table.set(self._store, first + 2, True)
                table.set(self._store, first + 3, False)
            elif takes_text and ("throw" in name or "error" in name):
                raise LayoutFailed(self._read(*arguments).decode("utf-8", "replace"))
            elif takes_text and "cast" in name:
                return self._read(*arguments).decode("utf-8", "replace")
            return nothing

        return wasmtime.Func(self._store, kind, call)


@cache
def load_module() -> wasmtime.Module:
    """Return the engine as machine code, which is compiled once for each user: it takes some 15 CPU seconds."""
    file = Path.home() / ".cache" / "trivet" / f"rhwp-{VERSION}-wasmtime-{version('wasmtime')}.bin"
    if not file.exists():
        # in a process that is not waited for: its seconds would count as those of the document
        compiler = subprocess.Popen([sys.executable, "-P", "-m", __name__, str(file)], stderr=subprocess.DEVNULL)
        _compilers.append(compiler)
        os.waitid(os.P_PID, compiler.pid, os.WEXITED | os.WNOWAIT)
    try:
        return wasmtime.Module.deserialize_file(_configure(), str(file))
    except wasmtime.WasmtimeError:  # the folder is read-only, or was filled on another kind of processor
        return _compile()


_compilers: list[subprocess.Popen[bytes]] = []
"""Kept, since Python waits for a process that it forgets."""


@cache
def _configure() -> wasmtime.Engine:
    config = wasmtime.Config()
    # memory grows as it is used: reserved addresses would count against the limits of the reader
    config.memory_reservation = config.memory_reservation_for_growth = config.memory_guard_size = 0
    config.max_wasm_stack = _STACK_BYTES
    return wasmtime.Engine(config)


def _compile() -> wasmtime.Module:
    return wasmtime.Module(_configure(), gzip.decompress(_WASM.read_bytes()))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=target.parent, delete=False) as written:
        written.write(_compile().serialize())
    Path(written.name).replace(target)  # whole, or not there
