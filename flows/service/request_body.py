"""The body of a request, up to a size."""

from __future__ import annotations

from fastapi import HTTPException, Request

MOST_BODY_BYTES = 1_000_000
DRAINED_BYTES = 8 * MOST_BODY_BYTES
"""Most bytes read from a request that is too large, so that its client gets the error."""


async def body_of(request: Request) -> bytes:
    """The body. Raises HTTPException 413 when it is too large."""
    kept, size = bytearray(), 0
    async for part in request.stream():
        size += len(part)
        if size > DRAINED_BYTES:
            break
        if size <= MOST_BODY_BYTES:
            kept += part
    if size > MOST_BODY_BYTES:
        raise HTTPException(413, f"the body has more than {MOST_BODY_BYTES:,} bytes; ask a shorter question")
    return bytes(kept)
