"""What holds for every answer of the web application: errors, headers, health, tokens, description, static files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from litestar import Request, Response, get
from litestar.exceptions import HTTPException, InternalServerException
from litestar.params import FromPath, FromQuery

from stormjay.errors import (
    BadRequest,
    DestinationDown,
    Forbidden,
    NotFound,
    SettingsError,
    StoreDamaged,
    StoreUnavailable,
    TooLarge,
    Unauthorized,
)
from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.stats.port import Metric, Statistics
from stormjay.ground.web import description
from stormjay.ground.web.app import WebSettings, create_app
from stormjay.ground.web.envelope import REFUSED, UNEXPECTED, problem_of, wants_problem
from stormjay.ground.web.health import Health
from stormjay.ground.web.tokens import ADMIN, READ, WEATHER_WRITE, Token, Tokens

START = datetime(2026, 8, 6, 8, tzinfo=UTC)
ERRORS: dict[str, Callable[[], Exception]] = {
    "bad": lambda: BadRequest("limit_must_be_integer"),
    "long": lambda: TooLarge("batch_too_large", "a batch may have 5 payloads"),
    "gone": lambda: NotFound("not_found"),
    "who": lambda: Unauthorized("unauthorized"),
    "no": lambda: Forbidden("forbidden", "this token does not allow admin"),
    "busy": lambda: StoreUnavailable("disk full"),
    "down": lambda: DestinationDown("far side", retry_after_seconds=12.2),
    "broken": lambda: StoreDamaged("cloud.db is damaged"),
    "bug": lambda: RuntimeError("the secret word"),
    "teapot": lambda: HTTPException(status_code=418),
    "left": lambda: InternalServerException("client disconnected prematurely"),
}


@get("/fail/{name:str}")
async def fail(name: FromPath[str]) -> str:
    error = ERRORS[name]()
    raise error


@get("/number")
async def number(n: FromQuery[int]) -> dict[str, int]:
    return {"n": n}


@get("/own-policy")
async def own_policy() -> Response[str]:
    return Response("<p>x</p>", media_type="text/html", headers={"content-security-policy": "default-src 'none'"})


@get("/echo")
async def echo(request: Request[Any, Any, Any]) -> str:
    return request.method


@asynccontextmanager
async def web(
    settings: WebSettings | None = None,
    statistics: Statistics | None = None,
    health: Health | None = None,
    static: dict[str, Path] | None = None,
    **tokens: Any,
) -> AsyncIterator[httpx.AsyncClient]:
    clock = ManualClock(START)
    app = create_app(
        route_handlers=[fail, number, own_policy, echo],
        settings=settings or WebSettings(),
        tokens=Tokens(**tokens),
        statistics=statistics or Statistics(),
        health=health or Health(clock),
        announcer=Announcer(),
        clock=clock,
        static=static,
    )
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://web") as client:
        yield client


ANSWERS: list[tuple[str, int, dict[str, Any]]] = [
    ("bad", 400, {"ok": False, "error": "limit_must_be_integer"}),
    ("long", 413, {"ok": False, "error": "batch_too_large", "message": "a batch may have 5 payloads"}),
    ("gone", 404, {"ok": False, "error": "not_found"}),
    ("who", 401, {"ok": False, "error": "unauthorized"}),
    ("no", 403, {"ok": False, "error": "forbidden", "message": "this token does not allow admin"}),
    ("busy", 503, {"ok": False, "error": "unavailable", "message": "try again later"}),
    ("down", 503, {"ok": False, "error": "unavailable", "message": "try again later"}),
    ("teapot", 418, {"ok": False, "error": "refused"}),
    ("left", 400, {"ok": False, "error": "caller_left"}),
]


@pytest.mark.anyio
async def test_each_branch_of_the_tree_has_its_answer() -> None:
    statistics = Statistics()
    async with web(statistics=statistics) as client:
        for name, status, body in ANSWERS:
            before = statistics.value(REFUSED, status=str(status))
            answer = await client.get(f"/fail/{name}")
            assert (answer.status_code, answer.json()) == (status, body)
            assert statistics.value(REFUSED, status=str(status)) == before + 1
            problem = await client.get(f"/fail/{name}", headers={"accept": "application/problem+json"})
            assert problem.headers["content-type"] == "application/problem+json"
            assert (problem.json()["status"], problem.json()["code"]) == (status, body["error"])


@pytest.mark.anyio
async def test_a_bug_is_500_counted_logged_and_says_nothing() -> None:
    statistics = Statistics()
    with structlog.testing.capture_logs() as logs:
        async with web(statistics=statistics) as client:
            answer = await client.get("/fail/bug")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert statistics.value(UNEXPECTED) == 1
    assert logs[0]["event"] == "web.unexpected_error"


def test_waits_and_credentials_are_said_in_headers() -> None:
    assert problem_of(DestinationDown("x", retry_after_seconds=12.2)).headers == ((b"retry-after", b"13"),)
    assert problem_of(Unauthorized("unauthorized")).headers == ((b"www-authenticate", b"Bearer"),)
    assert problem_of(StoreDamaged("x")).status == 503


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("", False),
        ("*/*", False),
        ("application/json", False),
        ("application/problem+json", True),
        ("application/json, application/problem+json", True),
        ("application/problem+json;q=0.5, application/json", False),
    ],
)
def test_problem_details_go_to_who_names_them(accept: str, wanted: bool) -> None:  # noqa: FBT001 - a case's column
    assert wants_problem(accept) is wanted


@pytest.mark.anyio
async def test_the_frameworks_own_refusals_have_the_same_shape() -> None:
    async with web() as client:
        missing = await client.get("/number")
        assert (missing.status_code, missing.json()["error"]) == (400, "validation_failed")
        wrong = await client.get("/number", params={"n": "x"})
        assert wrong.json()["details"][0].startswith("n ")
        unknown = await client.get("/nowhere")
        assert unknown.json() == {"ok": False, "error": "route_not_found", "method": "GET", "path": "/nowhere"}
        method = await client.post("/number")
        assert (method.status_code, method.json()["error"]) == (405, "method_not_allowed")
        assert "GET" in method.headers["allow"]


@pytest.mark.anyio
async def test_every_answer_carries_the_security_headers(tmp_path: Path) -> None:
    async with web(static={"/static/mine": tmp_path}) as client:
        for path in ("/healthz", "/nowhere", "/number", "/fail/bad", "/docs", "/static/api/docs.css", "/x/"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff", path
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            policy = headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert "access-control-allow-origin" not in headers
        assert (await client.get("/own-policy")).headers.get_list("content-security-policy") == ["default-src 'none'"]


@pytest.mark.anyio
async def test_cors_can_be_narrowed_or_switched_off() -> None:
    async with web(WebSettings(cors_allow_origin="https://page.example")) as client:
        answer = await client.get("/observations")
        assert answer.headers["access-control-allow-origin"] == "https://page.example"
    async with web(WebSettings(cors_allow_origin="")) as client:
        assert "access-control-allow-origin" not in (await client.get("/observations")).headers


@pytest.mark.anyio
async def test_head_is_get_without_a_body_and_options_is_ok_everywhere() -> None:
    async with web() as client:
        head = await client.head("/healthz")
        assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "12")
        assert (await client.head("/static/api/docs.css")).status_code == 200
        options = await client.options("/any/path")
        assert (options.status_code, options.text) == (200, '{"ok": true}')


@pytest.mark.anyio
async def test_targets_that_no_route_has_are_refused_at_the_door() -> None:
    async with web() as client:
        for path in ("/healthz/", "//healthz", "/a%00b"):
            assert (await client.get(path)).status_code == 404, path
        assert (await client.get("/" + "a" * 9000)).status_code == 414


@pytest.mark.anyio
async def test_static_files_are_served_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "page").mkdir()
    (tmp_path / "page" / "tile.css").write_text("a {}")
    (tmp_path / "secret").write_text("x")
    async with web(static={"/static/page": tmp_path / "page"}) as client:
        assert (await client.get("/static/page/tile.css")).text == "a {}"
        for path in ("/static/page/..%2fsecret", "/static/page/%00", "/static/page/" + "a" * 300, "/static/page/none"):
            assert (await client.get(path)).status_code == 404, path


# --- health -------------------------------------------------------------------------------------------------------


def _failing() -> tuple[bool, str, bool]:
    raise RuntimeError("no such disk")


@pytest.mark.anyio
async def test_readiness_is_what_the_needed_checks_say() -> None:
    health = Health(ManualClock(START))
    health.add("journal", lambda: (True, "writable", True))
    health.add("cloud", lambda: (False, "connection refused", False))
    async with web(health=health) as client:
        assert (await client.get("/healthz")).json() == {"ok": True}
        ready = await client.get("/readyz")
        assert ready.status_code == 200
        assert ready.json()["checks"]["cloud"] == {"ok": False, "reason": "connection refused", "needed": False}
        health.add("disk", _failing)
        unready = await client.get("/readyz")
        assert (unready.status_code, unready.json()["ok"]) == (503, False)
        assert "no such disk" in unready.json()["checks"]["disk"]["reason"]
    with pytest.raises(ValueError, match="disk"):
        health.add("disk", _failing)


@pytest.mark.anyio
async def test_the_status_has_sections_and_figures() -> None:
    statistics, health = Statistics(), Health(ManualClock(START))
    metric = Metric("things", "counter", "Things.", ("kind",), label="Things")
    statistics.add(metric, 3, kind="good")
    health.add_section("queue", lambda: {"waiting": 5})
    health.add_section("broken", lambda: 1 / 0)
    async with web(statistics=statistics, health=health, public=[READ]) as client:
        status = (await client.get("/status")).json()
        assert status["ok"] is True
        assert status["started_at"] == "2026-08-06T08:00:00.000000Z"
        assert status["sections"]["queue"] == {"waiting": 5}
        assert "division" in status["sections"]["broken"]["error"]
        [things] = [figure for figure in status["statistics"] if figure["name"] == "things"]
        assert (things["value"], things["labels"]) == (3, {"kind": "good"})


# --- tokens -------------------------------------------------------------------------------------------------------


SHOWN: list[tuple[dict[str, str], int]] = [
    ({}, 401),
    ({"authorization": "Bearer wrong"}, 401),
    ({"authorization": "Basic cmVhZGVy"}, 401),
    ({"authorization": "Bearer reader"}, 200),
    ({"authorization": "bearer  reader "}, 200),
    ({"X-Weatherstation-Key": "reader"}, 200),
    ({"x-weatherstation-key": "hashed at rest"}, 200),
    ({"authorization": "Bearer boss"}, 200),
    ({"authorization": "Bearer writer"}, 403),
    ({"authorization": "Bearer \xff"}, 401),
]


@pytest.mark.anyio
async def test_b26_tokens_open_what_their_scopes_allow() -> None:
    """Fault B26: scopes and digests; the comparison is the standard library's constant-time one."""
    digest = hashlib.sha256(b"hashed at rest").hexdigest()
    tokens = [
        Token(name="reader", secret="reader"),
        Token(name="hashed", secret=f"sha256:{digest}"),
        Token(name="boss", secret="boss", scopes=(ADMIN,)),
        Token(name="writer", secret="writer", scopes=(WEATHER_WRITE,)),
        Token(name="unset", secret=""),
    ]
    async with web(tokens=tokens) as client:
        for headers, status in SHOWN:
            raw = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
            assert (await client.get("/status", headers=raw)).status_code == status, headers


def test_tokens_are_kept_as_digests_and_checked_at_the_start() -> None:
    tokens = Tokens([Token(name="a", secret="word"), Token(name="unset", secret="")])
    assert len(tokens) == 1
    assert "word" not in repr(vars(tokens))
    with pytest.raises(SettingsError, match="unknown scopes"):
        Tokens([Token(name="a", secret="x", scopes=("everything",))])
    with pytest.raises(SettingsError, match="64 hex digits"):
        Tokens([Token(name="a", secret="sha256:abc")])


# --- the API's own description ------------------------------------------------------------------------------------


@pytest.mark.anyio
async def test_the_description_is_openapi_3_1_and_describes_every_error() -> None:
    async with web() as client:
        answer = await client.get("/openapi.json")
        document = answer.json()
        assert document["openapi"].startswith("3.1")
        for path, item in document["paths"].items():
            for operation in item.values():
                assert operation["responses"]["default"] == {"$ref": "#/components/responses/Error"}, path
        references = set(re.findall(r'"#/components/([^"]+)"', answer.text))
        for reference in references:
            kind, name = reference.split("/")
            assert name in document["components"][kind]
        again = await client.get("/openapi.json", headers={"if-none-match": answer.headers["etag"]})
        assert again.status_code == 304
        assert (await client.get("/schema")).status_code == 404


@pytest.mark.anyio
async def test_the_docs_page_loads_only_from_here(tmp_path: Path) -> None:
    files = tmp_path / "swagger-ui"
    files.mkdir()
    for name in ("swagger-ui-bundle.js", "swagger-ui.css"):
        (files / name).touch()
    [_, docs] = description.routes(tmp_path)
    page = (await docs.fn(request=None)).body.decode()
    assert "swagger-ui-bundle.js" in page
    assert "http" not in page
    assert "<script>" not in page
    (files / "swagger-ui.css").unlink()
    assert "make" in (await docs.fn(request=None)).body.decode()
