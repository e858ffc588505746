"""Items that may have killed the process: who they are after a restart, and when it is enough.

Before items go to the sender their ids are stored. A start that finds such a note after a kill tries each of these
items alone, noting that too; an item with which the process died alone ``deaths_max`` times is given up as crashed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection

from stormjay.ground.outbox.port import Work

DEATHS_MAX = 3
CRASHED = "crashed: the process died {deaths} times while it worked on this item alone"


class Suspects:
    """The suspects of this start; at most as many as could be claimed before it."""

    def __init__(self, found: Work, *, deaths_max: int = DEATHS_MAX) -> None:
        self._deaths = dict(found.deaths)
        self.crashed: list[int] = []
        """Items to give up now."""
        waiting = dict.fromkeys([*found.suspects, *found.ids])
        if found.alone is not None:
            deaths = self._deaths.get(found.alone, 0) + 1
            self._deaths[found.alone] = deaths
            waiting.pop(found.alone, None)
            if deaths >= deaths_max:
                self.crashed.append(found.alone)
            else:
                waiting[found.alone] = None  # the others first
        self._waiting = deque(waiting)

    def __len__(self) -> int:
        return len(self._waiting)

    def deaths(self, item_id: int) -> int:
        """Return how many times the process died with this item alone."""
        return self._deaths.get(item_id, 0)

    def take(self) -> int | None:
        """Return the next one to try alone, or None."""
        return self._waiting.popleft() if self._waiting else None

    def give_back(self, item_id: int) -> None:
        """Have this one tried again: it was not sent after all."""
        self._waiting.appendleft(item_id)

    def note(self, *, alone: int | None = None, in_work: Collection[int] = ()) -> Work:
        """Return what is to be stored before the next step."""
        if alone is not None:
            return Work(suspects=tuple(self._waiting), alone=alone, deaths=self._kept(alone))
        return Work(ids=tuple(in_work), suspects=tuple(self._waiting), deaths=self._kept(None))

    def _kept(self, alone: int | None) -> dict[int, int]:
        """Return the deaths of those still to be tried; who came through alive is cleared."""
        names = {*self._waiting, alone}
        self._deaths = {item_id: deaths for item_id, deaths in self._deaths.items() if item_id in names}
        return self._deaths
