"""Dense search over segments: unit vectors in half precision, mapped, searched by inner product with FAISS.

A segment's file holds `vectors`, their `ids` (positions, which FAISS wants behind them) and, where the index has
centres, `order` (row of each position) and `starts` (where the list of each centre starts).

Exact up to `EXACT_UP_TO` rows. Above, rows are grouped into lists around centres that all segments share, and only the
lists nearest to a query are scanned. Centres are trained on a sample, with the number of lists to scan that keeps
recall at `RECALL` there, and serve until the index has doubled; vectors that would need most of their lists stay exact.
"""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from storage.arrays import map_arrays, pack_arrays, start_of_arrays

log = logging.getLogger(__name__)

EXACT_UP_TO = 100_000
"""Rows; a scan of 100,000 x 384 takes about 3 ms on one thread, which no grouping is worth."""
RECALL = 0.998
"""Share of the true ten nearest that probing must find when it is tuned; .98 is promised, this leaves a margin."""
PER_CENTRE = 48
"""Rows of the training sample for each centre."""
GPU_FROM = 500_000
"""Rows of an index from which on a GPU trains its centres, if FAISS has one: with fewer, the time saved is not worth
a file whose bytes depend on the machine that made it."""
GPU_SCRATCH_BYTES = 256 << 20
"""GPU memory for intermediate results; by default FAISS reserves six times as much, beside a loaded model."""
PIECE = 50_000
"""Rows that are added at once: FAISS takes fp32, twice the size."""
UNIT_TOLERANCE = 0.01
"""Half precision moves the length of a unit vector by less than .001."""


class Nearest(NamedTuple):
    """The nearest rows and their scores, by falling similarity; equal ones by rising row."""

    rows: NDArray[np.int64]
    scores: NDArray[np.float32]


NOTHING = Nearest(np.empty(0, np.int64), np.empty(0, np.float32))


class Dense(Protocol):
    """Dense search over the rows of an index, in files or in PostgreSQL."""

    size: int
    dimension: int

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """Return the `k` nearest rows, fewer if there are fewer; among `allowed` (a flag per row) always exactly."""
        ...

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of `rows`, (len(rows), dimension), in their order."""
        ...


def require_dimension(query: NDArray[np.float32], searched: Dense) -> None:
    """Raises ValueError if the query has another dimension than the vectors; where there are none, any will do."""
    if searched.size and query.shape != (searched.dimension,):
        raise ValueError(f"the query has shape {query.shape}, this index holds vectors of {searched.dimension} numbers")


class _Stack(NamedTuple):
    """A FAISS index over lists that lie in files."""

    index: Any
    references: tuple[Any, ...]
    """The objects that `index` points to, kept alive here: FAISS holds no references."""


def pack_vectors(vectors: NDArray[np.float16], centres: Centres | None = None) -> bytes:
    """Return the content of a segment's file; the same vectors and centres give the same bytes.

    vectors: (rows, dimension), each of length 1. Raises ValueError for a row that is not a unit vector.
    """
    refuse_other_lengths(vectors)
    ids = np.arange(len(vectors), dtype=np.int64)
    if centres is None or not len(centres.vectors):
        return pack_arrays({"vectors": vectors, "ids": ids})
    lists = nearest_centres(centres.vectors, vectors)
    order = np.argsort(lists, kind="stable").astype(np.int32)
    starts = np.searchsorted(lists[order], np.arange(len(centres.vectors) + 1)).astype(np.int32)
    return pack_arrays({"vectors": vectors[order], "ids": ids, "order": order, "starts": starts})


class Vectors:
    """The open vectors of all segments; pages are read from disk when a search needs them."""

    def __init__(self, paths: Sequence[Path], *, dimension: int, centres: Centres | None = None) -> None:
        self._parts = [_Part(path) for path in paths]
        self._centres = centres if centres is not None and len(centres.vectors) else None
        self.lists: int | None = self._centres and len(self._centres.vectors)
        """Into how many lists the rows are grouped; None where every search is exact."""
        self.probes: int | None = self._centres and self._centres.probes
        """Number of lists that a search scans; None where every search is exact."""
        self.dimension = dimension
        self._firsts = np.cumsum([0, *(part.size for part in self._parts)], dtype=np.int64)
        self.size = int(self._firsts[-1])

    def search(self, query: NDArray[np.float32], k: int, *, allowed: NDArray[np.bool_] | None = None) -> Nearest:
        """Return at most `k` nearest rows, exact with `allowed` (row flags); raises ValueError: another dimension."""
        require_dimension(query, self)
        available = self.size if allowed is None else int(np.count_nonzero(allowed))
        count = min(k, available)
        if count < 1:
            return NOTHING
        query = np.ascontiguousarray(query, np.float32)
        # of equal scores FAISS keeps any: fetch until the cut does not run through equals, then sort
        fetched, thorough = count + 1, self._centres is None
        while True:
            limit = min(fetched, available)
            if allowed is not None:
                rows, scores = self._search_allowed(query, limit, allowed)
            elif thorough:
                rows, scores = self._scan_lists(self._exact_stack, np.arange(len(self._parts)), query, limit, lists=1)
            else:
                assert self._centres is not None
                lists = len(self._centres.vectors)
                probed = (np.arange(len(self._parts))[:, None] * lists + self._centres.near(query)).ravel()
                rows, scores = self._scan_lists(self._grouped_stack, probed, query, limit, lists=lists)
            if len(rows) >= count and (len(rows) == available or scores[count - 1] > scores[-1]):
                break
            if len(rows) < fetched:  # the probed lists hold too few
                thorough = True
            else:
                fetched *= 4
        order = np.lexsort((rows, -scores))[:count]
        return Nearest(rows[order], scores[order])

    def reconstruct(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of `rows`, (len(rows), dimension), in their order."""
        vectors = np.empty((len(rows), self.dimension), np.float32)
        part_numbers = self._firsts.searchsorted(rows, "right") - 1
        for number in np.unique(part_numbers).tolist():
            part, in_part = self._parts[number], part_numbers == number
            vectors[in_part] = part.vectors[part.positions[rows[in_part] - self._firsts[number]]]
        return vectors

    def _scan_lists(
        self, stack: _Stack, probed: NDArray[np.int64], query: NDArray[np.float32], k: int, *, lists: int
    ) -> Nearest:
        """Return the `k` nearest rows of the probed lists, or all, numbered through all parts. lists: of each part."""
        faiss = open_faiss()
        scores, hits = np.empty((1, k), np.float32), np.empty((1, k), np.int64)
        unused = np.zeros(len(probed), np.float32)
        pointers = (faiss.swig_ptr(values) for values in (probed, unused, scores, hits))
        pairs = True  # the list of a hit and its place there, instead of an id
        parameters = faiss.SearchParametersIVF(nprobe=len(probed))
        stack.index.search_preassigned_c(1, faiss.swig_ptr(query), k, *pointers, pairs, parameters)
        hit = hits[0] >= 0  # FAISS pads with -1
        parts, list_numbers = np.divmod(hits[0][hit] >> 32, lists)
        places = hits[0][hit] & 0xFFFFFFFF
        rows = np.empty(len(parts), np.int64)
        for number in np.unique(parts).tolist():
            part, in_part = self._parts[number], parts == number
            # places are counted from the start of the list
            positions = places[in_part] if lists == 1 else places[in_part] + part.starts[list_numbers[in_part]]
            rows[in_part] = self._firsts[number] + part.row_of(positions)
        return Nearest(rows, scores[0][hit])

    def _search_allowed(self, query: NDArray[np.float32], k: int, allowed: NDArray[np.bool_]) -> Nearest:
        """Return the `k` nearest of the allowed rows, best first; there must be one."""
        faiss = open_faiss()
        rows, scores = list[NDArray[np.int64]](), list[NDArray[np.float32]]()
        for number, part in enumerate(self._parts):
            allowed_here = allowed[self._firsts[number] : self._firsts[number + 1]]
            count = int(np.count_nonzero(allowed_here))
            if not count:
                continue
            flags = np.packbits(allowed_here if part.order is None else allowed_here[part.order], bitorder="little")
            parameters = faiss.SearchParametersIVF(sel=faiss.IDSelectorBitmap(flags), nprobe=1)
            if part.alone is None:  # a FAISS index of this part, whose rows have ids
                part.alone = self._stack_lists([part.mapped(np.array([0, part.size]))], lists=1)
            near, positions = part.alone.index.search(query[None], min(k, count), params=parameters)
            rows.append(self._firsts[number] + part.row_of(positions[0]))
            scores.append(near[0])
        all_rows, all_scores = np.concatenate(rows), np.concatenate(scores)
        order = np.argsort(-all_scores, kind="stable")[:k]
        return Nearest(all_rows[order], all_scores[order])

    @cached_property
    def _exact_stack(self) -> _Stack:
        """A FAISS index in which each part is one list."""
        return self._stack_lists([part.mapped(np.array([0, part.size])) for part in self._parts], lists=1)

    @cached_property
    def _grouped_stack(self) -> _Stack:
        """A FAISS index of the lists of the first part, then those of the second …"""
        return self._stack_lists([part.mapped(part.starts) for part in self._parts], lists=self.lists or 1)

    def _stack_lists(self, inverted_lists: list[Any], *, lists: int) -> _Stack:
        """Return one index over the inverted lists of several parts, without a copy. lists: how many each part has."""
        faiss = open_faiss()
        one_list = faiss.IndexFlatIP(self.dimension)
        one_list.add(np.zeros((1, self.dimension), np.float32))
        kind, likeness = faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
        count = max(len(inverted_lists), 1) * lists
        index = faiss.IndexIVFScalarQuantizer(one_list, self.dimension, count, kind, likeness, False)
        pointers = faiss.InvertedListsPtrVector()
        for lists_of_part in inverted_lists:
            pointers.push_back(lists_of_part)
        stack = faiss.VStackInvertedLists(pointers.size(), pointers.data())
        index.replace_invlists(stack)
        index.is_trained, index.ntotal = True, self.size
        return _Stack(index, (one_list, inverted_lists, stack))


class _Part:
    """The open vectors of a segment. A position is where a vector lies, a row which chunk it is of."""

    def __init__(self, path: Path) -> None:
        arrays = map_arrays(path)
        self._path = path
        self.vectors: NDArray[np.float16] = arrays["vectors"]
        self.order: NDArray[np.int32] | None = arrays.get("order")
        self.starts: NDArray[np.int32] = arrays.get("starts", np.empty(0, np.int32))
        self.size = len(self.vectors)
        self.alone: _Stack | None = None

    @cached_property
    def positions(self) -> NDArray[np.int64]:
        """The position of each row in the file."""
        positions = np.arange(self.size)
        if self.order is not None:
            positions[self.order] = np.arange(self.size)
        return positions

    def row_of(self, positions: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows whose vectors lie at these positions of the file."""
        return positions if self.order is None else self.order[positions].astype(np.int64)

    def mapped(self, starts: NDArray[Any]) -> Any:
        """Return the file, mapped, as FAISS inverted lists; starts: row where each begins, and where the last ends."""
        faiss = open_faiss()
        lists = faiss.OnDiskInvertedLists()
        code_bytes = self.vectors.shape[1] * 2  # of a vector in half precision
        lists.nlist, lists.code_size, lists.read_only = len(starts) - 1, code_bytes, True
        lists.filename, lists.totsize = str(self._path), self._path.stat().st_size
        lists.prefetch_nthread = 0  # a search reads its pages itself
        lists.do_mmap()
        lists.lists.resize(len(starts) - 1)
        begins = starts[:-1].astype(np.uint64)
        sizes = np.diff(starts).astype(np.uint64)
        # of each list: its size, its room, behind which FAISS looks for ids (right for one list), and its place
        table = np.stack([sizes, sizes, start_of_arrays(self._path) + begins * code_bytes], axis=1).astype(np.uint64)
        faiss.memcpy(lists.lists.data(), faiss.swig_ptr(table), table.nbytes)
        return lists


class Centres(NamedTuple):
    """The centres of an index, and how many of their lists a search scans."""

    vectors: NDArray[np.float32]
    """The centres, (lists, dimension); no rows where grouping does not pay."""
    probes: int
    rows: int
    """Rows of the index for which they were chosen."""

    def serve(self, rows: int, dimension: int) -> bool:
        """Return whether an index may keep the centres: of their dimension, and within half and twice their rows."""
        return self.vectors.shape[1] == dimension and self.rows / 2 <= rows <= self.rows * 2

    def near(self, query: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return the numbers of the lists that a search scans for a query: those of the nearest centres."""
        likeness = self.vectors @ query
        return np.argpartition(-likeness, min(self.probes, len(self.vectors) - 1))[: self.probes]  # in no order

    def pack(self) -> bytes:
        """Return the content of the centres' file."""
        counts = np.array([self.probes, self.rows], np.int64)
        return pack_arrays({"centres": self.vectors, "probes_and_rows": counts})

    @classmethod
    def open(cls, path: Path) -> Centres:
        """Read the centres of a file. Raises OSError, ValueError, KeyError."""
        arrays = map_arrays(path)
        probes, rows = arrays["probes_and_rows"].tolist()
        return cls(arrays["centres"], probes, rows)


def open_faiss() -> Any:
    """Import FAISS, which takes a while; untyped, for its stubs know neither its parameters nor its callbacks."""
    import faiss

    return faiss


def count_lists(rows: int) -> int:
    """Return the number of lists into which an index of so many rows is grouped."""
    return round(2 * rows**0.5)


def train_centres(sample: NDArray[np.float16], rows: int) -> Centres:
    """Return centres for an index of `rows` rows, from a sample of them: (`PER_CENTRE` * lists, dimension) or fewer.

    They have no rows where over half of the lists would be scanned. A CPU gives equal centres for equal samples.
    """
    refuse_other_lengths(sample)
    drawn = sample.astype(np.float32)
    lists = min(count_lists(rows), max(len(sample) // 2, 1))
    on_gpu = rows >= GPU_FROM and count_gpus() > 0
    try:
        centres = train_lists(drawn, lists, gpu=on_gpu)
    except RuntimeError as error:  # as FAISS says that memory ended
        if not on_gpu:
            raise
        log.warning("the GPU could not group rows=%d, one CPU thread does: %s", len(drawn), error)
        centres = train_lists(drawn, lists, gpu=False)
    with _one_thread():
        probes = _probes_for_recall(centres, drawn, rows)
    return Centres(centres if probes <= lists // 2 else centres[:0], probes, rows)


def count_gpus() -> int:
    """Return the number of GPUs that FAISS can use: 0 with faiss-cpu, and under CUDA_VISIBLE_DEVICES=''."""
    return open_faiss().get_num_gpus()


def train_lists(sample: NDArray[np.float32], lists: int, *, gpu: bool) -> NDArray[np.float32]:
    """Return the centres of so many lists, (lists, dimension), trained on a sample of the rows.

    gpu: the nearest centre of each row is found on the first GPU, else by one CPU thread. Raises RuntimeError where
    the GPU cannot do it.
    """
    faiss = open_faiss()
    dimension = sample.shape[1]
    training = faiss.Clustering(dimension, lists)
    training.seed, training.niter, training.spherical = 1, 10, True
    # with its own bounds FAISS warns of a small sample, and draws from a large one
    training.min_points_per_centroid, training.max_points_per_centroid = 1, PER_CENTRE
    flat = faiss.IndexFlatIP(dimension)
    if gpu:
        if not count_gpus():
            raise RuntimeError("FAISS sees no GPU; install faiss-gpu in place of faiss-cpu on a machine that has one")
        resources = faiss.StandardGpuResources()
        resources.setTempMemory(GPU_SCRATCH_BYTES)
        flat = faiss.index_cpu_to_gpu(resources, 0, flat)
    with _one_thread():
        training.train(np.ascontiguousarray(sample), flat)
    # which holds them; `training.centroids` is a C++ vector, which PyMuPDF, once imported, takes for one of its own
    return flat.reconstruct_n(0, lists)


def _probes_for_recall(centres: NDArray[np.float32], sample: NDArray[np.float32], rows: int) -> int:
    """Return the number of lists to scan so that rows of the sample, and queries near them, find their neighbours.

    The ten nearest of all rows are nearer than the ten nearest of a sample: as many count as are among those ten.
    """
    faiss = open_faiss()
    random = np.random.default_rng(2)
    drawn = random.choice(len(sample), min(512, len(sample)), replace=False)
    noise = random.standard_normal((len(drawn), sample.shape[1]), dtype=np.float32)
    away = sample[drawn] + noise / np.linalg.norm(noise, axis=1, keepdims=True)  # cosine .7 to its row, as a question
    queries = np.concatenate([sample[drawn], away / np.linalg.norm(away, axis=1, keepdims=True)])
    flat = faiss.IndexFlatIP(sample.shape[1])
    flat.add(np.ascontiguousarray(sample))
    neighbours = min(10, max(1, round(10 * len(sample) / rows)))
    nearest = flat.search(queries, neighbours + 1)[1]  # one more: the row itself is among them
    lists = nearest_centres(centres, sample.astype(np.float16))
    likeness = queries @ centres.T  # (queries, centres)
    ranks = np.empty((len(queries), neighbours), np.int64)
    for number, near in enumerate(nearest):
        source = drawn[number % len(drawn)]  # the row that the query was made of, which is always found
        true_nearest = near[near != source][:neighbours]
        ranks[number] = (likeness[number] > likeness[number, lists[true_nearest]][:, None]).sum(axis=1)
    needed = np.quantile(ranks.reshape(2, -1), RECALL, axis=1, method="higher") + 1
    return int(needed.max())


def nearest_centres(centres: NDArray[np.float32], vectors: NDArray[np.float16]) -> NDArray[np.int64]:
    """Return, for each row, the number of the centre with the greatest inner product."""
    faiss = open_faiss()
    flat = faiss.IndexFlatIP(centres.shape[1])
    with _one_thread():
        flat.add(np.ascontiguousarray(centres))
        pieces = (vectors[start : start + PIECE].astype(np.float32) for start in range(0, len(vectors), PIECE))
        numbers = [flat.search(piece, 1)[1][:, 0] for piece in pieces]
    return np.concatenate(numbers) if numbers else np.empty(0, np.int64)


def refuse_other_lengths(vectors: NDArray[np.float16]) -> None:
    """Raises ValueError for a row that is not a unit vector."""
    for start in range(0, len(vectors), 10_000):
        lengths = np.linalg.norm(vectors[start : start + 10_000].astype(np.float32), axis=1)
        wrong = np.flatnonzero(~(np.abs(lengths - 1) < UNIT_TOLERANCE))  # negated, so that NaN is wrong
        if len(wrong):
            row = int(wrong[0])
            raise ValueError(f"vector {start + row} has length {lengths[row]:.3g}; an embedder gives length 1")


@contextmanager
def _one_thread() -> Generator[None]:
    """Run FAISS on one thread inside the block: sums of several may differ in the last bit, and so would the file."""
    faiss = open_faiss()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
