"""Posts readings over HTTP: one per request, or many where the far side takes batches.

A reading counts as delivered only when a 2xx answer is a JSON object that says ``ok: true`` (DESIGN.md decision 7): a
captive portal's page, a redirect, or any other body leaves it waiting (faults B6, B12). Redirects are not followed.
400, 413 and 422 are final for that reading; every other answer and a broken line are tried again.

The batch route is tried first when several readings wait. A far side without it (404, 405) or that does not
understand it gets single posts, and is asked again after a while.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Any, Literal, Self

import httpx
import msgspec
import structlog

from stormjay.ground.clock import Clock
from stormjay.ground.outbox.port import Delivered, Outcome, Refused, TryLater, Unavailable
from stormjay.weather.delivery_body import batch_body, single_body

log = structlog.get_logger(__name__)

FINAL_STATUSES = frozenset({400, 413, 422})
NO_BATCH_STATUSES = frozenset({404, 405, 400, 422})
TOO_LARGE = 413
ANSWER_BYTES_MAX = 64 * 1024
BATCH_ANSWER_BYTES_MAX = 4 * 1024 * 1024
ERROR_BODY_CHARACTERS_MAX = 400
NOT_TRIED = Unavailable("AWS API network error: not tried, since another got no answer")


class DeliverySettings(msgspec.Struct, frozen=True, kw_only=True):
    """One destination.

    Attributes:
        name: Name of the destination in metrics, logs and on the page.
        api_url: Address of the API, without ``/observations``.
        api_key: Sent as ``x-weatherstation-key``; empty sends none.
        timeout_seconds: How long one request may take from its beginning to the end of its answer.
        concurrency: Requests at a time, and most connections kept.
        batch_size: Readings per request where the far side takes batches; 1 never asks for it.
        batch_retry_seconds: After how long a far side without batch route is asked for it again.
        order: Which waiting readings go first.
        schedule_seconds: Waits after the first, second ... own failure of a reading; the last one repeats.
        poll_seconds: Longest time between two looks for due readings.
        heartbeat_seconds: Longest time between two heartbeats.
    """

    name: str = "aws"
    api_url: str
    api_key: str = ""
    timeout_seconds: float = 15.0
    concurrency: int = 48
    batch_size: int = 500
    batch_retry_seconds: float = 3600.0
    order: Literal["oldest", "newest"] = "oldest"
    schedule_seconds: tuple[float, ...] = (30.0, 120.0, 600.0, 1800.0)
    poll_seconds: float = 5.0
    heartbeat_seconds: float = 5.0


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    retry_after: str | None

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300  # noqa: PLR2004 - the class of success

    @property
    def content(self) -> Any:  # noqa: ANN401 - any JSON value
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None

    @property
    def text(self) -> str:
        body = self.body[: 4 * ERROR_BODY_CHARACTERS_MAX].decode(errors="replace")
        return f"AWS API HTTP {self.status}: {body[:ERROR_BODY_CHARACTERS_MAX]}"


class HttpSender:
    """Posts payloads to one API; use it as an async context manager, which opens and closes its connections."""

    def __init__(self, settings: DeliverySettings, *, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._url = settings.api_url.rstrip("/") + "/observations"
        self._batch_size = settings.batch_size
        self._no_batch_until = float("-inf")
        self._slots = asyncio.Semaphore(settings.concurrency)
        self._tls: ssl.SSLContext | None = None
        self._idle: list[httpx.AsyncClient] = []

    async def __aenter__(self) -> Self:
        self._tls = await asyncio.to_thread(_tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._tls = None
        while self._idle:
            await self._idle.pop().aclose()

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[httpx.AsyncClient]:
        """Lend a client of one connection, the one used last first, so that few connections stay warm.

        One client with many connections would do, but its pool looks through all of them for every request: with 32
        that took two thirds of the processor's time.
        """
        if self._tls is None:
            raise RuntimeError("the sender is not open")
        async with self._slots:
            client = self._idle.pop() if self._idle else self._new_client(self._tls)
            try:
                yield client
            finally:
                self._idle.append(client)

    def _new_client(self, tls: ssl.SSLContext) -> httpx.AsyncClient:
        # Compressed answers could unfold to any size; these are small.
        headers = {b"content-type": b"application/json", b"accept-encoding": b"identity"}
        if self._settings.api_key:
            headers[b"x-weatherstation-key"] = self._settings.api_key.encode()
        return httpx.AsyncClient(
            verify=tls,
            headers=headers,
            limits=httpx.Limits(max_connections=1, max_keepalive_connections=1),
            timeout=None,  # noqa: S113 - _post limits the whole request; httpx's own limits start anew with each packet
            follow_redirects=False,
        )

    @property
    def batch_max(self) -> int:
        """Most payloads that one ``send`` takes now: 1 while the far side is known to take no batches."""
        return 1 if self._clock.monotonic() < self._no_batch_until else self._batch_size

    async def send(self, items: Sequence[bytes]) -> Sequence[Outcome]:
        """Post payloads and return the outcome of each."""
        if len(items) == 1:
            return [await self._post_one(items[0])]
        if self.batch_max > 1:
            outcomes = await self._post_batch(items)
            if outcomes is not None:
                return outcomes
        return await self._post_each(items)

    async def _post_one(self, item: bytes) -> Outcome:
        answer = await self._post(self._url, single_body(item), ANSWER_BYTES_MAX)
        if isinstance(answer, Unavailable):
            return answer
        content = answer.content
        if answer.ok and isinstance(content, dict) and content.get("ok") is True:
            return Delivered(duplicate=content.get("deduped") is True)
        if answer.status in FINAL_STATUSES:
            return Refused(answer.status, answer.text)
        return self._try_later(answer)

    async def _post_each(self, items: Sequence[bytes]) -> list[Outcome]:
        """Post one by one, several at a time; once nobody answers the rest is not tried."""
        outcomes: list[Outcome] = [NOT_TRIED] * len(items)
        places = iter(range(len(items)))

        async def post_next() -> None:
            for place in places:
                outcomes[place] = outcome = await self._post_one(items[place])
                if isinstance(outcome, Unavailable):
                    for _ in places:  # leave nothing to the others
                        pass

        async with asyncio.TaskGroup() as group:
            for _ in range(min(self._settings.concurrency, len(items))):
                group.create_task(post_next())
        return outcomes

    async def _post_batch(self, items: Sequence[bytes]) -> list[Outcome] | None:
        """Post a batch; None means the items are to be posted one by one."""
        answer = await self._post(f"{self._url}/batch", batch_body(items), BATCH_ANSWER_BYTES_MAX)
        if isinstance(answer, Unavailable):
            return [answer] * len(items)
        if answer.status == TOO_LARGE:
            self._batch_size = max(1, len(items) // 2)
            log.info("delivery.batch_too_large", destination=self._settings.name, batch_size=self._batch_size)
            return None
        if answer.status in NO_BATCH_STATUSES:
            self._note_no_batch(answer)
            return None
        content = answer.content if answer.ok else None
        if not isinstance(content, dict):
            return [self._try_later(answer)] * len(items)
        results = content.get("results")
        if not isinstance(results, list) or len(results) != len(items):
            self._note_no_batch(answer)
            return None
        return [_outcome_of(result) for result in results]

    def _note_no_batch(self, answer: _Answer) -> None:
        self._no_batch_until = self._clock.monotonic() + self._settings.batch_retry_seconds
        log.info("delivery.no_batch_route", destination=self._settings.name, http_status=answer.status)

    async def _post(self, url: str, body: bytes, bytes_max: int) -> _Answer | Unavailable:
        try:
            async with (
                self._connection() as client,
                asyncio.timeout(self._settings.timeout_seconds),
                client.stream("POST", url, content=body) as response,
            ):
                return _Answer(
                    response.status_code, await _read(response, bytes_max), response.headers.get("retry-after")
                )
        except TimeoutError:
            return Unavailable("AWS API timeout")
        except (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError) as error:
            return Unavailable(f"AWS API network error: {str(error) or type(error).__name__}")

    def _try_later(self, answer: _Answer) -> TryLater:
        return TryLater(answer.text, self._seconds(answer.retry_after))

    def _seconds(self, retry_after: str | None) -> float | None:
        """Return what a ``Retry-After`` header asks for: seconds, or a date (RFC 9110, 10.2.3)."""
        if retry_after is None:
            return None
        if retry_after.isascii() and retry_after.isdigit():
            return float(retry_after[:9])
        try:
            moment = parsedate_to_datetime(retry_after)
        except ValueError:
            return None
        aware = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment
        return max(0.0, (aware - self._clock.now()).total_seconds())


@functools.cache
def _tls() -> ssl.SSLContext:
    """Return what servers are verified with; reading the authorities takes a tenth of a second, so it is done once."""
    return httpx.create_ssl_context()


async def _read(response: httpx.Response, bytes_max: int) -> bytes:
    """Return the body, cut at a bound: what is longer is no answer of this API."""
    body = bytearray()
    async for piece in response.aiter_raw():
        body += piece
        if len(body) > bytes_max:
            break
    return bytes(body[:bytes_max])


def _outcome_of(result: object) -> Outcome:
    """Return the outcome that one entry of a batch answer stands for."""
    if isinstance(result, dict):
        if result.get("ok") is True:
            return Delivered(duplicate=result.get("deduped") is True)
        status = result.get("status")
        text = msgspec.json.encode(result).decode()[:ERROR_BODY_CHARACTERS_MAX]
        if isinstance(status, int) and status in FINAL_STATUSES:
            return Refused(status, f"AWS API HTTP {status}: {text}")
        return TryLater(f"AWS API HTTP {status or 200}: {text}")
    return TryLater(f"AWS API HTTP 200: a result is no object: {result!r:.100}")
