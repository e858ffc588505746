"""Who sent a packet and how well it was heard, in the forms the rest of the product uses."""

from __future__ import annotations

_NUMBER_MAX = 0xFFFFFFFF
_NAME_LENGTH_MAX = 64


def node_id(number: int) -> str | None:
    """Return a node number as ``!`` and eight hex digits; None for 0 and for the broadcast number, which nobody has.

    The number stands in every packet, the text form only once the sender is known to the radio (fault B1).
    """
    if not 0 < number < _NUMBER_MAX:
        return None
    return f"!{number:08x}"


def real_name(long_name: object, short_name: object, number: int) -> str | None:
    """Return the long name that people gave a node, else its short name, else None.

    Firmware and library fill in ``Meshtastic 1a2b`` and ``1a2b`` from the node's number until somebody names it;
    such a name says nothing and counts as none (fault B16). What UTF-8 cannot hold is replaced, and what is longer than
    any node's name is cut: a name must never be why a reading cannot be stored.
    """
    tail = f"{number:08x}"[-4:]
    for name in (long_name, short_name):
        if not isinstance(name, str) or not name.strip():
            continue
        if name.strip().lower() not in (tail, f"meshtastic {tail}"):
            return name.strip()[:_NAME_LENGTH_MAX].encode("utf-8", "replace").decode()
    return None


def link_quality(snr_db: float | None, rssi_dbm: int | None) -> tuple[float | None, int | None]:
    """Return SNR and RSSI as measured, or None where they were not.

    Both protobuf and the JSON uplink leave a zero out. No receiver hears 0 dBm, so an absent or zero RSSI was not
    measured. An SNR of 0 dB is common: with an RSSI beside it, it is a measurement.
    """
    rssi = rssi_dbm or None
    if rssi is None:
        return (snr_db or None), None
    return (snr_db or 0.0), rssi
