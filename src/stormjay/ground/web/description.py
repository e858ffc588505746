"""The API's own description: OpenAPI 3.1 at ``/openapi.json``, and ``/docs`` to read it, without a CDN.

The framework derives the operations from the handlers; what every operation has in common is added here once: both
error shapes, the credentials, and a ``default`` answer, so that no status is undescribed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import msgspec
from litestar import Litestar, Request, get
from litestar.config.app import AppConfig
from litestar.handlers import HTTPRouteHandler
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme
from litestar.plugins import InitPlugin
from litestar.router import Router
from litestar.routes import HTTPRoute

from stormjay import __version__
from stormjay.ground.web.answer import Answer, etag_of, tagged
from stormjay.ground.web.envelope import PROBLEM, ErrorBody, ProblemBody

BODY = "request_body"
"""Key of a handler's ``opt`` for (struct, example) of the body that it reads by itself."""
STATIC = Path(__file__).parent / "static"
VENDOR = STATIC / "vendor"
_SWAGGER = ("swagger-ui/swagger-ui-bundle.js", "swagger-ui/swagger-ui.css")
_ERROR_FROM = 400

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stormjay API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/vendor/swagger-ui/swagger-ui.css">
<link rel="stylesheet" href="/static/api/docs.css">
<script src="/static/vendor/swagger-ui/swagger-ui-bundle.js" defer></script>
<script src="/static/api/docs.js" defer></script>
</head>
<body>
<main id="docs" data-description="/openapi.json"></main>
<noscript>
<p>This page needs JavaScript. The description itself is at <a href="/openapi.json">/openapi.json</a>.</p>
</noscript>
</body>
</html>
"""

_WITHOUT_VENDOR = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Stormjay API</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="/static/api/docs.css">
</head>
<body>
<main class="message">
<h1>The viewer is not installed</h1>
<p>This page shows the API with Swagger UI, whose files are copied in by <code>make</code> and were not found.</p>
<p>The description itself is complete at <a href="/openapi.json">/openapi.json</a>; any OpenAPI viewer opens it.</p>
</main>
</body>
</html>
"""


class _KeepOnlyOurs(InitPlugin):
    """Runs after the framework's own OpenAPI plugin and takes back the routes that it has added."""

    def __init__(self, router: Router) -> None:
        self._router = router

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Drop the framework's router; ours serve the description."""
        app_config.route_handlers = [handler for handler in app_config.route_handlers if handler is not self._router]
        return app_config


class DescriptionPlugin(InitPlugin):
    """Has the framework derive the description, but serve none of its own pages (they load from a CDN)."""

    def __init__(self) -> None:
        self._router = Router("/schema", route_handlers=[], include_in_schema=False)

    def on_app_init(self, app_config: AppConfig) -> AppConfig:
        """Configure, and have the clean-up run last."""
        app_config.openapi_config = OpenAPIConfig(
            title="Stormjay",
            version=__version__,
            description=(
                "Captures telemetry, keeps it, serves it. Times are accepted as ISO 8601 with any offset or as epoch "
                "seconds, milliseconds or microseconds, and always answered as UTC with microseconds."
            ),
            openapi_router=self._router,
            use_handler_docstrings=False,
            components=Components(
                security_schemes={
                    "bearer": SecurityScheme(type="http", scheme="bearer"),
                    "weatherKey": SecurityScheme(
                        type="apiKey", name="x-weatherstation-key", security_scheme_in="header"
                    ),
                }
            ),
        )
        app_config.plugins.append(_KeepOnlyOurs(self._router))
        return app_config


def describe(app: Litestar) -> dict[str, Any]:
    """Return the whole description as plain JSON values."""
    document = cast("dict[str, Any]", json.loads(json.dumps(app.openapi_schema.to_schema())))
    _, schemas = msgspec.json.schema_components([ErrorBody, ProblemBody], ref_template="#/components/schemas/{name}")
    components = document.setdefault("components", {})
    components.setdefault("schemas", {}).update(schemas)
    components["responses"] = {"Error": {"description": "Any other error.", "content": _error_content()}}
    for item in document.get("paths", {}).values():
        for operation in item.values():
            if isinstance(operation, dict):
                _complete(operation)
    for route in app.routes:
        if isinstance(route, HTTPRoute):
            for handler in route.route_handlers:
                if BODY in handler.opt:
                    _add_body(document, route.path, handler)
    return document


def _add_body(document: dict[str, Any], path: str, handler: HTTPRouteHandler) -> None:
    struct, example = handler.opt[BODY]
    (reference,), schemas = msgspec.json.schema_components([struct], ref_template="#/components/schemas/{name}")
    document["components"]["schemas"].update(schemas)
    content = {"application/json": {"schema": reference, "example": example}}
    for method in handler.http_methods:
        document["paths"][path][method.lower()]["requestBody"] = {"required": True, "content": content}


def _complete(operation: dict[str, Any]) -> None:
    responses = operation.setdefault("responses", {})
    for status, response in responses.items():
        reference = response.get("content", {}).get("application/json", {}).get("schema", {}).get("$ref", "")
        if int(status) >= _ERROR_FROM and reference.endswith("/ErrorBody"):
            response["content"] = _error_content()
    responses["default"] = {"$ref": "#/components/responses/Error"}


def _error_content() -> dict[str, Any]:
    return {
        "application/json": {"schema": {"$ref": "#/components/schemas/ErrorBody"}},
        PROBLEM.decode(): {"schema": {"$ref": "#/components/schemas/ProblemBody"}},
    }


def routes(vendor: Path = VENDOR) -> list[HTTPRouteHandler]:
    """Return the handlers of ``/openapi.json`` and ``/docs``; they describe everything but themselves."""
    made: list[tuple[bytes, bytes]] = []

    @get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request[Any, Any, Any]) -> Answer:
        if not made:
            body = json.dumps(describe(request.app), indent=1, sort_keys=True, ensure_ascii=False).encode()
            made.append((body, etag_of(body)))
        body, etag = made[0]
        return tagged(cast("Mapping[str, Any]", request.scope), Answer(body, headers=((b"etag", etag),)), etag)

    @get("/docs", include_in_schema=False)
    async def docs(request: Request[Any, Any, Any]) -> Answer:  # noqa: ARG001 - the framework's fast path wants it
        page = _PAGE if all((vendor / name).is_file() for name in _SWAGGER) else _WITHOUT_VENDOR
        return Answer(page.encode(), media_type=b"text/html; charset=utf-8")

    return [openapi, docs]
