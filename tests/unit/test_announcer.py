"""Announcements never wait and never grow without bound."""

from __future__ import annotations

import pytest

from stormjay.ground.announcer import WAITING_MAX, Announcement, Announcer


@pytest.mark.anyio
async def test_every_listener_hears_and_a_slow_one_loses_the_oldest() -> None:
    announcer = Announcer()
    announcer.announce("nobody", listens=True)
    async with announcer.listen() as one, announcer.listen() as other:
        announcer.announce("reading", number=1)
        assert await one.get() == Announcement("reading", {"number": 1})
        for number in range(WAITING_MAX + 3):
            announcer.announce("reading", number=number)
        assert other.qsize() == WAITING_MAX
        assert announcer.dropped == 3 + 4
        assert announcer.listeners == 2
    assert announcer.listeners == 0


@pytest.mark.anyio
async def test_the_number_of_listeners_has_a_bound() -> None:
    announcer = Announcer(listeners_max=1)
    async with announcer.listen():
        with pytest.raises(OverflowError):
            async with announcer.listen():
                raise AssertionError("a second listener was let in")
