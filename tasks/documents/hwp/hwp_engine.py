"""Runs rhwp, a layout engine for HWP and HWPX, in a WebAssembly sandbox: it sees the document and nothing else.

`rhwp.wasm.gz` is `rhwp_bg.wasm` of the npm package @rhwp/core, unchanged (MIT: LICENSE.rhwp). Its interface is that of
wasm-bindgen: strings and arrays are an address and a length. Of the browser that it imports, it uses nothing here.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.metadata import version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, cast

import wasmtime

VERSION = "0.8.6"
"""Version of @rhwp/core."""
_WASM = Path(__file__).with_name("rhwp.wasm.gz")
_MEMORY_BYTES = 1 << 30
_STACK_BYTES = 2 << 20  # the most that wasmtime gives


class EngineFailed(Exception):
    """The engine does not read the document."""


class Engine:
    """The engine with one document open. Its methods raise EngineFailed, or wasmtime's errors where it crashes.

    password: of an encrypted HWPX; of HWP 5, the engine knows only one of the two ciphers.
    """

    def __init__(self, data: bytes, password: str | None = None) -> None:
        module = load_module()
        self._store = wasmtime.Store(_configure())
        self._store.set_limits(memory_size=_MEMORY_BYTES)
        functions = [
            self._browser_function(item.name or "", cast("wasmtime.FuncType", item.type)) for item in module.imports
        ]
        self._exports: Any = wasmtime.Instance(self._store, module, functions).exports(self._store)
        self._call("__wbindgen_start")
        inputs = [data] if password is None else [data, password.encode()]
        opener = "hwpdocument_new" if password is None else "hwpdocument_openWithPassword"
        self._document, _, failed = self._call(opener, *(number for value in inputs for number in self._write(value)))
        if failed:
            raise EngineFailed("the layout engine does not read the document")

    def pages(self, sections: range, *, after_first: bool) -> Iterator[str]:
        """Yield the pages of some sections as SVG, of all if there are none; after_first: without the first paragraph.

        Raises EngineFailed.
        """
        first = 0
        if after_first:
            first = json.loads(self._content("hwpdocument_getPageOfPosition", sections.start, 1))["page"]
        for index in range(first, self._call("hwpdocument_pageCount", self._document)):
            if not sections or json.loads(self._content("hwpdocument_getPageInfo", index))["sectionIndex"] in sections:
                yield self._content("hwpdocument_renderPageSvg", index).decode()

    def hwpx(self) -> bytes:
        """Return the document, of any format that the engine reads, as HWPX."""
        return self._content("hwpdocument_exportHwpx")

    def _content(self, name: str, *arguments: int) -> bytes:
        """Return the bytes that a function of the document gives."""
        address, size, _, failed = self._call(name, self._document, *arguments)
        if failed:
            raise EngineFailed("the layout engine does not draw the document")
        content = self._read(address, size)
        self._call("__wbindgen_free", address, size, 1)
        return content

    def _call(self, name: str, *arguments: int) -> Any:
        return self._exports[name](self._store, *arguments)

    def _write(self, value: bytes) -> tuple[int, int]:
        address = self._call("__wbindgen_malloc", len(value), 1)
        self._exports["memory"].write(self._store, value, address)
        return address, len(value)

    def _read(self, address: int, size: int) -> bytes:
        start = address & 0xFFFFFFFF  # addresses are unsigned, and wasmtime gives them signed
        return bytes(self._exports["memory"].read(self._store, start, start + size))

    def _browser_function(self, name: str, kind: wasmtime.FuncType) -> wasmtime.Func:
        """Return a function that the engine imports: there is no window, no document and no canvas."""
        takes_text = [str(part) for part in kind.params] == ["i32", "i32"]
        nothing = 0 if [str(part) for part in kind.results] == ["i32"] else None

        def call(*arguments: Any) -> Any:
            if name == "__wbindgen_init_externref_table":
                table = self._exports["__wbindgen_externrefs"]
                first = table.grow(self._store, 4, None)  # undefined, null, true, false
                table.set(self._store, first + 2, True)
                table.set(self._store, first + 3, False)
            elif takes_text and ("throw" in name or "error" in name):
                raise EngineFailed(self._read(*arguments).decode("utf-8", "replace"))
            elif takes_text and "cast" in name:
                return self._read(*arguments).decode("utf-8", "replace")
            return nothing

        return wasmtime.Func(self._store, kind, call)


@cache
def load_module() -> wasmtime.Module:
    """Return the engine as machine code, which is compiled once for each user: it takes some 15 CPU seconds."""
    file = Path.home() / ".cache" / "trivet" / f"rhwp-{VERSION}-wasmtime-{version('wasmtime')}.bin"
    if not file.exists():
        # in a process that is not waited for: its seconds would count as those of the document
        compiler = subprocess.Popen([sys.executable, "-P", "-m", __name__, str(file)], stderr=subprocess.DEVNULL)
        _compilers.append(compiler)
        os.waitid(os.P_PID, compiler.pid, os.WEXITED | os.WNOWAIT)
    try:
        return wasmtime.Module.deserialize_file(_configure(), str(file))
    except wasmtime.WasmtimeError:  # the folder is read-only, or was filled on another kind of processor
        return _compile()


_compilers: list[subprocess.Popen[bytes]] = []
"""Kept, since Python waits for a process that it forgets."""


@cache
def _configure() -> wasmtime.Engine:
    config = wasmtime.Config()
    # memory grows as it is used: reserved addresses would count against the limits of the reader
    config.memory_reservation = config.memory_reservation_for_growth = config.memory_guard_size = 0
    config.max_wasm_stack = _STACK_BYTES
    return wasmtime.Engine(config)


def _compile() -> wasmtime.Module:
    return wasmtime.Module(_configure(), gzip.decompress(_WASM.read_bytes()))


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(dir=target.parent, delete=False) as written:
        written.write(_compile().serialize())
    Path(written.name).replace(target)  # whole, or not there
