"""Writes OLE containers for tests: storages and streams, as old Office files and Outlook messages are."""

from __future__ import annotations

import itertools
import struct

SECTOR = 512
FREE, END, FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD
NONE = 0xFFFFFFFF
LARGE = 4096
"""Streams from this size on need no mini sectors, so all are padded to it, as their own size is declared."""


def ole_file(streams: dict[str, bytes]) -> bytes:
    """A container; a name such as `a/b` is a stream in a storage. Streams are padded with NUL to 4,096 bytes."""
    entries: list[tuple[str, int, int, int, int]] = [("Root Entry", 5, NONE, END, 0)]  # name, type, child, start, size
    siblings: dict[str, list[int]] = {"": []}
    sectors: list[bytes] = []
    fat: list[int] = []
    for path, data in streams.items():
        folder = ""
        for part in path.split("/")[:-1]:
            inner = f"{folder}/{part}"
            if inner not in siblings:
                siblings[folder].append(len(entries))
                siblings[inner] = []
                entries.append((part, 1, NONE, 0, 0))
            folder = inner
        padded = data.ljust(LARGE, b"\0")
        start = len(sectors)
        pieces = [padded[i : i + SECTOR].ljust(SECTOR, b"\0") for i in range(0, len(padded), SECTOR)]
        sectors += pieces
        fat += [*range(start + 1, start + len(pieces)), END]
        siblings[folder].append(len(entries))
        entries.append((path.split("/")[-1], 2, NONE, start, len(padded)))
    return _assembled(entries, siblings, sectors, fat)


def _assembled(
    entries: list[tuple[str, int, int, int, int]], siblings: dict[str, list[int]], sectors: list[bytes], fat: list[int]
) -> bytes:
    right = {one: following for held in siblings.values() for one, following in itertools.pairwise(held)}
    paths = {"": 0}
    for path in siblings:
        if path:
            parent, _, name = path.rpartition("/")
            paths[path] = next(i for i in siblings[parent] if entries[i][0] == name and entries[i][1] == 1)
    child = {paths[path]: held[0] for path, held in siblings.items() if held}
    directory = b"".join(
        _entry(entry, right=right.get(i, NONE), child=child.get(i, NONE)) for i, entry in enumerate(entries)
    )
    start = len(sectors)
    held = [directory[i : i + SECTOR].ljust(SECTOR, b"\0") for i in range(0, len(directory), SECTOR)]
    sectors += held
    fat += [*range(start + 1, start + len(held)), END]
    count = 1
    while (len(fat) + count) * 4 > count * SECTOR:
        count += 1
    places = list(range(len(sectors), len(sectors) + count))
    fat += [FAT] * count
    table = struct.pack(f"<{len(fat)}I", *fat).ljust(count * SECTOR, b"\xff")
    header = bytes.fromhex("D0CF11E0A1B11AE1") + bytes(16)
    header += struct.pack("<HHHHH6xIIIIIIIIII", 0x3E, 3, 0xFFFE, 9, 6, 0, count, start, 0, LARGE, END, 0, END, 0, 0)[
        :-4
    ]
    header += struct.pack("<109I", *places, *[FREE] * (109 - count))
    return header + b"".join(sectors) + table


def _entry(entry: tuple[str, int, int, int, int], *, right: int, child: int) -> bytes:
    name, kind, _, start, size = entry
    raw = name.encode("utf-16-le") + b"\0\0"
    packed = raw.ljust(64, b"\0") + struct.pack("<HBBIII", len(raw), kind, 1, NONE, right, child)
    return packed + bytes(36) + struct.pack("<IQ", start, size)
