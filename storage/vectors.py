"""Dense search on disk: a FAISS file of unit vectors in half precision, mapped, searched by inner product.

Exact up to `EXACT_UP_TO` rows. Above, the rows are grouped into lists and only the lists nearest to a query are
scanned. Their number is measured when the file is made, so that recall stays at `RECALL`; a file that would need most
of its lists stays exact. A GPU, where FAISS has one, groups large files, which open on any machine.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

log = logging.getLogger(__name__)

EXACT_UP_TO = 100_000
"""Rows; a scan of 100,000 x 384 takes about 3 ms on one thread, which no grouping is worth."""
RECALL = 0.998
"""Share of the true ten nearest that probing must find when it is tuned; .995 is promised, this leaves a margin."""
GPU_FROM = 500_000
"""Rows from which on a GPU groups them, if FAISS has one. One CPU thread groups 500,000 rows of 384 numbers in 12 s;
with fewer, the time saved is not worth a file whose bytes depend on the machine that made it."""
GPU_SCRATCH_BYTES = 256 << 20
"""GPU memory for intermediate results; by default FAISS reserves six times as much, beside a loaded model."""
PIECE = 50_000
"""Rows that are added at once: FAISS takes fp32, twice the size."""
UNIT_TOLERANCE = 0.01
"""Half precision moves the length of a unit vector by less than .001."""


class Nearest(NamedTuple):
    """Rows by falling similarity; equal ones by rising row."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]


def write_vectors(file: IO[bytes], vectors: NDArray[np.float16]) -> None:
    """Write a FAISS file; the same vectors give the same bytes.

    vectors: (rows, dimension), each of length 1.
    Raises ValueError for a row that is not a unit vector, OSError from `file`.
    """
    faiss = _faiss()
    _refuse_other_lengths(vectors)
    grouped = len(vectors) > EXACT_UP_TO
    index = (_grouped(vectors) if grouped else None) or _exact(vectors)
    faiss.write_index(index, faiss.PyCallbackIOWriter(file.write))


class Vectors:
    """An open FAISS file; pages are read from disk when a search needs them."""

    def __init__(self, path: Path) -> None:
        faiss = _faiss()
        try:
            self._index: Any = faiss.read_index(str(path), faiss.IO_FLAG_MMAP_IFC)
        except (RuntimeError, MemoryError) as error:  # a damaged length asks for more memory than there is
            raise OSError(f"{path} cannot be read as a FAISS file: {error}") from error
        self.lists: int | None = getattr(self._index, "nlist", None)
        """Into how many lists the rows are grouped; None where every search is exact."""
        self.probes: int | None = getattr(self._index, "nprobe", None)
        """How many of the lists a search scans."""
        self.size: int = self._index.ntotal
        self.dimension: int = self._index.d

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """The `k` nearest rows, fewer if there are fewer; among `allowed` (a flag per row) always exactly.

        Raises ValueError if the query has another dimension.
        """
        if query.shape != (self.dimension,):
            raise ValueError(f"the query has shape {query.shape}, this index holds vectors of {self.dimension} numbers")
        available = self.size if allowed is None else int(np.count_nonzero(allowed))
        wanted = min(k, available)
        if wanted < 1:
            return Nearest(np.empty(0, np.int64), np.empty(0, np.float32))
        rows, scores = self._beyond_ties(query, wanted, available, allowed)
        order = np.lexsort((rows, -scores))[:wanted]
        return Nearest(rows[order], scores[order])

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """The vectors of `rows`: (len(rows), dimension)."""
        if not len(rows):
            return np.empty((0, self.dimension), np.float32)
        return self._index.reconstruct_batch(rows)

    def _beyond_ties(
        self, query: NDArray[np.float32], wanted: int, available: int, allowed: NDArray[np.bool_] | None
    ) -> Nearest:
        # of equal scores FAISS keeps any: fetch until the cut does not run through equals, then sort
        fetched, thorough = wanted + 1, allowed is not None
        while True:
            rows, scores = self._fetch(query, min(fetched, available), allowed, thorough=thorough)
            enough = len(rows) >= wanted
            if enough and (len(rows) == available or scores[wanted - 1] > scores[-1]):
                return Nearest(rows, scores)
            if len(rows) < fetched:  # the probed lists hold too few
                thorough = True
            else:
                fetched *= 4

    def _fetch(
        self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_] | None, *, thorough: bool
    ) -> Nearest:
        faiss = _faiss()
        selector = None if allowed is None else faiss.IDSelectorBitmap(np.packbits(allowed, bitorder="little"))
        if self.lists is None:
            parameters = faiss.SearchParameters(sel=selector)
        else:
            parameters = faiss.SearchParametersIVF(sel=selector, nprobe=self.lists if thorough else self.probes)
        scores, rows = self._index.search(query[None], k, params=parameters)
        found = rows[0] >= 0  # FAISS pads with -1
        return Nearest(rows[0][found], scores[0][found])


def _faiss() -> Any:
    """FAISS, on first need; untyped, for its stubs know neither its parameters nor its callbacks."""
    import faiss

    return faiss


def _refuse_other_lengths(vectors: NDArray[np.float16]) -> None:
    for start in range(0, len(vectors), 10_000):
        lengths = np.linalg.norm(vectors[start : start + 10_000].astype(np.float32), axis=1)
        wrong = np.flatnonzero(~(np.abs(lengths - 1) < UNIT_TOLERANCE))  # negated, so that NaN is wrong
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(f"vector {start + row} has length {lengths[row]:.3g}; an embedder gives length 1")


def _exact(vectors: NDArray[np.float16]) -> Any:
    faiss = _faiss()
    index = faiss.IndexScalarQuantizer(vectors.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    _add(index, vectors)
    return index


def _grouped(vectors: NDArray[np.float16]) -> Any | None:
    """An inverted file whose `nprobe` keeps the recall; None where that takes most of its lists."""
    faiss = _faiss()
    with _one_thread():
        index = _lists(vectors)
        probes = _probes_for_recall(index, vectors)
    if probes > index.nlist // 2:
        return None
    index.nprobe = probes
    index.set_direct_map_type(faiss.DirectMap.Array)  # row -> list and place, for `reconstruct`
    return index


def _lists(vectors: NDArray[np.float16]) -> Any:
    """`build_lists` on the GPU where that is worth its start and goes well, else on the CPU."""
    if len(vectors) >= GPU_FROM and gpus():
        try:
            return build_lists(vectors, gpu=True)
        except RuntimeError as error:  # as FAISS says that memory ended
            log.warning("the GPU could not group rows=%d, one CPU thread does: %s", len(vectors), error)
    return build_lists(vectors, gpu=False)


def gpus() -> int:
    """The GPUs that FAISS can use; none with faiss-cpu, nor under CUDA_VISIBLE_DEVICES=''."""
    return _faiss().get_num_gpus()


def build_lists(vectors: NDArray[np.float16], *, gpu: bool) -> Any:
    """The vectors in lists around centres: a FAISS index in CPU form; how many lists to scan is left open.

    gpu: centres and the nearest centre of each row are found on the first GPU, else by one CPU thread. Rounding may put
    a row between two centres into the other list; the rows themselves are stored alike.
    Raises RuntimeError where the GPU cannot do it.
    """
    faiss = _faiss()
    rows, dimension = vectors.shape
    lists = round(2 * rows**0.5)
    index = faiss.IndexIVFScalarQuantizer(
        faiss.IndexFlatIP(dimension),
        dimension,
        lists,
        faiss.ScalarQuantizer.QT_fp16,
        faiss.METRIC_INNER_PRODUCT,
        False,  # codes hold the vector itself, not its distance from the centre: the same scores as the exact file
    )
    index.cp.seed, index.cp.max_points_per_centroid = 1, 48
    drawn = np.sort(np.random.default_rng(1).choice(rows, min(rows, 48 * lists), replace=False))
    sample = vectors[drawn].astype(np.float32)
    with _one_thread():
        if gpu:
            _fill_by(_flat_on_gpu(dimension), index, sample, vectors)
        else:
            index.train(sample)
            _add(index, vectors)
    return index


def _flat_on_gpu(dimension: int) -> Any:
    """An empty exact index on the first GPU. Raises RuntimeError."""
    faiss = _faiss()
    if not gpus():
        raise RuntimeError("FAISS sees no GPU; install faiss-gpu in place of faiss-cpu on a machine that has one")
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(GPU_SCRATCH_BYTES)
    return faiss.index_cpu_to_gpu(resources, 0, faiss.IndexFlatIP(dimension))


def _fill_by(centres: Any, index: Any, sample: NDArray[np.float32], vectors: NDArray[np.float16]) -> None:
    """Train and fill `index`, every search for a nearest centre being done by `centres`, an empty exact index."""
    from faiss.contrib.ivf_tools import add_preassigned

    index.clustering_index = centres
    index.train(sample)
    index.clustering_index = None  # FAISS keeps no reference: nothing may ask it once `centres` is gone
    centres.reset()
    centres.add(index.quantizer.reconstruct_n(0, index.nlist))
    for piece in _pieces(vectors):
        add_preassigned(index, piece, centres.search(piece, 1)[1][:, 0])


def _add(index: Any, vectors: NDArray[np.float16]) -> None:
    for piece in _pieces(vectors):
        index.add(piece)


def _pieces(vectors: NDArray[np.float16]) -> Iterator[NDArray[np.float32]]:
    for start in range(0, len(vectors), PIECE):
        yield vectors[start : start + PIECE].astype(np.float32)


@contextmanager
def _one_thread() -> Generator[None]:
    """FAISS on one thread: sums of several may differ in the last bit, and so would the file."""
    faiss = _faiss()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)


def _probes_for_recall(index: Any, vectors: NDArray[np.float16]) -> int:
    """How many lists to scan, so that rows and queries about them find their ten nearest other rows."""
    random = np.random.default_rng(2)
    asked = random.choice(len(vectors), 256, replace=False)
    rows = vectors[asked].astype(np.float32)
    noise = random.standard_normal(rows.shape, dtype=np.float32)
    away = rows + noise / np.linalg.norm(noise, axis=1, keepdims=True)  # cosine .7 to its row, as a question has
    samples = (rows, away / np.linalg.norm(away, axis=1, keepdims=True))
    truths = [_others(index, sample, asked, probes=index.nlist) for sample in samples]
    probes = 1
    while probes < index.nlist:
        found = [_others(index, sample, asked, probes=probes) for sample in samples]
        if min(map(_recall, truths, found)) >= RECALL:
            break
        probes = min(index.nlist, 1 + probes * 5 // 4)
    return probes


def _others(index: Any, queries: NDArray[np.float32], own: NDArray[np.int64], *, probes: int) -> list[set[int]]:
    """The ten nearest rows of each query, without the row that it was made of: that one is always found."""
    faiss = _faiss()
    nearest = index.search(queries, 11, params=faiss.SearchParametersIVF(nprobe=probes))[1]
    return [set(row[row != mine][:10]) for row, mine in zip(nearest, own, strict=True)]


def _recall(truths: list[set[int]], found: list[set[int]]) -> float:
    return sum(len(true & ten) / len(true) for true, ten in zip(truths, found, strict=True)) / len(truths)
