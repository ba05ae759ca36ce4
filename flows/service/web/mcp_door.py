"""An MCP server: agents search, ask, read numbers, see pages and read results. Imported with the extra `mcp` only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

from anyio.to_thread import run_sync
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import Field
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from flows.service.answering import Asking, Busy, Question, Refusal
from flows.service.served_collections import Collections, UnknownCollection
from flows.service.web import doors
from flows.service.web.place_page import draw
from flows.service.web.visits import Workplace
from storage.evaluations import Evaluations
from storage.storage_errors import StorageError
from tasks.documents.isolation import DocumentUnreadable
from tasks.rag.answering.evidence import NoPicture
from tasks.rag.answers import SHORT_FIELDS, cited_place
from tasks.rag.planning.names import find_named_documents

Result = TypeVar("Result")
Count = Annotated[int, Field(ge=1)]

INSTRUCTIONS = (
    "Answers questions about the indexed documents. Each claim cites document, page and box; `unsupported` names "
    "sentences that no cited place bears out: do not pass them on as facts. `page_image` shows a cited place."
)


def create_mcp(asking: Asking, collections: Collections, evaluations: Callable[[], Evaluations]) -> MCPServer:
    """Return the server with its tools, which raise ToolError; a collection must be named where there are several."""
    names = collections.names
    choice = f" `collection` is one of: {', '.join(names)}." if names else ""
    server = MCPServer("trivet", instructions=INSTRUCTIONS + choice, log_level="WARNING")

    @server.tool()
    async def ask(
        question: str, context: Context, documents: list[str] | None = None, collection: str | None = None
    ) -> dict[str, Any]:
        """Answer a question from the documents, with document, page and quote for every claim."""
        request = Question(question=question, documents=tuple(documents) if documents else None)
        live = await _call_in_thread(lambda: collections.find(collection).live)
        try:
            answer = await asking.answer(context.request_context.request, request, live)  # None over stdio
        except Busy as busy:
            raise ToolError(str(busy)) from busy
        if isinstance(answer, Refusal):
            raise ToolError(answer.sentence)
        cited = [
            {
                "n": citation.n,
                "document": citation.document,
                "page": citation.page,
                "box": citation.bbox,
                "place": cited_place(citation),
                "quote": citation.quote,
            }
            for citation in answer.citations
        ]
        fields = {"answer", "abstained", "unsupported", "confidence", "notes", *SHORT_FIELDS}
        return answer.model_dump(mode="json", include=fields) | {"citations": cited}

    @server.tool()
    async def search(question: str, top_k: Count = 5, collection: str | None = None) -> list[dict[str, Any]]:
        """Find the passages that answer a question best: document, page, box, text."""
        return await _call_in_thread(lambda: doors.search(collections.find(collection).live, question, top_k=top_k))

    @server.tool()
    async def numbers(
        entity: str = "",
        line: str = "",
        period: str = "",
        most: Count = 50,
        collection: str | None = None,
    ) -> list[dict[str, Any]]:
        """Numbers of tables by words of the document's name and of the row, and by years such as 2019..2021."""
        filters: dict[str, Any] = {"entity": entity, "line": line, "period": period, "most": most}
        return await _call_in_thread(lambda: doors.numbers(collections.find(collection).live, **filters))

    @server.tool()
    async def page_image(
        document: str, page: int, box: list[float] | None = None, collection: str | None = None
    ) -> Image:
        """Return the PNG of a page (1-based) with a frame round `box`: [x0, y0, x1, y1], points from the top left."""

        def picture() -> bytes:
            with collections.find(collection).live.borrow() as current:
                digest, *_ = find_named_documents([document], current.index.catalogue)
            return draw(digest, page, ",".join(f"{edge:.2f}" for edge in box or ()))

        return Image(data=await _call_in_thread(picture), format="png")

    @server.tool()
    async def eval_results(task: str | None = None, model: str | None = None) -> list[dict[str, Any]]:
        """The leaderboard of evaluated models, with 95 % intervals."""
        return await _call_in_thread(lambda: doors.results(evaluations(), task=task, model=model))

    return server


async def _call_in_thread(call: Callable[[], Result]) -> Result:
    """Call a function in a thread, and return its result. Raises ToolError, whose sentence the model reads."""
    try:
        return await run_sync(call)
    except (UnknownCollection, StorageError, ValueError, NoPicture, DocumentUnreadable) as error:
        raise ToolError(str(error)) from error


class McpDoor:
    """The ASGI application behind /mcp: the auth string first, then the SDK's own handling."""

    def __init__(self, server: MCPServer, workplace: Workplace) -> None:
        """Set up HTTP without sessions or the SDK's host check: pages on rebound names do not know the auth string."""
        security = TransportSecuritySettings(enable_dns_rebinding_protection=False)
        server.streamable_http_app(stateless_http=True, json_response=True, transport_security=security)
        self.manager = server.session_manager
        self._workplace = workplace

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._workplace.authorize(Request(scope))
        await self.manager.handle_request(scope, receive, send)
