"""Weather made of curves, for a hub that does not exist."""

from __future__ import annotations

import collections
import math
import random

DAY_S = 86_400


class Sky:
    """A day's sun, slow fronts, gusts, and showers that come and go.

    Attributes:
        speeds: Wind speeds since the last observation, m/s.
        rain_rate_mm_min: How hard the present shower rains, mm per minute.
    """

    def __init__(self, randomness: random.Random) -> None:
        self._random = randomness
        self._phase = randomness.random() * math.tau
        self._shower_until = 0.0
        self.rain_rate_mm_min = 0.0
        self.speeds: collections.deque[float] = collections.deque(maxlen=1200)

    def sun(self, epoch: float) -> float:
        """Return the sun's strength, 0 to 1, for a day that begins at midnight UTC."""
        return max(0.0, math.sin(math.tau * ((epoch % DAY_S) / DAY_S - 0.25)))

    def front(self, epoch: float) -> float:
        """Return how far a front has come, -1 to 1, in waves of about three days."""
        return math.sin(math.tau * epoch / (2.9 * DAY_S) + self._phase)

    def wind(self, epoch: float) -> tuple[float, int]:
        """Return speed in m/s and direction in degrees at that moment."""
        mean = 2.2 + 1.6 * self.front(epoch + 0.3 * DAY_S) + 1.5 * self.sun(epoch)
        speed = max(0.0, mean + self._random.gauss(0.0, 0.25 + 0.25 * max(0.0, mean)))
        direction = 210 + 70 * self.front(epoch) + self._random.gauss(0.0, 12.0)
        return round(speed, 2), round(direction) % 360

    def rain(self, epoch: float, minutes: float) -> float:
        """Return the rain of the interval that ends now, mm; begins and ends showers."""
        if epoch >= self._shower_until:
            self.rain_rate_mm_min = 0.0
            if self._random.random() < max(0.0, -self.front(epoch)) * 0.02 * minutes:
                self._shower_until = epoch + self._random.uniform(300.0, 3600.0)
                self.rain_rate_mm_min = self._random.uniform(0.005, 0.4)
        return round(self.rain_rate_mm_min * minutes * self._random.uniform(0.6, 1.4), 6)

    def observation(self, epoch: int, interval_s: float, wind_interval_s: float, strikes: int) -> list[float | None]:
        """Return the 18 values of ``obs_st`` (contract weather 1.2)."""
        sun, front = self.sun(epoch), self.front(epoch)
        minutes = interval_s / 60.0
        rain = self.rain(epoch, minutes)
        cloud = 0.35 if rain else 1.0
        speeds = self.speeds or [self.wind(epoch)[0]]
        solar = round(900 * sun * cloud)
        return [
            epoch,
            min(speeds),
            round(sum(speeds) / len(speeds), 2),
            max(speeds),
            self.wind(epoch)[1],
            round(wind_interval_s) or None,
            round(1013.0 + 9.0 * front + self._random.gauss(0.0, 0.03), 2),
            round(11.0 + 7.0 * self.sun(epoch - 7200) + 4.0 * front - (1.5 if rain else 0.0), 2),
            round(min(100.0, 82.0 - 30.0 * sun - 8.0 * front + (12.0 if rain else 0.0)), 2),
            solar * 120,
            round(7.5 * sun * cloud, 2),
            solar,
            rain,
            1 if rain else 0,
            round(self._random.uniform(2, 38)) if strikes else 0,
            strikes,
            round(2.45 + 0.25 * sun, 3),
            max(1, round(minutes)),
        ]
