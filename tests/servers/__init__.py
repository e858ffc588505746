"""Real servers that tests start, and what happens when one is not installed."""

from __future__ import annotations

import os

import pytest


def require(what: str, *, found: bool, how: str) -> None:
    """Let the test go on when ``what`` is there; otherwise skip it, or fail it under CI.

    A skip is fine on a contributor's machine, where it names what to install. With the variable ``CI`` set (any
    text but none) a missing server is a failure: nothing may pass there by not having run.

    Args:
        what: The program or package, as a person would call it ("mosquitto").
        found: Whether it was found.
        how: The command that installs it.
    """
    if found:
        return
    message = f"{what} is not installed; to run this test: {how}"
    if os.environ.get("CI"):
        pytest.fail(message, pytrace=False)
    pytest.skip(message)
