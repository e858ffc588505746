"""Copy this file to config.py, fill it in, and put config.py on the Pico. It is read at every start."""

WIFI_NAME = "name of the wireless network"
WIFI_PASSWORD = "its password"  # noqa: S105 - a placeholder
COUNTRY = "US"  # two letters; decides which Wi-Fi channels are allowed

# Serial numbers that are heard, of hubs (HB-...) or stations (ST-...). Empty: every Tempest nearby; with
# more than one in reach name yours, since readings of two stations must not be mixed.
SERIALS = ()

UDP_PORT = 50222

# Milliseconds. The radio shares its channel with others: go lower only on a channel of your own.
INTERVALS_MS = {}  # where they differ: {"hub_status": 600000}
GAP_MS = 5000
HEARTBEAT_MS = 900000

# The hardware watchdog restarts a board that hangs for 8 seconds. It also restarts one that is being worked on over
# USB: set this to False while you do.
WATCHDOG = True
