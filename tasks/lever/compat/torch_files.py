"""Cuts tensors out of files that `torch.save` wrote; of the pickle in them nothing is run.

Every size that the file claims is held against what it has: no tensor is larger than its storage, no storage larger
than the file, and packed archives, which may unfold to any size, are not read.
Source: torch/serialization.py (`_save`, `_legacy_save`), torch/_utils.py (`_rebuild_tensor_v2`).
"""

from __future__ import annotations

import math
import mmap
import struct
import zipfile
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from tasks.lever.compat.inert_pickle import MOST_BYTES, Global, Made, Outside, Read, read_inert
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
LEGACY_MAGIC = 0x1950A86A20F9469CFC6C
LEGACY_PROTOCOL = 1001
MOST_DIMENSIONS = 8
LARGEST = 1 << 40
"""Largest number accepted in the description of a tensor."""


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
        kind, key = _storage(storage)
        sizes, strides = _counts(size), _counts(stride)
        if kind not in KINDS or sizes is None or strides is None or len(sizes) != len(strides) or not _is_count(offset):
            return None
        return cls(key, KINDS[kind], offset, sizes, strides)

    @property
    def elements(self) -> int:
        return math.prod(self.size)

    @property
    def end(self) -> int:
        """One past its last element in the storage."""
        return self.offset + 1 + sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))


def as_mapping(value: Any) -> Mapping[Any, Any] | None:
    """A dict or OrderedDict of the pickle; None for anything else."""
    if isinstance(value, dict):
        return cast(dict[Any, Any], value)
    return value.items if isinstance(value, Made) and value.by == ORDERED_DICT else None


def _arguments(value: Any, *by: Global) -> tuple[Any, ...] | None:
    """Arguments of the call that describes `value`, if it calls one of `by`."""
    if isinstance(value, Made) and isinstance(value.by, Global) and value.by in by and isinstance(value.args, tuple):
        return cast(tuple[Any, ...], value.args)
    return None


def _storage(value: Any) -> tuple[str, str]:
    """Kind and key of a storage; empty for anything else, and for the views of storages that torch 0.3 wrote."""
    match value:
        case Outside(("storage", Global("torch" | "torch.storage", kind), str(key), _, _, *rest)) if rest in (
            [],
            [None],
        ):
            return kind, key
        case _:
            return "", ""


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
    """The file of `torch.save` at `path`, in either format. Raises FileUnusable."""
    with ExitStack() as opened:
        try:
            file = opened.enter_context(path.open("rb"))
            if file.read(4) == b"PK\x03\x04":
                packed = opened.enter_context(zipfile.ZipFile(file))
                archive = _zip_archive(path, packed)
            else:
                data = opened.enter_context(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
                archive = _legacy_archive(path, data)
        except FileNotFoundError as error:
            raise FileUnusable(f"there is no {path}; name a checkpoint") from error
        except (OSError, ValueError, zipfile.BadZipFile) as error:  # ValueError: an empty file cannot be mapped
            raise FileUnusable(f"{path} is no checkpoint ({error}); name a .ckpt or .pt file") from error
        yield archive


def _zip_archive(path: Path, archive: zipfile.ZipFile) -> Archive:
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
        except (zipfile.BadZipFile, OSError, EOFError, RuntimeError, NotImplementedError) as error:
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
    value = read_inert(read("data.pkl"), str(path)).value
    return Archive(path, value, lengths, lambda key: bytearray(read(f"data/{key}")))


def _legacy_archive(path: Path, data: mmap.mmap) -> Archive:
    """Pickles one after the other (magic number, protocol, system, value, storage keys), then the storages."""
    at = 0

    def following() -> Read:
        nonlocal at
        read = read_inert(data[at : at + MOST_BYTES], str(path))
        at += read.end
        return read

    if following().value != LEGACY_MAGIC or following().value != LEGACY_PROTOCOL:
        raise FileUnusable(f"{path} was not written by torch.save; name a .ckpt or .pt file")
    system = as_mapping(following().value) or {}
    if system.get("little_endian") is not True:
        raise FileUnusable(f"{path}: its numbers are not little-endian; save it again on an ordinary machine")
    value, outside, _ = following()
    keys = following().value
    if not isinstance(keys, list) or not all(isinstance(key, str) for key in cast(list[Any], keys)):
        raise FileUnusable(f"{path}: its list of storages is damaged; copy it again")
    places = _places(path, data, at, cast(list[str], keys), _item_sizes(outside))
    lengths = {key: end - begin for key, (begin, end) in places.items()}
    return Archive(path, value, lengths, lambda key: bytearray(data[slice(*places[key])]))


def _item_sizes(outside: tuple[Outside, ...]) -> dict[str, int]:
    """Bytes of an element of each storage that the value speaks of."""
    sizes: dict[str, int] = {}
    for one in outside:
        kind, key = _storage(one)
        if (dtype := KINDS.get(kind) or OTHER_KINDS.get(kind)) is not None:
            sizes[key] = dtype.itemsize
    return sizes


OTHER_KINDS = {
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "UntypedStorage": torch.uint8,
}
"""Storages that only have to be passed over."""


def _places(
    path: Path, data: mmap.mmap, at: int, keys: list[str], item_sizes: Mapping[str, int]
) -> dict[str, tuple[int, int]]:
    """Where the bytes of each storage lie: they follow one another, each behind its number of elements."""
    places: dict[str, tuple[int, int]] = {}
    for key in keys:
        if key not in item_sizes or at + 8 > len(data):
            raise FileUnusable(f"{path}: its storage {key[:80]} is not to be found; the file is damaged or was cut")
        (elements,) = struct.unpack_from("<q", data, at)
        begin, end = at + 8, at + 8 + elements * item_sizes[key]
        if elements < 0 or end > len(data):
            raise FileUnusable(f"{path}: its storage {key[:80]} goes beyond the end; it was cut, copy it again")
        places[key] = (begin, end)
        at = end
    return places
