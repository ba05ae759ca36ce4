"""Published per-item logs: what a model answered, what was read in it, and the verdict.

Layouts are told apart by the fields of the first record:

MMLU-Pro     {options, answer, pred, model_outputs}, of TIGER-AI-Lab/MMLU-Pro; null in `pred`: the source guessed
GSM8K        {question, ground_truth, MODEL: {solution, is_correct} …}, of openai/grade-school-math
lm_eval      samples_*.jsonl of the lm-evaluation-harness, {doc, target, resps, filtered_resps, metrics}
Qwen2.5-Math {gt, code: [text …], pred: […], score: [true …]}, of QwenLM/Qwen2.5-Math
inspect_ai   `.eval`, a ZIP of samples
Trivet       samples_*.jsonl of `trivet eval run`, {item, gold, score, extracted, response: [turn …]}
plain        {response, gold, verdict}, with id, extracted, options, truncated or finish_reason, model where they are
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, cast

from tasks.evaluation.evaluation_errors import DataUnusable
from tasks.evaluation.running.benchmark_data import READERS, Row, id_of, read_rows
from tasks.grading.reading import Pattern, Step

SUFFIXES = (".json", ".jsonl", ".csv", ".json.gz", ".jsonl.gz", ".csv.gz", ".zip", ".eval")
RESPONSE = ("response", "model_output", "model_outputs", "completion", "generation", "output", "solution", "prediction")
GOLD = ("gold", "target", "expected_answer", "reference_answer", "ground_truth", "gt", "answer")
VERDICT = ("verdict", "is_correct", "correct", "equal", "score", "exact_match")
EXTRACTED = ("extracted", "extracted_answer", "pred", "model_answer")
RIGHT, WRONG = ("c", "correct", "right", "true", "1", "yes"), ("i", "incorrect", "wrong", "false", "0", "no", "n")
CUT_OFF = ("length", "max_tokens", "model_length")
PLAIN = "{response, gold, verdict}"
EXPECTED = f"a log of MMLU-Pro, GSM8K's model solutions, lm_eval, Qwen2.5-Math or inspect_ai, or lines {PLAIN}"


class Logged(NamedTuple):
    """An answer of a log."""

    id: str | None
    """As the log has it."""
    response: str
    gold: str
    verdict: bool | None
    """The published one; None where there is none."""
    place: str
    """File and line, for messages."""
    extracted: str | None = None
    """What the source read."""
    tells_extracted: bool = False
    """The log holds what the source read, None included."""
    options: tuple[str, ...] = ()
    truncated: bool = False
    group: str = ""
    """Model, or filter, of several in one file."""
    question: str = ""
    """Its words, where the log has them."""


class Layout(NamedTuple):
    name: str
    fits: Callable[[Mapping[str, Any]], bool]
    read: Callable[[Row], Iterator[Logged]]
    published: tuple[Step, ...] | None = None
    """The source's own rule of reading. None: that of the task."""
    equal: Callable[[str, str], bool] | None = None
    """The source's own equality of gold and answer. None: ours."""
    keeps_reading: bool = False
    """What the source read is taken from the log, not read again."""


class Log(NamedTuple):
    name: str
    layout: Layout
    answers: Iterator[Logged]


def read_logs(paths: Sequence[Path], skipped: list[str]) -> Iterator[Log]:
    """The logs of files and folders, one after the other; `skipped` gets files of a folder that are none.

    Raises DataUnusable naming the file.
    """
    for path in paths:
        if not path.is_dir():
            yield from _logs_of(path)
            continue
        files = sorted(one for one in path.rglob("*") if one.is_file() and one.name.endswith(SUFFIXES))
        found = 0
        for file in files:
            try:
                for log in _logs_of(file):
                    found += 1
                    yield log
            except _NoLog as error:
                skipped.append(f"{file} was left out: {error}")
        if not found:
            raise DataUnusable(f"{path} holds no log; expected {EXPECTED}")


class _NoLog(DataUnusable):
    """A file without records of a known layout."""


def _logs_of(path: Path) -> Iterator[Log]:
    if path.suffix not in (".zip", ".eval"):
        yield _log(str(path), read_rows(path))
        return
    try:
        with zipfile.ZipFile(path) as archive:
            names = sorted(name for name in archive.namelist() if name.endswith((".json", ".jsonl")))
            if path.suffix == ".eval":
                samples = [name for name in names if name.startswith("samples/")]
                yield _log(str(path), chain.from_iterable(_packed(archive, path, name) for name in samples))
                return
            for name in names:
                if not name.startswith("__MACOSX/"):
                    yield _log(f"{path}/{name}", _packed(archive, path, name))
    except (zipfile.BadZipFile, OSError) as error:
        raise DataUnusable(f"{path} cannot be read ({error}); give the file as it was published") from error


def _packed(archive: zipfile.ZipFile, path: Path, name: str) -> Iterator[Row]:
    content = archive.read(name)
    if path.suffix == ".eval":  # a file for each sample
        content = b"[" + content + b"]"
    return READERS[name.rpartition(".")[2]](io.BytesIO(content), path / name)


def _log(name: str, rows: Iterator[Row]) -> Log:
    try:
        first = next(rows, None)
    except DataUnusable as error:
        raise _NoLog(str(error)) from error
    if first is None:
        raise _NoLog(f"{name} is empty; expected {EXPECTED}")
    layout = next((one for one in LAYOUTS if one.fits(first)), None)
    if layout is None:
        fields = ", ".join(list(first)[:12])
        raise _NoLog(f"{name}: a record has the fields {fields}; expected {EXPECTED}")
    return Log(name, layout, chain.from_iterable(layout.read(row) for row in chain((first,), rows)))


def _has(*fields: str) -> Callable[[Mapping[str, Any]], bool]:
    return lambda row: all(field in row for field in fields)


def _mmlu_pro(row: Row) -> Iterator[Logged]:
    said, gold = row.get("pred"), str(row["answer"])
    yield Logged(
        id_of(row),
        _first_text(row, ("model_outputs", "response", "generated_text")),
        gold,
        said == gold,
        _place(row),
        extracted=said or None,
        tells_extracted=True,
        options=_options(row, row["options"]),
        question=_question(row),
    )


def _is_gsm8k(row: Mapping[str, Any]) -> bool:
    return "ground_truth" in row and any(_has("solution", "is_correct")(one) for one in _objects(row).values())


def _gsm8k(row: Row) -> Iterator[Logged]:
    gold = str(row["ground_truth"]).rpartition("A:")[2].strip()
    for model, one in _objects(row).items():
        if "solution" in one:
            verdict = _verdict(one.get("is_correct"), row)
            solution = Logged(str(row.number), str(one["solution"]), gold, verdict, _place(row), group=model)
            yield solution._replace(question=_question(row))


def _lm_eval(row: Row) -> Iterator[Logged]:
    replies, read = (_innermost(row[name]) for name in ("resps", "filtered_resps"))
    if not isinstance(replies, str):
        row.unusable("`resps` holds no text: log-probabilities are read by nobody; audit a task that generates")
    metric = next((name for name in row.get("metrics") or ("exact_match", "acc") if name in row), None)
    doc = cast("dict[str, Any]", row["doc"]) if isinstance(row["doc"], dict) else {}
    said = None if read in (None, "", "[invalid]") else str(read)
    yield Logged(
        id_of(doc) or str(row.get("doc_id", row.number)),
        replies,
        str(row["target"]).rpartition("####")[2].strip(),
        _verdict(row.get(metric) if metric else None, row),
        _place(row),
        extracted=said,
        tells_extracted=True,
        options=_options(row, doc.get("options")),
        group=str(row.get("filter", "")),
        question=_question(doc),
    )


def _qwen(row: Row) -> Iterator[Logged]:
    read, verdicts = row.get("pred") or [], row["score"]
    for number, reply in enumerate(row["code"]):
        yield Logged(
            id_of(row),
            str(reply),
            str(row["gt"]),
            _verdict(verdicts[number], row) if number < len(verdicts) else None,
            _place(row),
            extracted=(str(read[number]) or None) if number < len(read) else None,
            tells_extracted=number < len(read),
        )


def _inspect(row: Row) -> Iterator[Logged]:
    output = cast("dict[str, Any]", row["output"])
    scores = [one for one in cast("dict[str, Any]", row.get("scores") or {}).values() if isinstance(one, dict)]
    score: dict[str, Any] = scores[0] if scores else {}
    target = row["target"]
    choices = output.get("choices") or [{}]
    yield Logged(
        id_of(row),
        str(output.get("completion") or ""),
        ", ".join(map(str, cast("list[Any]", target))) if isinstance(target, list) else str(target),
        _verdict(score.get("value"), row),
        _place(row),
        extracted=str(score["answer"]) if score.get("answer") else None,
        tells_extracted="answer" in score,
        options=_options(row, row.get("choices")),
        truncated=choices[0].get("stop_reason") in CUT_OFF,
    )


def _plain(row: Row) -> Iterator[Logged]:
    read = next((name for name in EXTRACTED if name in row), None)
    said = row[read] if read else None
    yield Logged(
        id_of(row),
        _first_text(row, RESPONSE),
        _first_text(row, GOLD),
        _verdict(next((row[name] for name in VERDICT if name in row), None), row),
        _place(row),
        extracted=None if said in (None, "") else str(said),
        tells_extracted=read is not None,
        options=_options(row, row.get("options")),
        truncated=row.get("truncated") is True or row.get("finish_reason") in CUT_OFF,
        group=str(row.get("model") or ""),
        question=_question(row),
    )


def _own(row: Row) -> Iterator[Logged]:
    turns = cast("list[Any]", row["response"])
    yield Logged(
        str(row["item"]),
        str(turns[-1]) if turns else "",
        str(row["gold"]),
        _verdict(row["score"], row),
        _place(row),
        extracted=row.get("extracted"),
        tells_extracted=True,
        truncated=row.get("truncated") is True,
    )


def _is_plain(row: Mapping[str, Any]) -> bool:
    return all(any(name in row for name in names) for names in (RESPONSE, GOLD, VERDICT))


def _without_commas(gold: str, said: str) -> bool:
    return gold.replace(",", "") == said.replace(",", "")


def _as_the_harness(gold: str, said: str) -> bool:
    """exact_match of lm_eval with the options of its GSM8K: case, commas, dollars and a final point are ignored."""
    one, other = (text.replace(",", "").replace("$", "").strip().removesuffix(".").lower() for text in (gold, said))
    return one == other


LAYOUTS = (
    Layout("MMLU-Pro", _has("options", "answer", "pred"), _mmlu_pro, equal=str.__eq__),
    Layout("GSM8K", _is_gsm8k, _gsm8k, (Pattern(last=r"(?m)^A: (-?[0-9.,]+)", within_line=True),), _without_commas),
    Layout("lm_eval", _has("doc", "target", "resps", "filtered_resps"), _lm_eval, None, _as_the_harness, True),
    Layout("Qwen2.5-Math", lambda row: _has("gt", "code", "score")(row) and isinstance(row["code"], list), _qwen),
    Layout("inspect_ai", _has("output", "target", "messages"), _inspect),
    Layout("Trivet", lambda row: _has("item", "gold", "score")(row) and isinstance(row.get("response"), list), _own),
    Layout("plain", _is_plain, _plain),
)


def _objects(row: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    return {name: cast("dict[str, Any]", one) for name, one in row.items() if isinstance(one, dict)}


def _question(fields: Mapping[str, Any]) -> str:
    said = (fields.get(name) for name in ("question", "problem"))
    return next((text for text in said if isinstance(text, str)), "")


def _innermost(value: Any) -> Any:
    while isinstance(value, list) and value:
        value = cast("list[Any]", value)[0]
    return value


def _options(row: Row, value: Any) -> tuple[str, ...]:
    if value in (None, [], ""):
        return ()
    if not isinstance(value, list):
        row.unusable(f"options: expected a list of texts, found {type(value).__name__}")
    return tuple(map(str, cast("list[Any]", value)))


def _first_text(row: Row, names: Sequence[str]) -> str:
    """The first of these fields; an answer that is null is an empty one."""
    name = next((name for name in names if name in row), None)
    if name is None:
        row.unusable(f"there is none of the fields {', '.join(names)}")
    value = row[name]
    if isinstance(value, bool | dict | list):
        row.unusable(f"{name}: expected a text or a number, found {type(value).__name__}")
    return "" if value is None else str(value)


def _verdict(value: Any, row: Row) -> bool | None:
    if value is None:
        return None
    if isinstance(value, int | float):
        return value >= 1
    said = str(value).strip().lower()
    if said not in RIGHT and said not in WRONG:
        row.unusable(f"the verdict {str(value)[:60]!r} is neither right nor wrong; give true or false")
    return said in RIGHT


def _place(row: Row) -> str:
    return f"{row.file}, line {row.line}"
