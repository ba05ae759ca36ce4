"""Reads tensors out of the zip archives that `torch.save` writes, without running anything that their pickle names.

Every size that the file claims is checked: no tensor is larger than its storage, no storage larger than the file, and
compressed archives, which may expand to any size, are refused.
Source: torch/serialization.py (`_save`), torch/_utils.py (`_rebuild_tensor_v2`).
"""

from __future__ import annotations

import math
import struct
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from tasks.lever.compat.inert_pickle import MOST_BYTES, Global, Made, Outside, read_inert
from tasks.lever.lever_errors import FileUnusable

KINDS = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
}
"""Storages that weights are kept in; others (counters, masks) are of no use here."""
REBUILD = (Global("torch._utils", "_rebuild_tensor_v2"), Global("torch._utils", "_rebuild_tensor"))
PARAMETER = Global("torch._utils", "_rebuild_parameter")
SIZE = Global("torch", "Size")
ORDERED_DICT = Global("collections", "OrderedDict")
MOST_DIMENSIONS = 8
LARGEST = 1 << 40
"""Largest number accepted in the description of a tensor."""
DAMAGED = (zipfile.BadZipFile, struct.error, OSError, EOFError, ValueError, RuntimeError)
"""What `zipfile` raises for damaged archives; NotImplementedError and UnicodeDecodeError are among them."""


class TensorFacts(NamedTuple):
    """Storage, type and layout of a tensor."""

    storage: str
    """Key of its storage."""
    dtype: torch.dtype
    offset: int
    """In elements, of its storage."""
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @classmethod
    def of(cls, value: Any) -> TensorFacts | None:
        """The description in the pickle; None for anything but a tensor of floats."""
        if (of := _arguments(value, PARAMETER)) is not None:
            value = of[0] if of else None
        args = _arguments(value, *REBUILD)
        if args is None or len(args) < 4:
            return None
        storage, offset, size, stride = args[:4]
        sizes, strides = _counts(size), _counts(stride)
        if sizes is None or strides is None or len(sizes) != len(strides) or not _is_count(offset):
            return None
        match storage:
            case Outside(("storage", Global("torch" | "torch.storage", kind), str(key), _, _)) if kind in KINDS:
                return cls(key, KINDS[kind], offset, sizes, strides)
            case _:
                return None

    @property
    def elements(self) -> int:
        return math.prod(self.size)

    @property
    def end(self) -> int:
        """One past its last element in the storage."""
        return self.offset + 1 + sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))


def as_mapping(value: Any) -> dict[str, Any] | None:
    """The text keys of a dict or OrderedDict of the pickle; None for anything else."""
    if isinstance(value, Made) and value.by == ORDERED_DICT:
        value = value.items
    return {key: one for key, one in value.items() if isinstance(key, str)} if isinstance(value, dict) else None


def _arguments(value: Any, *by: Global) -> tuple[Any, ...] | None:
    """Arguments of the call that describes `value`, if it calls one of `by`."""
    if isinstance(value, Made) and isinstance(value.by, Global) and value.by in by and isinstance(value.args, tuple):
        return cast(tuple[Any, ...], value.args)
    return None


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < LARGEST


def _counts(value: Any) -> tuple[int, ...] | None:
    if (of := _arguments(value, SIZE)) is not None:
        value = of[0] if of else None
    if not isinstance(value, tuple):
        return None
    counts = cast(tuple[Any, ...], value)
    return counts if len(counts) <= MOST_DIMENSIONS and all(map(_is_count, counts)) else None


class Archive(NamedTuple):
    """An open file: its pickled value, and the tensors in it."""

    path: Path
    value: Any
    lengths: Mapping[str, int]
    """Bytes of each storage."""
    data: Callable[[str], bytearray]
    """The bytes of a storage."""

    def read(self, tensors: Mapping[str, TensorFacts]) -> dict[str, Tensor]:
        """These tensors as float32. Raises FileUnusable, before any is read, if they are more than the file holds."""
        for name, facts in tensors.items():
            if facts.storage not in self.lengths:
                raise FileUnusable(f"{self.path} lacks its entry data/{facts.storage[:80]}; it was cut, copy it again")
            room = self.lengths[facts.storage] // facts.dtype.itemsize
            if facts.elements and not (facts.elements <= facts.end - facts.offset and facts.end <= room):
                raise FileUnusable(
                    f"{self.path}: {name} of size {list(facts.size)} does not fit into its storage of {room} numbers; "
                    "the file is damaged"
                )
        storages = {facts.storage for facts in tensors.values()}
        claimed = sum(facts.elements * facts.dtype.itemsize for facts in tensors.values())
        if claimed > sum(self.lengths[key] for key in storages):
            raise FileUnusable(f"{self.path}: its weights share their numbers, and would unfold to {claimed:,} bytes")
        read = {key: self.data(key) for key in storages}
        return {name: _tensor(facts, read[facts.storage]) for name, facts in tensors.items()}


def _tensor(facts: TensorFacts, data: bytearray) -> Tensor:
    if not facts.elements:
        return torch.empty(facts.size)
    whole = len(data) // facts.dtype.itemsize
    storage = torch.frombuffer(data, dtype=facts.dtype, count=whole)
    return storage.as_strided(facts.size, facts.stride, facts.offset).to(torch.float32, copy=True).contiguous()


@contextmanager
def open_archive(path: Path) -> Generator[Archive]:
    """The checkpoint that `torch.save` wrote at `path`. Raises FileUnusable."""
    try:
        archive = zipfile.ZipFile(path)
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {path}; name a checkpoint") from error
    except DAMAGED as error:
        raise FileUnusable(
            f"{path} is no checkpoint ({error}); name a .ckpt or .pt file, and save one of a torch before 1.6 again"
        ) from error
    with archive:
        yield _archive(path, archive)


def _archive(path: Path, archive: zipfile.ZipFile) -> Archive:
    folders = [name.removesuffix("/data.pkl") for name in archive.namelist() if name.endswith("/data.pkl")]
    if len(folders) != 1:
        raise FileUnusable(f"{path} is a zip archive without one data.pkl, and no checkpoint of torch")
    entries = {entry.filename.removeprefix(f"{folders[0]}/"): entry for entry in archive.infolist()}
    whole = path.stat().st_size
    for name, entry in entries.items():
        if entry.compress_type != zipfile.ZIP_STORED or not entry.compress_size == entry.file_size <= whole:
            raise FileUnusable(f"{path}: its entry {name[:80]} is packed; torch writes none like that")

    def read(name: str) -> bytes:
        try:
            data = archive.read(entries[name])
        except DAMAGED as error:
            raise FileUnusable(f"{path}: its entry {name[:80]} is damaged ({error}); copy it again") from error
        if len(data) != entries[name].file_size:
            raise FileUnusable(f"{path}: its entry {name[:80]} was cut; copy it again")
        return data

    for name, most in (("data.pkl", MOST_BYTES), ("byteorder", 16)):
        if name in entries and (length := entries[name].file_size) > most:
            raise FileUnusable(f"{path}: its entry {name} has {length:,} bytes; the most is {most:,}")
    if "byteorder" in entries and (order := read("byteorder")) != b"little":
        raise FileUnusable(f"{path}: its numbers are {order!r}-endian; save it again on an ordinary machine")
    lengths = {name.removeprefix("data/"): one.file_size for name, one in entries.items() if name.startswith("data/")}
    return Archive(path, read_inert(read("data.pkl"), str(path)), lengths, lambda key: bytearray(read(f"data/{key}")))
