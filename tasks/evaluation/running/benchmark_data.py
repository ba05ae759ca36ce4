"""Reads the items of a benchmark from a folder of data files or from the hub, with checksum and count."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
import logging
import re
import tomllib
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO, NoReturn, cast

from pydantic import Field

from storage.records import Record
from tasks.evaluation.evaluation_errors import DataMissing, DataUnusable, OddRow
from tasks.evaluation.evaluation_records import Dataset

log = logging.getLogger(__name__)

ID_FIELDS = ("id", "unique_id", "idx", "key", "question_id", "task_id", "uid")
"""Field names of the item ID in data files; the first that is present counts."""
PACKED = ("", ".gz")
"""Ends of the names of unpacked and packed files."""
BOM = b"\xef\xbb\xbf"
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")
"""Matches an escape of JSON that may stand for half a surrogate pair."""
HUB_TIMEOUT_S = 5.0
BROKEN_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
"""Errors by which Python reports damaged gzip data."""


class DataFile(Record):
    """A data file of a benchmark, with where it is looked for."""

    file: str = Field(min_length=1)
    """Name of the file in `--data-dir`; found too with `.jsonl`, `.json` or `.csv`, `.gz` behind it, and - for _."""
    also: tuple[str, ...] = ()
    """Further names of the file, under which evalchemy packs it."""
    hub: str | None = None
    """ID of the data set on the Hugging Face hub."""
    config: str | None = None
    split: str | None = None
    get: str = ""
    """Where to get the file, in one sentence for error messages."""
    beside: str | None = None
    """Folder of the benchmark's definition, which is searched after `--data-dir`."""
    optional: bool = False
    """Whether the benchmark runs without the file where it is not in the folder."""


@cache
def published_files(benchmark: str) -> tuple[DataFile, ...]:
    """Return the data files of a published benchmark, by the table of all of them."""
    table = tomllib.loads(Path(__file__).parents[1].joinpath("benchmarks", "data_files.toml").read_text("utf-8"))
    return tuple(map(DataFile.model_validate, table[benchmark]))


class Row(dict[str, Any]):
    """The fields of an item of a data file, with its position for error messages."""

    def __init__(self, fields: dict[str, Any], *, file: str, line: int, number: int, unit: str = "line") -> None:
        super().__init__(fields)
        self.unit = unit
        """Unit that `line` counts, as messages call it: `line` or `item`."""
        self.file = file
        self.line = line
        """1-based line of a JSONL file; number of the item, from 1, in other files."""
        self.number = number
        """Number of items before it in the file: its ID where it has none of its own."""

    @property
    def id(self) -> str:
        """ID of the item as text, from the first of ID_FIELDS that it has; else its row number."""
        return read_id(self) or str(self.number)

    def unusable(self, why: str) -> NoReturn:
        """Raise OddRow, a DataUnusable, with file, line and the reason."""
        raise OddRow(f"{self.file}, {self.unit} {self.line}: {why}")

    def require(self, *names: str) -> None:
        """Raise DataUnusable for the first of these fields that the row lacks."""
        for name in names:
            if name not in self:
                self.unusable(f"there is no field {name!r}")

    def text(self, name: str) -> str:
        """Return the text of a field, not blank. Raises DataUnusable, as all methods that read a field do."""
        value = self.get(name)
        if not isinstance(value, str) or not value.strip():
            self.unusable(f"`{name}` must hold text, found {self._abbreviate(value)}")
        return value

    def texts(self, name: str) -> list[str]:
        """Return the texts of a field that holds a list of them, which may be empty or have blank ones."""
        value = self.get(name)
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in cast("list[Any]", value)):
            self.unusable(f"`{name}` must be a list of texts, found {self._abbreviate(value)}")
        return cast("list[str]", value)

    def contents(self, name: str) -> list[dict[str, Any]]:
        """Return the objects of a field that holds a list of one or more, each with its text under `content`."""
        return self._contents(self.get(name), f"`{name}`")

    def answer_turns(self) -> list[str]:
        """Return the turns of an answer: texts, or objects with `content`, in FastChat's `choices[0].turns`; else the
        assistant's `messages`, each with a text, or an object with `answer`, under `content`."""
        try:
            if "messages" in self:
                said = [message["content"] for message in self["messages"] if message["role"] == "assistant"]
                turns: Any = [content["answer"] if isinstance(content, dict) else content for content in said]
            else:
                turns = self["choices"][0]["turns"]
        except (KeyError, IndexError, TypeError):
            self.unusable("an answer must have `messages` of the assistant, or `choices`, whose first has `turns`")
        if isinstance(turns, list) and all(isinstance(turn, str) for turn in cast("list[Any]", turns)):
            return cast("list[str]", turns)
        return [turn["content"] for turn in self._contents(turns, "`choices[0].turns`")]

    def _contents(self, value: Any, name: str) -> list[dict[str, Any]]:
        """Return the messages in a field, one or more. Raises DataUnusable for another value."""
        objects = cast("list[Any]", value) if isinstance(value, list) else []
        if not objects or not all(
            isinstance(entry, dict) and isinstance(entry.get("content"), str) for entry in objects
        ):
            self.unusable(f"{name} must be a list of objects with `content`, found {self._abbreviate(value)}")
        return objects

    @staticmethod
    def _abbreviate(value: Any) -> str:
        return "nothing" if value is None else repr(value)[:80]


class Data:
    """Reads the data files of benchmarks from a folder, or from the hub where the folder lacks a file."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self.left_out: dict[str, str] = {}
        """Items that cannot be used, by ID, each with the reason; benchmarks that were read put them here."""

    @contextmanager
    def leave_out_odd(self, row: Row) -> Generator[None]:
        """Note an item in `left_out` if its row cannot be used, and go on behind the block."""
        try:
            yield
        except OddRow as odd:
            self.left_out[row.id] = str(odd)

    def find(self, file: DataFile) -> Path | None:
        """Return the path of the local file, or None. Raises DataMissing if the folder is none; DataUnusable."""
        if self.folder and not self.folder.is_dir():
            raise DataMissing(
                f"{self.folder} is no folder; give the one that holds {file.file} with --data-dir (TRIVET_DATA_DIR)"
            )
        folders = [folder for folder in (self.folder, file.beside and Path(file.beside)) if folder]
        plain = file.file.removesuffix(".gz")
        stem = plain.rpartition(".")[0]
        stems = dict.fromkeys([stem, stem.replace("-", "_"), stem.replace("_", "-")])
        usual = (plain, *(f"{variant}.{kind}" for variant in stems for kind in READERS))
        names = [file.file, *(name + packed for name in (*usual, *file.also) for packed in PACKED)]
        candidates = (folder / name for folder in folders for name in names)
        path = next((candidate for candidate in candidates if candidate.exists()), None)
        if path and path.is_dir():
            raise DataUnusable(f"{path} is a folder; expected a file of items")
        return path

    def rows(self, file: DataFile) -> Iterator[Row]:
        """Return the items of a local file, else of the hub, one at a time. Raises DataMissing, DataUnusable."""
        path = self.find(file)
        return read_rows(path) if path else self._hub_rows(file)

    def text(self, file: DataFile) -> str:
        """Return the whole text of a local file, such as a prompt. Raises DataMissing, DataUnusable."""
        path = self.find(file)
        if not path:
            raise DataMissing(self._where(file, "it is on no hub that this program reads"))
        try:
            with _open_unpacked(path) as opened:
                return opened.read().removeprefix(BOM).decode("utf-8")
        except UnicodeDecodeError as error:
            raise DataUnusable(f"{path}: not UTF-8 ({error.reason} at byte {error.start})") from error

    def count(self, file: DataFile) -> int | None:
        """Return the number of items in a local file; None if there is no such file."""
        path = self.find(file)
        if not path:
            return None
        if path.name.removesuffix(".gz").endswith(".jsonl"):
            with _open_unpacked(path) as opened:
                return sum(bool(line.strip()) for line in opened)  # counted, not parsed
        return sum(1 for _ in read_rows(path))

    def facts(self, name: str, files: Iterable[DataFile]) -> Dataset:
        """Return source, checksum and number of items of all files; items of further required files do not count."""
        present = tuple(file for file in files if not file.optional or self.find(file))
        digests, sources, count = list[bytes](), list[str](), 0
        for file in present:
            path, counts = self.find(file), file is present[0] or file.optional
            sources.append(str(path) if path else f"hub: {_hub_name(file)}")
            if path:
                with _open_unpacked(path) as content:
                    digests.append(hashlib.file_digest(cast("Any", content), "sha256").digest())
                count += (self.count(file) or 0) if counts else 0
            else:
                total = hashlib.sha256()
                for row in self._hub_rows(file):
                    total.update(json.dumps(row, sort_keys=True, ensure_ascii=False, default=str).encode())
                    count += counts
                digests.append(total.digest())
        # of one file it is the file's own, as `sha256sum` gives it of the unpacked file
        checksum = digests[0] if len(digests) == 1 else hashlib.sha256(b"".join(digests)).digest()
        source = ", ".join(sources) or "the benchmark's own code"
        return Dataset(name=name, source=source, checksum=checksum.hex(), count=count)

    def _hub_rows(self, file: DataFile) -> Iterator[Row]:
        """Yield the items of a data set of the hub, without images and audio. Raises DataMissing."""
        if not file.hub:
            raise DataMissing(self._where(file, "it is on no hub that this program reads"))
        try:
            import datasets

            datasets.disable_progress_bars()
            skip_unreachable_hub()
            dataset = datasets.load_dataset(file.hub, file.config, split=file.split or "test")
            # images and audio are not JSON, and need packages of their own to be read
            media = ("Image", "Audio", "Video", "Pdf")
            plain = [name for name, feature in dataset.features.items() if type(feature).__name__ not in media]
            rows = cast("Iterable[dict[str, Any]]", dataset.select_columns(plain))
        except ImportError as error:
            raise DataMissing(self._where(file, "reading the hub needs `pip install trivet[harness]`")) from error
        except Exception as error:  # the hub's client raises what its own libraries raise
            why = (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
            raise DataMissing(self._where(file, f"the hub did not give it: {why}")) from error
        for number, fields in enumerate(rows):
            yield Row(repair_surrogates(dict(fields)), file=file.hub, line=number + 1, number=number)

    def _where(self, file: DataFile, why: str) -> str:
        put = f"put it as {file.file} into {self.folder}" if self.folder else f"give the folder of {file.file}"
        hub = f" The hub has it as {_hub_name(file)}." if file.hub else ""
        get = f" {file.get}" if file.get else ""
        return f"{file.file} is not here, and {why}; {put} with --data-dir (TRIVET_DATA_DIR).{hub}{get}"


@cache
def skip_unreachable_hub() -> None:
    """Let the hub's client look into its cache alone where the hub is away; it would try again for half a minute."""
    from datasets import config
    from huggingface_hub import constants, get_session

    try:
        if not constants.HF_HUB_OFFLINE:
            get_session().head(constants.ENDPOINT, timeout=HUB_TIMEOUT_S)
    except Exception:  # the client raises what its own libraries raise
        log.info("the hub is away, and only its cache is read", exc_info=True)
        constants.HF_HUB_OFFLINE = config.HF_HUB_OFFLINE = True


def read_id(fields: dict[str, Any]) -> str | None:
    """Return the ID in the fields of a row as text; None if it has none."""
    return next((str(fields[name]) for name in ID_FIELDS if fields.get(name) not in (None, "")), None)


def read_rows(path: Path) -> Iterator[Row]:
    """Yield the items of a local data file, in order. Raises DataUnusable."""
    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind not in READERS:
        raise DataUnusable(f"{path}: not a data file; give .jsonl, .json or .csv, each also as .gz")
    with _open_unpacked(path) as file:
        yield from READERS[kind](file, path)


@contextmanager
def _open_unpacked(path: Path) -> Generator[BinaryIO]:
    """Open a file for its decompressed bytes. Raises DataUnusable."""
    try:
        with cast("BinaryIO", gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb") as file:
            yield file
    except BROKEN_GZIP as error:
        raise DataUnusable(f"{path}: the compressed file is damaged ({error})") from error
    except OSError as error:
        raise DataUnusable(f"{path}: cannot be read ({error.strerror or error})") from error


def _read_jsonl(file: BinaryIO, path: Path) -> Iterator[Row]:
    """Yield the object of each line that is not blank. Raises DataUnusable."""
    # lines end at \n only: U+2028, U+0085 and kin may stand inside JSON strings
    number = 0
    for line, raw in enumerate(file, start=1):
        text = raw.removeprefix(BOM) if line == 1 else raw
        if text.strip():
            place = f"{path}, line {line}"
            yield Row(_require_object(_parse_json(text, place), place), file=str(path), line=line, number=number)
            number += 1


def _read_json(file: BinaryIO, path: Path) -> Iterator[Row]:
    """Yield the items of a list, the only list in an object, JSON lines, or an object by ID. Raises DataUnusable."""
    raw = file.read().removeprefix(BOM)
    first, _, rest = raw.lstrip().partition(b"\n")
    if first.startswith(b"{") and first.rstrip().endswith(b"}") and rest.lstrip().startswith(b"{"):
        # one object per line, as in the files of some benchmarks
        yield from _read_jsonl(io.BytesIO(raw), path)
        return
    items = _parse_json(raw, str(path))
    if not isinstance(items, list):
        by_name = _require_object(items, str(path))
        lists = [value for value in by_name.values() if isinstance(value, list)]
        if len(lists) == 1:  # the only list in an object, as in VQA files
            items = cast("list[Any]", lists[0])
        elif by_name and all(isinstance(value, dict) for value in by_name.values()):  # by ID, as in MixEval's files
            items = [{"id": name, **value} for name, value in by_name.items()]
        else:
            problem = f"expected a list of items, or an object with one list in it; found {len(lists)}"
            raise DataUnusable(f"{path}: {problem}")
    for number, value in enumerate(cast("list[Any]", items)):
        fields = _require_object(value, f"{path}, item {number + 1}")
        yield Row(fields, file=str(path), line=number + 1, number=number, unit="item")


def _read_csv(file: BinaryIO, path: Path) -> Iterator[Row]:
    """Yield the rows by the names of the header, all cells texts. Raises DataUnusable."""
    text = io.TextIOWrapper(file, "utf-8-sig", newline="")
    reader = csv.DictReader(text, strict=True)
    csv.field_size_limit(1 << 30)  # Python's own limit of 131,072 is less than some prompts have
    try:
        for number, fields in enumerate(reader):
            if None in fields or None in fields.values():
                raise DataUnusable(f"{path}, line {reader.line_num}: it has not as many cells as the header")
            yield Row(dict(fields), file=str(path), line=reader.line_num, number=number)
    except csv.Error as error:
        raise DataUnusable(f"{path}, line {reader.line_num}: not CSV ({error})") from error
    except UnicodeDecodeError as error:
        raise DataUnusable(f"{path}, after line {reader.line_num}: not UTF-8 ({error.reason})") from error
    finally:
        text.detach()  # else it closes the file a second time, and late


READERS: dict[str, Callable[[BinaryIO, Path], Iterator[Row]]] = {
    "jsonl": _read_jsonl,
    "json": _read_json,
    "csv": _read_csv,
}


def _parse_json(raw: bytes, place: str) -> Any:
    """Return the value of JSON text in UTF-8. Raises DataUnusable, which names `place`."""
    try:
        value = json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)  # NaN and Infinity are none of JSON's
        return repair_surrogates(value) if SURROGATE.search(raw) else value
    except UnicodeDecodeError as error:
        raise DataUnusable(f"{place}: not UTF-8 ({error.reason} at byte {error.start})") from error
    except json.JSONDecodeError as error:
        raise DataUnusable(f"{place}: not JSON ({error.msg} at character {error.pos + 1})") from error
    except (ValueError, RecursionError) as error:
        raise DataUnusable(f"{place}: not JSON that can be read ({error})") from error


def _refuse_constant(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")


def _require_object(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataUnusable(f"{place}: expected a JSON object with the fields of an item, found {type(value).__name__}")
    return cast("dict[str, Any]", value)


def repair_surrogates(value: Any) -> Any:
    """Return JSON without lone surrogates, which nothing can hold: two halves are joined, others become U+FFFD."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            # halves that stand beside each other become the sign that they are
            return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return value
    if isinstance(value, list):
        return [repair_surrogates(entry) for entry in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {
            repair_surrogates(name): repair_surrogates(field) for name, field in cast("dict[str, Any]", value).items()
        }
    return value


def _hub_name(file: DataFile) -> str:
    parts = [part for part in (file.config, file.split) if part]
    return f"{file.hub} ({', '.join(parts)})" if parts else str(file.hub)
