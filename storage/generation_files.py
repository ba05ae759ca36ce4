"""The files of an unfinished generation: links to what stands already, and what each must be."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path

from storage import files
from storage.arrays import map_arrays
from storage.catalogue import CatalogueEntry, pack_catalogue
from storage.lexical import Whole, postings_of
from storage.manifest import FILES, FileDigest, Manifest, Part, name_of
from storage.records import Ref
from storage.segments import Segment, pack_segment


class Contents:
    """Fills the folder of an unfinished generation, and notes what each file must be."""

    def __init__(self, folder: Path, *, before: Path | None) -> None:
        """before: folder of the current generation, whose files need not be written again."""
        self._folder, self._before = folder, before
        self._written: dict[str, FileDigest] = {}
        self.fresh: set[str] = set()
        """Names of the files that the generation before does not have."""
        (folder / FILES).mkdir()

    def take(self, ref: Ref, path_of: Callable[[Ref], Path]) -> None:
        """Link to the file of `ref`: to that of the generation before, else to where it was made."""
        name = name_of(ref)
        if name in self._written:
            return
        self._written[name] = FileDigest(sha256=ref.digest, size=ref.size)
        if self._before is not None and _is_untouched(self._before, name, ref):
            files.link(self._before / name, self._folder / name)
            return
        self.fresh.add(name)
        files.link(path_of(ref), self._folder / name)

    def put(self, kind: str, data: bytes) -> Ref:
        """A file that is made here."""
        ref = Ref.of(kind, data)

        def written(_: Ref) -> Path:
            path = self._folder / "made"
            path.unlink(missing_ok=True)
            path.write_bytes(data)
            return path

        self.take(ref, written)
        (self._folder / "made").unlink(missing_ok=True)
        return ref

    def empty(self) -> Segment:
        """The segment of an index without chunks: documents that cannot be read are listed with it."""
        packed = pack_segment(())
        for ref, data in packed.files.items():
            self.put(ref.kind, data)
        return packed.segment

    def parts(self, segments: Sequence[Segment], catalogue: Sequence[CatalogueEntry]) -> tuple[Part, ...]:
        """The segments with the catalogue of their documents; one without chunks is listed where its digest stands."""
        listed: list[list[CatalogueEntry]] = [[] for _ in segments]
        if len(segments) == 1:
            listed[0] = list(catalogue)
        else:
            firsts = [one.first for one in segments]
            for entry in catalogue:
                listed[max(bisect_right(firsts, entry.document) - 1, 0)].append(entry)
        return tuple(
            Part(
                **one.model_dump(),
                documents=len(entries),
                catalogue=self.put("segment-catalogue", pack_catalogue(entries)),
            )
            for one, entries in zip(segments, listed, strict=True)
        )

    def mean_idf(self, parts: Sequence[Part]) -> float:
        """Of BM25, over the terms of all parts."""
        return Whole.of([postings_of(map_arrays(self._folder / name_of(part.text))) for part in parts]).mean_idf

    def files(self) -> dict[str, FileDigest]:
        """What each file must be."""
        return dict(sorted(self._written.items()))

    def seal(self, manifest: Manifest) -> str:
        """Write the manifest and make all durable; gives the manifest's digest, which is that of the content."""
        data = manifest.packed()
        files.write(self._folder / "manifest.json", data)
        for name in self.fresh:
            files.sync_file(self._folder / name)
        files.sync_folder(self._folder / FILES)
        files.sync_folder(self._folder)
        return hashlib.sha256(data).hexdigest()


def _is_untouched(before: Path, name: str, ref: Ref) -> bool:
    """Whether a generation has the file as it was written: nobody wrote to it since, or its bytes are the right ones.

    Reading all files would take longer than writing those of a change.
    """
    try:
        facts = (before / name).stat()
        if facts.st_mtime_ns <= (before / "manifest.json").stat().st_mtime_ns:
            return facts.st_size == ref.size
        with (before / name).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == ref.digest
    except OSError:
        return False
