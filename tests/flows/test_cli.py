"""The command line as a user meets it: fast help, plain errors, one JSON object."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from flows.cli import app
from flows.cli.shared_options import DEFAULT_INDEX, LAST_INDEX
from storage.files import write
from tasks.rag.indexing.index_report import StatusFile
from tests.command import run_apart, run_here
from tests.documents.zips import zipped
from tests.flows.asks import publish_pages

HEAVY = ("prefect", "torch", "sqlalchemy", "pymupdf", "faiss", "transformers", "numpy", "pydantic_settings", "asyncio")


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command with the words that lead to it."""
    group = group or get_command(app)
    for name, command in getattr(group, "commands", {}).items():
        yield (*path, name), command
        yield from commands(command, (*path, name)) if hasattr(command, "commands") else ()


COMMANDS = dict(commands())


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two chunks with words and no vectors worth the name."""
    pages = "The bid price is 35,750,000 won", "Delivery takes [bold]twelve[/bold] months"
    out = publish_pages(tmp_path_factory.mktemp("index"), *pages)
    StatusFile(out, generation=None, run=None, parameters={}).update(state="completed")
    return out


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    (tmp_path / "thesis.tex").write_text("not yours")
    return tmp_path


@pytest.mark.parametrize("group", ["", "rag", "eval", "lever", "nightly", "db"])
def test_help_of_a_group_lists_its_commands_at_40_columns(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    words = group.split()
    whole: Any = get_command(app)
    listed = (whole.commands[group] if group else whole).commands
    shown = run_here(*words, "--help").stdout
    assert [name for name in listed if not re.search(rf"^  {name}  ", shown, re.MULTILINE)] == []
    assert max(map(len, shown.splitlines())) <= 40


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        ("--help", HEAVY),
        ("--version", HEAVY),
        ("rag search bid --strategy bm25 --index INDEX", ("prefect", "torch", "sqlalchemy", "kiwipiepy", "pandas")),
        ("rag ask bid --strategy bm25 --index INDEX", ("prefect", "torch", "sqlalchemy", "kiwipiepy")),
        ("why INDEX", ("prefect", "torch")),
        ("eval results --path INDEX", ("prefect", "torch", "sqlalchemy")),
        ("eval list", ("prefect", "torch", "sqlalchemy", "sympy", "math_verify", "lm_eval", "datasets")),
        ("doctor", ("prefect", "torch", "sqlalchemy", "faiss", "transformers", "kiwipiepy", "numpy")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_answers_at_once_imports_nothing_heavy_and_starts_no_server(
    words: str, heavy: tuple[str, ...], index: Path, tmp_path: Path
) -> None:
    named = [str(index) if word == "INDEX" else word for word in words.split()]
    done = run_apart(*named, PYTHONPROFILEIMPORTTIME="1", TRIVET_HOME=str(tmp_path))
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "flows" in imported
    assert imported & set(heavy) == set()
    assert not (tmp_path / "api").exists()


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_every_command_says_what_it_does_and_speaks_json(words: tuple[str, ...]) -> None:
    command = COMMANDS[words]
    assert command.help
    assert [option.name for option in command.params if not option.help and not option.hidden] == []
    assert hasattr(command, "commands") or any("--json" in option.opts for option in command.params)


@pytest.mark.parametrize("words", [(), *COMMANDS], ids=lambda words: " ".join(words) or "trivet")
def test_help_at_80_columns_names_options_whole_and_gives_a_switch_no_type(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    shown = run_here(*words, "--help").stdout
    command = COMMANDS[words] if words else get_command(app)
    spellings = [name for one in command.params for name in (*one.opts, *one.secondary_opts) if name.startswith("-")]
    named = re.findall(r"(?<![\w-])--?[\w-]+", shown.split("Options:")[1])
    assert set(spellings) - set(named) == set()
    assert max(map(len, shown.splitlines())) <= 80
    assert "<bool>" not in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nosuch"], "No such command 'nosuch'"),
        (["ask", "q"], "no command ask, but `trivet rag ask`"),
        (["rag", "index", "x"], "does not exist; name the folder that the documents lie in"),
        (["rag", "index", "."], "is empty; put documents there"),
        (["nightly", "run", "x"], "there is no file"),
        (["nightly", "run", "."], "is not a file; name the YAML file of a suite"),
        (["lever", "run"], "nothing says what to learn from"),
        (["rag", "search", "q", "--index", "x", "--strategy", "psychic"], "'similarity', 'mmr', 'bm25', 'rrf'"),
        (["rag", "search", "q", "--index", "x", "--top-k", "0"], "greater than or equal to 1"),
        (["rag", "index", "tests", "--index", "y", "--set", "loud"], "is not NAME=VALUE"),
        (["rag", "index", "tests", "--index", "y", "--vlm_price", "1,2"], "--set spending.prices"),
        (["rag", "index", "tests", "--index", "y", "--password-env", "TRIVET_NO_SUCH"], "no such environment variable"),
    ],
    ids=lambda value: " ".join(value[:3]) if isinstance(value, list) else "",
)
def test_wrong_usage_exits_2_with_a_sentence(arguments: list[str], said: str, tmp_path: Path) -> None:
    done = run_here(*(str(tmp_path / word) if word in "xy." else word for word in arguments))
    told = " ".join(done.stderr.replace("│", " ").split())
    assert (done.code, done.stdout) == (2, "")
    assert said in told


@pytest.mark.parametrize("command", [["search", "q"], ["chunks"], ["status"]], ids=lambda words: words[0])
@pytest.mark.parametrize("folder", ["missing", "foreign", "file"])
def test_a_folder_without_index_is_refused(command: list[str], folder: str, foreign: Path) -> None:
    path = {"missing": foreign / "none", "foreign": foreign, "file": foreign / "thesis.tex"}[folder]
    done = run_here("rag", *command, "--index", path, "--json")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.startswith(f"error: {path} ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", [["search", "q"], ["chunks"], ["status"]], ids=lambda words: words[0])
def test_files_of_our_names_that_are_not_ours_are_refused(command: list[str], tmp_path: Path) -> None:
    (tmp_path / "CURRENT").write_text("main\n")
    (tmp_path / "index_status.json").write_text('{"state": "fine"}')
    done = run_here("rag", *command, "--index", tmp_path)
    assert (done.code, "not of this program or version" in done.stderr) == (2, True)


def test_without_index_the_last_one_made_answers_and_is_named(index: Path, tmp_path: Path) -> None:
    asked = ("rag", "search", "bid", "--strategy", "bm25", "--json")
    (tmp_path / "file").touch()
    for nothing in (tmp_path / "new", tmp_path / "file"):
        none = run_apart(*asked, TRIVET_HOME=str(nothing))
        assert (none.code, none.stderr.count("\n"), "`trivet rag index FOLDER`" in none.stderr) == (2, 1, True)
    write(tmp_path / LAST_INDEX, str(index).encode())
    done = run_apart(*asked, TRIVET_HOME=str(tmp_path))
    assert (len(done.json["hits"]), done.stderr) == (1, f"index {index}\n")


def test_the_default_index_is_not_made_of_other_documents(index: Path, tmp_path: Path) -> None:
    for is_published in (False, True):  # of what was never published nothing can be lost
        if is_published:
            shutil.copytree(index, tmp_path / DEFAULT_INDEX, dirs_exist_ok=True)
        StatusFile(tmp_path / DEFAULT_INDEX, generation=None, run=None, parameters={"documents": "/papers"}).update()
        done = run_apart("rag", "index", "tests/contracts", "--dry-run", TRIVET_HOME=str(tmp_path))
        assert (done.code, "is of /papers" in done.stderr) == (2, is_published)
    assert f"trivet rag index tests/contracts --index {tmp_path / 'index' / 'contracts'}" in done.stderr


@pytest.mark.parametrize("command", [["text", "{}"], ["eval", "{}", "--index", "/nowhere"]], ids=lambda words: words[0])
@pytest.mark.parametrize(("name", "said"), [("none", "there is no file"), ("folder", "is not a file")])
def test_a_path_that_is_no_file_is_refused(command: list[str], name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    done = run_here("rag", *(word.format(tmp_path / name) for word in command))
    assert (done.code, said in done.stderr) == (2, True)


def test_a_variable_that_cannot_be_read_is_named() -> None:
    for words in (("rag", "ask", "q"), ("db", "upgrade")):
        assert "error: TRIVET_CRASH_RETRIES: Input" in run_apart(*words, TRIVET_CRASH_RETRIES="x").stderr


def test_only_debug_shows_a_traceback(tmp_path: Path) -> None:
    words = ("rag", "chunks", "--index", tmp_path)
    plain, traced = run_apart(*words), run_apart("--debug", *words)
    assert (plain.code, len(plain.stderr.splitlines())) == (2, 1)
    assert (traced.code == 0, "Traceback" in traced.stderr, "NotAnIndex" in traced.stderr) == (False, True, True)


def test_what_nobody_expected_is_a_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from flows import cli

    broken = typer.Typer()

    @broken.command()
    def fall() -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(cli, "app", broken)
    monkeypatch.setattr("sys.argv", ["trivet"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    said = capsys.readouterr().err
    assert ended.value.code == 1
    assert said.startswith("error: ZeroDivisionError: by nothing\n")
    assert "--debug" in said


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (["search", "price", "--strategy", "bm25"], {"hits", "notes"}),
        (["chunks"], {"chunks", "total"}),
        (["status"], {"state", "documents", "generation"}),
    ],
    ids=["search", "chunks", "status"],
)
def test_json_is_one_object_and_nothing_else(arguments: list[str], fields: set[str], index: Path) -> None:
    done = run_here("rag", *arguments, "--index", index, "--json")
    assert (done.code, done.stderr) == (0, "")
    assert fields <= set(done.json)


def test_a_hit_names_document_page_and_chunk(index: Path) -> None:
    [hit] = run_here("rag", "search", "bid", "--strategy", "bm25", "--index", index, "--json").json["hits"]
    assert (hit["document"], hit["page"], hit["chunk_id"]) == ("a.pdf", 1, f"{'a' * 16}-00000")


def test_an_index_of_another_embedder_answers_by_words_only(index: Path) -> None:
    done = run_here("rag", "search", "bid", "--strategy", "similarity", "--index", index)
    assert (done.code, "nobody@1" in done.stderr) == (2, True)


def test_an_empty_question_is_refused(index: Path) -> None:
    done = run_here("rag", "search", " ", "--index", index)
    assert (done.code, done.stderr) == (2, "error: the question is empty; ask with at least one word\n")


def test_a_document_is_named_by_any_of_its_file_names(index: Path) -> None:
    assert run_here("rag", "chunks", "--index", index, "--document", "copy.pdf", "--json").json["total"] == 2
    refused = run_here("rag", "chunks", "--index", index, "--document", "b.pdf")
    assert (refused.code, "a.pdf" in refused.stderr) == (2, True)


def test_chunks_are_shown_as_they_are_whatever_looks_like_markup(index: Path) -> None:
    assert "Delivery takes [bold]twelve[/bold] months" in run_here("rag", "chunks", "--index", index).stdout


def test_numbers_of_tables_are_shown_with_their_units_and_periods(tmp_path: Path) -> None:
    rows = ("| | 2023 | 2022 |", "|---|---|---|", "| Net sales | $ 1,200 | $ (3) |", "| Staff | 7 | 8 |")
    (tmp_path / "a.md").write_text("\n".join(("In thousands of dollars", "", *rows, "")))
    told = run_here("rag", "numbers", tmp_path / "a.md", "--line", "SALES net", "--json").json
    assert [(one["value"], one["unit"], one["period"]["label"], one["row_path"]) for one in told["numbers"]] == [
        ("1200000", "USD", "2023", ["Net sales"]),
        ("-3000", "USD", "2022", ["Net sales"]),
    ]
    shown = run_here("rag", "numbers", tmp_path / "a.md", "--line", "net").stdout
    assert "1,200,000 USD" in shown
    assert "2 numbers" in shown


def budget(folder: Path) -> Path:
    """A document whose first total adds up and whose second does not."""
    rows = ("| | 2023 | 2022 |", "|---|---|---|", "| Rent | $ 300 | $ 200 |", "| Wages | 400 | 100 |")
    file = folder / "a.md"
    file.write_text("\n".join((*rows, "| Total costs | 700 | 999 |", "")))
    return file


@pytest.mark.parametrize(
    ("options", "code", "said"),
    [
        (("--period", "2023..2022"), 2, "the earlier one first"),
        (("--period", "last year"), 2, "--period: last year is no period"),
        (("--document", "nobody"), 2, "no document is called so; there are a.md"),
        (("--sql", "DELETE FROM numbers"), 2, "is not one SELECT"),
        (("--sql", ""), 2, "is not one SELECT"),
        (("--sql", "SELECT 1", "--line", "rent"), 2, "--sql goes with no other filter"),
        (("--index", "elsewhere"), 2, "not both"),
    ],
)
def test_what_cannot_be_asked_of_numbers_is_said(
    options: tuple[str, ...], code: int, said: str, tmp_path: Path
) -> None:
    done = run_here("rag", "numbers", budget(tmp_path), *options)
    assert (done.code, said in done.stderr) == (code, True), done.stderr


def test_numbers_are_filtered_queried_and_written(tmp_path: Path) -> None:
    file = budget(tmp_path)
    by_year = run_here("rag", "numbers", file, "--period", "..2022", "--json").json["numbers"]
    assert [one["value"] for one in by_year] == ["200", "100", "999"]
    largest = run_here("rag", "numbers", file, "--sql", "SELECT name, max(value) AS most FROM numbers GROUP BY 1")
    assert largest.stdout.split() == ["name", "most", "a.md", "999"]
    header, row = run_here(
        "rag", "numbers", file, "--line", "rent", "--period", "2023", "--format", "csv"
    ).stdout.splitlines()
    told = dict(zip(header.split(","), next(csv.reader([row])), strict=True))
    assert (told["value"], json.loads(told["row_path"]), json.loads(told["period"])["year"]) == ("300", ["Rent"], 2023)


def test_a_whole_number_that_a_query_works_out_keeps_its_zeros(tmp_path: Path) -> None:
    query = "SELECT round(value) AS rounded FROM numbers ORDER BY 1"
    rows = run_here("rag", "numbers", budget(tmp_path), "--sql", query, "--json").json["numbers"]
    assert [row["rounded"] for row in rows] == ["100", "200", "300", "400", "700", "999"]


def test_a_number_that_does_not_add_up_says_so_in_its_row(tmp_path: Path) -> None:
    rows = run_here("rag", "numbers", budget(tmp_path), "--line", "total", "--json").json["numbers"]
    doubts = {one["shown"]: one["doubt"] for one in rows}
    assert {shown for shown, doubt in doubts.items() if doubt} == {"999"}
    listed = run_here("rag", "numbers", budget(tmp_path), "--line", "total").stdout
    assert f"in doubt: {doubts['999']}\n" in listed


def test_what_a_terminal_cannot_show_is_replaced_and_json_is_whole(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("예산 › 낙찰")
    shown = run_apart("rag", "text", tmp_path / "a.txt", PYTHONIOENCODING="cp949")
    assert (shown.code, "예산 ? 낙찰".encode("cp949") in shown.stdout.encode("utf-8", "surrogateescape")) == (0, True)
    read = run_apart("rag", "text", tmp_path / "a.txt", "--json", PYTHONIOENCODING="cp949").json
    assert read["pages"][0]["blocks"][0]["text"] == "예산 › 낙찰"


def test_words_and_names_are_read_in_a_locale_of_ascii_too(tmp_path: Path) -> None:
    assert "없음.txt" in run_apart("rag", "text", tmp_path / "없음.txt", LC_ALL="C", PYTHONUTF8="0").stderr


def test_text_gives_pages_and_blocks(tmp_path: Path) -> None:
    long = "word " * 40
    (tmp_path / "a.txt").write_text(f"{long}\n\nsecond paragraph")

    shown = run_here("rag", "text", tmp_path / "a.txt")
    read = run_here("rag", "text", tmp_path / "a.txt", "--json").json

    assert [page["status"] for page in read["pages"]] == ["ok"]
    assert [block["text"] for block in read["pages"][0]["blocks"]] == [long.strip(), "second paragraph"]
    assert long.strip() in shown.stdout  # a pipe gets lines whole


def test_a_receipt_says_what_of_a_document_was_lost(tmp_path: Path) -> None:
    file = tmp_path / "notice.docx"
    body = '<w:document xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:body><w:p><w:r><w:t>'
    text = "Budget 1,234 won</w:t></w:r></w:p></w:body></w:document>"
    file.write_bytes(zipped({"word/document.xml": body + text, "[Content_Types].xml": "<Types/>"}))
    receipt = run_here("rag", "text", file, "--receipt", "--json").json
    assert (receipt["pages_read"], receipt["letters"], receipt["share_kept"], receipt["hidden"]) == (1, 13, 1.0, [])
    assert "letters kept  100.00%; 0 of 13 in no block" in run_here("rag", "text", file, "--receipt").stdout


def test_text_of_a_locked_document_asks_for_the_password(samples: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked = next(samples.glob("hwp/*암호*"))
    monkeypatch.setenv("TRIVET_TEST_PASSWORD", "trivet-2024")
    refused = run_here("rag", "text", locked)
    opened = run_here("rag", "text", locked, "--password-env", "TRIVET_TEST_PASSWORD", "--json")
    assert (refused.code, "--password-env" in refused.stderr) == (2, True)
    assert opened.json["pages"][0]["status"] == "ok"


def test_status_of_a_killed_build_is_interrupted(tmp_path: Path) -> None:
    file = StatusFile(tmp_path, generation=None, run=None, parameters={})
    file.update(pid=2**22 + 1)  # beyond what the kernel gives
    assert run_here("rag", "status", "--index", tmp_path, "--json").json["state"] == "interrupted"


def test_status_names_what_failed_first_and_lists_the_rest_on_request(tmp_path: Path) -> None:
    scanned = [{"page": page, "status": "ocr", "reason": "image-only"} for page in (1, 2)]
    fine = {"document": "a.pdf", "status": "ok", "pages": 3, "chunks": 7}
    scan = {"document": "b.pdf", "status": "ok", "troubled_pages": scanned}
    failed = {"document": "c.pdf", "status": "failed", "reason": "corrupt", "message": "It ends early."}
    StatusFile(tmp_path, generation=None, run=None, parameters={}).update()
    path = tmp_path / "index_status.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"documents": [fine, scan, failed]}))

    brief = run_here("rag", "status", "--index", tmp_path).stdout
    whole = run_here("rag", "status", "--index", tmp_path, "--all").stdout

    assert "calibrated on our own questions, TAT-QA, FinQA and HiTab: " in brief
    assert brief.index("c.pdf") < brief.index("It ends early.") < brief.index("b.pdf")
    assert "pages 1, 2: ocr, image-only" in brief
    assert "a.pdf" not in brief
    assert "ok              3       7  a.pdf" in whole
    many = [failed | {"document": f"{number:03}.pdf"} for number in range(230)]
    path.write_text(json.dumps(json.loads(path.read_text()) | {"documents": many}))
    assert "229.pdf" in run_here("rag", "status", "--index", tmp_path, "--all").stdout
    assert "130 more documents have problems; --all" in run_here("rag", "status", "--index", tmp_path).stdout


def test_a_file_with_a_wrong_extension_is_read_by_its_content_and_that_is_said(tmp_path: Path) -> None:
    (tmp_path / "notice.pdf").write_text("plain words")

    done = run_here("rag", "text", str(tmp_path / "notice.pdf"))

    assert "named `.pdf` but is TXT" in done.stdout
    assert "plain words" in done.stdout
