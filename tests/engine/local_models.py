"""Runs of whole commands with weights on this disk, and what a bare generate of the same weights says beside them."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.backends import open_chat
from storage.responses import StoredResponse
from tasks.calls import response_key
from tests.lever.vqa_folders import annotation, question, write_files
from tests.models.picture_reader import COLOURS, CORNERS, Bare, make_picture_reader, picture_of

SHOWN = (("red", "green", "blue", "yellow"), ("yellow", "yellow", "red", "blue"), ("green", "red", "red", "green"))
"""Colours of the pictures in the document."""
PLAIN = ("--set", "figures.qwen3_vl_min_edge_energy=0", "--set", "figures.qwen3_vl_max_tokens=8")
"""Pictures of four colours have few edges; the seed's filter would drop them."""
LITTLE = (
    *("--set=dataset.train_queries=6", "--set=dataset.validation=4", "--set=dataset.test=10", "--set=pool_size=3"),
    *("--set=beams.queries=2", "--set=sft.epochs=1", "--set=rce.epochs=1", "--set=grpo.rounds=1"),
    *("--set=grpo.draws=2", "--set=oracle.most_judgments=0", "--set=evaluated_shots=[1]", "--set=shots=1"),
)
"""Of `lever run`: ten queries are judged in the end, with one demonstration each."""


def make_reader(folder: Path) -> Path:
    """A model that reads pictures of four colours when it is asked to describe them."""
    from tasks.rag.indexing.figures import PROMPT

    return make_picture_reader(folder, describe=PROMPT)


def write_documents(folder: Path) -> Path:
    """A PDF whose pages have a picture each."""
    import pymupdf

    folder.mkdir()
    with pymupdf.open() as pdf:
        for colours in SHOWN:
            page = pdf.new_page()
            page.insert_text((72, 72), "A page with a figure of four colours and some words below its head.")
            page.insert_image(pymupdf.Rect(100, 150, 400, 450), stream=picture_of(colours, side=200))
        pdf.save(folder / "colours.pdf")
    return folder


def kept(keys: Sequence[str]) -> list[StoredResponse]:
    from tasks.resources import responses

    found = responses().many(list(keys))
    return [found[key] for key in keys]


def asked_and_said(answer: StoredResponse) -> tuple[dict[str, Any], dict[str, Any]]:
    assert isinstance(answer.request, dict)
    assert isinstance(answer.response, dict)
    return answer.request, answer.response


def figures_of(vlm: str, **settings: Any) -> list[tuple[bytes, StoredResponse]]:
    """The pictures of the artifact store that this model was asked about, each with its answer."""
    from tasks.rag.indexing.figures import FigureSettings, figure_request
    from tasks.resources import artifacts, responses

    chat = open_chat(vlm)
    pngs = [artifacts().get(one.ref) for one in artifacts().objects() if one.ref.kind == "figure"]
    wanted = FigureSettings(qwen3_vl_max_tokens=8, **settings)
    keys = {response_key(chat.id, figure_request(png, wanted)): png for png in pngs}
    return [(keys[key], answer) for key, answer in responses().many(list(keys)).items()]


def said_of_figures(vlm: str, reader: Path) -> list[str]:
    """What was kept for the figures, which is token for token what a bare generate says."""
    from tasks.rag.indexing.figures import PROMPT

    bare, said = Bare(reader), list[str]()
    for png, answer in figures_of(vlm):
        _, response = asked_and_said(answer)
        text, tokens = bare.answer(f"<|user|>{PROMPT}IMAGE<|end|><|assistant|>", [png], most=8)
        assert (response["text"], answer.completion_tokens) == (text, tokens), "kept, and bare"
        said.append(text)
    return sorted(said)


def assert_judged_as_bare(run: str, reader: Path, pictures: dict[str, bytes]) -> None:
    """Ten queries, with a demonstration and without, were answered token for token as bare generates say."""
    samples, bare, pictured = samples_of(run), Bare(reader), set[int]()
    assert len(samples) == 10
    assert all(sample.keys for sample in samples)
    for answer in kept([key for sample in samples for key in sample.keys]):
        request, response = asked_and_said(answer)
        [turn] = request["messages"]
        words = "".join(part.get("text", "IMAGE") for part in turn["content"])
        shown = [pictures[part["sha256"]] for part in turn["content"] if part["type"] == "image"]
        pictured.add(len(shown))
        expected = bare.answer(f"<|user|>{words}<|end|><|assistant|>", shown, most=request["max_tokens"])
        assert (response["text"], answer.completion_tokens) == expected
    assert pictured == {1, 2}


def write_questions(folder: Path, **sizes: int) -> dict[str, bytes]:
    """Questions about the corners of pictures, in the files of the CPU world; gives the pictures by their digests."""
    combinations, pictures = itertools.product(COLOURS, repeat=4), dict[str, bytes]()
    number = itertools.count(1)
    (folder / "images").mkdir(parents=True)
    for split, size in sizes.items():
        questions, annotations = list[Any](), list[Any]()
        for colours in itertools.islice(combinations, size):
            image, corner = next(number), len(questions) % 4
            png = picture_of(colours, side=64)
            (folder / "images" / f"digits_{split}_{image:06d}.png").write_bytes(png)
            pictures[hashlib.sha256(png).hexdigest()] = png
            questions.append(question(image * 1000, image, CORNERS[corner]))
            annotations.append(annotation(image * 1000, image, *[colours[corner]] * 10))
        files = [folder / f"digits_{split}_{part}.json" for part in ("questions", "annotations")]
        write_files(files[0], files[1], questions, annotations)
    return pictures


def samples_of(run: str) -> list[Any]:
    from tasks.resources import evaluations

    [found] = evaluations().task_results(run)
    return list(evaluations().samples(run, found.task.task if found.task else ""))
