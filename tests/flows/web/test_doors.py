"""Programs at the door: the `openai` package, LangChain, the MCP SDK's own client, plain JSON."""

from __future__ import annotations

import asyncio
import base64
import importlib
import json
import os
import re
import sys
from collections.abc import Awaitable, Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from markdown_it import MarkdownIt
from PIL import Image
from pydantic import SecretStr

from flows.service.web.openai_door import LINK, ChatRequest, Message, _read_question
from models.embedders import open_embedder
from tests.command import TRIVET
from tests.flows.asks import publish_texts
from tests.flows.web.served import AUTH, SENTENCE, Drawn, Site, answer, cited, ferry, publish_pdf, site
from tests.models.server import serving

mcp = pytest.importorskip("mcp")

DOUBT = answer(
    "Does it float?",
    "It floats [1]. On 9 rivers. It sinks in 3.",
    cited(1, "it floats <b>", document="ferry.pdf", page=None),
    unsupported=("On 9 rivers.", "It sank in 1912."),
)


SHORT: dict[str, Any] = {
    "short": {"values": ["7"], "scale": "thousand"},
    "value": "7000",
    "unit": "KRW",
    "scale": "thousand",
    "display": "7",
}


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory) -> Drawn:
    importlib.import_module("flows")  # configures the store

    return publish_pdf(tmp_path_factory.mktemp("doors"))


@pytest.fixture(scope="module")
def served(drawn: Drawn, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    answers = {one.question: one for one in (ferry(drawn, **SHORT), DOUBT, LURE)}
    with site(drawn.index, tmp_path_factory.mktemp("home"), answers) as running:
        yield running


@pytest.fixture
def client(served: Site) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key=AUTH, max_retries=0) as opened:
        yield opened


def asked(question: str) -> Any:
    return [{"role": "user", "content": question}]


def test_each_claim_links_to_the_picture_of_its_place(client: openai.OpenAI, drawn: Drawn) -> None:
    reply = client.chat.completions.create(model="trivet", messages=asked("What does the ferry cost?"))
    message = reply.choices[0].message
    assert message.content
    assert message.annotations
    [place] = [one.url_citation for one in message.annotations]
    assert message.content[place.start_index : place.end_index] == f"[\\[1\\]]({place.url})"
    assert place.title == "ferry.pdf, page 2"
    picture = httpx.get(place.url)  # without any auth string: the link carries its own permission
    assert Image.open(BytesIO(picture.content)).size[0] > 400
    assert SENTENCE in message.content


def test_an_unsupported_sentence_is_never_unmarked_whole_or_as_a_stream(client: openai.OpenAI) -> None:
    content = str(
        client.chat.completions.create(model="trivet", messages=asked(DOUBT.question)).choices[0].message.content
    )
    assert "On 9 rivers. (⚠ not supported) It sinks in 3." in content
    assert "⚠ not supported: It sank in 1912." in content
    assert "it floats &lt;b&gt;" in content
    chunks = list(client.chat.completions.create(model="trivet", messages=asked(DOUBT.question), stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == content
    assert chunks[-1].choices[0].finish_reason == "stop"
    with pytest.raises(openai.APIError, match="the question failed"):
        list(client.chat.completions.create(model="trivet", messages=asked("fails"), stream=True))


def test_langchain_gets_the_sources_and_every_mark_whole_and_as_a_stream(served: Site, drawn: Drawn) -> None:
    ChatOpenAI = pytest.importorskip("langchain_openai").ChatOpenAI  # noqa: N806

    chat = ChatOpenAI(base_url=f"{served.url}/v1", api_key=SecretStr(AUTH), model="trivet", max_retries=0)
    sourced, doubtful = (str(chat.invoke(question).content) for question in (ferry(drawn).question, DOUBT.question))
    [(link, quote)] = re.findall(r"- \\\[1\\\] \[ferry\.pdf, page 2\]\((\S+)\): “(.*)”", sourced)
    assert (httpx.get(link).headers["content-type"], quote) == ("image/png", SENTENCE)
    assert "On 9 rivers. (⚠ not supported) It sinks in 3." in doubtful
    said = ""
    for chunk in chat.stream(DOUBT.question):
        said += str(chunk.content)
        assert said.count("On 9 rivers.") == said.count("On 9 rivers. (⚠ not supported)")  # at no moment unmarked
    assert said == doubtful


EVIL = "http://127.0.0.1:9/?said="
LURE = answer("Lure?", f"See ![x]({EVIL}a) [here]({EVIL}b).", cited(1, f"![q]({EVIL}c) <img src={EVIL}d>"))


def test_no_text_of_a_document_or_a_model_becomes_a_link_or_a_picture_of_a_chat_client(client: openai.OpenAI) -> None:
    reply = client.chat.completions.create(model="trivet", messages=asked(LURE.question))
    drawn = MarkdownIt().render(str(reply.choices[0].message.content))
    addresses = re.findall(r'(?:src|href)="([^"]*)"', drawn)
    assert ("<img" in drawn, [one for one in addresses if "said=" in one]) == (False, [])


def test_no_address_in_a_message_is_asked(client: openai.OpenAI) -> None:
    with serving() as other:
        picture = {"type": "image_url", "image_url": {"url": f"{other.base_url}/picture.png"}}
        told: Any = [{"role": "user", "content": [{"type": "text", "text": "What does the ferry cost?"}, picture]}]
        reply = client.chat.completions.create(model="trivet", messages=told)
    assert ("7 won" in str(reply.choices[0].message.content), other.requests) == (True, [])


def test_a_turn_before_is_history_without_its_links() -> None:
    earlier = (
        "It costs 7 won [\\[1\\]](http://h/p?k=1). On 9. (⚠ not supported)\n\n- \\[1\\] [a, page 2](http://h/p): “x”\n"
    )
    messages = [
        Message(role="system", content="Be brief."),
        Message(role="user", content="Cost?"),
        Message(role="assistant", content=f"**7 won**\n\n{earlier}"),
        Message(role="user", content="And then?"),
    ]
    question = _read_question(ChatRequest(messages=messages))
    assert question.question == "And then?"
    assert [(turn.question, turn.answer) for turn in question.history] == [("Cost?", "It costs 7 won [1]. On 9.\n")]
    assert not LINK.search("[\\[1\\]](" * 200_000), "nor does it take an hour"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"model": "gpt-9", "messages": asked("x")}, 404),
        ({"model": "trivet", "messages": []}, 400),
        ({"model": "trivet", "messages": [{"role": "assistant", "content": "x"}]}, 400),
        ({"model": "trivet"}, 400),
    ],
)
def test_what_does_not_fit_is_an_error_in_openais_form(served: Site, body: Any, status: int) -> None:
    reply = served.program("/v1/chat/completions", method="POST", json=body)
    assert (reply.status_code, set(reply.json()["error"])) == (status, {"message", "type", "param", "code"})


@pytest.mark.parametrize("path", ["/v1/models", "/numbers", "/search?question=x", "/runs", "/results", "/mcp"])
@pytest.mark.parametrize("auth", [None, "Bearer wrong", f"Basic {AUTH}"])
def test_a_program_without_the_auth_string_is_refused(served: Site, path: str, auth: str | None) -> None:
    served.program("/v1/models")  # or each wrong string is answered later than the one before
    with httpx.Client(cookies=served.browser.cookies) as browser:  # whose cookie opens no door for programs
        reply = browser.get(served.url + path, headers={"Authorization": auth} if auth else {})
    assert reply.status_code == 401


def test_the_description_and_its_page_name_every_route(served: Site) -> None:
    paths = httpx.get(f"{served.url}/openapi.json").json()["paths"]
    assert {"/ask", "/search", "/numbers", "/documents", "/runs", "/v1/chat/completions"} <= paths.keys()
    page = served.get("/docs").text
    assert all(f"{path}</code>" in page for path in paths)
    assert served.program("/numbers?period=lately").status_code == 422
    faulty = served.program("/search?question=price&top_k=many")
    assert (faulty.status_code, list(faulty.json())) == (422, ["error"])
    assert re.match(r"top_k: .*valid integer.*, not 'many'; .* /openapi\.json$", faulty.json()["error"])


def at_http(served: Site, call: Callable[[Any], Awaitable[Any]]) -> Any:
    """What the SDK's own client gets over HTTP."""
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> Any:
        headers = {"Authorization": f"Bearer {AUTH}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(f"{served.url}/mcp", http_client=http)) as client,
        ):
            return await call(client)

    return asyncio.run(run())


def test_an_agent_finds_the_tools(served: Site) -> None:
    found = at_http(served, lambda client: client.list_tools())
    assert {tool.name for tool in found.tools} == {"ask", "search", "numbers", "page_image", "eval_results"}


def test_every_door_carries_the_short_answer_and_its_exact_value(served: Site, client: openai.OpenAI) -> None:
    question = "What does the ferry cost?"
    at_mcp = at_http(served, lambda client: client.call_tool("ask", {"question": question}))
    at_json = served.program("/ask", method="POST", json={"question": question}).json()
    message = client.chat.completions.create(model="trivet", messages=asked(question)).choices[0].message.model_dump()
    for told in (json.loads(at_mcp.content[0].text), at_json, message["trivet"]):
        assert {name: told[name] for name in SHORT} == SHORT
    assert message["content"].startswith("**KRW 7 thousand**\n\nIt costs 7 won")


def test_an_agent_gets_an_answer_with_its_places(served: Site, drawn: Drawn) -> None:
    done = at_http(served, lambda client: client.call_tool("ask", {"question": "What does the ferry cost?"}))
    told = json.loads(done.content[0].text)
    assert (told["answer"], told["unsupported"]) == ("It costs 7 won [1].", [])
    assert told["citations"][0] | {"box": None} == {
        "n": 1,
        "document": "ferry.pdf",
        "page": 2,
        "box": None,
        "place": "ferry.pdf, page 2",
        "quote": SENTENCE,
    }


def test_an_agent_sees_the_page(served: Site, drawn: Drawn) -> None:
    wanted = {"document": "ferry.pdf", "page": 2, "box": list(drawn.box)}
    done = at_http(served, lambda client: client.call_tool("page_image", wanted))
    picture = Image.open(BytesIO(base64.b64decode(done.content[0].data)))
    assert picture.size[0] > 400


@pytest.mark.parametrize(
    ("tool", "given", "said"),
    [
        ("page_image", {"document": "../../etc/passwd", "page": 1}, "the index has no document"),
        ("page_image", {"document": "ferry.pdf", "page": 9}, "it has no page 9"),
        ("ask", {"question": " "}, "KeyError"),
        ("numbers", {"period": "lately"}, "is no period"),
    ],
)
def test_what_a_tool_cannot_do_is_told_to_the_agent(served: Site, tool: str, given: Any, said: str) -> None:
    done = at_http(served, lambda client: client.call_tool(tool, given))
    assert (done.is_error, said in done.content[0].text) == (True, True)


@pytest.mark.slow
def test_an_agent_asks_over_stdio(tmp_path: Path) -> None:
    from mcp.client.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    index = publish_texts(tmp_path / "index", embedder=open_embedder("minilm"))
    words = [*TRIVET[1:], "rag", "serve", "--mcp", "--index", str(index)]
    server = StdioServerParameters(command=sys.executable, args=words, env=dict(os.environ))

    async def run() -> Any:
        async with Client(stdio_client(server)) as client:
            return await client.call_tool("ask", {"question": "What is the bid price of the tram?"})

    told = json.loads(asyncio.run(run()).content[0].text)
    assert ("41,000,000" in told["answer"], told["citations"][0]["document"]) == (True, "tram.pdf")
