"""Who may do what: tokens with scopes, compared in constant time (fault B26).

A token is shown as ``Authorization: Bearer <token>`` or, as the seed's worker does, in ``x-weatherstation-key``. Only
digests are kept in memory; a setting may hold the digest (``sha256:<64 hex digits>``) in place of the token itself.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import msgspec
from litestar.connection import ASGIConnection
from litestar.handlers.base import BaseRouteHandler

from stormjay.errors import Forbidden, SettingsError, Unauthorized
from stormjay.ground.clock import Clock, SystemClock
from stormjay.ground.timestamps import from_datetime
from stormjay.ground.web.answer import header

KEY_HEADER = b"x-weatherstation-key"
WEATHER_WRITE, READ, ADMIN = "weather:write", "read", "admin"
SCOPES = (WEATHER_WRITE, READ, ADMIN)
_HASHED = re.compile(r"sha256:([0-9a-fA-F]{64})")
_BEARER = b"bearer "


class Token(msgspec.Struct, frozen=True, kw_only=True):
    """One token as the settings give it.

    Attributes:
        name: What the log and the status page call its holder; never the secret.
        secret: The token, or ``sha256:`` and the hex digest of the token.
        scopes: What it allows; ``admin`` allows everything.
        station: The only station id that the holder may write, or None for any.
        expires_us: Moment from which it is refused, microseconds since 1970; None for never.
    """

    name: str
    secret: str
    scopes: tuple[str, ...] = (READ,)
    station: str | None = None
    expires_us: int | None = None


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks.

    Attributes:
        name: The token's name, ``anonymous`` without one.
        scopes: What is allowed.
        station: The only station it may write, or None.
    """

    name: str
    scopes: frozenset[str]
    station: str | None = None

    def may(self, scope: str) -> bool:
        """Tell whether the scope is allowed."""
        return scope in self.scopes or ADMIN in self.scopes


class Tokens:
    """All tokens of an installation."""

    def __init__(self, tokens: Iterable[Token] = (), *, public: Iterable[str] = (), clock: Clock | None = None) -> None:
        """Keep the digests of the tokens.

        Args:
            tokens: Those that are valid; one without a secret is left out.
            public: Scopes that need no token at all.
            clock: Tells whether a token has expired; the machine's when None.

        Raises:
            SettingsError: A scope is unknown, or a digest is not one.
        """
        self._anonymous = Principal(name="anonymous", scopes=frozenset(public))
        self._clock = clock or SystemClock()
        self._known: list[tuple[bytes, Principal, int | None]] = []
        for token in tokens:
            unknown = set(token.scopes) - set(SCOPES)
            if unknown:
                raise SettingsError(
                    "unknown_scope", f"token {token.name} has unknown scopes {sorted(unknown)}; known are {SCOPES}"
                )
            if token.secret:
                principal = Principal(name=token.name, scopes=frozenset(token.scopes), station=token.station)
                self._known.append((_stored_digest(token), principal, token.expires_us))

    def __len__(self) -> int:
        return len(self._known)

    def find(self, presented: bytes) -> Principal | None:
        """Return whose token this is, unless expired; every candidate is compared, so that time tells nothing."""
        digest = hashlib.sha256(presented).digest()
        now_us = from_datetime(self._clock.now())
        found: Principal | None = None
        for known, principal, expires_us in self._known:
            if hmac.compare_digest(known, digest) and (expires_us is None or now_us < expires_us):
                found = principal
        return found

    def authorize(self, connection: ASGIConnection[Any, Any, Any, Any], scope: str) -> Principal:
        """Return who asks, when they may.

        Raises:
            Unauthorized, Forbidden: As ``authorize_scope``.
        """
        return self.authorize_scope(cast("Mapping[str, Any]", connection.scope), scope)

    def authorize_scope(self, asgi: Mapping[str, Any], scope: str) -> Principal:
        """Return who asks, when they may.

        Args:
            asgi: The connection's ASGI scope.
            scope: What is asked for.

        Raises:
            Unauthorized: No token, or one that nobody has.
            Forbidden: A valid token without that scope.
        """
        if self._anonymous.may(scope):
            return self._anonymous
        presented = _presented(asgi)
        principal = self.find(presented) if presented else None
        if principal is None:
            raise Unauthorized("unauthorized")
        if not principal.may(scope):
            raise Forbidden("forbidden", f"this token does not allow {scope}")
        return principal

    def require(self, scope: str) -> Callable[[ASGIConnection[Any, Any, Any, Any], BaseRouteHandler], None]:
        """Return a guard for a route."""

        def guard(connection: ASGIConnection[Any, Any, Any, Any], _: BaseRouteHandler) -> None:
            self.authorize(connection, scope)

        return guard


def _presented(asgi: Mapping[str, Any]) -> bytes | None:
    bearer = header(asgi, b"authorization")
    if bearer is not None and bearer[: len(_BEARER)].lower() == _BEARER:
        return bearer[len(_BEARER) :].strip()
    return header(asgi, KEY_HEADER)


def _stored_digest(token: Token) -> bytes:
    if not token.secret.startswith("sha256:"):
        return hashlib.sha256(token.secret.encode()).digest()
    match = _HASHED.fullmatch(token.secret)
    if match is None:
        raise SettingsError(
            "bad_token_digest", f"the secret of token {token.name} starts with sha256: but 64 hex digits do not follow"
        )
    return bytes.fromhex(match[1])
