"""Embeddings with the ids they belong to, one row for each question: a row without an id belongs to nobody.

Files of torch come in three shapes: a dict by id, `[N, d]`, and `[Q, K, d]`, the candidates of each query (a dict by
query id of `[K, d]` says the same). Ids of a tensor stand in a JSON file, beside it or named: a list, or an object with
`ids` and, for `[Q, K, d]`, `candidates`: a list of K ids for each query.
"""

from __future__ import annotations

import json
import pickle
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load as load_arrays
from safetensors.numpy import save as save_arrays
from safetensors.torch import load, save
from torch import Tensor

from storage import files
from storage.artifacts import Artifacts
from storage.files import sha256_of
from storage.records import Ref
from tasks.keys import content_key
from tasks.lever.judge.demonstration_task import Vectors, View, Views
from tasks.lever.lever_errors import DatasetUnusable, FileUnusable
from tasks.lever.lever_records import Dataset, Embedded, Item, Modality, first_twice

FORMAT = "trivet embeddings"
NOT_TENSORS = (
    *(RuntimeError, pickle.UnpicklingError, EOFError, OSError, zipfile.BadZipFile),
    *(ValueError, LookupError, AttributeError, TypeError, OverflowError, AssertionError),
)
"""Errors of torch for files that it did not write, or that were cut."""


class EmbeddingBank(NamedTuple):
    """Vectors by id. Made by `bank_of`, which checks them."""

    ids: tuple[str, ...]
    vectors: Tensor
    """(N, d) float32."""
    encoder: str
    """Name and revision of the encoder that made them; empty where it is not known."""

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def positions(self, ids: Sequence[str]) -> list[int]:
        """Row of each id. Raises FileUnusable naming the ids that have none."""
        rows = {id: row for row, id in enumerate(self.ids)}
        if missing := [id for id in ids if id not in rows]:
            raise FileUnusable(
                f"no embedding for {len(missing)} ids ({', '.join(missing[:5])}); the {len(self.ids)} there are, "
                f"{', '.join(self.ids[:3])} …, are of another dataset or split: embed this one"
            )
        return [rows[id] for id in ids]

    def rows(self, ids: Sequence[str]) -> Tensor:
        """(len(ids), d), in this order. Raises FileUnusable naming the ids that have none."""
        return self.vectors[torch.tensor(self.positions(ids), dtype=torch.long)]

    def to_bytes(self) -> bytes:
        """As safetensors with the ids in the header; equal banks give equal bytes."""
        # one entry only: safetensors writes several in no fixed order
        header = json.dumps({"format": FORMAT, "encoder": self.encoder, "ids": self.ids})
        return save({"vectors": self.vectors.contiguous()}, metadata={"trivet": header})

    @classmethod
    def from_bytes(cls, data: bytes) -> EmbeddingBank:
        """What `to_bytes` wrote. Raises FileUnusable."""
        try:
            header = json.loads(header_of(data)["trivet"])
            if header["format"] != FORMAT:
                raise FileUnusable(f"these are {header['format']}, not embeddings")
            return bank_of(header["ids"], load(data)["vectors"], encoder=header["encoder"], where="embeddings")
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise FileUnusable("these bytes are no embeddings of ours; run the embedding step again") from error

    def export_pt(self, path: Path) -> None:
        """Write the seed's file, a plain float32 [N, d] tensor by `torch.save`, and its ids as JSON beside it."""
        with files.replacing(path) as file:
            torch.save(self.vectors.contiguous().clone(), file)
        name, _, revision = self.encoder.partition("@")
        about = {"ids": self.ids, "encoder": name, "revision": revision, "sha256": sha256_of(path)}
        files.write(beside(path), json.dumps(about, ensure_ascii=False).encode())


def bank_of(ids: Sequence[object], vectors: Tensor, *, encoder: str, where: str) -> EmbeddingBank:
    """A bank, checked. Raises FileUnusable naming `where`: not as many ids as rows, ids twice, NaN, no floats."""
    if vectors.ndim != 2:
        raise FileUnusable(f"{where}: {list(vectors.shape)} is no [N, d]")
    named = tuple(str(id) for id in ids)
    if len(named) != len(vectors):
        raise FileUnusable(f"{where}: {len(named)} ids for {len(vectors)} embeddings; the ids are of another file")
    if (twice := first_twice(named)) is not None:
        raise FileUnusable(f"{where}: id {twice} stands there twice")
    return EmbeddingBank(named, _floats(vectors, named, where), encoder)


def _floats(vectors: Tensor, ids: Sequence[str], where: str) -> Tensor:
    """`vectors` (len(ids), …) as float32. Raises FileUnusable for other numbers, NaN and infinities."""
    if not vectors.is_floating_point() or vectors.layout != torch.strided:
        raise FileUnusable(f"{where}: {vectors.dtype} are no embeddings; float32 is expected")
    if vectors.numel() and not (finite := vectors.flatten(1).isfinite().all(1)).all():
        first = ids[int(finite.logical_not().nonzero()[0])]
        raise FileUnusable(f"{where}: the embedding of {first} is not finite; embed again")
    return vectors.detach().to(device="cpu", dtype=torch.float32)


def beside(path: Path) -> Path:
    """The JSON file with the ids of an exported tensor."""
    return path.with_suffix(".json")


def of_modality(path: Path, modality: Modality) -> Path:
    """The file of images or questions alone that lies beside a file of joint embeddings."""
    return path if modality == "joint" else path.with_suffix(f".{modality}{path.suffix}")


def solved_beside(path: Path) -> Path:
    """The file of candidates with their answers that lies beside a file of candidates."""
    return path.with_suffix(f".solved{path.suffix}")


def header_of(data: bytes) -> Mapping[str, str]:
    """The metadata in the header of safetensors bytes. Raises ValueError or KeyError where there is none."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("no safetensors")
    return json.loads(data[8 : 8 + length])["__metadata__"]


class _Ids(NamedTuple):
    """What a JSON file says about a tensor."""

    path: Path
    ids: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...] | None
    """Ids of the candidates of each query, if the tensor is [Q, K, d]."""
    encoder: str


class QueryPools(NamedTuple):
    """The candidates of each query, as `[Q, K, d]` files have them."""

    pools: dict[str, tuple[str, ...]]
    bank: EmbeddingBank
    """Embeddings of all candidates, each once."""


def read_bank(path: Path, *, ids: Path | None = None) -> EmbeddingBank:
    """As `read_embeddings`, one vector for each id; of a `[Q, K, d]` file the candidates."""
    read = read_embeddings(path, ids=ids)
    return read if isinstance(read, EmbeddingBank) else read.bank


def read_embeddings(path: Path, *, ids: Path | None = None) -> EmbeddingBank | QueryPools:
    """Embeddings by id, from any of the shapes; nothing in the file is executed.

    ids: a JSON file with the ids, where none lies beside the embeddings.
    Raises FileUnusable naming the file: no ids, not as many as rows, ids twice, NaN, or a content that changed since
    the ids were written.
    """
    found, known = _load(path), _ids(path, ids)
    if isinstance(found, Mapping):
        return _by_id(cast(Mapping[Any, Any], found), known, path)
    if not isinstance(found, Tensor) or found.ndim not in (2, 3):
        what = list(found.shape) if isinstance(found, Tensor) else type(found).__name__
        raise FileUnusable(f"{path}: {what} are no embeddings; a dict by id, [N, d] or [Q, K, d] is expected")
    if known is None:
        raise FileUnusable(
            f"{path} is {list(found.shape)} without ids: no {beside(path).name} lies beside it; "
            "name a JSON list of ids, one for each row, by --ids FILE"
        )
    if found.ndim == 3:
        return _pools(found, known.ids, known, path)
    if len(known.ids) != len(found):
        raise FileUnusable(
            f"{path} holds {len(found)} embeddings, and {known.path} names {len(known.ids)} ids: "
            "they are of different files"
        )
    return bank_of(known.ids, found, encoder=known.encoder, where=str(path))


def _load(path: Path) -> Any:
    """Raises FileUnusable for more than tensors, and for tensors that claim more numbers than the file holds."""
    try:
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                    raise FileUnusable(f"{path} is packed, and may unfold to any size; torch writes none like that")
        found = torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {path}; run the embedding step, or name the file") from error
    except NOT_TENSORS as error:
        raise FileUnusable(f"{path} holds more than tensors, or is damaged; export the embeddings again") from error
    tensors = [one for one in (found.values() if isinstance(found, Mapping) else [found]) if isinstance(one, Tensor)]
    if any(one.layout == torch.strided and one.nbytes > one.untyped_storage().nbytes() for one in tensors):
        raise FileUnusable(f"{path}: its embeddings repeat the same numbers; export them again as they are")
    return found


def _ids(path: Path, named: Path | None) -> _Ids | None:
    """The content of the named file, else of the one beside the embeddings, else None."""
    place = named or beside(path)
    if named is None and not place.exists():
        return None
    try:
        said: Any = json.loads(place.read_bytes())
    except (OSError, ValueError) as error:
        raise FileUnusable(f"the ids of {path}: {place} cannot be read as JSON ({error})") from error
    about = cast(dict[str, Any], said) if isinstance(said, dict) else {"ids": said}
    if about.get("sha256") not in (None, sha256_of(path)):
        raise FileUnusable(
            f"{place} was written for another content of {path.name} (its sha256 differs); export both again"
        )
    ids, candidates = _names(about.get("ids"), place, "ids"), about.get("candidates")
    encoder = "@".join(str(about[key]) for key in ("encoder", "revision") if about.get(key))
    if candidates is None:
        return _Ids(place, ids, None, encoder)
    if not isinstance(candidates, list):
        raise FileUnusable(f"{place}: `candidates` is no list of lists of ids")
    lists = enumerate(cast(list[Any], candidates))
    return _Ids(place, ids, tuple(_names(one, place, f"candidates[{row}]") for row, one in lists), encoder)


def _names(value: Any, place: Path, field: str) -> tuple[str, ...]:
    members = cast(list[Any], value) if isinstance(value, list) else [None]
    if not all(isinstance(one, str | int) and not isinstance(one, bool) for one in members):
        raise FileUnusable(f"{place}: `{field}` is no list of ids")
    return tuple(map(str, members))


def _by_id(found: Mapping[Any, Any], known: _Ids | None, path: Path) -> EmbeddingBank | QueryPools:
    """A dict tells its ids itself; a file of ids beside it may only tell more."""
    wrong = next((id for id, vector in found.items() if not isinstance(vector, Tensor)), None)
    if wrong is not None or not found:
        raise FileUnusable(f"{path}: nothing but tensors by id is expected, and {str(wrong)[:80]!r} is none")
    shapes = {tuple(vector.shape) for vector in found.values()}
    if len(shapes) > 1 or len(next(iter(shapes))) not in (1, 2):
        raise FileUnusable(f"{path}: embeddings of different shapes, {sorted(shapes)[:3]}; all must be [d], or [K, d]")
    ids, stacked = tuple(map(str, found)), torch.stack(list(found.values()))
    if stacked.ndim == 3:
        return _pools(stacked, ids, known, path)
    return bank_of(ids, stacked, encoder=known.encoder if known else "", where=str(path))


def _pools(vectors: Tensor, queries: tuple[str, ...], known: _Ids | None, path: Path) -> QueryPools:
    """vectors: (Q, K, d). Raises FileUnusable, also if one id has different embeddings in different pools."""
    if known is None or known.candidates is None:
        raise FileUnusable(
            f"{path} is {list(vectors.shape)}, candidates of each query, and nothing names them; "
            'give --ids FILE with {"ids": [queries], "candidates": [[ids of the candidates] of each query]}'
        )
    named = dict(zip(known.ids, known.candidates, strict=False))
    if len(known.ids) != len(known.candidates) or sorted(known.ids) != sorted(queries) or len(queries) != len(vectors):
        raise FileUnusable(
            f"{path} holds pools of {len(vectors)} queries; {known.path} names {len(known.ids)} queries and "
            f"{len(known.candidates)} pools, which are not these"
        )
    if len(set(queries)) < len(queries):
        raise FileUnusable(f"{known.path}: a query stands there twice")
    pools = {query: named[query] for query in queries}
    if wrong := next((query for query in queries if len(set(pools[query])) != vectors.shape[1]), None):
        raise FileUnusable(f"{known.path}: query {wrong} needs {vectors.shape[1]} candidates, each once")
    kept: dict[str, Tensor] = {}
    for pool, embeddings in zip(pools.values(), _floats(vectors, queries, str(path)), strict=True):
        for id, vector in zip(pool, embeddings, strict=True):
            if not torch.equal(kept.setdefault(id, vector), vector):
                raise FileUnusable(f"{path}: candidate {id} has one embedding in one pool, another in another")
    bank = bank_of(list(kept), torch.stack(list(kept.values())), encoder=known.encoder, where=str(path))
    return QueryPools(pools, bank)


Shard = dict[str, Vectors]
"""`vectors` of what is seen of items, a row for each, and `classes` of pictures where the encoder tells them."""

PER_SHARD = 256
"""Pictures, questions or texts that are embedded and kept together; a kill loses at most so many."""
VERSION = 1
"""Raise it when the same encoder would give other vectors."""
SHORTEST = 1e-6
"""A vector that is shorter points nowhere."""


def embed_dataset(
    dataset: Dataset, views: Views, artifacts: Artifacts, *, tell: Callable[[int], None] = lambda _: None
) -> Embedded:
    """Banks of all items; what looks alike is embedded once.

    Each shard is kept as soon as it is made, so that an interrupted export goes on where it stopped.
    tell: called with the number of items done since its last call, of pictures where there are any.
    Raises DatasetUnusable for an item that is missing, damaged or without a usable vector, and what the encoder raises.
    """
    items, encoder = dataset.items, views.encoder
    silent: Callable[[int], None] = lambda _: None  # noqa: E731 - the other of two
    looks = _embedded(views.images, items, encoder, artifacts, tell) if views.images else {}
    texts = _embedded(views.texts, items, encoder, artifacts, silent if looks else tell)["vectors"]
    joint = _unit(looks["vectors"] + texts, items) if looks else texts
    answers = _embedded(views.answers, items, encoder, artifacts, silent)["vectors"] if views.answers else None
    row = {item.id: number for number, item in enumerate(items)}

    def keep(ids: Sequence[str], vectors: Vectors) -> Ref:
        rows = torch.from_numpy(vectors[[row[name] for name in ids]])
        return artifacts.put("embeddings", bank_of(ids, rows, encoder=encoder, where="embeddings").to_bytes())

    return Embedded(
        encoder=encoder,
        dimension=views.dimension,
        candidates=keep(dataset.candidates, joint),
        queries=keep(dataset.queries, joint),
        solved=None if answers is None else keep(dataset.candidates, _unit(joint + answers, items)),
        images=keep(list(row), looks["vectors"]) if looks else None,
        texts=keep(list(row), texts),
        classes=keep(list(row), looks["classes"]) if "classes" in looks else None,
    )


def _embedded(
    view: View, items: Sequence[Item], encoder: str, artifacts: Artifacts, tell: Callable[[int], None]
) -> Shard:
    """A row for each item: what has one key is embedded once, shard by shard; shards that were kept are recalled."""
    keys = [view.key(item) for item in items]
    uses, distinct = Counter(keys), dict(reversed(list(zip(keys, items, strict=True))))
    remaining, made = iter(uses), list[Shard]()
    while names := list(islice(remaining, PER_SHARD)):
        key = content_key(f"lever.embed_{view.name}", VERSION, {"encoder": encoder, view.name: names})
        if ref := artifacts.recall(key):
            made.append(load_arrays(artifacts.get(ref)))
        else:
            some = [distinct[name] for name in names]
            found = view.embed(some)
            made.append({name: _unit(vectors, some) for name, vectors in found.items() if vectors is not None})
            artifacts.remember(key, artifacts.put("embedded-shard", save_arrays(made[-1])))
        tell(sum(uses[name] for name in names))
    places = {name: place for place, name in enumerate(uses)}
    rows = [places[name] for name in keys]
    complete = set(made[0]).intersection(*made)  # an encoder may not tell classes in every shard
    return {name: np.concatenate([shard[name] for shard in made])[rows] for name in complete}


def _unit(vectors: Vectors, items: Sequence[Item]) -> Vectors:
    """The rows at length one, one for each item. Raises DatasetUnusable naming an item whose row has no direction."""
    exact = vectors.astype(np.float64)
    lengths = np.linalg.norm(exact, axis=1, keepdims=True)
    usable = np.isfinite(lengths[:, 0]) & (lengths[:, 0] > SHORTEST)
    if not usable.all():
        item = items[int(np.flatnonzero(~usable)[0])]
        raise DatasetUnusable(
            f"item {item.id}: the encoder's vector is zero or no number; look at it, and leave it out if there is "
            "nothing to be seen"
        )
    return (exact / lengths).astype(np.float32)
