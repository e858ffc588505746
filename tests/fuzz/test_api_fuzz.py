"""Nothing a caller sends is answered with 500, and every answer is as the API's own description says.

The described requests, valid and broken, are made by Schemathesis from ``/openapi.json``; raw bytes and bodies with one
thing wrong are made by Hypothesis. Both talk to the whole application in process, over a real SQLite file.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio.from_thread
import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from tests.servers.cloud import STATION, WRITE, CloudBench, body_of, cloud

from stormjay.weather.stations import Station

EXAMPLES = {"fast": 25, "ci": 40, "thorough": 1000}[os.environ.get("HYPOTHESIS_PROFILE", "fast")]
BOUNDED = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)
ENDLESS = "/events"
"""A stream that never ends is described but not called here; it has its own tests."""


class Service:
    """The application on a loop of its own thread, for callers that are not async."""

    def __init__(self, portal: anyio.from_thread.BlockingPortal, bench: CloudBench) -> None:
        self._portal = portal
        self._bench = bench

    def send(
        self, method: str, path: str, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> httpx.Response:
        """Send one request."""

        async def sent() -> httpx.Response:
            return await self._bench.client.request(method, path, content=content, headers=headers or WRITE)

        return self._portal.call(sent)

    @property
    def app(self) -> Any:
        """The ASGI application."""
        return self._bench.app


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        portal = stack.enter_context(anyio.from_thread.start_blocking_portal())
        facts = {STATION: Station(source_node_id=STATION, name="Garden", time_zone="Europe/Berlin")}
        bench = stack.enter_context(portal.wrap_async_context_manager(cloud(Path(folder) / "cloud.db", stations=facts)))
        made = Service(portal, bench)
        for second in range(5):
            body = json.dumps(body_of(source_ts_utc=1786000000 + second)).encode()
            assert made.send("POST", "/observations", body).status_code == 200
        yield made


@pytest.fixture(scope="module")
def operations(service: Service) -> list[Any]:
    schema: Any = schemathesis.openapi.from_asgi("/openapi.json", service.app)
    return [found.ok() for found in schema.get_all_operations() if found.ok().path != ENDLESS]


@BOUNDED
@given(data=st.data(), mode=st.sampled_from(list(schemathesis.GenerationMode)))
def test_described_requests_get_described_answers(
    operations: list[Any], data: st.DataObject, mode: schemathesis.GenerationMode
) -> None:
    """Every operation in every example, with requests as described and with ones that are not."""
    for operation in operations:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        case.call_and_validate(
            headers=WRITE,
            checks=[
                not_a_server_error,
                status_code_conformance,
                content_type_conformance,
                response_schema_conformance,
            ],
        )


def refused_or_stored(answer: httpx.Response) -> None:
    assert answer.status_code in {200, 400, 413}, answer.text
    body = answer.json()
    assert body["ok"] is (answer.status_code == 200)
    assert answer.status_code == 200 or isinstance(body["error"], str)


@BOUNDED
@given(body=st.binary(max_size=300))
def test_raw_bytes_are_refused_with_a_reason(service: Service, body: bytes) -> None:
    refused_or_stored(service.send("POST", "/observations", body))
    refused_or_stored(service.send("POST", "/observations/batch", body))


NUMBERS = ["NaN", "Infinity", "-0.0", "1e999", "1e-999", "1e200", "9" * 400, "0." + "1" * 60, "1E+2", "01", "+1", ".5"]
LITERALS = st.one_of(
    st.sampled_from(NUMBERS),
    st.sampled_from(['"\\ud800"', '"\\u0000"', '""', '" "', "null", "true", "[]", "{}", "[" * 40 + "]" * 40]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps),
)
PLACES = ["source_node_id", "source_name", "msg_id", "source_ts_utc", "received_at_utc", "weather"]


@BOUNDED
@given(place=st.sampled_from([*PLACES, "air_temp_c", "timestamp", "precipitation_type", "unknown"]), literal=LITERALS)
def test_b22_one_odd_value_in_a_valid_body_is_never_500(service: Service, place: str, literal: str) -> None:
    """Fault B22: odd JSON inside an otherwise valid body; what is stored must also come back as JSON."""
    body = body_of(**({} if place in PLACES else {"weather": {place: "ODD"}}))
    if place in PLACES:
        body["payload"][place] = "ODD"
    answer = service.send("POST", "/observations", json.dumps(body).replace('"ODD"', literal).encode())
    refused_or_stored(answer)
    if answer.status_code == 200:
        station = quote(answer.json()["source_node_id"], safe="")
        for query in ("", "&sample=2", "&bucket=day"):
            back = service.send("GET", f"/observations?stationId={station}&from=2000-01-01T00:00:00Z&to=9e9{query}")
            assert back.status_code == 400, "exponents are no times"
            back = service.send("GET", f"/observations?stationId={station}&from=946684800&to=4102444800{query}")
            assert back.status_code == 200
            assert back.json()["count"] >= 1
        assert service.send("GET", "/stations").status_code == 200


@BOUNDED
@given(
    target=st.text(st.characters(codec="utf-8"), max_size=60), query=st.text(st.characters(codec="utf-8"), max_size=60)
)
def test_any_target_is_answered(service: Service, target: str, query: str) -> None:
    path = "/" + quote(target, safe="/") + "?" + quote(query, safe="=&%+")
    if path.startswith("/events"):
        return
    assert service.send("GET", path).status_code < 500
    assert service.send("GET", f"/observations?stationId={quote(query)}&from=0&to=1").status_code in {200, 400}
