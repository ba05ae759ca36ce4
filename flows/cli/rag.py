"""`trivet rag`: documents become an index, which is searched, asked and measured."""

from __future__ import annotations

import enum
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli import show
from flows.cli.commands import App
from flows.cli.opening import IndexFolder, Json, require_file
from flows.cli.output import DONE_WITH_FAILURES, FAILED, REFUSED, emit, fail, plain_errors, sentences
from flows.cli.placing import ClusterOption, TaskRunnerOption

app = App(help="Documents become an index; questions get answers with their page.")


class PdfReader(enum.StrEnum):
    """Who reads PDF."""

    auto = "auto"
    pdfplumber = "pdfplumber"
    pymupdf = "pymupdf"


class Ocr(enum.StrEnum):
    """Whether pages without text are read by tesseract."""

    auto = "auto"
    off = "off"


ReaderOption = Annotated[PdfReader, typer.Option(help="Reader of PDF; auto: fast text, tables where a page asks.")]
OcrOption = Annotated[Ocr, typer.Option(help="auto: pages without text go through tesseract when it is installed.")]
TablesOption = Annotated[bool, typer.Option(help="Find tables.")]
PasswordEnv = Annotated[
    str | None, typer.Option(metavar="NAME", help="Environment variable with the password of encrypted documents.")
]


@app.command()
def index(
    documents: Annotated[Path, typer.Argument(help="Folder of documents: PDF, HWP, HWPX, DOCX, TXT, MD, HTML, ZIP.")],
    index: IndexFolder,
    metadata: Annotated[
        Path | None, typer.Option(help="CSV beside the documents (공고 번호, 사업명, 파일명 …).")
    ] = None,
    include: Annotated[list[str] | None, typer.Option(help="Glob of files to index; may be given again.")] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="Glob of files to leave out; may be given again.")] = None,
    password_env: PasswordEnv = None,
    pdf_reader: ReaderOption = PdfReader.auto,
    tables: TablesOption = True,
    ocr: OcrOption = Ocr.auto,
    page_cpu_s: Annotated[float, typer.Option(min=0.1, help="CPU seconds that a page may take.")] = 30.0,
    chunk_chars: Annotated[int, typer.Option(min=100, max=20_000, help="Most characters of a chunk.")] = 800,
    overlap_chars: Annotated[int, typer.Option(min=0, help="Characters that a chunk repeats of the one before.")] = 120,
    embedder: Annotated[
        str, typer.Option(help="minilm, a sentence-transformers name or path, openai:MODEL.")
    ] = "minilm",
    vlm: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="Model that describes figures; else they are skipped. openai:MODEL (an endpoint); hf:FOLDER, "
            "vllm:FOLDER (weights, in this process; arguments follow: hf:FOLDER,dtype=bfloat16); a name of the file in "
            "TRIVET_MODELS; scripted.",
        ),
    ] = None,
    max_vlm_calls: Annotated[
        int | None, typer.Option(min=0, help="Stop after so many figures were asked about; else no limit.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option(min=0.0, help="Stop before so much is spent, in the currency of --vlm-price; else no limit."),
    ] = None,
    vlm_price: Annotated[
        str | None,
        typer.Option(
            metavar="PROMPT,ANSWER", help="Per million tokens: 0.15,0.6; else as the file in TRIVET_MODELS has it."
        ),
    ] = None,
    figure: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Figure setting, such as qwen3_vl_min_variance=20.")
    ] = None,
    max_failed_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Publish nothing when a larger share of the documents failed.")
    ] = 0.5,
    preview_chunks: Annotated[int, typer.Option(min=0, help="Chunks in chunk_preview.json.")] = 20,
    task_runner: TaskRunnerOption = None,
    cluster: ClusterOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count the figures and the calls they need.")] = False,
    as_json: Json = False,
) -> None:
    """Index a folder; an unchanged document costs nothing, a broken one is reported and hurts no other."""
    from pydantic import ValidationError

    from flows.cli.building import plan_figures, run_build

    _password(password_env)
    try:
        chosen: dict[str, Any] = {
            "documents": documents.absolute(),
            "index": index.absolute(),
            "metadata": metadata and metadata.absolute(),
            "include": include or (),
            "exclude": exclude or (),
            "password_env": password_env,
            "reading": {"pdf_reader": pdf_reader, "tables": tables, "ocr": ocr},
            "limits": {"page_cpu_s": page_cpu_s},
            "chunk_chars": chunk_chars,
            "overlap_chars": overlap_chars,
            "embedder": embedder,
            "vlm": vlm,
            "figures": _settings(figure or []),
            "spending": {"max_calls": max_vlm_calls, "max_cost": max_cost, "prices": _prices(vlm_price)},
            "max_failed_share": max_failed_share,
            "preview_chunks": preview_chunks,
        }
        if dry_run:
            plan = plan_figures(chosen, quiet=as_json)
            emit(plan, as_json, lambda: show.plan(plan))
            return
        outcome = run_build(chosen, quiet=as_json, task_runner=task_runner, cluster=cluster)
    except ValidationError as error:
        fail(sentences(error, _flag), REFUSED)
    emit(outcome.report, as_json, lambda: show.report(outcome.report, index))
    if outcome.unfinished:
        fail(outcome.unfinished, FAILED)
    if outcome.report.documents.failed:
        raise typer.Exit(DONE_WITH_FAILURES)


@app.command()
def text(
    file: Annotated[Path, typer.Argument(help="A document.")],
    password_env: PasswordEnv = None,
    pdf_reader: ReaderOption = PdfReader.auto,
    tables: TablesOption = True,
    ocr: OcrOption = Ocr.auto,
    as_json: Json = False,
) -> None:
    """Show what is read from one document, page by page and block by block."""
    from tasks.rag.documents.errors import DocumentError
    from tasks.rag.documents.isolation import DocumentUnreadable, Job, ReadLimits, read_document
    from tasks.rag.documents.reading import ReadOptions
    from tasks.rag.documents.sniff import sniff

    password = _password(password_env)
    require_file(file, "a document")
    options = ReadOptions.model_validate({"pdf_reader": pdf_reader, "tables": tables, "ocr": ocr})
    with plain_errors(DocumentError, DocumentUnreadable):
        sniffed = sniff(file)
        job = Job(path=file, digest="", format=sniffed.format, password=password)
        document = read_document(job, options=options, limits=ReadLimits()).document
        read = document.model_copy(update={"notes": (*sniffed.notes, *document.notes)})
    pages = [
        {
            "page": page.number,
            "status": page.status,
            "reason": page.reason,
            "blocks": [block.model_dump(mode="json", exclude={"page"}) for block in page.blocks],
        }
        for page in read.pages
    ]
    emit({"file": str(file), "reader": read.reader, "pages": pages}, as_json, lambda: show.text(read))


@app.command()
def chunks(
    index: IndexFolder,
    document: Annotated[str | None, typer.Option(help="Only chunks of this document (its path in the folder).")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many.")] = 20,
    every: Annotated[bool, typer.Option("--all", help="All of them.")] = False,
    as_json: Json = False,
) -> None:
    """Print chunks as they are indexed."""
    from storage.errors import StorageError
    from storage.index import open_index
    from tasks.rag.retrieval.search import read_chunk

    with plain_errors(StorageError), open_index(index) as opened:
        rows = range(len(opened))
        if document is not None:
            rows = [row for row in rows if document in (opened.document(row).name, *opened.document(row).aliases)]
            if not rows:
                names = ", ".join(entry.name for entry in opened.catalogue[:5])
                fail(f"the index holds no chunks of {document!r}; it has {names} …", REFUSED)
        shown = [(opened.document(row).name, read_chunk(opened, row)) for row in (rows if every else rows[:limit])]
    listed = [{"document_name": name, **chunk.model_dump(mode="json")} for name, chunk in shown]
    emit({"chunks": listed, "total": len(rows)}, as_json, lambda: show.chunks(listed, len(rows)))


@app.command()
def status(
    index: IndexFolder,
    every: Annotated[bool, typer.Option("--all", help="List the documents without trouble too.")] = False,
    as_json: Json = False,
) -> None:
    """Show what an index holds, what became of each document, and what a build is doing."""
    from storage.errors import StorageError
    from tasks.rag.indexing.status import read_status

    with plain_errors(StorageError):
        found = read_status(index)
    if found is None:
        fail(f"{index} holds no index; make one with `trivet rag index FOLDER --index {index}`", REFUSED)
    emit(found, as_json, lambda: show.status(found, every=every))


def _password(variable: str | None) -> str | None:
    """What the environment variable holds that the user named."""
    if variable is None:
        return None
    if variable not in os.environ:
        fail(f"--password-env {variable}: there is no such environment variable; export it first", REFUSED)
    return os.environ[variable]


def _settings(pairs: list[str]) -> dict[str, str]:
    """NAME=VALUE options as a dict; the model that they go into checks names and values."""
    for pair in pairs:
        if "=" not in pair:
            fail(f"--figure {pair!r} is not NAME=VALUE; write for example --figure qwen3_vl_min_variance=20", REFUSED)
    return dict(pair.split("=", 1) for pair in pairs)


def _prices(option: str | None) -> dict[str, float] | None:
    from flows.cli.pricing import prices_of

    try:
        return prices_of(option)
    except ValueError as error:
        fail(f"--vlm-price {option}: {error}", REFUSED)


def _flag(field: str) -> str:
    """What `index` calls a field of its configuration."""
    outer, _, inner = field.partition(".")
    match outer:
        case "figures":
            return f"figure {inner}"
        case "reading" | "limits":
            return inner
        case "spending":
            return {"prices": "vlm_price", "max_calls": "max_vlm_calls"}.get(inner.partition(".")[0], "max_cost")
        case _:
            return outer
