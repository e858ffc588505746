"""The Pico's program as turns of at most about a second: Wi-Fi, socket, radio, watchdog. The board is handed in.

Contract weather 2.4, made better: nothing here blocks, so that while the Wi-Fi is away the radio still gets what waits
and its heartbeats; waits between tries grow to a bound; a board that hangs is reset by the hardware watchdog, and one
that hears nothing for half an hour resets itself. Runs under MicroPython and, with a made-up board, under CPython.
"""

OFF_MS = 1000
ON_MS = 1000
CONNECT_MS = 20000
RETRY_MS = 3000
RETRY_MS_MAX = 60000
SOCKET_RETRY_MS = 1000
SOCKET_RETRY_MS_MAX = 30000

# What silence on the socket leads to, each once, counted from the last datagram or the last start of the Wi-Fi search.
SILENCE_SOCKET_MS = 120000
SILENCE_WIFI_MS = 300000
SILENCE_RESET_MS = 1800000

FAULTS_MAX = 10
COLLECT_MS = 60000

WIFI_OFF = "off"
WIFI_ON = "on"
WIFI_CONNECTING = "connecting"
WIFI_UP = "up"


class GardenLoop:
    """What the Pico does for ever.

    The board has: ``ticks_ms()`` and ``ticks_diff(new, old)`` as MicroPython's time; ``feed()`` for the watchdog;
    ``wifi_off()``, ``wifi_on()``, ``wifi_connect()``, ``wifi_is_up()``, ``address()``, ``power_mode()``;
    ``open_socket()``, ``receive()`` (bytes, or None after at most a second), ``close_socket()``, all of which may raise
    OSError; ``write(data)`` to the radio, which returns how many bytes it took; ``blink()``, ``pause_ms(ms)``,
    ``collect()`` and ``reset()``.
    """

    def __init__(self, bridge, board, say=print):
        """Take the bridge, the board, and where to tell what happens."""
        self._bridge = bridge
        self._board = board
        self._say = say
        self._ticks = board.ticks_ms()
        self.now_ms = 0
        self._wifi = WIFI_OFF
        self._step_ms = 0
        self._retry_ms = RETRY_MS
        self._wait_ms = 0
        self._is_open = False
        self._open_ms = 0
        self._socket_retry_ms = SOCKET_RETRY_MS
        self._heard_ms = 0
        self._silence_seen = 0
        self._torn = False
        self._faults = 0
        self._collected_ms = 0
        self._counts = {"wc": 0, "pm": -1, "sockrec": 0, "wifirec": 0, "sockerr": 0, "nwu": 0}
        bridge.link = self._counts
        board.wifi_off()

    def turn(self):
        """Do one round; an error in it is told in the next heartbeat, and too many in a row reset the board."""
        board = self._board
        board.feed()
        self._tick()
        try:
            self._search()
            self._receive()
            self._send()
            self._judge_silence()
            if self.now_ms - self._collected_ms >= COLLECT_MS:
                self._collected_ms = self.now_ms
                board.collect()
            self._faults = 0
        except Exception as error:
            self._faults += 1
            self._trouble("loop", error)
            board.collect()
            if self._faults >= FAULTS_MAX:
                board.reset()
            board.pause_ms(SOCKET_RETRY_MS)

    def _tick(self):
        # The board's counter wraps after 12 days; its differences do not.
        ticks = self._board.ticks_ms()
        self.now_ms += max(0, self._board.ticks_diff(ticks, self._ticks))
        self._ticks = ticks

    def _trouble(self, where, error):
        self._bridge.error = where + ": " + repr(error)
        self._say("garden:", self._bridge.error)

    def _step(self, wifi):
        self._wifi = wifi
        self._step_ms = self.now_ms

    def _search(self):
        """Move the Wi-Fi one step on: off, on, connecting, up; after a failure wait longer than the time before."""
        board, waited = self._board, self.now_ms - self._step_ms
        if self._wifi == WIFI_UP:
            if not board.wifi_is_up():
                self._restart_wifi("lost")
        elif self._wifi == WIFI_OFF:
            if waited >= OFF_MS + self._wait_ms:
                board.wifi_on()
                self._step(WIFI_ON)
        elif self._wifi == WIFI_ON:
            if waited >= ON_MS:
                board.wifi_connect()
                self._step(WIFI_CONNECTING)
        elif board.wifi_is_up():
            self._step(WIFI_UP)
            self._retry_ms = RETRY_MS
            self._wait_ms = 0
            self._counts["wc"] = 1
            self._counts["pm"] = board.power_mode()
            self._bridge.ip = board.address()
            self._open_ms = self.now_ms
            self._say("garden: wifi up", self._bridge.ip)
        elif waited >= CONNECT_MS:
            self._wait_ms = self._retry_ms
            self._retry_ms = min(RETRY_MS_MAX, self._retry_ms * 2)
            self._restart_wifi("no connection")

    def _restart_wifi(self, why):
        self._say("garden: wifi", why)
        self._bridge.error = "wifi: " + why
        self._counts["wifirec"] += 1
        self._counts["wc"] = 0
        self._close()
        self._board.wifi_off()
        self._step(WIFI_OFF)

    def _close(self):
        if self._is_open:
            self._is_open = False
            try:  # noqa: SIM105 - MicroPython has no contextlib
                self._board.close_socket()
            except OSError:
                pass

    def _receive(self):
        """Take every datagram that is there; the wait for the first one is also what slows the turns down."""
        board = self._board
        if self._wifi != WIFI_UP or self.now_ms < self._open_ms:
            board.pause_ms(200)
            return
        try:
            if not self._is_open:
                board.open_socket()
                self._is_open = True
            data = board.receive()
        except OSError as error:
            self._counts["sockerr"] += 1
            self._trouble("socket", error)
            self._reopen_later()
            return
        self._tick()
        if data is None:
            self._counts["nwu"] += 1
            return
        self._counts["nwu"] = 0
        self._heard_ms = self.now_ms
        self._silence_seen = 0
        self._socket_retry_ms = SOCKET_RETRY_MS
        self._bridge.on_datagram(data, self.now_ms)

    def _reopen_later(self):
        self._close()
        self._counts["sockrec"] += 1
        self._open_ms = self.now_ms + self._socket_retry_ms
        self._socket_retry_ms = min(SOCKET_RETRY_MS_MAX, self._socket_retry_ms * 2)

    def _send(self):
        """Give the radio its line. One that was cut short is ended first, so that it cannot spoil the next."""
        line = self._bridge.next_line(self.now_ms)
        if line is None:
            return
        data = (b"\n" if self._torn else b"") + line + b"\n"
        taken = self._board.write(data)
        self._torn = taken != len(data)
        if self._torn:
            self._bridge.send_failed(self.now_ms)
            self._trouble("uart", taken)
        else:
            self._bridge.sent(self.now_ms)
            self._board.blink()

    def _judge_silence(self):
        silent = self.now_ms - self._heard_ms
        if silent >= SILENCE_RESET_MS:
            self._say("garden: silence, reset")
            self._board.reset()
        elif silent >= SILENCE_WIFI_MS and self._silence_seen < SILENCE_WIFI_MS:
            self._silence_seen = SILENCE_WIFI_MS
            if self._wifi == WIFI_UP:
                self._restart_wifi("silent")
        elif silent >= SILENCE_SOCKET_MS and self._silence_seen < SILENCE_SOCKET_MS:
            self._silence_seen = SILENCE_SOCKET_MS
            if self._is_open:
                self._reopen_later()
