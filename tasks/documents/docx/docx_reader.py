"""Reads Word documents (DOCX, both variants of the standard): blocks, metadata and pictures.

It reads the XML itself: python-docx skips text boxes, content controls, notes, equations and generated numbers.
Order: body with text boxes at their anchors, then notes and comments, then headers and footers, once each.
Its pages are those that Word noted when it saved the document; they have no boxes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from tasks.documents.blocks import ImageCandidate, Kind
from tasks.documents.document_errors import RefusedDocument
from tasks.documents.document_readers import BlockList, Reader, ReadOptions, make_storable, read_whole
from tasks.documents.docx.docx_body import Findings, Item, StoryWalker
from tasks.documents.docx.docx_inline import read_hidden
from tasks.documents.docx.docx_styles import Numbering, Styles
from tasks.documents.embedded_images import EXTERNAL_IMAGE, EmbeddedImage, make_candidates, read_embedded
from tasks.documents.office_package import (
    Part,
    R,
    W,
    WordPackage,
    child_value,
    find_main_part,
    list_unread,
    read_core_properties,
    refuse_encrypted,
    word_attribute,
)

READER = "trivet docx 2"


def open_docx(path: Path, *, password: str | None, options: ReadOptions) -> Reader:  # noqa: ARG001
    """Read a Word document as a whole. Its pages are those that its last editor noted, if it noted any."""
    refuse_encrypted(path, password, program="Word")
    try:
        with WordPackage(path) as package:
            return _read(package)
    except RecursionError as error:
        raise RefusedDocument("The document nests elements hundreds deep, as no program writes them.") from error


def _read(package: WordPackage) -> Reader:
    findings, blocks = Findings(), BlockList()
    items, page_count = _items(package, findings)
    for kind, text, page, section, level, cells, _, marker, _ in items:
        at = page if page_count and page else None
        blocks.add(kind, text, level=level, marker=marker, cells=cells, page=at, section=section)
    for text, reason, page in findings.hidden:
        blocks.hide(text, reason, page=page if page_count else None)
    pages = blocks.paged(page_count) if page_count else blocks.unpaged()
    metadata = read_core_properties(package)
    title = next((item.text for item in items if item.title), metadata.get("title"))
    counts = {
        "Images that lie outside the document were not fetched": findings.external_images,
        "Embedded documents of other formats were left out": findings.foreign_parts,
    }
    notes, title = list_unread(package, "document", counts), title and make_storable(title)
    return read_whole(pages, format="docx", reader=READER, title=title, metadata=metadata, notes=tuple(notes))


def _items(package: WordPackage, findings: Findings) -> tuple[list[Item], int | None]:
    """Return all items in reading order, and the number of the body's last page if the file records its pages."""
    main = package.part(find_main_part(package, "word/document.xml", kind="Word document"))
    styles_part, numbering_part = package.find_related(main, "styles"), package.find_related(main, "numbering")
    styles, numbering = Styles(styles_part and styles_part.root), Numbering(numbering_part and numbering_part.root)

    def walker(part: Part) -> StoryWalker:
        return StoryWalker(package, part, styles, numbering, findings)

    settings = package.find_related(main, "settings")
    for root in [settings.root, main.root] if settings else [main.root]:
        for kind in findings.note_formats:
            for node in root.iter(f"{W}{kind[:-1]}Pr"):
                findings.note_formats[kind] = child_value(node, "numFmt") or findings.note_formats[kind]
    body = walker(main)
    items = [item for node in main.root.findall(f"{W}body") for item in body.items(node)]
    for kind in ("footnotes", "endnotes", "comments"):
        if part := package.find_related(main, kind):
            items += _note_items(part, kind, walker(part), findings)
    # headers, then footers, in the order in which sections name them, each once
    kinds: tuple[Kind, ...] = ("header", "footer")
    for kind in kinds:
        references = [node for section in findings.sections for node in section.findall(f"{W}{kind}Reference")]
        links = [main.relationships.get(reference.get(f"{R}id", "")) for reference in references]
        for target in dict.fromkeys(link.target for link in links if link and link.target in package.names):
            part = package.part(target)
            items += _merge_story(list(walker(part).items(part.root)), kind, page=0)
    return items, None if main.root.find(f".//{W}lastRenderedPageBreak") is None else body.page


def _note_items(part: Part, kind: str, walker: StoryWalker, findings: Findings) -> Iterator[Item]:
    """Yield the notes in the order of their references; comments that nothing refers to come last."""
    # a separator line is a note with a type
    notes = {word_attribute(node, "id"): node for node in part.root if word_attribute(node, "type") in (None, "normal")}
    pages = findings.references[kind]
    unreferenced = [name for name in notes if name not in pages]
    for name in unreferenced if kind != "comments" else ():
        findings.hidden.append((read_hidden(notes[name]), "a note whose mark is deleted or hidden", 0))
    for name in [*pages, *(unreferenced if kind == "comments" else ())]:
        if name in notes:
            # an endnote stands behind the text, on a page that nothing names
            page = 0 if kind == "endnotes" else pages.get(name or "", 0)
            mark = findings.note_marks.get(kind, {}).get(name or "", "")
            for item in _merge_story(list(walker.items(notes[name])), "note", page=page):
                yield item._replace(
                    text=f"{mark} {item.text}" if mark and item.text and item.kind == "note" else item.text
                )


def _merge_story(items: list[Item], kind: Kind, *, page: int) -> Iterator[Item]:
    """Yield the texts of a story as one item; figures stay items of their own. Page 0 means unknown."""
    text = "\n".join(item.text for item in items if item.kind != "figure" and item.text)
    if text:
        yield Item(kind, text, page, section=0)
    yield from (item._replace(page=page, section=0) for item in items if item.kind == "figure")


def docx_images(path: Path, *, password: str | None) -> Iterator[ImageCandidate]:
    """Yield the pictures of body, notes, headers and footers in the order of the text. Raises DocumentError."""
    del password  # encrypted documents are refused on opening
    with WordPackage(path) as package:
        findings = Findings()
        _items(package, findings)

        def pictures() -> Iterator[EmbeddedImage]:
            for part, id_ in findings.pictures:
                relationship = part.relationships.get(id_)
                if relationship is None:
                    yield EmbeddedImage(b"", f"the picture {id_} of {part.name} points to nothing")
                elif relationship.external:
                    yield EXTERNAL_IMAGE
                else:
                    yield read_embedded(partial(package.read, relationship.target))

        yield from make_candidates(pictures())
