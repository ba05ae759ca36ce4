"""Questions whose page is known, made of the pages of documents, so that rankings can be measured on any folder.

    python -m tests.benchmarks.known_items FOLDER … --out OUT [--script hangul]
    trivet rag index OUT/pages --index OUT/index [--embedder e5]
    trivet rag eval OUT/questions.jsonl --index OUT/index --strategy bm25 --no-route --split unused

Each page becomes a document, without its title: the title is a question for it, and so is half of the words of one of
its sentences. Halves (`split`: tuning, unused) by a hash of the page. Copies of a page, of a title and of a format
(NAME.hwp beside NAME.hwpx and NAME.hwp.pdf) are left out.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from tasks.documents.document_errors import UnsupportedDocument
from tasks.documents.document_readers import ReadOptions
from tasks.documents.formats import sniff
from tasks.documents.isolation import DocumentUnreadable, Job, ReadLimits, read_document

LEAST_CHARS = 200
TITLE_CHARS, SENTENCE_WORDS = range(4, 61), range(8, 41)
WITHIN = {"hangul": re.compile(r"[가-힣]"), "latin": re.compile(r"[A-Za-z]")}
SENTENCE = re.compile(r"(?<=[.!?다])\s+(?=\S)")


class PageText(NamedTuple):
    """A page without its title."""

    name: str
    title: str
    text: str


def pages_of(files: Sequence[Path], within: re.Pattern[str]) -> Iterator[PageText]:
    """The pages that hold enough text of the script."""
    for file in files:
        try:
            job = Job(path=file, digest="", format=sniff(file).format)
            document = read_document(job, options=ReadOptions(ocr="off"), limits=ReadLimits()).document
        except (DocumentUnreadable, UnsupportedDocument) as error:
            print(f"{file.name} is left out: {error}", file=sys.stderr)
            continue
        for number, page in enumerate(document.pages, start=1):
            texts = [block.text for block in page.blocks if block.kind not in ("header", "footer", "figure")]
            titles = [block.text for block in page.blocks if block.kind == "heading"] or texts[:1]
            body = "\n".join(text for text in texts if text not in titles[:1])
            if len(within.findall(body)) >= LEAST_CHARS:
                yield PageText(f"{file.parent.name}-{file.name}-{number}.txt", " ".join(titles[0].split()), body)


def questions_for(pages: Sequence[PageText], within: re.Pattern[str]) -> Iterator[dict[str, object]]:
    """Lines of a questions file."""
    titles = Counter(page.title for page in pages)
    for page in pages:
        key = blake2b(page.text.encode(), digest_size=8).hexdigest()
        split, chance = ("tuning", "unused")[int(key, 16) % 2], random.Random(key)
        asked = dict[str, str]()
        if titles[page.title] == 1 and len(page.title) in TITLE_CHARS:
            asked["title"] = page.title
        sentences = [one for one in SENTENCE.split(page.text) if len(one.split()) in SENTENCE_WORDS]
        if sentences:
            words = chance.choice(sentences).split()
            kept = sorted(chance.sample(range(len(words)), len(words) // 2))
            asked["words"] = " ".join(words[at] for at in kept)
        for kind, question in asked.items():
            if within.search(question):
                yield {"id": f"{key}-{kind}", "kind": kind, "split": split, "question": question, "document": page.name}


def main() -> None:
    """Write the pages and the questions."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--script", choices=sorted(WITHIN), default="hangul")
    chosen = parser.parse_args()
    within = WITHIN[chosen.script]
    files = sorted(file for folder in chosen.folders for file in folder.rglob("*") if file.is_file())
    one_each = {str(file).partition(".hwp")[0]: file for file in sorted(files, key=lambda file: file.suffix)}
    pages = list({page.text: page for page in pages_of(list(one_each.values()), within)}.values())
    folder = chosen.out / "pages"
    folder.mkdir(parents=True)
    for page in pages:
        (folder / page.name).write_text(page.text)
    lines = [json.dumps(one, ensure_ascii=False) for one in questions_for(pages, within)]
    (chosen.out / "questions.jsonl").write_text("\n".join(lines) + "\n")
    print(f"{len(pages)} pages, {len(lines)} questions")


if __name__ == "__main__":
    main()
