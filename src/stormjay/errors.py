"""One tree of errors; who catches one knows from its branch what to do.

    StormjayError
    ├── RetryLater              the same call may succeed later; nothing is wrong with the item
    │   ├── LinkLost            radio, broker or socket went away
    │   ├── DestinationDown     the far side does not answer or says it is busy
    │   └── StoreUnavailable    disk full, I/O error, file locked: nothing was committed
    ├── NeverRetry              the same call will fail for ever; a person has to look
    │   ├── Refused             the far side says this item is invalid
    │   ├── StoreDamaged        a database or queue file is not readable as what it should be
    │   └── StoreInUse          another process owns the file
    └── CallerMistake           what was asked for is wrong; the message says what to change
        ├── BadRequest          400
        ├── Unauthorized        401
        ├── Forbidden           403
        ├── NotFound            404
        ├── TooLarge            413
        └── SettingsError       a setting is missing, unknown or of the wrong type

Vendor errors stop at the adapter that imports the vendor and become one of these, with the cause kept.
"""

from __future__ import annotations


class StormjayError(Exception):
    """Root of the tree.

    Attributes:
        next_step: What the operator or caller can do about it, in one sentence; empty when there is nothing to do.
    """

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message)
        self.next_step = next_step


class RetryLater(StormjayError):  # noqa: N818 - the name is the instruction
    """The same call may succeed later."""


class LinkLost(RetryLater):
    """A radio, broker or socket connection ended."""


class DestinationDown(RetryLater):
    """The far side does not answer, or answers that it is busy.

    Attributes:
        retry_after_seconds: What the far side asked us to wait, or None.
    """

    def __init__(self, message: str, *, next_step: str = "", retry_after_seconds: float | None = None) -> None:
        super().__init__(message, next_step=next_step)
        self.retry_after_seconds = retry_after_seconds


class StoreUnavailable(RetryLater):
    """Disk full, I/O error or lock: nothing of the group was committed."""


class NeverRetry(StormjayError):  # noqa: N818 - the name is the instruction
    """The same call will fail for ever."""


class Refused(NeverRetry):
    """The far side calls this item invalid; it would call it so every time."""


class StoreDamaged(NeverRetry):
    """A file is not readable as the database it should be."""


class StoreInUse(NeverRetry):
    """Another process owns the file."""


class CallerMistake(StormjayError):  # noqa: N818 - says whose fault it is
    """What was asked for is wrong.

    Attributes:
        status: The HTTP status that tells the caller so.
        code: The machine word of the error, as the seeds spell it (``invalid_nextToken``).
        details: Further lines, one per fault found.
    """

    status = 400

    def __init__(self, code: str, message: str = "", *, details: tuple[str, ...] = (), next_step: str = "") -> None:
        super().__init__(message or code, next_step=next_step)
        self.code = code
        self.details = details


class BadRequest(CallerMistake):
    """400: the request cannot be understood or is out of range."""


class Unauthorized(CallerMistake):
    """401: no valid credential was shown."""

    status = 401


class Forbidden(CallerMistake):
    """403: the credential is valid but not for this."""

    status = 403


class NotFound(CallerMistake):
    """404: there is nothing under that name."""

    status = 404


class TooLarge(CallerMistake):
    """413: the body is over the bound."""

    status = 413


class SettingsError(CallerMistake):
    """A setting is missing, unknown, unreadable or of the wrong type."""
