"""Beam data (sequences of demonstrations to imitate) and RL data (judged pointers), in the formats of Lever-Plus.

beams, old  {query: {"id_list": [[demonstration …, query], …], "score_list": [score, …]}}
beams, new  {query: {"pointer_candidates": [{"pointer": [position …], "beam_score": …}, …], "candidate_pool_ids": …}}
RL data     {query: {"meta": {…}, "candidate_pool": […], "candidate_pool_ids": …, "pointer_candidates": [{…}, …]}}

Pointers are positions in `candidate_pool_ids`. RL data are those of the seed's section 3.3.1 with three more fields:
`candidate_pool_ids`, `behaviour_logp` and `status`; they hold no InfoScore.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import BaseModel, FiniteFloat, ValidationError

from tasks.lever.lever_errors import FileUnusable
from tasks.lever.lever_records import PointerRecord, Pools, RlQuery, first_duplicate

Model = TypeVar("Model", bound=BaseModel)
ONLY_IF_KNOWN = {"vqa_gt_prob", "reason"}
"""Fields of RL data that are left out where they are not known; the seed's own are `null` then."""


class BeamQuery(NamedTuple):
    """The demonstrations to imitate for one query: sequences of ids, best first, with their scores."""

    demonstrations: tuple[tuple[str, ...], ...]
    """Sequences of ids, each in the order in which its demonstrations are shown."""
    scores: tuple[float, ...]
    """The score of each sequence, in their order."""
    pool: tuple[str, ...] = ()
    """Ids of its candidates in the order in which pointers count them; empty in the old format, which has none."""

    @property
    def sequences(self) -> list[tuple[tuple[str, ...], float]]:
        """The sequences of ids, each with its score."""
        return list(zip(self.demonstrations, self.scores, strict=True))


Beams = dict[str, BeamQuery]
"""The sequences of each query, by its id."""


def read_beams(source: Path | bytes) -> Beams:
    """Read beam data in either format. Raises FileUnusable naming file, query and field, also for no query at all."""
    where = str(source) if isinstance(source, Path) else "the beam data"
    entries = iter_by_query(source, where)
    beams = {query: parse_beam(query, value, f"{where}: query {query}") for query, value in entries}
    if not beams:
        raise FileUnusable(f"{where} holds no query; search for beams, or name another file")
    return beams


def serialize_beams(sequences: Mapping[str, Sequence[PointerRecord]], pools: Pools) -> bytes:
    """Serialise sequences that were searched for in these pools, best first, in the new format."""
    fields = {"pointer", "gen_method", "beam_rank", "beam_score"}
    content = {
        query: {
            "candidate_pool_ids": pools.pools[query],
            "pointer_candidates": [record.model_dump(include=fields) for record in records],
        }
        for query, records in sequences.items()
    }
    return json.dumps(content, ensure_ascii=False).encode()


class _OldBeams(BaseModel):
    """A query of the old format."""

    id_list: list[list[int | str]]
    score_list: list[FiniteFloat]


class _BeamRecord(BaseModel):
    """A pointer of the new format, or of RL data, with the scores that it may have."""

    pointer: list[int]
    vqa_correct: FiniteFloat | None = None
    vqa_acc_score: FiniteFloat | None = None
    beam_score: FiniteFloat | None = None
    logprob_score: FiniteFloat | None = None

    @property
    def score(self) -> float | None:
        """The judge's score where it was asked, else that of the search; None for a random pointer."""
        if self.vqa_acc_score is not None:
            return (self.vqa_correct or 0) + self.vqa_acc_score
        return self.logprob_score if self.beam_score is None else self.beam_score


class _NewBeams(BaseModel):
    """A query of the new format."""

    pointer_candidates: list[_BeamRecord]


def parse_beam(query: str, value: Mapping[str, Any], where: str) -> BeamQuery:
    """Read the scored sequences of one query in either format. Raises FileUnusable naming `where` and the field."""
    sequences: dict[str, tuple[list[str], float]] = {}  # by the field that an error names
    pool: tuple[str, ...] = ()
    if "pointer_candidates" in value:
        pool = parse_pool_ids(value, where)
        for place, record in enumerate(validate(_NewBeams, value, where).pointer_candidates):
            field = f"pointer_candidates[{place}].pointer"
            _check_positions(record.pointer, pool, f"{where}: `{field}`")
            if record.score is not None:
                sequences[field] = [pool[at] for at in record.pointer], record.score
    elif {"id_list", "score_list"} <= value.keys():
        old = validate(_OldBeams, value, where)
        if len(old.id_list) != len(old.score_list):
            raise FileUnusable(f"{where}: `id_list` and `score_list` differ in length; write the file again")
        for place, (listed, score) in enumerate(zip(old.id_list, old.score_list, strict=True)):
            *demonstrations, last = map(str, listed or [""])
            if last != query:
                raise FileUnusable(
                    f"{where}: `id_list[{place}]` ends with {last[:80]!r}; the query's own id is expected there"
                )
            sequences[f"id_list[{place}]"] = demonstrations, score
    else:
        raise FileUnusable(
            f"{where}: neither `pointer_candidates` nor `id_list` and `score_list`, but {list(value)[:5]}"
        )
    for field, (ids, _) in sequences.items():
        if not ids or len(set(ids)) < len(ids) or query in ids:
            raise FileUnusable(
                f"{where}: `{field}` shows {ids[:9]}; at least one demonstration, each once, none the query itself"
            )
    ranked = sorted(sequences.values(), key=lambda pair: -pair[1])  # equals stay in their order
    return BeamQuery(tuple(tuple(ids) for ids, _ in ranked), tuple(score for _, score in ranked), pool)


def _check_positions(pointer: Sequence[int], pool: Sequence[str], where: str) -> None:
    if outside := [at for at in pointer if not 0 <= at < len(pool)]:
        raise FileUnusable(f"{where} has {outside[0]}; positions are 0 to {len(pool) - 1}")
    if len(set(pointer)) < len(pointer):
        raise FileUnusable(f"{where}: pointer {list(pointer)} repeats a position; nobody is shown the same twice")


def parse_pool_ids(value: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """Return the ids of a query's candidates, from `candidate_pool_ids` or `candidate_pool`. Raises FileUnusable."""
    field = next((field for field in ("candidate_pool_ids", "candidate_pool") if field in value), None)
    if field is None:
        raise FileUnusable(f"{where}: no `candidate_pool_ids`: nobody can tell which candidates its pointers count")
    listed = cast(list[Any], value[field]) if isinstance(value[field], list) else [None]
    ids = listed
    if field == "candidate_pool":
        keys = ("id", "question_id", "idx")
        ids = [
            next((entry[key] for key in keys if key in entry), None) if isinstance(entry, dict) else entry
            for entry in listed
        ]
    if wrong := [id for id in ids if not isinstance(id, str | int) or isinstance(id, bool)]:
        raise FileUnusable(f"{where}: `{field}` has {str(wrong[0])[:80]!r}, which is no id")
    pool = tuple(map(str, ids))
    duplicate = first_duplicate(pool)
    if duplicate is not None:
        raise FileUnusable(f"{where}: `{field}` names {duplicate} twice")
    return pool


def iter_rl_data(source: Path | bytes, *, shots: int | None = None) -> Iterator[tuple[str, RlQuery]]:
    """Yield the queries of a file of RL data, each checked.

    shots: length of all pointers; None: that of the first one.
    Raises FileUnusable naming file, query and field: a pointer that leaves its pool, repeats, or has another length,
    NaN, a judged record without its scores, and, unless `shots` says a length, no query at all.
    """
    where = str(source) if isinstance(source, Path) else "the RL data"
    for key, value in iter_by_query(source, where):
        place = f"{where}: query {key}"
        if "candidate_pool_ids" not in value:  # the seed's own files name their candidates in `candidate_pool` alone
            ids = parse_pool_ids(value, place)
            pool = [entry if isinstance(entry, dict) else {"id": str(entry)} for entry in value["candidate_pool"]]
            value = {"meta": {}, **value, "candidate_pool": pool, "candidate_pool_ids": ids}
        query = validate(RlQuery, value, place)
        if not shots and query.pointer_candidates:
            shots = len(query.pointer_candidates[0].pointer)
        _check_query(key, query, place, shots=shots)
        yield key, query
    if shots is None:
        raise FileUnusable(f"{where} holds no pointer; generate the RL data again")


def serialize_rl_data(data: Iterable[tuple[str, RlQuery]]) -> Iterator[bytes]:
    """Yield RL data as parts of the content of their file. Raises FileUnusable for a value that JSON does not know."""
    yield b"{"
    comma = ""
    for key, query in data:
        content = query.model_dump()
        content["pointer_candidates"] = [
            {field: value for field, value in record.items() if value is not None or field not in ONLY_IF_KNOWN}
            for record in content["pointer_candidates"]
        ]
        try:
            line = json.dumps(content, ensure_ascii=False, allow_nan=False)
        except (ValueError, TypeError) as error:
            raise FileUnusable(
                f"query {key} of the RL data: {error}; every value must be one that JSON knows"
            ) from error
        yield f"{comma}{json.dumps(key, ensure_ascii=False)}: {line}".encode()
        comma = ",\n"
    yield b"}\n"


def _check_query(key: str, query: RlQuery, where: str, *, shots: int | None) -> None:
    """Check a query of RL data beyond its types. Raises FileUnusable."""
    pool = parse_pool_ids({"candidate_pool_ids": list(query.candidate_pool_ids)}, where)
    if key in pool:
        raise FileUnusable(f"{where}: `candidate_pool_ids` names the query itself; nobody may be shown its answer")
    if not query.pointer_candidates:
        raise FileUnusable(f"{where}: `pointer_candidates` is empty; generate its pointers, or leave it out")
    number_of: dict[tuple[int, ...], int] = {}
    for number, record in enumerate(query.pointer_candidates):
        entry = f"{where}: `pointer_candidates[{number}]"
        if len(record.pointer) != shots or not shots:
            raise FileUnusable(f"{entry}.pointer` has {len(record.pointer)} positions, {shots} are expected")
        _check_positions(record.pointer, pool, f"{entry}.pointer`")
        if record.status == "judged" and (record.vqa_correct is None or record.vqa_acc_score is None):
            raise FileUnusable(
                f"{entry}`: no `vqa_correct` or no `vqa_acc_score`, and `status` is not `eval_failed`: judge it again"
            )
        if number_of.setdefault(record.pointer, number) != number:
            raise FileUnusable(f"{entry}.pointer` is that of [{number_of[record.pointer]}]; keep one of them")


READ_AT_ONCE = 1 << 20
"""Characters of a file that are read together, and more where a query has more."""
ENTRY, AFTER = re.compile(r'\s*([{,])\s*("[^"\\]*(?:\\.[^"\\]*)*")\s*:\s*'), re.compile(r"\s*([,}])")
END = re.compile(r"\s*\{?\s*\}\s*")


def iter_by_query(source: Path | bytes, where: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield query ids and the object of each, in the file's order; a file is never in memory as a whole.

    where: the name that errors give the file.
    Raises FileUnusable: no such file, no UTF-8, no JSON, a key twice, an entry that is no object.
    """
    decoder, names, text, at = json.JSONDecoder(object_pairs_hook=_refuse_duplicates), set[str](), "", 0
    try:
        stream = source.open("rb") if isinstance(source, Path) else BytesIO(source)
        with TextIOWrapper(stream, "utf-8-sig") as file:  # with or without BOM
            while True:
                entry, after, value = ENTRY.match(text, at), None, None
                problem = ValueError(f"{text[at : at + 80]!r} is no object by query id")
                try:
                    if entry and (entry[1] == ",") == bool(names):
                        value, end = decoder.raw_decode(text, entry.end())
                        after = AFTER.match(text, end)
                except ValueError as error:
                    problem = error
                if entry and after:
                    key, at = json.loads(entry[2]), after.start(1)
                    if key in names:
                        raise ValueError(f"{key[:80]!r} stands there twice")
                    if not isinstance(value, dict):
                        raise FileUnusable(f"{where}: {key[:80]!r} is no object; each query id needs one")
                    names.add(key)
                    yield key, cast(dict[str, Any], value)
                elif more := file.read(max(READ_AT_ONCE, len(text) - at)):
                    text, at = text[at:] + more, 0  # what is cut is whole with what follows
                elif END.fullmatch(text, at):
                    return
                else:
                    raise problem
    except FileNotFoundError as error:
        raise FileUnusable(f"there is no {where}; name the file, or run the stage that writes it") from error
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnusable(f"{where} cannot be read as UTF-8 ({error}); copy it again") from error
    except (ValueError, RecursionError) as error:
        raise FileUnusable(f"{where}: no whole JSON ({str(error)[:200]}); write it again") from error


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    if len(entries) < len(pairs):
        raise ValueError(f"{str(first_duplicate(key for key, _ in pairs))[:80]!r} stands there twice")
    return entries


def validate(model: type[Model], value: Any, where: str) -> Model:
    """Validate a value of JSON as a `model`, strictly. Raises FileUnusable naming `where` and the field."""
    try:
        return model.model_validate_json(json.dumps(value), strict=True)  # strict JSON takes lists for tuples
    except ValidationError as error:
        first = error.errors()[0]
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]).lstrip(".")
        raise FileUnusable(f"{where}: `{field}`: {first['msg']}, not {str(first['input'])[:80]!r}") from error
