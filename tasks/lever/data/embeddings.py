"""Embeddings with the ids they belong to, one row for each question: a row without an id belongs to nobody.

Files of torch come in three shapes: a dict by id, `[N, d]`, and `[Q, K, d]`, the candidates of each query (a dict by
query id of `[K, d]` says the same). Ids of a tensor stand in a JSON file, beside it or named: a list, or an object with
`ids` and, for `[Q, K, d]`, `candidates`: a list of K ids for each query.
"""

from __future__ import annotations

import json
import pickle
import pickletools
import struct
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, Self, cast

import numpy as np
import torch
from pydantic import BaseModel, Field
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
from tasks.lever.lever_records import Dataset, Embedded, Item, Modality, first_duplicate

FORMAT = "trivet embeddings"
SHORTEST = 1e-6
"""Length below which a vector has no direction."""
UNIT_WITHIN = 1e-3
"""Difference of a length from one that half precision makes."""
NOT_OF_TORCH = (
    *(RuntimeError, pickle.UnpicklingError, EOFError, OSError, zipfile.BadZipFile, struct.error, MemoryError),
    *(ValueError, LookupError, AttributeError, TypeError, OverflowError, AssertionError),
)
"""Errors of torch and zipfile for files that torch did not write, or that were cut."""


class EmbeddingBank(NamedTuple):
    """Vectors by id. `make_bank` makes them and checks them."""

    ids: tuple[str, ...]
    vectors: Tensor
    """The vectors of the ids, (N, d) float32, in their order."""
    encoder: str
    """Name and revision of the encoder that made them; empty where it is not known."""
    pools: dict[str, tuple[str, ...]] | None = None
    """The candidates of each query, where they stand in a `[Q, K, d]` file; the vectors are theirs, each once."""

    @property
    def dimension(self) -> int:
        return self.vectors.shape[1]

    def positions(self, ids: Sequence[str]) -> list[int]:
        """Return the row of each id. Raises FileUnusable naming the ids that have none."""
        rows = {id: row for row, id in enumerate(self.ids)}
        if missing := [id for id in ids if id not in rows]:
            raise FileUnusable(
                f"no embedding for {len(missing)} ids ({', '.join(missing[:5])}); the {len(self.ids)} there are, "
                f"{', '.join(self.ids[:3])} …, are of another dataset or split: embed this one"
            )
        return [rows[id] for id in ids]

    def rows(self, ids: Sequence[str]) -> Tensor:
        """Return the vectors (len(ids), d) of these ids, in their order. Raises FileUnusable for ids without one."""
        return self.vectors[torch.tensor(self.positions(ids), dtype=torch.long)]

    def to_bytes(self) -> bytes:
        """Serialise the bank but its pools as safetensors with the ids in the header; equal banks give equal bytes."""
        # one entry only: safetensors writes several in no fixed order
        header = json.dumps({"format": FORMAT, "encoder": self.encoder, "ids": self.ids})
        return save({"vectors": self.vectors.contiguous()}, metadata={"trivet": header})

    @classmethod
    def from_bytes(cls, data: bytes) -> EmbeddingBank:
        """Read the bank that `to_bytes` wrote. Raises FileUnusable."""
        try:
            header = json.loads(read_header(data)["trivet"])
            return make_bank(header["ids"], load(data)["vectors"], encoder=header["encoder"], where="embeddings")
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise FileUnusable("these bytes are no embeddings of ours; run the embedding step again") from error

    def export_pt(self, path: Path) -> None:
        """Write the seed's file, a plain float32 [N, d] tensor by `torch.save`, and its ids as JSON beside it."""
        with files.replacing(path) as file:
            torch.save(self.vectors.contiguous().clone(), file)  # a copy: of a view, torch writes the whole storage
        name, _, revision = self.encoder.partition("@")
        about = {"ids": self.ids, "encoder": name, "revision": revision, "sha256": sha256_of(path)}
        files.write(ids_file(path), json.dumps(about, ensure_ascii=False).encode())


def make_bank(ids: Sequence[object], vectors: Tensor, *, encoder: str, where: str) -> EmbeddingBank:
    """Check ids and vectors (N, d) and return their bank, in float32 on the CPU.

    Raises FileUnusable naming `where`: not as many ids as rows, ids twice, NaN, no floats.
    """
    names = tuple(str(id) for id in ids)
    if len(names) != len(vectors):
        raise FileUnusable(f"{where}: {len(names)} ids for {len(vectors)} embeddings; the ids are of another file")
    duplicate = first_duplicate(names)
    if duplicate is not None:
        raise FileUnusable(f"{where}: id {duplicate} stands there twice")
    return EmbeddingBank(names, _to_float32(vectors, names, where), encoder)


def _to_float32(vectors: Tensor, ids: Sequence[str], where: str) -> Tensor:
    """Return the vectors (len(ids), …) as float32. Raises FileUnusable for other numbers, NaN and infinities."""
    if not vectors.is_floating_point() or vectors.layout != torch.strided:  # sparse tensors have no rows
        raise FileUnusable(f"{where}: {vectors.dtype} are no embeddings; float32 is expected")
    if vectors.numel():  # else there is nothing to flatten
        finite = vectors.flatten(1).isfinite().all(1)
        if not finite.all():
            first = ids[int(finite.logical_not().nonzero()[0])]
            raise FileUnusable(f"{where}: the embedding of {first} is not finite; embed again")
    return vectors.detach().to(device="cpu", dtype=torch.float32)


def _to_unit_length(vectors: Tensor, ids: Sequence[str], where: str) -> Tensor:
    """Scale vectors (len(ids), …, d) of others to length one; those that have it stay as they are, to the bit.

    Raises FileUnusable for a zero vector, which is near nothing.
    """
    lengths = vectors.double().norm(dim=-1, keepdim=True)
    zero = (lengths <= SHORTEST).flatten(1).any(1)
    if zero.any():
        first = ids[int(zero.nonzero()[0])]
        raise FileUnusable(f"{where}: the embedding of {first} is zero; embed it again, or leave it out")
    is_unit = (lengths - 1).abs() <= UNIT_WITHIN
    return torch.where(is_unit, vectors, (vectors / lengths).float())


def ids_file(path: Path) -> Path:
    """Return the path of the JSON file with the ids of an exported tensor."""
    return path.with_suffix(".json")


def modality_file(path: Path, modality: Modality) -> Path:
    """Return the path of the embeddings of images or questions alone beside a file of joint embeddings."""
    return path if modality == "joint" else path.with_suffix(f".{modality}{path.suffix}")


def solved_file(path: Path) -> Path:
    """Return the path of the embeddings of candidates with their answers beside a file of candidates."""
    return path.with_suffix(f".solved{path.suffix}")


def read_header(data: bytes) -> Mapping[str, str]:
    """Read the metadata in the header of safetensors bytes. Raises ValueError or KeyError where there is none."""
    length = int.from_bytes(data[:8], "little")  # a file of safetensors begins with the length of its JSON header
    if len(data) < 8 or length > len(data) - 8:
        raise ValueError("no safetensors")
    return json.loads(data[8 : 8 + length])["__metadata__"]


class IdsFile(BaseModel):
    """The JSON file about embeddings: their ids, what made them, and the content that it was written for."""

    ids: list[int | str] | None = Field(default=None, strict=True)
    candidates: list[list[int | str]] | None = Field(default=None, strict=True)
    """IDs of the candidates of each query, for a `[Q, K, d]` file."""
    encoder: str = ""
    revision: str = ""
    sha256: str | None = None

    @classmethod
    def read(cls, path: Path, ids: Path | None) -> Self:
        """Read the named file about the embeddings in `path`, or the one beside; empty if none. Raises FileUnusable."""
        place = ids or ids_file(path)
        if ids is None and not place.exists():
            return cls()
        try:
            content = json.loads(place.read_bytes())
            about = cls.model_validate({"ids": content} if isinstance(content, list) else content)
        except (OSError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise FileUnusable(f"the ids of {path}: {place} cannot be read as JSON with ids ({reason})") from error
        if about.sha256 not in (None, sha256_of(path)):
            raise FileUnusable(
                f"{place} was written for another content of {path.name} (its sha256 differs); export both again"
            )
        return about


def read_embeddings(path: Path, *, ids: Path | None = None) -> EmbeddingBank:
    """Read embeddings by id, at length one, from a file of any of the three shapes; nothing in the file is executed.

    ids: a JSON file with the ids, where none lies beside the embeddings.
    Raises FileUnusable naming the file: no ids, not as many as rows, ids twice, NaN, zero, or a content changed since
    the ids were written.
    """
    try:
        content = load_torch(path)
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {path}; run the embedding step, or name the file") from error
    except NOT_OF_TORCH as error:
        raise FileUnusable(f"{path} holds more than tensors, or is damaged; export the embeddings again") from error
    by_id = cast("Mapping[Any, Any]", content) if isinstance(content, Mapping) else {"": content}
    for id, value in by_id.items():
        if not isinstance(value, Tensor):
            raise FileUnusable(f"{path}: nothing but tensors by id is expected, and {str(id)[:80]!r} is none")
        # expanded: a few bytes could fill the memory
        if value.layout == torch.strided and value.nbytes > value.untyped_storage().nbytes():
            raise FileUnusable(f"{path}: its embeddings repeat the same numbers; export them again as they are")

    about = IdsFile.read(path, ids)
    encoder = "@".join(part for part in (about.encoder, about.revision) if part)
    if isinstance(content, Mapping) and by_id:  # a dict tells its ids itself
        if len({tuple(vector.shape) for vector in by_id.values()}) > 1:
            raise FileUnusable(f"{path}: embeddings of different shapes; all must be [d], or [K, d]")
        names, vectors = tuple(map(str, by_id)), torch.stack(list(by_id.values()))
    elif isinstance(content, Tensor) and content.ndim in (2, 3):
        if about.ids is None:
            raise FileUnusable(
                f"{path} is {list(content.shape)} without ids: no {ids_file(path).name} lies beside it; "
                "name a JSON list of ids, one for each row, by --ids FILE"
            )
        names, vectors = tuple(map(str, about.ids)), content
    else:
        description = list(content.shape) if isinstance(content, Tensor) else type(content).__name__
        raise FileUnusable(f"{path}: {description} are no embeddings; a dict by id, [N, d] or [Q, K, d] is expected")
    if vectors.ndim == 2:
        bank = make_bank(names, vectors, encoder=encoder, where=str(path))
        return bank._replace(vectors=_to_unit_length(bank.vectors, names, str(path)))
    return _read_pools(names, vectors, about, encoder, path)


class Inert:
    """Stands for an object whose class is not imported: takes any arguments and state, and runs nothing."""

    state: Any = None

    def __new__(cls, *args: object, **named: object) -> Self:
        del args, named
        return super().__new__(cls)

    def __setstate__(self, state: object) -> None:
        self.state = state


def load_torch(path: Path, *, with_classes: bool = False) -> Any:
    """Load what `torch.save` wrote: plain values, lists, dicts and tensors. Raises ValueError for anything else.

    with_classes: an object of another class becomes Inert, and a defaultdict a dict; without, it is an error.
    Raises FileUnusable for an archive that may unfold to any size, FileNotFoundError, and NOT_OF_TORCH.
    """
    foreign: list[Any] = []
    if with_classes or zipfile.is_zipfile(path):  # a file of a torch before 1.6 is no archive
        with zipfile.ZipFile(path) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise FileUnusable(f"{path} is packed, and may unfold to any size; torch writes none like that")
            if damaged := archive.testzip():  # torch does not look at checksums
                raise ValueError(f"{damaged} is damaged")
            content = b"".join(archive.read(name) for name in archive.namelist() if name.endswith("data.pkl"))
        # 200,000 nested tuples, as a key of a dict, end the process when they are hashed; a tensor has six
        if with_classes and sum(code.name.startswith("TUPLE") for code, _, _ in pickletools.genops(content)) > 50_000:
            raise ValueError("it has more than 50,000 tuples")
    if with_classes:
        names = torch.serialization.get_unsafe_globals_in_checkpoint(path)  # read from the pickle, not imported
        foreign = [(dict if name == "collections.defaultdict" else Inert, name) for name in names]
    with torch.serialization.safe_globals(foreign):
        return torch.load(path, map_location="cpu", weights_only=True)


def _read_pools(queries: tuple[str, ...], vectors: Tensor, about: IdsFile, encoder: str, path: Path) -> EmbeddingBank:
    """Return the pools of a `[Q, K, d]` file; `vectors` are (Q, K, d).

    Raises FileUnusable, also if one id has different embeddings in different pools.
    """
    listed, ids = about.candidates or [], tuple(map(str, about.ids or []))
    pool_of = {query: tuple(map(str, pool)) for query, pool in zip(ids, listed, strict=False)}
    if sorted(ids) != sorted(queries) or not len(pool_of) == len(listed) == len(queries) == len(vectors):
        raise FileUnusable(
            f"{path} is {list(vectors.shape)}, candidates of {len(vectors)} queries, and its ids name {len(ids)} "
            f"queries and {len(listed)} pools, which are not these; "
            'give --ids FILE with {"ids": [queries], "candidates": [[ids of the candidates] of each query]}'
        )
    pools = {query: pool_of[query] for query in queries}
    if wrong := next((query for query in queries if len(set(pools[query])) != vectors.shape[1]), None):
        raise FileUnusable(f"{path}: query {wrong} needs {vectors.shape[1]} candidates, each once")
    rows: dict[str, Tensor] = {}
    units = _to_unit_length(_to_float32(vectors, queries, str(path)), queries, str(path))
    for pool, embeddings in zip(pools.values(), units, strict=True):
        for id, vector in zip(pool, embeddings, strict=True):
            if not torch.equal(rows.setdefault(id, vector), vector):
                raise FileUnusable(f"{path}: candidate {id} has one embedding in one pool, another in another")
    bank = make_bank(list(rows), torch.stack(list(rows.values())), encoder=encoder, where=str(path))
    return bank._replace(pools=pools)


PER_SHARD = 256
"""Pictures, questions or texts that are embedded and kept together; a kill loses at most so many."""
VERSION = 1
"""Raise it when the same encoder would give other vectors."""


def embed_dataset(
    dataset: Dataset, views: Views, artifacts: Artifacts, *, tell: Callable[[int], None] = lambda _: None
) -> Embedded:
    """Embed all items of a dataset and store the banks; items with equal keys are embedded once.

    Each shard is kept as soon as it is made, so that an interrupted export goes on where it stopped.
    tell: called with the number of items done since its last call, of pictures where there are any.
    Raises DatasetUnusable for an item that is missing, damaged or without a usable vector, and what the encoder raises.
    """
    items, encoder = dataset.items, views.encoder
    silent: Callable[[int], None] = lambda _: None  # noqa: E731 - as `tell`: where pictures are counted, texts are not
    images = _embed_view(views.images, items, encoder, artifacts, tell) if views.images else None
    texts = _embed_view(views.texts, items, encoder, artifacts, tell if images is None else silent)
    joint = texts if images is None else _normalize_rows(images + texts, items)  # the mean of two unit vectors
    answers = _embed_view(views.answers, items, encoder, artifacts, silent) if views.answers else None
    row_of = {item.id: number for number, item in enumerate(items)}

    def keep(ids: Sequence[str], vectors: Vectors) -> Ref:
        rows = torch.from_numpy(vectors[[row_of[name] for name in ids]])
        return artifacts.put("embeddings", make_bank(ids, rows, encoder=encoder, where="embeddings").to_bytes())

    return Embedded(
        encoder=encoder,
        dimension=views.dimension,
        candidates=keep(dataset.candidates, joint),
        queries=keep(dataset.queries, joint),
        solved=None if answers is None else keep(dataset.candidates, _normalize_rows(joint + answers, items)),
        images=None if images is None else keep(list(row_of), images),
        texts=keep(list(row_of), texts),
    )


def _embed_view(
    view: View, items: Sequence[Item], encoder: str, artifacts: Artifacts, tell: Callable[[int], None]
) -> Vectors:
    """Embed each distinct key once, shard by shard, recalling stored shards; return a unit row for each item."""
    keys = [view.key(item) for item in items]
    # of items with one key the first stands for all, so that an error names the first
    use_counts, item_of = Counter(keys), dict(reversed(list(zip(keys, items, strict=True))))
    remaining, shards = iter(use_counts), list[Vectors]()
    while names := list(islice(remaining, PER_SHARD)):
        key = content_key(f"lever.embed_{view.name}", VERSION, {"encoder": encoder, view.name: names})
        if ref := artifacts.recall(key):
            shards.append(load_arrays(artifacts.get(ref))["vectors"])
        else:
            batch = [item_of[name] for name in names]
            shards.append(_normalize_rows(view.embed(batch), batch))
            artifacts.remember(key, artifacts.put("embedded-shard", save_arrays({"vectors": shards[-1]})))
        tell(sum(use_counts[name] for name in names))
    row_of = {name: place for place, name in enumerate(use_counts)}
    return np.concatenate(shards)[[row_of[name] for name in keys]]


def _normalize_rows(vectors: Vectors, items: Sequence[Item]) -> Vectors:
    """Scale each item's row to length one. Raises DatasetUnusable naming an item whose row has no direction."""
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
