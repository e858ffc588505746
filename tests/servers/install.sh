#!/bin/sh
# Adds the system packages that some tests need. Does nothing when they are there; without root or apt-get it says what
# will be skipped and how to get it. It never fails: the tests themselves decide (a skip, or a failure when CI is set).
set -u

PATH="$PATH:/usr/sbin:/sbin"
missing=""
reasons=""
need() { # program, package, what is tested with it
    command -v "$1" >/dev/null 2>&1 && return
    missing="$missing $2"
    reasons="$reasons  $2: $3
"
}
need mosquitto mosquitto "MQTT adapters against a real broker"
need chromium chromium "the page in a browser"
[ -d /usr/share/fonts/truetype/dejavu ] || missing="$missing fonts-dejavu-core"
need wrk wrk "benchmarks over HTTP (make bench)"
[ -n "$missing" ] || exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing for the tests:$missing"
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086 # a list of packages, meant to be split
    if apt-get -qq update && apt-get -qq install -y --no-install-recommends -o DPkg::Lock::Timeout=300 $missing >/dev/null; then
        exit 0
    fi
    echo "that failed; tests that need them are skipped:" >&2
else
    echo "not installed, so the tests that need them are skipped:" >&2
fi
printf '%s' "$reasons" >&2
echo "to run them too: apt-get install --no-install-recommends$missing" >&2
exit 0
