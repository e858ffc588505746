"""One log line per event: text for people on a terminal, one JSON object per line otherwise (contract weather 3.5).

A JSON line has ``ts`` (ISO 8601 with ``+00:00`` and microseconds), ``level``, ``event``, then the event's own fields.
Bytes are decoded with replacement and other letters than ASCII are kept. What is secret is masked before it is written:
the values of known secret keys, passwords in addresses, and any secret that the settings hold, wherever it stands.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Collection, Mapping
from typing import Any, Literal, TextIO, cast

import msgspec
import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

from stormjay.ground.clock import Clock

MASK = "********"
SECRET_KEYS = frozenset(
    {
        "api_key",
        "api_shared_secret",
        "authorization",
        "password",
        "secret",
        "token",
        "x-weatherstation-key",
        "x_weatherstation_key",
    }
)
"""Names of fields whose value is never written, in any letter case."""
FIELD_CHARACTERS_MAX = 8192
"""A longer text is cut in a log line; the ledger has the whole."""
_SECRET_LENGTH_MIN = 6
_DEPTH_MAX = 6
_INT_BELOW = 2**63
_PASSWORD_IN_URL = re.compile(
    r"(?P<head>\b[a-z][a-z0-9+.-]{0,15}://[^\s/:@?#]{0,256}):[^\s/@?#]{1,1024}@", re.IGNORECASE
)
_LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}


class Masker:
    """A processor that hides what is secret in a line's fields, however deep it stands."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        known = sorted({secret for secret in secrets if len(secret) >= _SECRET_LENGTH_MIN}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Return the line's fields with secrets masked and long texts cut."""
        return {key: MASK if _is_secret(key) and value else self._value(value, 0) for key, value in event.items()}

    def text(self, text: str) -> str:
        """Return text with secrets masked and cut to its bound."""
        text = text[: 2 * FIELD_CHARACTERS_MAX]  # cut twice: a secret that the last cut would halve is masked before it
        text = text.encode("utf-8", "replace").decode()  # half of a surrogate pair cannot be written
        if self._known is not None:
            text = self._known.sub(MASK, text)
        text = _PASSWORD_IN_URL.sub(rf"\g<head>:{MASK}@", text)
        return text if len(text) <= FIELD_CHARACTERS_MAX else text[:FIELD_CHARACTERS_MAX] + "..."

    def _value(self, value: Any, depth: int) -> Any:  # noqa: ANN401 - any field of any event
        if isinstance(value, Mapping) and depth < _DEPTH_MAX:
            return {
                self.text(str(key)): MASK if _is_secret(str(key)) and inner else self._value(inner, depth + 1)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple | set | frozenset) and depth < _DEPTH_MAX:
            return [self._value(inner, depth + 1) for inner in value]
        if value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < _INT_BELOW):
            return value
        if isinstance(value, bytes | bytearray):
            value = bytes(value).decode("utf-8", "replace")
        return self.text(str(value))


def _is_secret(key: str) -> bool:
    return key.lower() in SECRET_KEYS


class Stamper:
    """A processor that puts the clock's time first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def __call__(self, _logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
        """Return the fields in the order time, level, event, then the event's own."""
        head = {
            "ts": self._clock.now().isoformat(timespec="microseconds"),
            "level": event.pop("level", "info"),
            "event": event.pop("event", ""),
        }
        return {**head, **{name: value for name, value in event.items() if name not in head}}


class _Lenient:
    """Takes lines for a stream and gives up those that it cannot write.

    The reader of a pipe may be gone and the disk of a log file full; neither may keep a reading from being stored or a
    service from stopping.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write what can be written."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Flush what can be flushed."""
        with contextlib.suppress(OSError, ValueError):
            self._stream.flush()


def render_json(_logger: WrappedLogger, _method: str, event: EventDict) -> str:
    """Return the line as one JSON object; numbers that JSON lacks become null."""
    return msgspec.json.encode(event, enc_hook=str).decode("utf-8", "replace")


def configure(
    *,
    clock: Clock,
    log_format: Literal["auto", "text", "json"] = "auto",
    level: Literal["debug", "info", "warning", "error"] = "info",
    secrets: Collection[str] = (),
    stream: TextIO | None = None,
) -> None:
    """Set up logging for the process; lines of libraries that use the standard module come in the same form.

    Args:
        clock: Stamps the lines.
        log_format: ``auto`` is text when the stream is a terminal.
        level: Least level that is written; libraries are only heard from warning on.
        secrets: Values to mask wherever they turn up.
        stream: Where lines go; standard output when None.
    """
    target = stream or sys.stdout
    lines = _Lenient(target)
    as_text = log_format == "text" or (log_format == "auto" and target.isatty())
    masker = Masker(secrets)
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.StackInfoRenderer(),
        structlog.processors.format_exc_info,
        masker,
    ]
    shared.append(Stamper(clock))
    renderer: Processor = (
        structlog.dev.ConsoleRenderer(
            colors=target.isatty(), timestamp_key="ts", exception_formatter=structlog.dev.plain_traceback
        )
        if as_text
        else render_json
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(cast("TextIO", lines)),
        cache_logger_on_first_use=False,
    )
    handler = logging.StreamHandler(lines)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(_LEVELS[level], logging.WARNING))
