"""Several collections on one server: each page, model and tool is about the one that is named."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import openai
import pytest

from flows.service.api import Refused
from flows.service.live_index import Indexing, LiveIndex
from flows.service.served_collections import Collection, Folders, folders_of, require_indexes
from storage import connections
from storage.embedded import Cluster
from storage.index import open_index
from storage.sessions import Sessions
from tests.flows.asks import publish_texts
from tests.flows.web.served import AUTH, Drawn, Site, Told, answer, cited, ferry, publish_pdf, site

pytestmark = pytest.mark.postgres
TRAM = answer("What does the tram cost?", "It costs 41 won [1].", cited(1, "41 won"))
SHIPS = "ships & boats"


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    importlib.import_module("flows")  # configures the store

    return publish_pdf(tmp_path_factory.mktemp("ships"))


@pytest.fixture(scope="module")
def served(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder, home = tmp_path_factory.mktemp("texts"), Path(os.environ["TRIVET_HOME"])
    documents = tmp_path_factory.mktemp("documents")

    @contextmanager
    def ships() -> Generator[Told]:
        with open_index(drawn.index) as opened:
            yield Told(opened, {"What does the ferry cost?": ferry(drawn)})

    indexing = Indexing(documents, drawn.index, command=("true",))
    other = Collection(SHIPS, LiveIndex(drawn.index, ships), indexing)
    sessions = Sessions(lambda: connections.locate(None, home))
    index, answers = publish_texts(folder / "index"), {TRAM.question: TRAM}
    with site(index, folder / "home", answers, sessions=sessions, others=[other]) as running:
        yield running
    connections.engine(Cluster(home).start()).dispose()


def test_a_conversation_stays_in_the_collection_that_it_began_in(served: Site) -> None:
    [link] = re.findall(r'href="(/ui/\?collection=ships[^"]*)"', served.get("/ui/").text)[:1]
    [action] = re.findall(r'<form id="ask" method="post" action="([^"]*)"', served.get(link).text)
    first = served.post(action.replace("&amp;", "&"), question="What does the ferry cost?")
    session = first.url.path.rpartition("/")[2]
    assert ("It costs 7 won" in first.text, "Collection ships &amp; boats" in first.text) == (True, True)
    again = served.post("/ui/ask", question="What does the ferry cost?", session=session)  # no collection is named
    assert again.text.count("It costs 7 won") == 2
    listed = served.get("/ui/conversations").text
    assert f"<td>{SHIPS.replace('&', '&amp;')}</td>" in listed


def test_documents_are_those_of_the_collection_and_so_are_the_files_that_operators_change(
    served: Site, drawn: Drawn
) -> None:
    texts, ships = served.get("/ui/documents").text, served.get(f"/ui/documents?collection={SHIPS.replace('&', '%26')}")
    assert ("tram.pdf" in texts, "ferry.pdf" in texts, 'id="upload"' in texts) == (True, False, False)
    assert ("tram.pdf" in ships.text, "ferry.pdf" in ships.text, 'id="upload"' in ships.text) == (False, True, True)
    [upload] = re.findall(r'<form id="upload"[^>]* action="([^"]*)"', ships.text)
    sent = {"token": served.token()}
    page = served.browser.post(upload.replace("&amp;", "&"), data=sent, files=[("files", ("new.txt", b"new"))])
    assert "Taken: new.txt" in page.text
    refused = served.browser.post("/ui/documents/upload", data=sent, files=[("files", ("new.txt", b"new"))])
    assert refused.status_code == 409
    assert served.get(f"/ui/documents/{drawn.digest}").status_code == 200  # a digest names its collection


def test_an_unknown_collection_is_a_sentence(served: Site) -> None:
    page = served.get("/ui/documents?collection=no")
    assert (page.status_code, "there is no collection" in page.text) == (404, True)
    assert served.program("/search?question=x").status_code == 404
    assert "name a collection; there are texts" in served.program("/numbers").json()["error"]
    assert served.program("/documents?collection=texts").json()["documents"][0]["name"] == "harbor.pdf"


def test_each_collection_is_a_model(served: Site) -> None:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=AUTH, max_retries=0) as client:
        assert [model.id for model in client.models.list()] == ["texts", SHIPS]
        asked: Any = [{"role": "user", "content": "What does the ferry cost?"}]
        reply = client.chat.completions.create(model=SHIPS, messages=asked)
        assert (reply.model, "It costs 7 won" in str(reply.choices[0].message.content)) == (SHIPS, True)
        with pytest.raises(openai.NotFoundError, match=r"'texts', 'ships & boats'"):
            client.chat.completions.create(model="trivet", messages=asked)


def test_an_agent_names_the_collection(served: Site) -> None:
    pytest.importorskip("mcp")
    from tests.flows.web.test_doors import at_http

    async def both(client: Any) -> Any:
        tools = await client.list_tools()
        wanted = {"question": "What does the ferry cost?"}
        return (
            tools,
            await client.call_tool("ask", wanted | {"collection": SHIPS}),
            await client.call_tool("ask", wanted),
        )

    tools, told, refused = at_http(served, both)
    offered = {tool.name for tool in tools.tools if "collection" in tool.input_schema["properties"]}
    assert offered == {"ask", "search", "numbers", "page_image"}
    assert ("It costs 7 won" in told.content[0].text, refused.is_error) == (True, True)
    assert "name a collection" in refused.content[0].text


def test_words_of_the_command_are_collections(tmp_path: Path) -> None:
    assert folders_of(["out"], ["papers"]) == {"out": Folders(index=Path("out"), documents=Path("papers"))}
    found = folders_of(["law=a/out", "b/out"], ["law=a/papers"])
    assert found == {
        "law": Folders(index=Path("a/out"), documents=Path("a/papers")),
        "out": Folders(index=Path("b/out")),
    }
    assert [*folders_of(["postgresql://me:secret@db.example.org"], [])] == ["db.example.org"]
    with pytest.raises(Refused, match="holds no index"):
        require_indexes(folders_of([str(tmp_path)], []))
    assert list(folders_of(["law", "postgresql://me@127.0.0.1:1/data?schema=news"], [])) == ["law", "news"]


@pytest.mark.parametrize(
    ("indexes", "documents", "said"),
    [
        (["a/out", "b/out"], [], "another collection is called out; write --index NAME=b/out"),
        (["a/one", "b/two"], ["papers"], "name its collection, one of one, two: NAME=papers"),
        (["a/one"], ["papers", "one=more"], "has a folder of documents already"),
        ([], ["papers"], "--documents needs --index"),
    ],
)
def test_words_that_fit_no_collection_are_refused(indexes: list[str], documents: list[str], said: str) -> None:
    with pytest.raises(Refused, match=said):
        folders_of(indexes, documents)
