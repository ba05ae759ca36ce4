"""Reads a pickle as a description of what it would build. Nothing is imported, called or built, whatever it says.

The unpickler of Python looks up what a pickle names and calls it; keeping a list of what may be called leaves `BUILD`,
`__setstate__` and the like to be thought of one by one. Here an opcode only moves plain values about: a name becomes a
Global, a call becomes a Made that remembers what was to be called with what.
Source: the opcodes as `pickletools` documents them, protocols 0 to 5.
"""

from __future__ import annotations

import io
import pickletools
from collections.abc import Callable
from typing import Any, NamedTuple

from tasks.lever.errors import FileUnusable

MOST_BYTES = 8 << 20
"""Of one pickle: checkpoints keep their numbers elsewhere, and each byte may become an object of 64."""

Plain = str | bytes | int | float | bool | None


class Global(NamedTuple):
    """Something that the pickle names; `collections.OrderedDict` has the module `collections`."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class Outside(NamedTuple):
    """What the pickle leaves to its reader: for torch, a piece of memory beside it."""

    id: Any


class Made:
    """An object that was not made: `by` what, with which arguments, and what was put into it afterwards."""

    __slots__ = ("args", "by", "items", "members", "state")

    def __init__(self, by: Any, args: Any) -> None:
        self.by = by
        """A Global, where the pickle is an honest one."""
        self.args = args
        self.items: dict[Any, Any] = {}
        self.members: list[Any] = []
        self.state: Any = None
        """What `__setstate__` was to get."""


class Read(NamedTuple):
    """A pickle's value, what it left outside, in order, and where it ended."""

    value: Any
    """Plain values, lists, tuples, dicts and Made; a dict keeps only keys that are plain."""
    outside: tuple[Outside, ...]
    end: int
    """Bytes from the beginning of `data`."""


def read_inert(data: bytes, where: str) -> Read:
    """The first pickle of `data`. Raises FileUnusable naming `where` for what is no pickle, or not a whole one."""
    if len(data) > MOST_BYTES:
        raise FileUnusable(f"{where}: {len(data):,} bytes of pickle are no checkpoint; the most is {MOST_BYTES:,}")
    stream, machine = io.BytesIO(data), _Machine()
    try:
        for opcode, arg, _ in pickletools.genops(stream):
            machine.run(opcode.name, arg)
        return Read(machine.pop(), tuple(machine.outside), stream.tell())
    except (ValueError, LookupError) as error:
        reason = str(error)[:200] or type(error).__name__
        raise FileUnusable(f"{where}: not a whole pickle ({reason}); copy or download the file again") from error


class _Machine:
    """The stack, the marks and the memo of the pickle language."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.below: list[list[Any]] = []
        self.memo: dict[int, Any] = {}
        self.outside: list[Outside] = []

    def run(self, name: str, arg: Any) -> None:
        if name in CONSTANTS:
            self.stack.append(CONSTANTS[name]())
        elif name in VALUES:
            self.stack.append(arg)
        elif (act := ACTS.get(name)) is not None:
            act(self, arg)
        elif name not in SKIPPED:
            raise ValueError(f"opcode {name} has no place in a checkpoint")

    def pop(self) -> Any:
        return self.stack.pop()

    def pop_mark(self) -> list[Any]:
        above, self.stack = self.stack, self.below.pop()
        return above


CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_TUPLE": tuple,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_SET": list,  # nothing of a checkpoint that we read is a set
}
VALUES = frozenset(
    (
        *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
        *("STRING", "BINSTRING", "SHORT_BINSTRING"),
        *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
        *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    )
)
SKIPPED = frozenset(("PROTO", "FRAME", "STOP", "READONLY_BUFFER"))


def _mark(machine: _Machine, _: Any) -> None:
    machine.below.append(machine.stack)
    machine.stack = []


def _pop(machine: _Machine, _: Any) -> None:
    if machine.stack:
        machine.stack.pop()
    else:
        machine.pop_mark()


def _drop_marked(machine: _Machine, _: Any) -> None:
    machine.pop_mark()


def _tuple_of(count: int) -> Callable[[_Machine, Any], None]:
    def act(machine: _Machine, _: Any) -> None:
        machine.stack.append(tuple([machine.pop() for _ in range(count)][::-1]))

    return act


def _marked(kind: Callable[[list[Any]], Any]) -> Callable[[_Machine, Any], None]:
    def act(machine: _Machine, _: Any) -> None:
        above = machine.pop_mark()
        machine.stack.append(kind(above))

    return act


def _pairs(values: list[Any]) -> dict[Any, Any]:
    # a key that is no plain value might take for ever to be hashed, and is none that we look for
    pairs = zip(values[::2], values[1::2], strict=True)
    return {key: value for key, value in pairs if isinstance(key, Plain)}


def _put_items(machine: _Machine, values: list[Any]) -> None:
    match machine.stack[-1]:
        case dict() as target:
            target.update(_pairs(values))
        case Made() as target:
            target.items.update(_pairs(values))
        case _:
            raise ValueError("items for what is no mapping")


def _put_members(machine: _Machine, values: list[Any]) -> None:
    match machine.stack[-1]:
        case list() as target:
            target.extend(values)
        case Made() as target:
            target.members.extend(values)
        case _:
            raise ValueError("members for what is no list")


def _two(machine: _Machine) -> list[Any]:
    value, key = machine.pop(), machine.pop()
    return [key, value]


def _made(machine: _Machine, _: Any) -> None:
    args, by = machine.pop(), machine.pop()
    machine.stack.append(Made(by, args))


def _made_with_names(machine: _Machine, _: Any) -> None:
    names, args, by = machine.pop(), machine.pop(), machine.pop()
    machine.stack.append(Made(by, (args, names)))


def _built(machine: _Machine, _: Any) -> None:
    state = machine.pop()
    if isinstance(target := machine.stack[-1], Made):
        target.state = state


def _instance(machine: _Machine, arg: str) -> None:
    args = tuple(machine.pop_mark())
    machine.stack.append(Made(_global(arg), args))


def _object(machine: _Machine, _: Any) -> None:
    by, *args = machine.pop_mark() or [None]
    machine.stack.append(Made(by, tuple(args)))


def _global(arg: str) -> Global:
    module, _, name = arg.partition(" ")
    return Global(module, name)


def _global_of_stack(machine: _Machine, _: Any) -> None:
    name, module = machine.pop(), machine.pop()
    if not isinstance(name, str) or not isinstance(module, str):
        raise ValueError("a name that is no text")
    machine.stack.append(Global(module, name))


def _left_outside(machine: _Machine, id: Any) -> None:
    machine.outside.append(Outside(id))
    machine.stack.append(machine.outside[-1])


def _keep(machine: _Machine, place: int) -> None:
    machine.memo[place] = machine.stack[-1]


ACTS: dict[str, Callable[[_Machine, Any], None]] = {
    "MARK": _mark,
    "POP": _pop,
    "POP_MARK": _drop_marked,
    "DUP": lambda machine, _: machine.stack.append(machine.stack[-1]),
    "TUPLE": _marked(tuple),
    "TUPLE1": _tuple_of(1),
    "TUPLE2": _tuple_of(2),
    "TUPLE3": _tuple_of(3),
    "LIST": _marked(list),
    "FROZENSET": _marked(list),
    "DICT": _marked(_pairs),
    "SETITEM": lambda machine, _: _put_items(machine, _two(machine)),
    "SETITEMS": lambda machine, _: _put_items(machine, machine.pop_mark()),
    "APPEND": lambda machine, _: _put_members(machine, [machine.pop()]),
    "APPENDS": lambda machine, _: _put_members(machine, machine.pop_mark()),
    "ADDITEMS": lambda machine, _: _put_members(machine, machine.pop_mark()),
    "GLOBAL": lambda machine, arg: machine.stack.append(_global(arg)),
    "STACK_GLOBAL": _global_of_stack,
    "REDUCE": _made,
    "NEWOBJ": _made,
    "NEWOBJ_EX": _made_with_names,
    "INST": _instance,
    "OBJ": _object,
    "BUILD": _built,
    "PERSID": _left_outside,
    "BINPERSID": lambda machine, _: _left_outside(machine, machine.pop()),
    "PUT": _keep,
    "BINPUT": _keep,
    "LONG_BINPUT": _keep,
    "MEMOIZE": lambda machine, _: _keep(machine, len(machine.memo)),
    "GET": lambda machine, place: machine.stack.append(machine.memo[place]),
    "BINGET": lambda machine, place: machine.stack.append(machine.memo[place]),
    "LONG_BINGET": lambda machine, place: machine.stack.append(machine.memo[place]),
}
