"""One mapping from errors to answers, and the two shapes in which a caller may have them.

The seeds' shape ``{"ok": false, "error": code, ...}`` is the default; ``Accept: application/problem+json`` gets
RFC 9457. 500 is for our own bugs alone and says nothing about them to the caller; the log does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Literal, cast

import msgspec
import structlog
from litestar import Request
from litestar.exceptions import HTTPException, MethodNotAllowedException, ValidationException

from stormjay.errors import CallerMistake, DestinationDown, NeverRetry, RetryLater, TooLarge
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.ground.web.answer import Answer, Headers, header, json_answer

PROBLEM = b"application/problem+json"
_RETRY_AFTER_SECONDS = 5
_CALLER_LEFT = "client disconnected prematurely"
"""The framework reports a body that breaks off as its own error; it is the caller's, and nobody reads the answer."""
_CODES = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "route_not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    415: "unsupported_media_type",
    429: "too_many_requests",
    503: "unavailable",
}

REFUSED = Metric(
    "web_refused_requests",
    "counter",
    "Requests answered with an error, by status.",
    ("status",),
    label="Refused requests",
)
TOO_LARGE = Metric(
    "web_bodies_too_large", "counter", "Request bodies over the bound of web.max_body_bytes.", label="Oversize bodies"
)
UNEXPECTED = Metric(
    "web_unexpected_errors", "counter", "Requests that met a bug of ours (500).", label="Unexpected web errors"
)

_log = structlog.get_logger(__name__)


class ErrorBody(msgspec.Struct, frozen=True, kw_only=True):
    """The error shape of the seeds, as the API's description shows it; some codes add members."""

    ok: Literal[False]
    error: str
    message: str | msgspec.UnsetType = msgspec.UNSET
    details: list[str] | msgspec.UnsetType = msgspec.UNSET


class ProblemBody(msgspec.Struct, frozen=True, kw_only=True):
    """The error shape of RFC 9457, as the API's description shows it."""

    type: str
    title: str
    status: int
    code: str
    detail: str | msgspec.UnsetType = msgspec.UNSET
    errors: list[str] | msgspec.UnsetType = msgspec.UNSET


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An error as a caller sees it.

    Attributes:
        status: HTTP status.
        code: The machine word, spelled as the seeds do.
        message: A sentence for people; empty when the code says it all (the seeds' bodies have none).
        details: One line per fault found.
        extra: Further members of the body.
        headers: Headers that belong to the answer.
    """

    status: int
    code: str
    message: str = ""
    details: tuple[str, ...] = ()
    extra: dict[str, Any] = {}
    headers: Headers = ()

    def body(self) -> dict[str, Any]:
        """Return the seeds' shape."""
        content: dict[str, Any] = {"ok": False, "error": self.code, **self.extra}
        if self.message:
            content["message"] = self.message
        if self.details:
            content["details"] = list(self.details)
        return content

    def rfc9457(self) -> dict[str, Any]:
        """Return the shape of problem details."""
        content: dict[str, Any] = {
            "type": f"urn:stormjay:error:{self.code}",
            "title": HTTPStatus(self.status).phrase,
            "status": self.status,
            "code": self.code,
            **{name: value for name, value in self.extra.items() if name not in {"type", "title", "status"}},
        }
        detail = self.message or "; ".join(self.details)
        if detail:
            content["detail"] = detail
        if self.details:
            content["errors"] = list(self.details)
        return content


def route_not_found(method: str, path: str) -> Problem:
    """Return what a path or method that is not served gets (contract weather 6.1, step 2)."""
    return Problem(status=404, code="route_not_found", extra={"method": method, "path": path})


def problem_of(error: Exception, method: str = "", path: str = "") -> Problem:
    """Return how one error is answered; what is in no branch of the tree is a bug of ours and becomes 500."""
    if isinstance(error, CallerMistake):
        message = str(error)
        return Problem(
            status=error.status,
            code=error.code,
            message="" if message == error.code else message,
            details=error.details,
            headers=_credential_wanted(error.status),
        )
    if isinstance(error, RetryLater):
        wait = error.retry_after_seconds if isinstance(error, DestinationDown) else None
        seconds = _RETRY_AFTER_SECONDS if wait is None or not math.isfinite(wait) else max(0, math.ceil(wait))
        return Problem(
            status=503, code="unavailable", message="try again later", headers=((b"retry-after", b"%d" % seconds),)
        )
    if isinstance(error, NeverRetry):
        return Problem(status=503, code="out_of_order", message="the service needs its operator; its log says why")
    if isinstance(error, HTTPException):
        if error.status_code != HTTPStatus.INTERNAL_SERVER_ERROR:
            return _of_framework(error, method, path)
        if error.detail == _CALLER_LEFT:
            return Problem(status=400, code="caller_left")
    return Problem(status=500, code="internal_error", message="this is a bug of the service; its log says more")


def _of_framework(error: HTTPException, method: str, path: str) -> Problem:
    status = error.status_code
    if status == HTTPStatus.NOT_FOUND:
        return route_not_found(method, path)
    if isinstance(error, ValidationException):
        return Problem(status=400, code="validation_failed", details=_lines(error.extra) or (error.detail,))
    headers: Headers = _credential_wanted(status)
    if isinstance(error, MethodNotAllowedException) or error.headers:
        headers += tuple((name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items())
    return Problem(status=status, code=_CODES.get(status, "refused"), headers=headers)


def _credential_wanted(status: int) -> Headers:
    return ((b"www-authenticate", b"Bearer"),) if status == HTTPStatus.UNAUTHORIZED else ()


def _lines(extra: object) -> tuple[str, ...]:
    if not isinstance(extra, list):
        return ()
    return tuple(
        f"{entry.get('key', '')} {entry.get('message', '')}".strip() for entry in extra if isinstance(entry, dict)
    )


def under(path: str, prefixes: tuple[str, ...]) -> bool:
    """Tell whether a path is one of the prefixes or lies below one."""
    return any(path == prefix or path.startswith(prefix + "/") for prefix in prefixes)


def wants_problem(accept: str) -> bool:
    """Tell whether an Accept header names problem+json, and no less gladly than plain JSON."""
    wanted = _quality(accept, PROBLEM.decode())
    return wanted > 0 and wanted >= _quality(accept, "application/json")


def accepted(scope: Mapping[str, Any]) -> str:
    """Return a request's Accept header, empty without one."""
    return (header(scope, b"accept") or b"").decode("latin-1")


def _quality(accept: str, media_type: str) -> float:
    """Return the weight (RFC 9110, 12.4.2) that a media type is named with; 0 when it is not."""
    for part in accept.lower().split(","):
        name, *parameters = (piece.strip() for piece in part.split(";"))
        if name == media_type:
            weights = [parameter[2:] for parameter in parameters if parameter.startswith("q=")]
            try:
                return float(weights[0]) if weights else 1.0
            except ValueError:
                return 0.0
    return 0.0


def render(problem: Problem, accept: str = "") -> Answer:
    """Return the problem in the shape that the caller accepts."""
    if wants_problem(accept):
        body = msgspec.json.encode(problem.rfc9457())
        return Answer(body, status=problem.status, media_type=PROBLEM, headers=problem.headers)
    return json_answer(problem.body(), status=problem.status, headers=problem.headers)


class ErrorHandler:
    """What the framework calls for every error that leaves a route or the routing."""

    def __init__(self, statistics: Statistics, *, seed_paths: tuple[str, ...] = ()) -> None:
        """Count on ``statistics``; under ``seed_paths`` a wrong method is an unknown route, as the seeds have it."""
        self._statistics = statistics
        self._seed_paths = seed_paths
        statistics.declare(REFUSED, TOO_LARGE, UNEXPECTED)

    def __call__(self, request: Request[Any, Any, Any], error: Exception) -> Answer:
        """Answer, count, and log what is our own fault."""
        return self.answer(cast("Mapping[str, Any]", request.scope), error)

    def answer(self, scope: Mapping[str, Any], error: Exception) -> Answer:
        """Do the same for an ASGI scope."""
        method, path = scope["method"], scope["path"]
        problem = problem_of(error, method, path)
        if problem.status == HTTPStatus.METHOD_NOT_ALLOWED and under(path, self._seed_paths):
            problem = route_not_found(method, path)
        if problem.status == HTTPStatus.INTERNAL_SERVER_ERROR:
            self._statistics.add(UNEXPECTED)
            _log.error("web.unexpected_error", method=method, path=path, exc_info=error)
        elif problem.status == HTTPStatus.SERVICE_UNAVAILABLE:
            _log.warning("web.unavailable", path=path, error=str(error))
        return self.refuse(problem, accepted(scope))

    def refuse(self, problem: Problem, accept: str) -> Answer:
        """Count and render."""
        self._statistics.add(REFUSED, status=str(problem.status))
        if problem.status == TooLarge.status:
            self._statistics.add(TOO_LARGE)
        return render(problem, accept)
