"""What the bridge holds, kept in a small file so that a killed process loses no rain and counts none twice.

The file is written whole (neighbour, fsync, rename, fsync of the folder) before a text is handed to the radio and after
each change. After a kill between handing over and noting it, the frozen text goes out a second time, byte for byte, and
the home side knows it as the same reading. Survives: power cut, kill. A file that cannot be read is set aside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import msgspec
import structlog

from stormjay.weather.bridge_core import Bridge, Entry

_log = structlog.get_logger(__name__)

Number = int | float
Kind = Literal["evt_strike", "evt_precip", "obs_st", "device_status", "hub_status", "dbg"]
MessageId = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
EntryState = tuple[Kind, int, dict[str, Number], list[tuple[str, str]], str]


class BridgeState(msgspec.Struct, frozen=True, kw_only=True):
    """The file's contents, as ``Bridge.state`` gives them.

    Attributes:
        msg_id: Number of the next text.
        carry: Amounts that no waiting text holds, by key on the air.
        queue: What waits, in order.
        flight: The frozen text, or None.
        seen: Per type the records heard last.
    """

    msg_id: MessageId
    carry: dict[str, Number]
    queue: list[EntryState]
    flight: EntryState | None
    seen: dict[str, list[str]]


_decoder = msgspec.json.Decoder(BridgeState)


def encoded(bridge: Bridge) -> bytes:
    """Return what the bridge holds now, as the file's bytes."""
    return msgspec.json.encode(bridge.state())


def restore(bridge: Bridge, path: Path) -> bool:
    """Let the bridge carry on from the file.

    Returns:
        Whether there was one; a damaged file is renamed with the ending ``.damaged`` and reported.
    """
    try:
        state = _decoder.decode(path.read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, msgspec.DecodeError) as error:
        aside = path.with_name(path.name + ".damaged")
        _log.error("bridge.state_damaged", path=str(path), set_aside_as=str(aside), error=str(error))
        try:
            path.replace(aside)
        except OSError as refusal:
            _log.error("bridge.state_not_set_aside", path=str(path), error=str(refusal))
        return False
    bridge.restore(
        msg_id=state.msg_id,
        carry=state.carry,
        queue=[Entry(*entry) for entry in state.queue],
        flight=None if state.flight is None else Entry(*state.flight),
        seen=state.seen,
    )
    return True
