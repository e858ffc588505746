"""The serving side's claim: items and LATEST depend on the set of bodies alone.

Random bodies are sent in a random order, some twice, singly and in batches, and the process is killed at random writes;
whoever got no answer sends again, as the delivery does. What then lies in the store must equal what one orderly sender
leaves. The memory adapter carries many short lives; a few examples reopen a real file behind the whole application.
"""

from __future__ import annotations

import tempfile
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import anyio
import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.servers.cloud import WRITE, CloudBench, DyingStore, KilledError, body_of, cloud

from stormjay.ground.announcer import Announcer
from stormjay.ground.clock import ManualClock
from stormjay.ground.keyed.memory import MemoryKeyedStore
from stormjay.ground.keyed.port import KeyedStore
from stormjay.ground.stats.port import Statistics
from stormjay.ground.web.tokens import WEATHER_WRITE, Principal
from stormjay.weather.cloud.serving import Cloud, CloudSettings
from stormjay.weather.cloud.store import TABLE, Observations

Body = dict[str, Any]
Send = Callable[[list[Body]], Awaitable[bool]]
STATIONS = ("!00000001", "!00000002")
STAMPS = {"ingested_at_utc", "updated_at_utc"}
"""When something was written is not part of the claim."""
SENDER = Principal(name="sender", scopes=frozenset({WEATHER_WRITE}))
DEATHS = 3

BODIES = st.lists(
    st.builds(
        lambda station, second: body_of(
            source_node_id=station,
            msg_id=second,
            source_ts_utc=str(1786000000 + second),
            weather={"air_temp_c": second % 30},
        ),
        st.sampled_from(STATIONS),
        st.integers(0, 12),
    ),
    min_size=1,
    max_size=12,
)


async def what_lies_there(store: KeyedStore | DyingStore) -> list[Body]:
    pages = [await store.query(f"STATION#{station}", limit=1000) for station in STATIONS]
    items = [msgspec.json.decode(document) for page in pages for document in page.documents]
    return [{name: value for name, value in item.items() if name not in STAMPS} for item in items]


async def one_life(send: Send, unanswered: list[Body], random: Random) -> bool:
    """Send in any order and grouping until all is answered (True) or the process dies (False)."""
    while unanswered:
        random.shuffle(unanswered)
        group = unanswered[: random.choice((1, 1, 2, 5))]
        if not await send(group):
            return False
        del unanswered[: len(group)]
    return True


def with_repeats(bodies: list[Body], random: Random) -> list[Body]:
    return [*bodies, *random.choices(bodies, k=random.randint(0, 4))]


def latest_by_plain_computation(bodies: list[Body]) -> dict[str, str]:
    newest: dict[str, str] = {}
    for payload in (body["payload"] for body in bodies):
        station, moment = payload["source_node_id"], payload["source_ts_utc"]
        newest[station] = max(newest.get(station, ""), moment)
    return newest


def sender_to(store: KeyedStore | DyingStore) -> Send:
    """Return a fresh process over the store; a death is an answer that never comes."""
    clock = ManualClock(datetime(2026, 8, 6, 8, tzinfo=UTC))
    observations = Observations(store, clock=clock, statistics=Statistics(), announcer=Announcer())
    process = Cloud(observations, settings=CloudSettings(), stations={}, clock=clock)

    async def send(group: list[Body]) -> bool:
        try:
            if len(group) == 1:
                await process.ingest(msgspec.json.encode(group[0]), SENDER)
            else:
                batch = {"payloads": [body["payload"] for body in group]}
                await process.ingest_batch(msgspec.json.encode(batch), SENDER)
        except KilledError:
            return False
        return True

    return send


@given(BODIES, st.integers(0, 2**32))
def test_any_order_repetition_and_death_gives_the_same_items_and_latest(bodies: list[Body], seed: int) -> None:
    random = Random(seed)  # noqa: S311 - a schedule, no secret

    async def both() -> None:
        tidy = MemoryKeyedStore(TABLE)
        send = sender_to(tidy)
        for body in bodies:
            assert await send([body])
        expected = await what_lies_there(tidy)
        store, unanswered = MemoryKeyedStore(TABLE), with_repeats(bodies, random)
        for _ in range(DEATHS):
            await one_life(sender_to(DyingStore(store, writes_left=random.randint(0, 8))), unanswered, random)
        assert await one_life(sender_to(store), unanswered, random)
        assert await what_lies_there(store) == expected
        latest = {item["source_node_id"]: item["source_ts_raw"] for item in expected if item["sk"] == "LATEST"}
        assert latest == latest_by_plain_computation(bodies)

    anyio.run(both)


def sender_over_http(bench: CloudBench) -> Send:
    async def send(group: list[Body]) -> bool:
        if len(group) == 1:
            return (await bench.post(group[0])).status_code == 200
        content = msgspec.json.encode({"payloads": [body["payload"] for body in group]})
        answer = await bench.client.post("/observations/batch", content=content, headers=WRITE)
        return answer.status_code == 200

    return send


@settings(max_examples=max(3, settings().max_examples // 40))
@given(BODIES, st.integers(0, 2**32))
def test_b7_a_file_behind_the_whole_application_converges_too(bodies: list[Body], seed: int) -> None:
    """Fault B7: each life is an application of its own over the file that the one before left."""
    random = Random(seed)  # noqa: S311 - a schedule, no secret

    async def lives(path: Path) -> None:
        unanswered = with_repeats(bodies, random)
        for life in range(DEATHS + 1):
            async with cloud(path) as bench:
                bench.store.writes_left = random.randint(0, 8) if life < DEATHS else None
                await one_life(sender_over_http(bench), unanswered, random)
                items = await what_lies_there(bench.store)
        assert not unanswered
        latest = {item["source_node_id"]: item["source_ts_raw"] for item in items if item["sk"] == "LATEST"}
        assert latest == latest_by_plain_computation(bodies)
        kept = {(item["source_node_id"], item["msg_id"]) for item in items if item["sk"] != "LATEST"}
        assert kept == {(body["payload"]["source_node_id"], body["payload"]["msg_id"]) for body in bodies}

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(lives, Path(folder) / "cloud.db")
