"""Garden bridge for the Raspberry Pi Pico W: a Tempest hub's broadcasts in over Wi-Fi, lines for a LoRa node out.

MicroPython starts this file. The wires are here, the turns in ``garden_loop``, the weather in
``stormjay/weather/bridge_core.py`` and ``bridge_lines.py``. README.md says what to copy where.
"""

import gc
import socket
import time

import machine
import network

import config
from garden_loop import GardenLoop
from stormjay.weather.bridge_core import Bridge

try:
    from garden_constants import RANGES
except ImportError:
    RANGES = {}

START_DELAY_MS = 3000
WATCHDOG_MS = 8000
DATAGRAM_BYTES = 2048
ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - the hub broadcasts; a single address would not hear it
POWER_SAVE_OFF = 0xA11140
RESET_CAUSES = {machine.PWRON_RESET: "power on", machine.WDT_RESET: "watchdog"}


class Pico:
    """The board as ``GardenLoop`` wants it: UART0 on GP0 and GP1, the on-board LED, the Wi-Fi chip."""

    def __init__(self):
        self._uart = machine.UART(0, baudrate=115200, tx=machine.Pin(0), rx=machine.Pin(1), txbuf=512, rxbuf=512)
        self._led = machine.Pin("LED", machine.Pin.OUT)
        network.country(config.COUNTRY)
        self._wlan = network.WLAN(network.STA_IF)
        self._socket = None
        self._watchdog = machine.WDT(timeout=WATCHDOG_MS) if config.WATCHDOG else None
        self.ticks_ms = time.ticks_ms
        self.ticks_diff = time.ticks_diff
        self.pause_ms = time.sleep_ms
        self.collect = gc.collect
        self.reset = machine.reset

    def feed(self):
        """Tell the watchdog that the loop lives."""
        if self._watchdog is not None:
            self._watchdog.feed()

    def wifi_off(self):
        """Switch the Wi-Fi chip off."""
        self._wlan.active(False)

    def wifi_on(self):
        """Switch it on."""
        self._wlan.active(True)

    def wifi_connect(self):
        """Begin to connect, without power saving, which loses broadcasts."""
        self._wlan.config(pm=POWER_SAVE_OFF)
        self._wlan.connect(config.WIFI_NAME, config.WIFI_PASSWORD)

    def wifi_is_up(self):
        """Tell whether it is connected and has an address."""
        return self._wlan.isconnected()

    def address(self):
        """Return the address."""
        return self._wlan.ifconfig()[0]

    def power_mode(self):
        """Return the Wi-Fi power mode, -1 when unknown."""
        try:
            return self._wlan.config("pm")
        except (OSError, ValueError):
            return -1

    def open_socket(self):
        """Listen for the hub."""
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind((ANY_ADDRESS, config.UDP_PORT))
        self._socket.settimeout(1)

    def receive(self):
        """Return one datagram, or None after a second."""
        try:
            return self._socket.recv(DATAGRAM_BYTES)
        except OSError as error:
            # 110 is a time-out, 11 nothing there: both mean that no datagram came.
            if error.args and error.args[0] in (110, 11):
                return None
            raise

    def close_socket(self):
        """Stop listening."""
        self._socket.close()

    def write(self, data):
        """Hand bytes to the radio; return how many it took."""
        # What the node prints (echoes, other nodes' texts) is not needed here; left alone it would fill the buffer.
        while self._uart.any():
            self._uart.read()
        return self._uart.write(data)

    def blink(self):
        """Toggle the light."""
        self._led.toggle()


def main():
    """Run for ever; a key press of Ctrl-C in the first seconds stops it before the watchdog is armed."""
    cause = RESET_CAUSES.get(machine.reset_cause(), "unknown")
    print("garden: reset cause", cause)
    time.sleep_ms(START_DELAY_MS)
    gc.threshold(32768)
    bridge = Bridge(
        intervals_ms=config.INTERVALS_MS,
        gap_ms=config.GAP_MS,
        heartbeat_ms=config.HEARTBEAT_MS,
        serials=config.SERIALS,
        ranges=RANGES,
    )
    if cause != "power on":
        bridge.error = "reset: " + cause
    loop = GardenLoop(bridge, Pico())
    while True:
        loop.turn()


if __name__ == "__main__":
    main()
