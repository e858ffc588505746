"""Answers whose bytes are ready: what a hot route returns, without an encoder or a header mapping in between.

The seeds' bodies have the spacing of Python's ``json.dumps`` (contract weather 6); ``json_answer`` keeps it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

from litestar import Response
from litestar.response.base import ASGIResponse
from litestar.types import HTTPResponseStartEvent, Receive, Scope, Send

JSON = b"application/json"
LEAN = "lean"
"""Key of a handler's ``opt`` for a function of the ASGI scope that gives the same answer without the framework in
between. It checks its own credentials and raises the same errors; for the few routes that are asked most."""
Headers = tuple[tuple[bytes, bytes], ...]


class Answer(Response[bytes]):
    """A status, headers and a body that are sent as they are."""

    def __init__(self, body: bytes, *, status: int = 200, media_type: bytes = JSON, headers: Headers = ()) -> None:
        """Take the bytes; ``content-type`` and ``content-length`` are added to the headers.

        Does not call the parent's initialiser: it would build the header mappings that this class exists to avoid.
        """
        self.body = body
        self.status_code = status
        self.raw_status = status
        self.raw_headers = [
            (b"content-type", media_type),
            (b"content-length", str(len(body)).encode()),
            *headers,
        ]

    def to_asgi_response(self, *_: Any, **__: Any) -> ASGIResponse:  # noqa: ANN401 - the framework's own signature
        """Return this object itself, which is an ASGI application."""
        return cast("ASGIResponse", self)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - ASGI's signature
        """Send the two messages of a whole answer."""
        start: HTTPResponseStartEvent = {
            "type": "http.response.start",
            "status": self.raw_status,
            "headers": self.raw_headers,
        }
        await send(start)
        await send({"type": "http.response.body", "body": self.body, "more_body": False})


def json_answer(content: object, *, status: int = 200, headers: Headers = ()) -> Answer:
    """Return content as JSON with the spacing that the seeds' bodies have."""
    return Answer(json.dumps(content).encode(), status=status, headers=headers)


def etag_of(body: bytes) -> bytes:
    """Return a strong entity tag of the bytes."""
    return b'"' + hashlib.blake2b(body, digest_size=12).hexdigest().encode() + b'"'


def header(scope: Mapping[str, Any], name: bytes) -> bytes | None:
    """Return a request header's first value; ``name`` in lower case."""
    for key, value in scope["headers"]:
        if key == name:
            return cast("bytes", value)
    return None


def tagged(scope: Mapping[str, Any], answer: Answer, etag: bytes) -> Answer:
    """Return the answer, or 304 without a body when the caller already has the one with that tag."""
    given = header(scope, b"if-none-match")
    if given is not None and (given.strip() == b"*" or etag in [tag.strip() for tag in given.split(b",")]):
        return Answer(b"", status=304, headers=((b"etag", etag),))
    return answer
