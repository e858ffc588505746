"""What the bridge writes down can always be written, and what it finds cannot stop it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stormjay.weather import bridge_state
from stormjay.weather.bridge_core import Bridge

T0 = 1773824400
READING: list[Any] = ["obs_st", T0, {"t": 6.0}, [], ""]


def obs(serial: str) -> bytes:
    values = [T0, 0.4, 1.1, 2.0, 180, 3, 1008.0, 6.0, 80, 900, 0.1, 5, 0.25, 1, 0, 0, 2.6, 1]
    return json.dumps({"serial_number": serial, "type": "obs_st", "obs": [values]}).encode()


def test_a_serial_number_that_utf_8_cannot_hold_is_written_down_and_known_again(tmp_path: Path) -> None:
    path = tmp_path / "bridge.json"
    bridge, after = Bridge(), Bridge()
    assert bridge.on_datagram(obs("ST-\ud800"), 0) == "queued"
    path.write_bytes(bridge_state.encoded(bridge))
    assert bridge_state.restore(after, path)
    assert after.on_datagram(obs("ST-\ud800"), 0) == "duplicate"


@pytest.mark.parametrize(
    "changes",
    [
        {"queue": [["weather", T0, {}, [], ""]]},
        {"flight": ["weather", T0, {}, [], "x"]},
        {"msg_id": 10**30},
        {"msg_id": -1},
    ],
    ids=lambda changes: str(*changes),
)
def test_a_state_that_would_end_the_bridge_later_is_set_aside(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "bridge.json"
    sound: dict[str, Any] = {"msg_id": 7, "carry": {}, "queue": [READING], "flight": None, "seen": {}}
    path.write_text(json.dumps(sound))
    assert bridge_state.restore(Bridge(), path)
    path.write_text(json.dumps(sound | changes))
    assert not bridge_state.restore(Bridge(), path)
    assert path.with_name("bridge.json.damaged").exists()
