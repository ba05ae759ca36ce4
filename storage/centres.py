"""Centres around which the vectors of a large index are grouped, so that a search scans few of them.

They are trained on a sample, with the number of lists to scan that keeps recall at `RECALL` there, and serve until the
index has doubled; vectors that would need most of their lists stay exact. A GPU, where FAISS has one, trains the
centres of large indexes.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from storage.arrays import map_arrays, pack_arrays

log = logging.getLogger(__name__)

RECALL = 0.998
"""Share of the true ten nearest that probing must find when it is tuned; .98 is promised, this leaves a margin."""
PER_CENTRE = 48
"""Rows of the sample for each centre."""
GPU_FROM = 500_000
"""Rows of an index from which on a GPU trains its centres, if FAISS has one: with fewer, the time saved is not worth
a file whose bytes depend on the machine that made it."""
GPU_SCRATCH_BYTES = 256 << 20
"""GPU memory for intermediate results; by default FAISS reserves six times as much, beside a loaded model."""
PIECE = 50_000
"""Rows that are added at once: FAISS takes fp32, twice the size."""
UNIT_TOLERANCE = 0.01
"""Half precision moves the length of a unit vector by less than .001."""


class Centres(NamedTuple):
    """The centres of an index, and how many of their lists a search scans."""

    vectors: NDArray[np.float32]
    """(lists, dimension); none where grouping does not pay."""
    probes: int
    rows: int
    """Rows of the index for which they were chosen."""

    def serve(self, rows: int, dimension: int) -> bool:
        """Whether an index of that size may keep them."""
        return self.vectors.shape[1] == dimension and self.rows / 2 <= rows <= self.rows * 2

    def near(self, query: NDArray[np.float32]) -> NDArray[np.int64]:
        """The lists that a search scans."""
        likeness = self.vectors @ query
        return np.argpartition(-likeness, min(self.probes, len(self.vectors) - 1))[: self.probes]

    def pack(self) -> bytes:
        """The content of their file."""
        told = np.array([self.probes, self.rows], np.int64)
        return pack_arrays({"centres": self.vectors, "probes_and_rows": told})

    @classmethod
    def open(cls, path: Path) -> Centres:
        """Those of a file. Raises OSError, ValueError."""
        arrays = map_arrays(path)
        probes, rows = arrays["probes_and_rows"].tolist()
        return cls(arrays["centres"], probes, rows)


def open_faiss() -> Any:
    """FAISS, which takes a while to import; untyped, for its stubs know neither its parameters nor its callbacks."""
    import faiss

    return faiss


def lists_for(rows: int) -> int:
    """Into how many lists an index of so many rows is grouped."""
    return round(2 * rows**0.5)


def train_centres(sample: NDArray[np.float16], rows: int) -> Centres:
    """Centres for an index of `rows` rows, from a sample of them: (`PER_CENTRE` * lists, dimension) or fewer.

    No centres where most lists would have to be scanned. The same sample gives the same centres on a CPU.
    """
    refuse_other_lengths(sample)
    drawn = sample.astype(np.float32)
    lists = min(lists_for(rows), max(len(sample) // 2, 1))
    centres = _trained(drawn, lists, gpu=rows >= GPU_FROM and gpus() > 0)
    with _one_thread():
        probes = _probes_for_recall(centres, drawn, rows)
    return Centres(centres if probes <= lists // 2 else centres[:0], probes, rows)


def _trained(sample: NDArray[np.float32], lists: int, *, gpu: bool) -> NDArray[np.float32]:
    """`train_lists` on the GPU if that is asked and goes well, else on the CPU."""
    if gpu:
        try:
            return train_lists(sample, lists, gpu=True)
        except RuntimeError as error:  # as FAISS says that memory ended
            log.warning("the GPU could not group rows=%d, one CPU thread does: %s", len(sample), error)
    return train_lists(sample, lists, gpu=False)


def gpus() -> int:
    """The GPUs that FAISS can use; none with faiss-cpu, nor under CUDA_VISIBLE_DEVICES=''."""
    return open_faiss().get_num_gpus()


def train_lists(sample: NDArray[np.float32], lists: int, *, gpu: bool) -> NDArray[np.float32]:
    """Centres of so many lists: (lists, dimension).

    gpu: the nearest centre of each row is found on the first GPU, else by one CPU thread. Raises RuntimeError where
    the GPU cannot do it.
    """
    faiss = open_faiss()
    dimension = sample.shape[1]
    training = faiss.Clustering(dimension, lists)
    training.seed, training.niter, training.spherical = 1, 10, True
    training.min_points_per_centroid, training.max_points_per_centroid = 1, PER_CENTRE
    flat = _flat_on_gpu(dimension) if gpu else faiss.IndexFlatIP(dimension)
    with _one_thread():
        training.train(np.ascontiguousarray(sample), flat)
    # which holds them; `training.centroids` is a C++ vector, which PyMuPDF, once imported, takes for one of its own
    return flat.reconstruct_n(0, lists)


def _flat_on_gpu(dimension: int) -> Any:
    """An empty exact index on the first GPU. Raises RuntimeError."""
    faiss = open_faiss()
    if not gpus():
        raise RuntimeError("FAISS sees no GPU; install faiss-gpu in place of faiss-cpu on a machine that has one")
    resources = faiss.StandardGpuResources()
    resources.setTempMemory(GPU_SCRATCH_BYTES)
    return faiss.index_cpu_to_gpu(resources, 0, faiss.IndexFlatIP(dimension))


def _probes_for_recall(centres: NDArray[np.float32], sample: NDArray[np.float32], rows: int) -> int:
    """How many lists to scan, so that rows of the sample and queries about them find their nearest other rows.

    The ten nearest of all rows are nearer than the ten nearest of a sample: as many count as are among those ten.
    """
    faiss = open_faiss()
    random = np.random.default_rng(2)
    asked = random.choice(len(sample), min(512, len(sample)), replace=False)
    noise = random.standard_normal((len(asked), sample.shape[1]), dtype=np.float32)
    away = sample[asked] + noise / np.linalg.norm(noise, axis=1, keepdims=True)  # cosine .7 to its row, as a question
    queries = np.concatenate([sample[asked], away / np.linalg.norm(away, axis=1, keepdims=True)])
    flat = faiss.IndexFlatIP(sample.shape[1])
    flat.add(np.ascontiguousarray(sample))
    wanted = min(10, max(1, round(10 * len(sample) / rows)))
    nearest = flat.search(queries, wanted + 1)[1]
    lists = nearest_centres(centres, sample.astype(np.float16))
    likeness = queries @ centres.T  # (queries, centres)
    ranks = np.empty((len(queries), wanted), np.int64)
    for at, near in enumerate(nearest):
        others = near[near != asked[at % len(asked)]][:wanted]  # the row that it was made of is always found
        ranks[at] = (likeness[at] > likeness[at, lists[others]][:, None]).sum(axis=1)
    needed = np.quantile(ranks.reshape(2, -1), RECALL, axis=1, method="higher") + 1
    return int(needed.max())


def nearest_centres(centres: NDArray[np.float32], vectors: NDArray[np.float16]) -> NDArray[np.int64]:
    """Per row, the centre with the greatest inner product."""
    faiss = open_faiss()
    flat = faiss.IndexFlatIP(centres.shape[1])
    with _one_thread():
        flat.add(np.ascontiguousarray(centres))
        pieces = (vectors[start : start + PIECE].astype(np.float32) for start in range(0, len(vectors), PIECE))
        found = [flat.search(piece, 1)[1][:, 0] for piece in pieces]
    return np.concatenate(found) if found else np.empty(0, np.int64)


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
    """FAISS on one thread: sums of several may differ in the last bit, and so would the file."""
    faiss = open_faiss()
    threads = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    try:
        yield
    finally:
        faiss.omp_set_num_threads(threads)
