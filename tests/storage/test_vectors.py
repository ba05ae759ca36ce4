from __future__ import annotations

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from numpy.typing import NDArray

from storage import vectors as module
from storage.vectors import Centres, Vectors, count_gpus, pack_vectors, train_centres


def unit(rows: NDArray[Any]) -> NDArray[np.float32]:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def hard(rows: int, dimension: int = 48) -> NDArray[np.float32]:
    """No two rows alike: nothing to group."""
    return unit(np.random.default_rng(0).standard_normal((rows, dimension), dtype=np.float32))


def clustered(rows: int, dimension: int = 48) -> NDArray[np.float32]:
    """Rows around a few centres, as passages around topics."""
    random = np.random.default_rng(0)
    centres = random.standard_normal((40, dimension), dtype=np.float32)
    noise = random.standard_normal((rows, dimension), dtype=np.float32)
    return unit(centres[random.integers(0, 40, rows)] + 0.4 * noise)


def opened(folder: Path, rows: NDArray[np.float32], centres: Centres | None = None, *, segments: int = 3) -> Vectors:
    folder.mkdir()
    paths: list[Path] = []
    for number, part in enumerate(np.array_split(rows.astype(np.float16), segments)):
        paths.append(folder / str(number))
        paths[-1].write_bytes(pack_vectors(part, centres))
    return Vectors(paths, dimension=rows.shape[1], centres=centres)


def grouped(rows: NDArray[np.float32]) -> Centres:
    return train_centres(rows.astype(np.float16), len(rows))


def recall(index: Vectors, rows: NDArray[np.float32], queries: NDArray[np.float32]) -> float:
    truth = np.argsort(-(queries @ rows.T), axis=1)[:, :10]
    found = [index.search(query, 10).rows for query in queries]
    return float(np.mean([np.isin(true, ten).mean() for true, ten in zip(truth, found, strict=True)]))


def test_exact_search_in_half_precision_finds_what_single_precision_finds(tmp_path: Path) -> None:
    rows = hard(3_000)
    assert recall(opened(tmp_path / "v", rows), rows, hard(3_100)[-100:]) >= 0.995


def test_of_equal_rows_the_lowest_come_first_even_at_the_cut(tmp_path: Path) -> None:
    rows = np.repeat(hard(5), 6, axis=0)
    assert opened(tmp_path / "v", rows).search(rows[12], 4).rows.tolist() == [12, 13, 14, 15]


@pytest.mark.parametrize("value", [np.nan, 0.0, 2.0])
def test_a_row_that_is_no_unit_vector_is_named(value: float) -> None:
    rows = hard(5).astype(np.float16)
    rows[3] *= np.float16(value)
    with pytest.raises(ValueError, match="vector 3"):
        pack_vectors(rows)


def test_scores_do_not_depend_on_how_rows_are_cut_into_segments(tmp_path: Path) -> None:
    rows = hard(2_000)
    whole, cut = opened(tmp_path / "whole", rows, segments=1), opened(tmp_path / "cut", rows, segments=7)
    for query in hard(2_010)[-10:]:
        one, other = whole.search(query, 20), cut.search(query, 20)
        assert (one.rows.tolist(), one.scores.tolist()) == (other.rows.tolist(), other.scores.tolist())


class TestGrouped:
    def test_rows_around_topics_are_grouped_and_keep_the_recall(self, tmp_path: Path) -> None:
        rows = clustered(9_000)
        index = opened(tmp_path / "v", rows, grouped(rows))
        assert index.lists
        random = np.random.default_rng(8)
        noise = unit(random.standard_normal((100, 48), dtype=np.float32))
        assert recall(index, rows, unit(rows[random.integers(0, 9_000, 100)] + noise)) >= 0.995

    def test_rows_without_groups_stay_exact(self, tmp_path: Path) -> None:
        rows = hard(6_000)
        index = opened(tmp_path / "v", rows, grouped(rows))
        assert index.lists is None
        assert recall(index, rows, hard(6_100)[-100:]) >= 0.995

    def test_a_filter_is_exact(self, tmp_path: Path) -> None:
        rows = clustered(9_000)
        index = opened(tmp_path / "v", rows, grouped(rows))
        allowed = np.arange(9_000) % 7 == 0
        scores = np.where(allowed, rows @ rows[1], -1)
        assert index.search(rows[1], 10, allowed=allowed).rows.tolist() == np.argsort(-scores)[:10].tolist()

    def test_the_same_rows_give_the_same_bytes(self) -> None:
        rows = clustered(9_000).astype(np.float16)
        one, other = (pack_vectors(rows, train_centres(rows, 9_000)) for _ in range(2))
        assert one == other

    def test_centres_serve_until_the_index_has_doubled(self, tmp_path: Path) -> None:
        made = grouped(clustered(9_000))
        (tmp_path / "centres").write_bytes(made.pack())
        read = Centres.open(tmp_path / "centres")
        assert np.array_equal(read.vectors, made.vectors)
        assert [read.serve(rows, 48) for rows in (4_000, 4_500, 18_000, 19_000)] == [False, True, True, False]
        assert not read.serve(9_000, 32)


def test_where_a_gpu_lacks_memory_the_cpu_takes_over_and_that_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    on_cpu = grouped(clustered(9_000))

    def full() -> Any:
        raise RuntimeError("StandardGpuResources: alloc fail")

    monkeypatch.setattr(module, "count_gpus", lambda: 1)
    monkeypatch.setattr(module, "GPU_FROM", 1)
    monkeypatch.setattr(faiss, "StandardGpuResources", full, raising=False)  # faiss-cpu has none
    assert grouped(clustered(9_000)).pack() == on_cpu.pack()
    assert "rows=9000, one CPU thread does: StandardGpuResources: alloc fail" in caplog.text


@pytest.mark.gpu
def test_lists_of_a_gpu_find_what_lists_of_a_cpu_find(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if not count_gpus():
        pytest.skip("FAISS sees no GPU here")
    monkeypatch.setattr(module, "GPU_FROM", 50_000)
    rows = clustered(60_000)
    queries = rows[:200]
    on_gpu = opened(tmp_path / "gpu", rows, grouped(rows))
    monkeypatch.setattr(module, "count_gpus", lambda: 0)
    on_cpu = opened(tmp_path / "cpu", rows, grouped(rows))
    assert (on_gpu.lists, on_gpu.size) == (on_cpu.lists, on_cpu.size)
    assert abs(recall(on_gpu, rows, queries) - recall(on_cpu, rows, queries)) <= 0.005
