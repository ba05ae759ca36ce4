"""Reads the `.pt` embeddings that are about, with their ids: a row without an id belongs to nobody.

Three shapes are known: a dict by id, `[N, d]`, and `[Q, K, d]`, the candidates of each query (a dict by query id
of `[K, d]` says the same). Ids of a tensor stand in a JSON file, beside it or named: a list, or an object with `ids`
and, for `[Q, K, d]`, `candidates`: a list of K ids for each query.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from tasks.lever.data.banks import EmbeddingBank, bank_of, beside, content_hash, floats, require, shape
from tasks.lever.lever_errors import FileUnusable

NOT_TENSORS = (
    *(RuntimeError, pickle.UnpicklingError, EOFError, OSError),
    *(ValueError, LookupError, AttributeError, TypeError, OverflowError, AssertionError),
)
"""Errors of torch for files that it did not write, or that were cut."""


class Ids(NamedTuple):
    """What a JSON file says about a tensor."""

    path: Path
    ids: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...] | None
    """IDs of the candidates of each query, if the tensor is [Q, K, d]."""
    encoder: str
    """Name and revision; empty where nothing tells."""


class QueryPools(NamedTuple):
    """The candidates of each query, as `[Q, K, d]` files have them."""

    queries: tuple[str, ...]
    pools: dict[str, tuple[str, ...]]
    bank: EmbeddingBank
    """Embeddings of all candidates, each once."""


def read_embeddings(
    path: Path, *, ids: Path | None = None, encoder: str | None = None, dimension: int | None = None
) -> EmbeddingBank | QueryPools:
    """Embeddings by id, from any of the shapes; nothing in the file is executed.

    ids: a JSON file with the ids, where none lies beside the embeddings.
    encoder, dimension: what is expected, if anything is.
    Raises FileUnusable naming the file: no ids, not as many as rows, ids twice, NaN, another encoder or width, or a
    content that changed since the ids were written.
    """
    found, known = _load(path), _ids(path, ids)
    _refuse_unfolding(found, path)
    if isinstance(found, Mapping):
        read = _by_id(found, known, path)
    elif isinstance(found, Tensor) and found.ndim in (2, 3):
        if known is None:
            raise FileUnusable(
                f"{path} is {shape(found)} without ids: no {beside(path).name} lies beside it; "
                "name a JSON list of ids, one for each row, by --ids FILE"
            )
        read = _rows(found, known, path) if found.ndim == 2 else _pools(found, known.ids, known, path)
    else:
        what = shape(found) if isinstance(found, Tensor) else type(found).__name__
        raise FileUnusable(f"{path}: {what} are no embeddings; a dict by id, [N, d] or [Q, K, d] is expected")
    require(
        read if isinstance(read, EmbeddingBank) else read.bank, where=str(path), encoder=encoder, dimension=dimension
    )
    return read


def read_bank(
    path: Path, *, ids: Path | None = None, encoder: str | None = None, dimension: int | None = None
) -> EmbeddingBank:
    """As `read_embeddings`, one vector for each id; of a `[Q, K, d]` file the candidates."""
    read = read_embeddings(path, ids=ids, encoder=encoder, dimension=dimension)
    return read if isinstance(read, EmbeddingBank) else read.bank


def _load(path: Path) -> Any:
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise FileUnusable(f"{path} is packed, and may unfold to any size; torch writes none like that")
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {path}; run the embedding step, or name the file") from error
    except (*NOT_TENSORS, zipfile.BadZipFile) as error:
        raise FileUnusable(f"{path} holds more than tensors, or is damaged; export the embeddings again") from error


def _refuse_unfolding(found: Any, path: Path) -> None:
    """Raises FileUnusable for tensors that claim more numbers than the file holds."""
    tensors = [one for one in (found.values() if isinstance(found, Mapping) else [found]) if isinstance(one, Tensor)]
    if any(one.layout == torch.strided and one.nbytes > one.untyped_storage().nbytes() for one in tensors):
        raise FileUnusable(f"{path}: its embeddings repeat the same numbers; export them again as they are")


def _ids(path: Path, named: Path | None) -> Ids | None:
    """What stands in the named file, else in the one beside the embeddings, else None."""
    place = named or beside(path)
    if named is None and not place.exists():
        return None
    try:
        said: Any = json.loads(place.read_bytes())
    except (OSError, ValueError) as error:
        raise FileUnusable(f"the ids of {path}: {place} cannot be read as JSON ({error})") from error
    about = cast(dict[str, Any], said) if isinstance(said, dict) else {"ids": said}
    _check_content(path, place, about)
    candidates = about.get("candidates")
    encoder = "@".join(str(about[key]) for key in ("encoder", "revision") if about.get(key))
    return Ids(
        path=place,
        ids=_names(about.get("ids"), place, "ids"),
        candidates=None if candidates is None else _lists(candidates, place),
        encoder=encoder,
    )


def _check_content(path: Path, place: Path, about: Mapping[str, Any]) -> None:
    said = about.get("sha256")
    if said is not None and said != content_hash(path):
        raise FileUnusable(
            f"{place} was written for another content of {path.name} (its sha256 differs); export both again"
        )


def _names(value: Any, place: Path, field: str) -> tuple[str, ...]:
    members = cast(list[Any], value) if isinstance(value, list) else [None]
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in members):
        raise FileUnusable(f"{place}: `{field}` is no list of ids")
    return tuple(map(str, members))


def _lists(value: Any, place: Path) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list):
        raise FileUnusable(f"{place}: `candidates` is no list of lists of ids")
    return tuple(_names(one, place, f"candidates[{row}]") for row, one in enumerate(cast(list[Any], value)))


def _rows(vectors: Tensor, known: Ids, path: Path) -> EmbeddingBank:
    if len(known.ids) != len(vectors):
        raise FileUnusable(
            f"{path} holds {len(vectors)} embeddings, and {known.path} names {len(known.ids)} ids: "
            "they are of different files"
        )
    return bank_of(known.ids, vectors, encoder=known.encoder, where=str(path))


def _by_id(found: Mapping[Any, Any], known: Ids | None, path: Path) -> EmbeddingBank | QueryPools:
    """A dict tells its ids itself; a file of ids beside it may only tell more."""
    wrong = next((id for id, vector in found.items() if not isinstance(vector, Tensor)), None)
    if wrong is not None or not found:
        raise FileUnusable(f"{path}: nothing but tensors by id is expected, and {str(wrong)[:80]!r} is none")
    shapes = {tuple(vector.shape) for vector in found.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) not in (1, 2):
        raise FileUnusable(f"{path}: embeddings of different shapes, {sorted(shapes)[:3]}; all must be [d], or [K, d]")
    ids = tuple(map(str, found))
    stacked = torch.stack(list(found.values()))
    if stacked.ndim == 3:
        return _pools(stacked, ids, known, path)
    return bank_of(ids, stacked, encoder=known.encoder if known else "", where=str(path))


def _pools(vectors: Tensor, queries: Sequence[str], known: Ids | None, path: Path) -> QueryPools:
    """vectors: (Q, K, d)."""
    if known is None or known.candidates is None:
        raise FileUnusable(
            f"{path} is {shape(vectors)}, candidates of each query, and nothing names them; "
            'give --ids FILE with {"ids": [queries], "candidates": [[ids of the candidates] of each query]}'
        )
    rows = dict(zip(known.ids, known.candidates, strict=False))
    if len(known.ids) != len(known.candidates) or sorted(known.ids) != sorted(queries) or len(queries) != len(vectors):
        raise FileUnusable(
            f"{path} holds pools of {len(vectors)} queries; {known.path} names {len(known.ids)} queries and "
            f"{len(known.candidates)} pools, which are not these"
        )
    if len(set(queries)) < len(queries):
        raise FileUnusable(f"{known.path}: a query stands there twice")
    pools = {query: rows[query] for query in queries}
    if wrong := next((query for query in queries if len(set(pools[query])) != vectors.shape[1]), None):
        raise FileUnusable(f"{known.path}: query {wrong} needs {vectors.shape[1]} candidates, each once")
    return QueryPools(tuple(queries), pools, _one_bank(vectors, pools, known.encoder, path))


def _one_bank(vectors: Tensor, pools: Mapping[str, tuple[str, ...]], encoder: str, path: Path) -> EmbeddingBank:
    """Each candidate once. Raises FileUnusable if one id has different embeddings in different pools."""
    kept: dict[str, Tensor] = {}
    vectors = floats(vectors, list(pools), str(path))
    for pool, embeddings in zip(pools.values(), vectors, strict=True):
        for id, vector in zip(pool, embeddings, strict=True):
            if not torch.equal(kept.setdefault(id, vector), vector):
                raise FileUnusable(f"{path}: candidate {id} has one embedding in one pool, another in another")
    return bank_of(list(kept), torch.stack(list(kept.values())), encoder=encoder, where=str(path))
