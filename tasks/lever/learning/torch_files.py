"""Reads tensors out of the zip archives that `torch.save` writes, and runs nothing that their pickles name.

A restricted unpickler knows the descriptions of tensors and OrderedDict; whatever else a pickle names becomes an
`Inert`. Every size that the file claims is checked before a number is read.
Source: torch/serialization.py (`_save`), torch/_utils.py (`_rebuild_tensor_v2`).
"""

from __future__ import annotations

import io
import math
import pickle
import pickletools
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self, cast

import torch
from torch import Tensor

from tasks.lever.lever_errors import FileUnusable

MOST_BYTES = 8 << 20
"""Largest pickle that is read: checkpoints keep their numbers outside it."""
MOST_DIMENSIONS, LARGEST = 8, 1 << 40
"""Dimensions of a tensor, and numbers in its description."""
DTYPES = {
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
}
"""Storages that weights are kept in; counters and masks become an `Inert`."""
DAMAGED = (zipfile.BadZipFile, struct.error, OSError, EOFError, ValueError, RuntimeError)
"""What `zipfile` raises for damaged archives; NotImplementedError and UnicodeDecodeError are among them."""
NO_PICKLE = (*DAMAGED, pickle.UnpicklingError, LookupError, TypeError, AttributeError, OverflowError, MemoryError)


class Inert:
    """Stands for an object whose class is not imported: takes any arguments, members and state, and runs nothing."""

    def __new__(cls, *args: object, **named: object) -> Self:
        del args, named
        made = super().__new__(cls)
        made.items, made.state = {}, None
        return made

    items: dict[Any, Any]
    state: Any

    def extend(self, values: object) -> None:
        """Forget the members of a list or set."""


class Weight(NamedTuple):
    """Where the numbers of a tensor stand."""

    storage: str
    """Key of its storage."""
    dtype: torch.dtype
    offset: int
    """In numbers, of its storage."""
    size: tuple[int, ...]
    stride: tuple[int, ...]

    @property
    def span(self) -> int:
        """Numbers of the storage from its first one to its last."""
        return 1 + sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))


def _describe_tensor(storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Weight | Inert:
    """In place of torch's `_rebuild_tensor_v2`; an Inert for anything but a tensor of floats."""
    match storage:
        case ("storage", torch.dtype() as dtype, str(key), _, _) if all(map(_are_counts, ((offset,), size, stride))):
            return Weight(key, dtype, offset, size, stride) if len(size) == len(stride) else Inert()
        case _:
            return Inert()


def _are_counts(values: Any) -> bool:
    counts = cast("tuple[Any, ...]", values) if type(values) is tuple else (None,) * (MOST_DIMENSIONS + 1)
    return len(counts) <= MOST_DIMENSIONS and all(type(one) is int and 0 <= one < LARGEST for one in counts)


class _Unpickler(pickle._Unpickler):  # pyright: ignore[reportPrivateUsage]
    """Python's unpickler with the opcodes that torch writes: C's would allocate whatever a pickle claims."""

    stack: list[Any]
    pop_mark: Callable[[], list[Any]]  # of pickle._Unpickler, which has no type stubs

    def find_class(self, module: str, name: str) -> Any:
        """The description of a tensor, OrderedDict, or Inert."""
        match module, name:
            case "torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2":
                return _describe_tensor
            case "torch._utils", "_rebuild_parameter":
                return lambda data, *_: data
            case "torch", "Size":
                return lambda size: size
            case "collections", "OrderedDict":
                return OrderedDict
            case "torch" | "torch.storage", kind if kind in DTYPES:
                return DTYPES[kind]
            case _:
                return Inert

    def persistent_load(self, pid: Any) -> Any:
        """The description of a storage beside the pickle."""
        return pid

    def _keep_state(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Inert):  # nothing else gets attributes: they might be methods
            self.stack[-1].state = state

    def _put(self, values: list[Any]) -> None:
        target = self.stack[-1].items if isinstance(self.stack[-1], Inert) else self.stack[-1]
        if type(target) not in (dict, OrderedDict):
            raise ValueError("items for what is no mapping")
        pairs = zip(values[::2], values[1::2], strict=True)
        # other keys are not needed, and to hash nested tuples may take for ever
        target.update((key, value) for key, value in pairs if isinstance(key, str | int))

    def _put_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put([key, value])

    def _make_dict(self) -> None:
        values = self.pop_mark()
        self.stack.append({})
        self._put(values)

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        code: read
        for code, read in pickle._Unpickler.dispatch.items()  # pyright: ignore[reportPrivateUsage]
        if code in {ord(one.code) for one in pickletools.opcodes if one.proto <= 2 and not one.name.startswith("EXT")}
    } | {
        pickle.BUILD[0]: _keep_state,
        pickle.SETITEM[0]: _put_item,
        pickle.SETITEMS[0]: lambda self: self._put(self.pop_mark()),
        pickle.DICT[0]: _make_dict,
    }


def read_inert(data: bytes, where: str) -> Any:
    """The value of a pickle, of plain values, lists, tuples, dicts, Weight and Inert.

    Raises FileUnusable naming `where` if it is no pickle of torch's, damaged or too large.
    """
    if len(data) > MOST_BYTES:
        raise FileUnusable(f"{where}: {len(data):,} bytes of pickle are no checkpoint; the most is {MOST_BYTES:,}")
    try:
        return _Unpickler(io.BytesIO(data), encoding="latin-1").load()
    except NO_PICKLE as error:
        reason = str(error)[:200] or type(error).__name__
        raise FileUnusable(f"{where}: not a whole pickle ({reason}); copy or download the file again") from error


class Archive(NamedTuple):
    """An open checkpoint."""

    path: Path
    value: Any
    """What its pickle holds."""
    lengths: Mapping[str, int]
    """Bytes of each storage."""
    data: Callable[[str], bytearray]
    """The bytes of a storage."""

    def read(self, weights: Mapping[str, Weight]) -> dict[str, Tensor]:
        """These tensors as float32. Raises FileUnusable, before any is read, if they are more than the file holds."""
        for name, one in weights.items():
            if one.storage not in self.lengths:
                raise FileUnusable(f"{self.path} lacks its entry data/{one.storage[:80]}; it was cut, copy it again")
            room, count = self.lengths[one.storage] // one.dtype.itemsize, math.prod(one.size)
            if count and not (count <= one.span and one.offset + one.span <= room):
                raise FileUnusable(
                    f"{self.path}: {name} of size {list(one.size)} does not fit into its storage of {room} numbers; "
                    "the file is damaged"
                )
        storages = {one.storage for one in weights.values()}
        claimed = sum(math.prod(one.size) * one.dtype.itemsize for one in weights.values())
        if claimed > sum(self.lengths[key] for key in storages):
            raise FileUnusable(f"{self.path}: its weights share their numbers, and would unfold to {claimed:,} bytes")
        data = {key: self.data(key) for key in storages}
        return {name: _tensor(one, data[one.storage]) for name, one in weights.items()}


def _tensor(weight: Weight, data: bytearray) -> Tensor:
    if not math.prod(weight.size):
        return torch.empty(weight.size)
    storage = torch.frombuffer(data, dtype=weight.dtype, count=len(data) // weight.dtype.itemsize)
    return storage.as_strided(weight.size, weight.stride, weight.offset).to(torch.float32, copy=True).contiguous()


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
    for name, entry in entries.items():  # a packed entry may expand to any size
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

    if "byteorder" in entries and (order := read("byteorder")[:16]) != b"little":
        raise FileUnusable(f"{path}: its numbers are {order!r}-endian; save it again on an ordinary machine")
    lengths = {name.removeprefix("data/"): one.file_size for name, one in entries.items() if name.startswith("data/")}
    return Archive(path, read_inert(read("data.pkl"), str(path)), lengths, lambda key: bytearray(read(f"data/{key}")))
