"""What a folder holds: every file is a document, an alias, skipped or refused, and none is lost."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from storage.artifacts import Artifacts
from tasks.rag.indexing.scan import ScanResult, scan_folder
from tasks.rag.rag_errors import FolderUnusable
from tests.documents.zips import zipped


@pytest.fixture
def artifacts(tmp_path: Path) -> Artifacts:
    return Artifacts(tmp_path / "store")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "documents"
    path.mkdir()
    return path


def _write(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(f"content of {name}")


def _names(result: ScanResult) -> list[str]:
    return [file.name for file in result.files]


def test_the_bytes_are_in_the_store_afterwards(folder: Path, artifacts: Artifacts) -> None:
    _write(folder, "a.txt")

    file = scan_folder(folder, artifacts=artifacts).files[0]

    assert (artifacts.get(file.content), file.suffix) == (b"content of a.txt", ".txt")


def test_hidden_files_and_lock_files_are_passed_over(folder: Path, artifacts: Artifacts) -> None:
    _write(folder, "a.txt", ".hidden.txt", ".git/b.txt", "~$a.docx")

    result = scan_folder(folder, artifacts=artifacts)

    assert (_names(result), result.skipped, result.refused) == (["a.txt"], (), ())


@pytest.mark.parametrize(
    ("include", "exclude", "expected"),
    [
        (("*.pdf",), (), ["a.pdf", "x/b.PDF", "x/y/c.pdf"]),
        (("x/**",), (), ["x/b.PDF", "x/d.txt", "x/y/c.pdf"]),
        (("**/y/*.pdf",), (), ["x/y/c.pdf"]),
        (("[a-b].pdf",), (), ["a.pdf", "x/b.PDF"]),
        (("[!a].pdf",), (), ["x/b.PDF", "x/y/c.pdf"]),
        ((), ("y/",), ["a.pdf", "x/b.PDF", "x/d.txt"]),
        (("*.pdf",), ("x/**",), ["a.pdf"]),
    ],
)
def test_patterns(
    folder: Path, artifacts: Artifacts, include: tuple[str, ...], exclude: tuple[str, ...], expected: list[str]
) -> None:
    _write(folder, "a.pdf", "x/b.PDF", "x/d.txt", "x/y/c.pdf")

    assert _names(scan_folder(folder, artifacts=artifacts, include=include, exclude=exclude)) == expected


def test_the_same_content_is_one_document_with_aliases(folder: Path, artifacts: Artifacts) -> None:
    for name in ("b.txt", "a.txt", "c.txt"):
        (folder / name).write_text("same")

    result = scan_folder(folder, artifacts=artifacts)

    assert _names(result) == ["a.txt"]
    assert [(alias.name, alias.document) for alias in result.aliases] == [("b.txt", "a.txt"), ("c.txt", "a.txt")]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [("공고.txt".encode("cp949"), "공고.txt"), (b"\xff\xfe.txt", "\\xff\\xfe.txt"), (b"a\nb.txt", "a\\nb.txt")],
    ids=["CP949", "no encoding at all", "line break"],
)
def test_a_name_that_is_not_text_can_be_shown_and_stored(
    folder: Path, artifacts: Artifacts, raw: bytes, expected: str
) -> None:
    Path(os.fsdecode(os.fsencode(folder) + b"/" + raw)).write_text("x")

    result = scan_folder(folder, artifacts=artifacts)

    assert _names(ScanResult.model_validate_json(result.model_dump_json())) == [expected]


def test_links_out_of_the_folder_and_loops_are_refused(folder: Path, artifacts: Artifacts, tmp_path: Path) -> None:
    _write(folder, "a.txt", "sub/b.txt")
    (tmp_path / "secret.txt").write_text("secret")
    (folder / "out.txt").symlink_to(tmp_path / "secret.txt")
    (folder / "sub" / "loop").symlink_to(folder)
    (folder / "gone.txt").symlink_to(folder / "nowhere")
    (folder / "self.txt").symlink_to(folder / "self.txt")

    result = scan_folder(folder, artifacts=artifacts)

    assert _names(result) == ["a.txt", "sub/b.txt"]
    assert [(refused.name, refused.reason) for refused in result.refused] == [
        ("gone.txt", "link"),
        ("out.txt", "link"),
        ("self.txt", "link"),
        ("sub/loop", "link"),
    ]


def test_a_file_that_cannot_be_read_is_a_record(
    folder: Path, artifacts: Artifacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    _write(folder, "a.txt", "locked.txt")
    real = open

    def guarded(path: Any, *arguments: Any) -> Any:  # the tests may run as root, whom no permission stops
        if os.fsencode(path).endswith(b"locked.txt"):
            raise PermissionError(13, "Permission denied")
        return real(path, *arguments)

    monkeypatch.setattr("builtins.open", guarded)
    result = scan_folder(folder, artifacts=artifacts)

    assert [(refused.name, refused.reason) for refused in result.refused] == [("locked.txt", "unreadable")]


def test_zips_are_opened(folder: Path, artifacts: Artifacts) -> None:
    (folder / "a.zip").write_bytes(zipped({"x/공고.pdf": b"%PDF", "notes.wpd": b"", "__MACOSX/._x.pdf": b""}))

    result = scan_folder(folder, artifacts=artifacts)

    assert (_names(result), result.skipped) == (["a.zip/x/공고.pdf"], ("a.zip/notes.wpd",))


def test_korean_names_in_a_zip_from_windows_are_read(folder: Path, artifacts: Artifacts) -> None:
    data = bytearray(zipped({"AAAAAAAA.txt": b"x"}))
    (folder / "a.zip").write_bytes(data.replace(b"AAAAAAAA", "제안요청".encode("cp949")))

    assert _names(scan_folder(folder, artifacts=artifacts)) == ["a.zip/제안요청.txt"]


def test_a_zip_in_a_zip_is_opened_and_no_further(folder: Path, artifacts: Artifacts) -> None:
    inner = zipped({"b.txt": b"b", "deeper.zip": zipped({"c.txt": b"c"})})
    (folder / "a.zip").write_bytes(zipped({"inner.zip": inner}))

    result = scan_folder(folder, artifacts=artifacts)

    assert _names(result) == ["a.zip/inner.zip/b.txt"]
    assert [(refused.name, refused.reason) for refused in result.refused] == [("a.zip/inner.zip/deeper.zip", "archive")]


def test_bad_members_are_refused_and_the_others_taken(folder: Path, artifacts: Artifacts) -> None:
    data = bytearray(
        zipped({"../evil.txt": b"x", "bomb.txt": bytes(3_000_000), "good.txt": b"good", "locked.txt": b"s"})
    )
    data[data.rindex(b"PK\1\2") + 8] |= 1  # the last member is marked as encrypted
    (folder / "a.zip").write_bytes(data)

    result = scan_folder(folder, artifacts=artifacts)

    assert _names(result) == ["a.zip/good.txt"]
    assert [(refused.name, refused.reason) for refused in result.refused] == [
        ("a.zip/../evil.txt", "refused"),
        ("a.zip/bomb.txt", "refused"),
        ("a.zip/locked.txt", "needs_password"),
    ]


def test_folders_that_cannot_be_indexed(folder: Path, artifacts: Artifacts) -> None:
    with pytest.raises(FolderUnusable, match="does not exist"):
        scan_folder(folder / "nowhere", artifacts=artifacts)
    with pytest.raises(FolderUnusable, match="no document"):
        scan_folder(folder, artifacts=artifacts)
    _write(folder, "a.wpd")
    with pytest.raises(FolderUnusable, match="no document to index, and 1 other files"):
        scan_folder(folder, artifacts=artifacts)
    with pytest.raises(FolderUnusable, match="not a folder"):
        scan_folder(folder / "a.wpd", artifacts=artifacts)
