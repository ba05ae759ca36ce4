"""A folder becomes an index, and only what is new or changed is done again; each claim runs the whole flow."""

from __future__ import annotations

import csv
import json
import os
import shutil
import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from flows.rag import IndexConfig, build_index
from flows.running.config_reading import index_place
from flows.running.settings import settings
from storage.embedded import Cluster
from storage.files import write
from storage.index import open_index
from tasks.resources import READ_LOG
from tests.command import Done, run_here
from tests.conftest import HOME

pytestmark = pytest.mark.engine

SAMPLES = ("docx/Tide_Gauge_Maintenance_SOW.docx", "hwp/마루군_제설 협조 안내.hwp", "notices/supplier_day.html")
SAMPLES_WITH_FIGURES = ("english/Verdane_Climate_Report_2023.pdf",)
LOCKED = "hwp/평가위원 명단(암호).hwp"
PASSWORD = "trivet-2024"


class Place(NamedTuple):
    """A folder of documents and the folder of its index."""

    documents: Path
    out: Path

    def build(self, *options: object) -> Done:
        return run_here("rag", "index", self.documents, "--index", self.out, "--json", *options)

    def search(self, question: str) -> list[str]:
        """Documents of the hits, by words."""
        found = run_here("rag", "search", question, "--index", self.out, "--strategy", "bm25", "--json").json
        return [hit["document"] for hit in found["hits"]]

    @property
    def status(self) -> dict[str, Any]:
        return json.loads((self.out / "index_status.json").read_text())

    @property
    def generation(self) -> str:
        with open_index(self.out) as index:
            return index.generation


@pytest.fixture(scope="module")
def parse_log() -> Path:
    """Where the parser children of this home write down what they read."""
    log = settings().home / READ_LOG
    log.parent.mkdir(exist_ok=True)
    log.touch()
    return log


@pytest.fixture(scope="module")
def first(samples: Path, parse_log: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Place, Done]:
    """The samples and a note, with metadata, indexed once; tests read it, or work on a copy."""
    place = Place(tmp_path_factory.mktemp("documents"), tmp_path_factory.mktemp("out") / "index")
    for name in SAMPLES:
        shutil.copy(samples / name, place.documents)
    (place.documents / "budget.txt").write_text("The zirconium budget is 41,000 won.")
    table = place.documents.parent / "metadata.csv"
    with table.open("w", newline="") as file:
        csv.writer(file).writerows([["사업명", "발주 기관", "파일명"], ["Zirconium", "Raon County", "budget.txt"]])
    return place, place.build("--metadata", table)


@pytest.fixture
def place(first: tuple[Place, Done], tmp_path: Path) -> Place:
    """A copy of the folder and its index."""
    before, _ = first
    return Place(
        shutil.copytree(before.documents, tmp_path / "documents"), shutil.copytree(before.out, tmp_path / "index")
    )


class Work:
    """What the readers and the embedder have done since the last look."""

    def __init__(self, log: Path, embedded: list[str]) -> None:
        self._log = log
        self._embedded = embedded
        self._lines = 0
        self.take()

    def take(self) -> tuple[int, int]:
        """(documents parsed, texts embedded)"""
        lines = [line for line in self._log.read_text().splitlines() if line.startswith("start read")]
        done = len(lines) - self._lines, len(self._embedded)
        self._lines = len(lines)
        self._embedded.clear()
        return done


@pytest.fixture
def work(place: Place, parse_log: Path, monkeypatch: pytest.MonkeyPatch) -> Work:
    from models.minilm import MiniLM

    embedded: list[str] = []
    embed = MiniLM.embed

    def counting(self: MiniLM, texts: Any) -> Any:
        embedded.extend(texts)
        return embed(self, texts)

    monkeypatch.setattr(MiniLM, "embed", counting)
    return Work(parse_log, embedded)


def counts(done: Done) -> dict[str, int]:
    """The documents of a report by what became of them, zeros left out."""
    assert done.code in (0, 3), done.stderr
    return {name: count for name, count in done.json["documents"].items() if count}


def cached_vectors() -> int:
    with sqlite3.connect(settings().home / "cache" / "embeddings.sqlite") as cache:
        [(rows,)] = cache.execute("SELECT count(*) FROM vectors")
    cache.close()
    return rows


def test_the_first_run_indexes_every_document(first: tuple[Place, Done]) -> None:
    place, done = first
    assert (done.code, done.stderr) == (0, "")
    assert counts(done) == {"total": 4, "ok": 4}
    assert set(done.json) >= {"generation", "documents", "pages", "chunks", "figures", "seconds"}
    assert done.json["generation"] == place.generation
    assert place.search("zirconium") == ["budget.txt"]


def test_the_status_file_tells_what_became_of_each_document(first: tuple[Place, Done]) -> None:
    place, done = first
    status = place.status
    assert (status["state"], status["step"], status["error"]) == ("completed", "publish_index", None)
    assert status["started"] < status["ended"] <= status["heartbeat"]
    assert status["run"]
    assert status["counts"]["documents"] == done.json["documents"]
    assert {item["document"]: item["status"] for item in status["documents"]} == dict.fromkeys(
        [*(Path(name).name for name in SAMPLES), "budget.txt"], "ok"
    )
    assert sum(item["chunks"] for item in status["documents"]) == done.json["chunks"]
    lengths = status["chunk_chars"]
    assert 0 < lengths["min"] <= lengths["mean"] <= lengths["max"] <= 800


def test_the_preview_shows_chunks_from_all_over_the_index(first: tuple[Place, Done]) -> None:
    place, done = first
    preview = json.loads((place.out / "chunk_preview.json").read_text())
    listed = preview if isinstance(preview, list) else preview["chunks"]
    assert 0 < len(listed) <= min(20, done.json["chunks"])
    assert "zirconium" in json.dumps(preview)


def test_the_metadata_stands_in_the_catalogue_and_lone_files_are_named(first: tuple[Place, Done]) -> None:
    place, done = first
    with open_index(place.out) as index:
        known = {entry.name: entry.metadata for entry in index.catalogue}
    assert "Raon County" in known["budget.txt"].values()
    assert any("3 files have no row" in warning for warning in done.json["warnings"])


def test_an_unchanged_folder_costs_nothing(place: Place, work: Work) -> None:
    vectors, generation = cached_vectors(), place.generation
    assert counts(place.build()) == {"total": 4, "unchanged": 4}
    assert work.take() == (0, 0)
    assert cached_vectors() == vectors
    assert place.generation != generation  # the metadata is gone from the catalogue
    generation = place.generation
    place.build()
    assert place.generation == generation


def test_a_document_is_read_again_where_that_is_asked(place: Place, work: Work) -> None:
    options = ("--set", "again=[budget.txt]")
    assert counts(place.build(*options)) == {"total": 4, "unchanged": 4}
    assert work.take() == (1, 0)
    assert place.status["parameters"]["again"] == ["budget.txt"]
    assert place.status["progress"]["parse"]["done"] >= 1


def test_a_renamed_file_is_the_same_document(place: Place, work: Work) -> None:
    (place.documents / "budget.txt").rename(place.documents / "예산.txt")
    assert counts(place.build()) == {"total": 4, "unchanged": 3, "renamed": 1}
    assert work.take() == (0, 0)
    assert place.search("zirconium") == ["예산.txt"]


@pytest.mark.parametrize(
    ("name", "text", "expected", "done", "hits"),
    [
        ("budget.txt", None, {"total": 3, "unchanged": 3, "removed": 1}, (0, 0), []),
        ("more.txt", "More zirconium.", {"total": 5, "ok": 1, "unchanged": 4}, (1, 1), ["budget.txt", "more.txt"]),
        ("budget.txt", "Less zirconium.", {"total": 4, "ok": 1, "unchanged": 3}, (1, 1), ["budget.txt"]),
    ],
    ids=["removed", "new", "changed"],
)
def test_a_changed_folder_costs_the_work_of_what_changed(
    place: Place, work: Work, name: str, text: str | None, expected: dict[str, int], done: Any, hits: list[str]
) -> None:
    (place.documents / name).unlink() if text is None else (place.documents / name).write_text(text)
    assert counts(place.build()) == expected
    assert work.take() == done
    assert sorted(place.search("zirconium")) == hits


def test_other_chunk_sizes_cut_again_and_parse_nothing(place: Place, work: Work) -> None:
    done = place.build("--chunk-chars", 200, "--set", "overlap_chars=20")
    assert counts(done) == {"total": 4, "ok": 4}
    assert work.take()[0] == 0
    assert place.status["chunk_chars"]["max"] <= 200


def test_a_deleted_index_is_published_again_from_what_is_kept(place: Place, work: Work) -> None:
    with open_index(place.out) as index:
        chunks = [index.chunk(row) for row in range(len(index))]
    shutil.rmtree(place.out)
    assert counts(place.build()) == {"total": 4, "ok": 4}
    assert work.take() == (0, 0)
    with open_index(place.out) as index:
        assert [index.chunk(row) for row in range(len(index))] == chunks


def test_an_index_that_was_changed_in_place_answers_nothing_and_is_replaced(place: Place, work: Work) -> None:
    for file in place.out.glob("generations/*/files/*.segment-text"):
        when = file.stat().st_mtime_ns
        file.write_bytes(file.read_bytes().replace(b"zirconium", b"zirkonium"))
        os.utime(file, ns=(when, when))
    for command in (("ask", "How much zirconium?"), ("search", "zirconium"), ("status", "--verify")):
        done = run_here("rag", *command, "--index", place.out)
        assert (done.code, "fails its checksum" in done.stderr) == (2, True)
    assert place.build().code == 0
    assert run_here("rag", "status", "--verify", "--index", place.out).code == 0
    assert work.take() == (0, 0)
    assert place.search("zirconium") == ["budget.txt"]


@pytest.mark.postgres
def test_an_index_in_postgresql_answers_as_the_folder_and_its_password_is_kept_nowhere(
    place: Place, work: Work, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "")
    address = Cluster(HOME).start().replace("postgres@", "postgres:zyx-s3cret@")
    done = run_here("rag", "index", place.documents, "--index", address, "--json")
    assert (done.code, counts(done)) == (0, {"total": 4, "ok": 4})
    assert work.take() == (0, 0)
    place.build()
    with open_index(place.out) as folder, open_index(index_place(address)) as engine:
        assert engine.digest == folder.digest
    for question in ("zirconium", "제설"):
        asked = ("rag", "search", question, "--json", "--index")
        assert run_here(*asked, address).json == run_here(*asked, place.out).json
    kept = [path for path in HOME.rglob("*") if path.is_file() and b"zyx-s3cret" in path.read_bytes()]
    assert not kept


def test_two_files_with_the_same_content_are_one_document(place: Place, work: Work) -> None:
    shutil.copy(place.documents / "budget.txt", place.documents / "copy of budget.txt")
    assert counts(place.build()) == {"total": 4, "unchanged": 4}
    assert work.take() == (0, 0)
    [copy] = [item for item in place.status["documents"] if item["status"] == "duplicate"]
    assert copy["message"] == "the same content as budget.txt"
    asked = run_here("rag", "ask", "What is the zirconium budget?", "--index", place.out, "--json").json
    assert [(at["document"], at["aliases"]) for at in asked["citations"]] == [("budget.txt", ["copy of budget.txt"])]


def test_a_locked_document_is_opened_only_with_its_password_which_is_kept_nowhere(
    place: Place, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy(samples / LOCKED, place.documents)
    builds: list[Done] = []
    for password in ("", "wrong", PASSWORD, "wrong", PASSWORD, ""):  # what was read with it is recalled with it alone
        monkeypatch.setenv("TRIVET_TEST_PASSWORD", password)
        builds.append(place.build(*(("--password-env", "TRIVET_TEST_PASSWORD") if password else ())))
        with open_index(place.out) as index:
            chunks = [entry.chunks for entry in index.catalogue if entry.name == Path(LOCKED).name]
        assert any(chunks) == (password == PASSWORD)

    assert [done.code for done in builds] == [3, 3, 0, 3, 0, 3]
    assert counts(builds[0]) == counts(builds[1]) == {"total": 5, "unchanged": 4, "failed": 1}
    assert counts(builds[2]) == {"total": 5, "ok": 1, "unchanged": 4}
    assert [item["document"] for item in place.status["documents"] if item["status"] == "failed"] == [Path(LOCKED).name]
    for folder in (settings().home, place.out):
        holders = [file for file in folder.rglob("*") if file.is_file() and PASSWORD.encode() in file.read_bytes()]
        assert holders == []


def test_failed_documents_end_in_a_state_of_its_own(place: Place) -> None:
    from prefect import State

    (place.documents / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing more")
    state: State[Any] = build_index(IndexConfig(documents=place.documents, index=place.out), return_state=True)  # pyright: ignore[reportCallIssue, reportAssignmentType] Prefect's own argument
    assert (state.name, state.is_completed()) == ("CompletedWithFailures", True)
    assert state.result().documents.failed == 1
    assert place.status["state"] == "completed_with_failures"


def test_when_all_documents_fail_the_old_generation_stays_and_the_status_says_why(place: Place) -> None:
    generation = place.generation
    for file in place.documents.iterdir():
        file.write_bytes(b"%PDF-1.7\n" + file.name.encode())
        file.rename(file.with_suffix(".pdf"))
    done = place.build()
    assert (done.code, done.stdout) == (1, "")
    assert "nothing was published" in done.stderr
    assert place.generation == generation
    assert place.search("zirconium") == ["budget.txt"]
    assert place.status["state"] == "failed"
    assert [item["status"] for item in place.status["documents"]] == ["failed"] * 4


def test_more_failures_than_allowed_publish_nothing(place: Place) -> None:
    (place.documents / "broken.pdf").write_bytes(b"%PDF-1.7\nnothing more at all")
    generation = place.generation
    assert place.build("--set", "max_failed_share=0.1").code == 1
    assert place.generation == generation
    assert place.build("--set", "max_failed_share=0.3").code == 3
    assert place.generation != generation


def test_an_unknown_embedder_is_refused_in_a_sentence(place: Place) -> None:
    generation = place.generation
    done = place.build("--embedder", "minilm:int3")
    assert (done.code, done.stdout) == (1, "")
    assert "minilm:int3" in done.stderr
    assert "Traceback" not in done.stderr
    assert place.generation == generation


@pytest.mark.postgres
def test_described_figures_become_chunks_and_are_asked_about_once(
    samples: Path, parse_log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from models.scripted import ScriptedChat

    place = Place(tmp_path / "documents", tmp_path / "index")
    place.documents.mkdir()
    for name in SAMPLES_WITH_FIGURES:
        shutil.copy(samples / name, place.documents)
    calls: list[object] = []
    complete = ScriptedChat.complete
    monkeypatch.setattr(
        ScriptedChat, "complete", lambda self, request, **how: (calls.append(1), complete(self, request, **how))[1]
    )

    skipped = place.build().json["figures"]
    planned = place.build("--dry-run", "--vlm", "scripted").json
    asked_by_plan = len(calls)
    partly = place.build("--vlm", "scripted", "--max-vlm-calls", 2).json["figures"]
    asked_at_first = len(calls)
    whole = place.build("--vlm", "scripted").json["figures"]
    asked_in_all = len(calls)
    again = place.build("--vlm", "scripted").json["figures"]
    (place.documents / "note.txt").write_text("A note changes the folder, not its figures.")
    place.build("--vlm", "scripted", "--set", "figures.qwen3_vl_min_variance=1")
    replanned = place.build("--dry-run", "--vlm", "scripted").json

    assert skipped["described"] == 0
    assert skipped["skipped"] == skipped["kept"] == planned["expected_calls"] > 2
    assert asked_by_plan == 0
    assert (partly["described"], partly["skipped"], asked_at_first) == (2, skipped["kept"] - 2, 2)
    assert (whole["described"], whole["skipped"], asked_in_all) == (skipped["kept"], 0, skipped["kept"])
    assert again == whole
    assert len(calls) == asked_in_all
    assert (replanned["expected_calls"], replanned["answered"]) == (0, planned["expected_calls"])
    assert place.search("Scripted figure") != []
    shown = run_here("rag", "chunks", "--index", place.out, "--limit", 1000, "--json").json["chunks"]
    described = [chunk for chunk in shown if chunk["kind"] == "figure"]
    assert len(described) >= skipped["kept"]
    assert all(chunk["page"] and chunk["bbox"] for chunk in described)


def test_a_dry_run_writes_no_index(samples: Path, tmp_path: Path) -> None:
    write(tmp_path / "documents" / "a.txt", b"no figure here")
    done = run_here("rag", "index", tmp_path / "documents", "--index", tmp_path / "index", "--dry-run", "--json")
    assert (done.code, done.json["found"], done.json["expected_calls"]) == (0, 0, 0)
    assert not (tmp_path / "index").exists()
