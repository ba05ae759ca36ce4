"""Reads a pickle as a description of what it would build: nothing that it names is imported, called or built.

This is Python's own unpickler in its pure-Python form, with every opcode replaced that would look something up, call
it, or put a value into an object. A name becomes a Global, a call becomes a Made that records its arguments. The C
unpickler does not serve, even with harmless stand-ins for what the pickle names: it allocates its memo by the largest
index that the pickle claims, a bytearray by the length that it claims, and it hashes keys of dicts, which for nested
tuples takes exponential time or overflows the C stack; none of these can be overridden in it.
"""

from __future__ import annotations

import io
import pickle
import struct
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

from tasks.lever.lever_errors import FileUnusable

MOST_BYTES = 8 << 20
"""Largest pickle that is read: checkpoints keep their numbers outside it, and each byte may become a 64-byte object."""

Plain = str | bytes | int | float | bool | None


class Global(NamedTuple):
    """A class or function that the pickle names; `collections.OrderedDict` has the module `collections`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Outside(NamedTuple):
    """A persistent ID: a value that the pickle leaves to its reader; for torch, a storage beside the pickle."""

    id: Any


class Made:
    """Describes an object that was not made: the callable, its arguments, and what was put into the object later."""

    __slots__ = ("args", "by", "items", "members", "state")

    def __init__(self, by: Any, args: Any) -> None:
        self.by = by
        """A Global, unless the pickle is hostile."""
        self.args = args
        self.items: dict[Any, Any] = {}
        self.members: list[Any] = []
        self.state: Any = None
        """The argument that `__setstate__` would have received."""


def read_inert(data: bytes, where: str) -> Any:
    """The value of a pickle, made of plain values, lists, tuples, dicts with plain keys, Global, Outside and Made.

    Raises FileUnusable naming `where` if it is no pickle, damaged or too large.
    """
    if len(data) > MOST_BYTES:
        raise FileUnusable(f"{where}: {len(data):,} bytes of pickle are no checkpoint; the most is {MOST_BYTES:,}")
    try:
        return _InertUnpickler(data).load()
    except _REFUSED as error:
        reason = str(error)[:200] or type(error).__name__
        raise FileUnusable(f"{where}: not a whole pickle ({reason}); copy or download the file again") from error


_REFUSED = (
    *(pickle.UnpicklingError, EOFError, struct.error, ValueError, LookupError),
    *(TypeError, AttributeError, OverflowError, MemoryError),
)
"""What Python's unpickler raises for opcodes that do not fit together."""


class _InertUnpickler(pickle._Unpickler):  # pyright: ignore[reportPrivateUsage]  see the module's docstring
    """The stack, marks, memo and plain values of Python's unpickler; all else is described."""

    stack: list[Any]

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data), encoding="latin-1")
        self._bytes = len(data)

    # of pickle._Unpickler, which has no type stubs
    read: Callable[[int], bytes]
    pop_mark: Callable[[], list[Any]]

    def find_class(self, module: str, name: str) -> Any:
        """The name itself."""
        return Global(module, name)

    def persistent_load(self, pid: Any) -> Any:
        """The persistent ID itself."""
        return Outside(pid)

    def _instantiate(self, klass: Any, args: list[Any]) -> None:
        """Describe the call of INST and OBJ."""
        self.stack.append(Made(klass, tuple(args)))

    def _describe_call(self) -> None:
        args, by = self.stack.pop(), self.stack.pop()
        self.stack.append(Made(by, args))

    def _describe_call_with_names(self) -> None:
        names, args, by = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.stack.append(Made(by, (args, names)))

    def _describe_state(self) -> None:
        state = self.stack.pop()
        if isinstance(target := self.stack[-1], Made):
            target.state = state

    def _put_items(self, values: list[Any]) -> None:
        match self.stack[-1]:
            case dict() as target:
                target.update(_pairs(values))
            case Made() as target:
                target.items.update(_pairs(values))
            case _:
                raise ValueError("items for what is no mapping")

    def _put_members(self, values: list[Any]) -> None:
        match self.stack[-1]:
            case list() as target:
                target.extend(values)
            case Made() as target:
                target.members.extend(values)
            case _:
                raise ValueError("members for what is no list")

    def _load_item(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        self._put_items([key, value])

    def _push_marked(self, kind: Callable[[list[Any]], Any]) -> None:
        values = self.pop_mark()
        self.stack.append(kind(values))

    def _load_bytearray(self) -> None:
        (length,) = struct.unpack("<Q", self.read(8))
        if length > self._bytes:
            raise ValueError(f"{length:,} bytes in a pickle of {self._bytes:,}")
        self.stack.append(self.read(length))

    dispatch: ClassVar[dict[int, Callable[[Any], None]]] = {
        **pickle._Unpickler.dispatch,  # pyright: ignore[reportPrivateUsage]
        pickle.REDUCE[0]: _describe_call,
        pickle.NEWOBJ[0]: _describe_call,
        pickle.NEWOBJ_EX[0]: _describe_call_with_names,
        pickle.BUILD[0]: _describe_state,
        pickle.SETITEM[0]: _load_item,
        pickle.SETITEMS[0]: lambda self: self._put_items(self.pop_mark()),
        pickle.DICT[0]: lambda self: self._push_marked(_pairs),
        pickle.APPEND[0]: lambda self: self._put_members([self.stack.pop()]),
        pickle.APPENDS[0]: lambda self: self._put_members(self.pop_mark()),
        pickle.EMPTY_SET[0]: lambda self: self.append([]),  # sets would hash their members, and no checkpoint needs one
        pickle.ADDITEMS[0]: lambda self: self._put_members(self.pop_mark()),
        pickle.FROZENSET[0]: lambda self: self._push_marked(list),
        pickle.BYTEARRAY8[0]: _load_bytearray,
        pickle.EXT1[0]: lambda _: _refuse("EXT1"),
        pickle.EXT2[0]: lambda _: _refuse("EXT2"),
        pickle.EXT4[0]: lambda _: _refuse("EXT4"),
    }


def _pairs(values: list[Any]) -> dict[Any, Any]:
    pairs = zip(values[::2], values[1::2], strict=True)
    return {key: value for key, value in pairs if isinstance(key, Plain)}


def _refuse(opcode: str) -> None:
    raise ValueError(f"opcode {opcode} has no place in a checkpoint")
