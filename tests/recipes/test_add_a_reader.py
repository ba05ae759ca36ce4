"""The recipe `add_a_reader.md`, followed outside the repository: a package adds slides of LibreOffice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.command import run_apart
from tests.recipes.packages import Package

ROOT = Path(__file__).parents[2]
DRAW = "urn:oasis:names:tc:opendocument:xmlns:drawing:1.0"
TEXT = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
SLIDES = (("Road lighting", "Lamps are due by May."), ("Milestones", "The audit is in July."))


@pytest.fixture
def decks(tmp_path: Path) -> Path:
    """A presentation, and a page of HTML beside it."""
    folder = tmp_path / "decks"
    folder.mkdir()
    (folder / "notice.html").write_text("<!doctype html><h1>Notice</h1><p>The bridge is closed.</p>")
    with zipfile.ZipFile(folder / "plan.odp", "w") as archive:
        slides = "".join("<d:page>" + "".join(f"<t:p>{text}</t:p>" for text in texts) + "</d:page>" for texts in SLIDES)
        archive.writestr("content.xml", f'<d:document xmlns:d="{DRAW}" xmlns:t="{TEXT}">{slides}</d:document>')
    return folder


def test_the_reader_runs_in_the_child_process_and_gives_pages(package: Package, decks: Path) -> None:
    told = package.run("rag", "text", decks / "plan.odp", "--json").json

    assert told["reader"] == "my-reader"
    blocks = [(page["page"], block["kind"], block["text"]) for page in told["pages"] for block in page["blocks"]]
    assert blocks == [
        (number, kind, text)
        for number, texts in enumerate(SLIDES, start=1)
        for kind, text in zip(("heading", "paragraph"), texts, strict=True)
    ]


def test_without_the_package_the_format_is_named_and_not_read(decks: Path) -> None:
    done = run_apart("rag", "text", decks / "plan.odp")

    assert (done.code, done.stderr) == (2, "error: The file is OpenDocument; save it as .docx.\n")


CLASH = """
from tasks.documents.formats import DocumentFormat
SLIDES = DocumentFormat(name="slides", suffixes=(".odp", ".fodp"), opener="other_reader:read")
"""


@pytest.mark.parametrize(
    ("module", "entry", "said"),
    [
        ("import no_such_module", "slides = other_reader:SLIDES", "it cannot be loaded (ModuleNotFoundError"),
        ("SLIDES = 'x'", "slides = other_reader:SLIDES", "it is a str, not a tasks.documents.formats.DocumentFormat"),
        (CLASH, "slides = other_reader:SLIDES", "its suffixes ['.odp'] belong to the format 'odp' of my-reader 1.0"),
    ],
    ids=["broken", "no format", "clash"],
)
def test_an_unusable_package_is_named(package: Package, decks: Path, module: str, entry: str, said: str) -> None:
    (package.site / "other_reader.py").write_text(module)
    name, _, target = entry.partition(" = ")
    package.install("other-reader", "2.1", {"trivet.readers": {name: target}})

    done = package.run("rag", "text", decks / "notice.html")

    assert done.code == 2
    assert "The reader `slides = other_reader:SLIDES` of other-reader 2.1 cannot be used:" in done.stderr
    assert said in done.stderr


def test_a_reader_that_cannot_be_imported_names_its_package(package: Package, decks: Path) -> None:
    (package.site / "my_reader/odp.py").write_text("import no_such_module")

    done = package.run("rag", "text", decks / "plan.odp")

    assert done.code == 2
    assert "The reader `my_reader.odp:open_odp` of my-reader 1.0 cannot be imported" in done.stderr


INDEXING = """
import json, sys
from pathlib import Path
from storage.artifacts import Artifacts
from tasks.documents.isolation import ReadLimits
from tasks.documents.document_readers import ReadOptions
from tasks.rag.indexing.document_stages import parse_source
from tasks.rag.indexing.scan import scan_folder

folder, store, log = map(Path, sys.argv[1:])
artifacts = Artifacts(store)
found = scan_folder(folder, artifacts=artifacts)
for source in found.sources:
    parse_source(source, artifacts, options=ReadOptions(), limits=ReadLimits(), password=None, log=log)
read = [line.split()[-1] for line in log.read_text().splitlines() if line.startswith("start read")]
log.write_text("")
names = {file.content.digest: file.name for file in found.files}
inputs = {names[source.digest]: source.model_dump(mode="json", exclude={"content"}) for source in found.sources}
print(json.dumps({"read": sorted(names[digest] for digest in read), "inputs": inputs}))
"""


def test_a_new_version_of_the_package_reads_its_documents_again_and_no_others(
    package: Package, decks: Path, tmp_path: Path
) -> None:
    def index() -> Any:
        """What the steps `scan` and `parse` do: the documents that were read, and what their cache keys are made of."""
        command = [sys.executable, "-c", INDEXING, decks, tmp_path / "store", tmp_path / "log"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT), str(package.site)))}
        return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True).stdout)

    notice = {"suffix": ".html"}
    assert index() == {
        "read": ["notice.html", "plan.odp"],
        "inputs": {"notice.html": notice, "plan.odp": {"suffix": ".odp", "reader": "my-reader 1.0"}},
    }
    assert index()["read"] == []
    package.release("1.1")
    assert index() == {
        "read": ["plan.odp"],
        "inputs": {"notice.html": notice, "plan.odp": {"suffix": ".odp", "reader": "my-reader 1.1"}},
    }
