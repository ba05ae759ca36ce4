"""`kill -9` in every step of indexing: nothing is lost, nothing is done twice, readers notice nothing."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from storage.artifacts import Artifacts
from storage.index import read_pointer
from storage.records import Ref
from tasks.documents.document_readers import ReadOptions
from tasks.documents.isolation import ReadLimits
from tasks.keys import content_key
from tasks.rag.corpus import Source
from tasks.rag.indexing.document_stages import PARSER_VERSION
from tests.command import OWN_TABLES, TRIVET, run_here
from tests.drills.processes import Process, processes_below, survivors
from tests.storage.conftest import open_home

pytestmark = [pytest.mark.drill, pytest.mark.engine, pytest.mark.postgres, pytest.mark.timeout(900)]

log = logging.getLogger(__name__)
SEED = 20_260
READING = ("--set", "reading.ocr=off")
OPTIONS = (*READING, "--embedder", "minilm", "--vlm", "scripted")

ATTEMPTS = 3
DEATH_S = 30.0  # of the API, which waits for the next command some seconds; one that was still starting looks only then
LOOKS = 100  # the least that a reader of a drill of minutes must have seen
ROOT = Path(__file__).parents[2]
API = "flows.running.command_server"
SERVERS = re.compile(f"/pginstall|^postgres:|{API}")

FARES = "english/RFP 24-017 Account-Based Fare Collection System.pdf"
CHANGED = "notices/전자조달_자주묻는질문.md"
REMOVED = "notices/supplier_day.html"
FIRST = (
    FARES,
    CHANGED,
    REMOVED,
    "가람시_지능형 교통신호 통합관제시스템 구축.pdf",
    "hwp/마루군_제설 협조 안내.hwp",
    "docx/Tide_Gauge_Maintenance_SOW.docx",
)
ADDED = (
    "나래시_지능형 교통신호 통합관제시스템 구축.pdf",
    "라온군_버스정류장 한파쉼터 설치.hwp",
    "하늬군_마을 약국 재고연계 시스템 구축.hwpx",
    "슬기시_공공데이터 품질진단 컨설팅.docx",
    "english/Harbor_Master_Letter_scan.pdf",
    "english/Verdane_Climate_Report_2023.pdf",
    "reports/2024_해든도_통계연보_발췌.pdf",
    "reports/한누리소재_제23기_사업보고서.pdf",
)
POLL_S = 0.002  # a scan of a few files lasts some 30 ms
PATIENCE_S = 90.0
STEPS = ("scan", "parse", "extract_figures", "chunk", "embed", "publish_index")


class Place(NamedTuple):
    """Where a run reads, writes and keeps things."""

    documents: Path
    index_folder: Path
    home: Path

    @property
    def parse_log(self) -> Path:
        """Written by the parser children."""
        return self.home / "logs" / "documents.log"


class Killed(NamedTuple):
    """What a kill hit."""

    step: str | None  # the one that ran; None outside of the flow
    children: tuple[Process, ...]  # descendants at the moment of the kill


Moment = Callable[[int], bool]
"""Whether the run of this pid has got so far."""


class Strike(NamedTuple):
    """A kill at a random time after a moment."""

    moment: Moment
    within_s: float
    must_hit: str | None = None
    """The step that is to be killed; struck again if it was over too soon."""


class Struck(NamedTuple):
    """A kill, and what was done by then."""

    killed: Killed
    finished: frozenset[str]
    """Digests of the documents that are kept as parsed."""
    log_lines: int


@pytest.fixture
def places(tmp_path: Path, samples: Path) -> Generator[tuple[Place, Place]]:
    """One place to be disturbed and one to be left alone, for the same documents."""
    documents = tmp_path / "documents"
    _copy(samples, documents, FIRST)
    with open_home() as home, open_home() as other:
        yield Place(documents, tmp_path / "index", home), Place(documents, tmp_path / "other", other)


def test_kills_in_every_step_lose_nothing_repeat_nothing_and_hide_nothing(
    places: tuple[Place, Place], samples: Path
) -> None:
    place, other = places
    rng = random.Random(SEED)
    begun = _strike(place, Strike(there(place.home / "prefect", "*.db"), within_s=1), rng)  # the home's first start
    first = run_index(place, *READING)
    assert (first["documents"]["ok"], first["documents"]["failed"]) == (len(FIRST), 0)

    _change(place.documents, samples)
    with _reading(place.index_folder) as looks:
        struck = [kill for strike in _strikes(place) for kill in _strike(place, strike, rng)]
        last = run_index(place, *OPTIONS)

    kills = [kill.killed for kill in begun + struck]
    _assert_every_step_hit(kills)
    _assert_nothing_parsed_twice(place, struck)
    _assert_only_whole_generations(looks, first=first["generation"], last=last["generation"])
    assert (last["documents"]["total"], last["documents"]["failed"]) == (len(FIRST) + len(ADDED) - 1, 0)
    assert _generations(place) == {first["generation"], last["generation"]}  # nothing unfinished is left
    run_index(other, *OPTIONS)
    assert _files(place) == _files(other)
    servers = [child for kill in kills for child in kill.children if API in child.command]
    assert survivors(servers, within_s=DEATH_S) == []


def _strikes(place: Place) -> list[Strike]:
    """Twice in each step that takes long: at its start, and when some of its work is done."""
    return [
        Strike(in_step(place, "scan"), within_s=0.01, must_hit="scan"),
        Strike(in_step(place, "parse"), within_s=0.4, must_hit="parse"),
        Strike(_parsed_some(place), within_s=0.1, must_hit="parse"),
        Strike(in_step(place, "extract_figures"), within_s=0.4, must_hit="extract_figures"),
        Strike(there(place.home / "postgres", "cluster/data.new"), within_s=1),
        Strike(in_step(place, "chunk"), within_s=0.4, must_hit="chunk"),
        Strike(in_step(place, "embed"), within_s=0.4, must_hit="embed"),
        Strike(in_step(place, "embed"), within_s=1),  # well before the last vector: the next strikes need work left
        Strike(there(place.index_folder / "generations", ".building-*"), within_s=0.02),
        Strike(in_step(place, "publish_index"), within_s=0.03, must_hit="publish_index"),
    ]


def _parsed_some(place: Place) -> Moment:
    """When it parses, and a document that is new or changed is kept."""
    parses = in_step(place, "parse")
    old = _finished(place)
    return lambda pid: parses(pid) and _finished(place) > old


def _strike(place: Place, strike: Strike, rng: random.Random) -> list[Struck]:
    struck: list[Struck] = []
    while True:
        delay_s = rng.uniform(0, strike.within_s)
        killed = kill_index(place, *OPTIONS, moment=strike.moment, delay_s=delay_s)
        _assert_dead(place, killed)
        struck.append(Struck(killed, _finished(place), len(_log(place))))
        log.info("struck delay_s=%.3f step=%s finished=%d", delay_s, killed.step, len(struck[-1].finished))
        if strike.must_hit in (None, killed.step) or len(struck) == ATTEMPTS:
            return struck


def _assert_dead(place: Place, killed: Killed) -> None:
    """The parser children end with their parent; what became a server is there for the next command."""
    ours = [child for child in killed.children if not SERVERS.search(child.command)]
    assert [each for each in survivors(ours, within_s=DEATH_S) if not SERVERS.search(each.command)] == []
    if killed.step:
        assert shown_state(place) == "interrupted"


def _assert_every_step_hit(kills: list[Killed]) -> None:
    assert {kill.step for kill in kills if kill.step} == set(STEPS)
    commands = [child.command for kill in kills for child in kill.children]
    for expected in (API, "tasks.documents.reader_child"):
        assert any(expected in command for command in commands), f"no kill found {expected} at work"


def _assert_nothing_parsed_twice(place: Place, struck: list[Struck]) -> None:
    """What was kept at a kill was never started again."""
    log = _log(place)
    for kill in struck:
        again = {line.split()[-1] for line in log[kill.log_lines :] if line.startswith("start read ")}
        assert not again & kill.finished
    # the first kill found the old documents kept, a later one some of the new, the last one all
    sources = set(_sources(place))
    assert any(struck[0].finished < kill.finished < sources for kill in struck)
    assert struck[-1].finished == sources <= {line.split()[-1] for line in log}


def _assert_only_whole_generations(looks: list[dict[str, Any]], *, first: str, last: str) -> None:
    assert [look["error"] for look in looks if "error" in look] == []
    assert {look["best"] for look in looks} == {FARES}
    seen = [look["generation"] for look in looks]
    assert len(seen) > LOOKS
    assert seen == sorted(seen)
    assert set(seen) == {first, last}
    assert len({(look["generation"], look["digest"], look["chunks"]) for look in looks}) == 2


@contextmanager
def _reading(folder: Path) -> Generator[list[dict[str, Any]]]:
    """What another process sees of an index meanwhile; filled at the end."""
    looks: list[dict[str, Any]] = []
    command = [sys.executable, "-m", "tests.drills.reader", str(folder)]
    with (
        tempfile.TemporaryFile("w+") as seen,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=seen, cwd=ROOT) as reader,
    ):
        try:
            yield looks
        finally:
            reader.communicate()  # closes its stdin
        seen.seek(0)
        looks += map(json.loads, seen)


def _copy(samples: Path, documents: Path, names: tuple[str, ...]) -> None:
    for name in names:
        (documents / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(samples / name, documents / name)


def _change(documents: Path, samples: Path) -> None:
    """The second version of the folder: documents are added, one is changed, one is gone."""
    _copy(samples, documents, ADDED)
    with (documents / CHANGED).open("a", encoding="utf-8") as file:
        file.write("\n\n접수 마감은 2024년 6월 28일 17시이다.\n")
    (documents / REMOVED).unlink()


def _sources(place: Place) -> dict[str, Source]:
    """The documents of the folder, by digest."""
    sources: dict[str, Source] = {}
    for file in filter(Path.is_file, place.documents.rglob("*")):
        data = file.read_bytes()
        digest = hashlib.sha256(data).hexdigest()
        sources[digest] = Source(content=Ref(kind="document", digest=digest, size=len(data)), suffix=file.suffix)
    return sources


def _finished(place: Place) -> frozenset[str]:
    """Documents that the store keeps as parsed, with the settings of this drill."""
    store = Artifacts(place.home / "store")
    settings = {"options": ReadOptions(ocr="off"), "limits": ReadLimits()}
    keys = {
        digest: content_key("parse", PARSER_VERSION, {"source": source, **settings})
        for digest, source in _sources(place).items()
    }
    return frozenset(digest for digest, key in keys.items() if store.recall(key))


def _log(place: Place) -> list[str]:
    return place.parse_log.read_text().splitlines() if place.parse_log.exists() else []


def _generations(place: Place) -> set[str]:
    return {folder.name for folder in (place.index_folder / "generations").iterdir()}


def _files(place: Place) -> dict[str, bytes]:
    """All files of the current generation."""
    folder = place.index_folder / "generations" / read_pointer(place.index_folder).generation
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def run_index(place: Place, *options: str) -> dict[str, Any]:
    """The report of a run that is left alone."""
    done = subprocess.run(
        _command(place, options), env=_environment(place), capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, f"exit code {done.returncode}: {done.stderr[-2000:]}"
    return json.loads(done.stdout)


def kill_index(place: Place, *options: str, moment: Moment, delay_s: float) -> Killed:
    """Start a run and `kill -9` it `delay_s` after its moment has come."""
    with subprocess.Popen(
        _command(place, options), env=_environment(place), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as run:
        deadline = time.monotonic() + PATIENCE_S
        while not moment(run.pid):
            assert run.poll() is None, f"the run ended before it could be killed: {run.communicate()[1][-2000:]!r}"
            assert time.monotonic() < deadline, "the moment to kill never came"
            time.sleep(POLL_S)
        time.sleep(delay_s)
        assert run.poll() is None, "the run was over before the kill"
        os.kill(run.pid, signal.SIGSTOP)  # for a list of its children that is not out of date at once
        children = tuple(processes_below(run.pid))
        run.kill()
    status = status_of(place, run.pid)
    return Killed(status["step"] if status and status["state"] == "running" else None, children)


def in_step(place: Place, step: str) -> Moment:
    """When the run says that it is in `step`."""
    return lambda pid: (status := status_of(place, pid)) is not None and status["step"] == step


def there(folder: Path, pattern: str) -> Moment:
    """When something in `folder` matches."""
    return lambda pid: any(folder.glob(pattern))


def status_of(place: Place, pid: int) -> dict[str, Any] | None:
    """`index_status.json` as it stands on the disk, if the run of this pid wrote it."""
    try:
        status = json.loads((place.index_folder / "index_status.json").read_bytes())
    except FileNotFoundError:
        return None
    return status if status["pid"] == pid else None


def shown_state(place: Place) -> str:
    """The state that `trivet rag status --json` shows."""
    return run_here("rag", "status", "--index", place.index_folder, "--json").json["state"]


def _command(place: Place, options: tuple[str, ...]) -> list[str]:
    return [*TRIVET, "rag", "index", str(place.documents), "--index", str(place.index_folder), "--json", *options]


def _environment(place: Place) -> dict[str, str]:
    """This one, without what other tests set for their own flows; a killed run leaves its scratch in the home."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("PREFECT_", "TRIVET_"))}
    return ours | {"TRIVET_HOME": str(place.home), "TMPDIR": str(place.home), "PYTHONPATH": str(ROOT), OWN_TABLES: "1"}
