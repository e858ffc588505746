"""What a history request asks for, and the answers to it (contract weather 6.4).

Times are taken in every form that ingest takes, compared as times and echoed as given (faults B20, cases X1 and X2).
A token to go on belongs to the query that gave it: another station, range or order refuses it (fault B21). Answers join
stored JSON; only sampling and buckets open the documents.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import UTC, tzinfo
from typing import Any

import msgspec

from stormjay.errors import BadRequest
from stormjay.ground import timestamps
from stormjay.ground.clock import Clock
from stormjay.ground.keyed.port import Key, KeyedStore
from stormjay.ground.web.query import Query
from stormjay.weather.cloud.buckets import Folder, Unit
from stormjay.weather.cloud.observation import partition_of

LIMIT_DEFAULT, LIMIT_MAX = 200, 1000
SAMPLE_MAX = 2000
_TOKEN_LENGTH_MAX = 4096
_PAGE = 5000


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants to see.

    Attributes:
        station_id: Whose observations.
        from_text, to_text: The range as given; it is echoed.
        low_us, high_us: The range, both inclusive, microseconds since 1970.
        limit: Most items of a raw page.
        ascending: Oldest first.
        sample: How many evenly spread observations, instead of a page.
        bucket: Fold into hours or days, instead of a page.
        after: Where the page before ended.
    """

    station_id: str
    from_text: str
    to_text: str
    low_us: int
    high_us: int
    limit: int = LIMIT_DEFAULT
    ascending: bool = False
    sample: int | None = None
    bucket: Unit | None = None
    after: Key | None = None

    @property
    def low(self) -> str:
        """Smallest sort key."""
        return f"OBS#{timestamps.format_us(self.low_us)}"

    @property
    def high(self) -> str:
        """Greatest sort key; the tilde sorts behind what follows the time in a key."""
        return f"OBS#{timestamps.format_us(self.high_us)}~"

    @property
    def order(self) -> str:
        """The order's word."""
        return "asc" if self.ascending else "desc"

    def echo(self, mode: str) -> dict[str, Any]:
        """Return the members that every history answer begins with."""
        return {"ok": True, "mode": mode, "stationId": self.station_id, "from": self.from_text, "to": self.to_text}


class SampledItem(msgspec.Struct, kw_only=True):
    """The attributes that a sampled item keeps, in their stored form."""

    pk: msgspec.Raw
    sk: msgspec.Raw
    record_type: msgspec.Raw
    source_node_id: msgspec.Raw
    source_name: msgspec.Raw
    msg_id: msgspec.Raw
    source_ts_utc: msgspec.Raw
    received_at_utc: msgspec.Raw
    weather: msgspec.Raw


class _Folded(msgspec.Struct):
    source_ts_sort_utc: str
    weather: dict[str, Any]


_SAMPLED = msgspec.json.Decoder(SampledItem)
_FOLDED = msgspec.json.Decoder(_Folded)
_ENCODER = msgspec.json.Encoder()


class TokenSeal:
    """Makes and reads the tokens of paging; the seal proves which query a token is of."""

    def __init__(self, key: bytes) -> None:
        """Seal with a key; every process that serves the same API must have the same one."""
        self._key = hashlib.sha256(b"stormjay history token\n" + key).digest()

    def token(self, query: HistoryQuery, last: Key) -> str:
        """Return the token that goes on after ``last``: the key in its wire form, as the seed has it, and the seal."""
        content = {"pk": {"S": last.partition}, "sk": {"S": last.sort}, "seal": self._seal(query, last.sort)}
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()

    def open(self, query: HistoryQuery, token: str) -> Key:
        """Return where to go on.

        Raises:
            BadRequest: ``invalid_nextToken``: it is mangled, or of another query.
        """
        if len(token) > _TOKEN_LENGTH_MAX:
            raise BadRequest("invalid_nextToken")
        try:
            content = json.loads(base64.b64decode(token.encode(), altchars=b"-_", validate=True))
            partition, sort, seal = content["pk"]["S"], content["sk"]["S"], content["seal"]
            genuine = (
                partition == partition_of(query.station_id)
                and isinstance(sort, str)
                and isinstance(seal, str)
                and hmac.compare_digest(seal.encode(), self._seal(query, sort).encode())
            )
        except (ValueError, binascii.Error, KeyError, TypeError, RecursionError) as error:
            raise BadRequest("invalid_nextToken") from error
        if not genuine:
            raise BadRequest("invalid_nextToken", details=("nextToken is not of this stationId, from, to and order",))
        return Key(partition, sort)

    def _seal(self, query: HistoryQuery, sort: str) -> str:
        bound = json.dumps([query.station_id, query.low_us, query.high_us, query.order, sort])
        return hmac.new(self._key, bound.encode(), hashlib.sha256).hexdigest()[:32]


def history_query(query: Query, seal: TokenSeal) -> HistoryQuery:
    """Return what a query string asks for; faults are looked for in the contract's order.

    Raises:
        BadRequest: With the contract's error words; the parameter is named.
    """
    station_id, from_text, to_text = (query.first(name) for name in ("stationId", "from", "to"))
    if not station_id or not from_text or not to_text:
        raise BadRequest("missing_stationId_from_to")
    limit = _whole(query.first("limit"), "limit", LIMIT_MAX)
    sample = _whole(query.first("sample"), "sample", SAMPLE_MAX)
    bucket = _unit(query.first("bucket"))
    if bucket is not None and sample is not None:
        raise BadRequest("sample_and_bucket_exclude_each_other")
    low_us, high_us = _moment(from_text, "from"), _moment(to_text, "to")
    if low_us > high_us:
        raise BadRequest("invalid_range", details=("from is later than to",))
    wanted = HistoryQuery(
        station_id=station_id,
        from_text=from_text,
        to_text=to_text,
        low_us=low_us,
        high_us=high_us,
        limit=LIMIT_DEFAULT if limit is None else limit,
        ascending=(query.first("order") or "").lower() == "asc",
        sample=sample,
        bucket=bucket,
    )
    token = query.first("nextToken")
    if not token:
        return wanted
    if sample is not None or bucket is not None:
        raise BadRequest("invalid_nextToken", details=("nextToken is for raw pages",))
    return msgspec.structs.replace(wanted, after=seal.open(wanted, token))


def _whole(text: str | None, name: str, most: int) -> int | None:
    if text is None:
        return None
    try:
        number = int(text)
    except ValueError as error:
        raise BadRequest(f"{name}_must_be_integer") from error
    if number < 1:
        raise BadRequest(f"{name}_must_be_at_least_1")
    if number > most:
        raise BadRequest(f"{name}_must_be_at_most_{most}")
    return number


def _unit(text: str | None) -> Unit | None:
    if text is None:
        return None
    if text == "hour":
        return "hour"
    if text == "day":
        return "day"
    raise BadRequest("bucket_must_be_hour_or_day")


def _moment(text: str, name: str) -> int:
    try:
        return timestamps.from_query(text)
    except timestamps.TimestampError as error:
        raise BadRequest(f"invalid_{name}", details=(f"{name} {error}",)) from error


def ranks(total: int, sample: int) -> list[int]:
    """Return which of ``total`` observations, counted from 0, make an even sample; first and last are among them."""
    if sample >= total:
        return list(range(total))
    if sample == 1:
        return [total // 2]
    return [round(place * (total - 1) / (sample - 1)) for place in range(sample)]


class History:
    """Answers history queries from the observation table."""

    def __init__(
        self,
        store: KeyedStore,
        *,
        clock: Clock,
        seal: TokenSeal,
        zones: Mapping[str, tzinfo],
        sample_window_max: int,
        bucket_window_max: int,
    ) -> None:
        """Read from a table.

        Args:
            store: The observation table.
            clock: Tells where the part of a range begins that is still to come.
            seal: Makes the tokens.
            zones: The time zone of each station that has one, by station id; others are folded in UTC.
            sample_window_max: Most observations that a sampled range may hold.
            bucket_window_max: Most observations that a bucketed range may hold.
        """
        self._store = store
        self._clock = clock
        self._seal = seal
        self._zones = zones
        self._sample_window_max = sample_window_max
        self._bucket_window_max = bucket_window_max

    async def answer(self, query: HistoryQuery) -> bytes:
        """Return the body of the answer.

        Raises:
            BadRequest: ``sample_window_too_large`` or ``bucket_window_too_large``.
        """
        if query.bucket is not None:
            return await self._bucketed(query, query.bucket)
        if query.sample is not None:
            return await self._sampled(query, query.sample)
        return await self._raw(query)

    async def _raw(self, query: HistoryQuery) -> bytes:
        page = await self._store.query(
            partition_of(query.station_id),
            query.low,
            query.high,
            limit=query.limit,
            descending=not query.ascending,
            after=query.after,
        )
        head = {**query.echo("raw"), "order": query.order, "count": len(page.documents)}
        tail = {} if page.last_key is None else {"nextToken": self._seal.token(query, page.last_key)}
        return joined(head, "items", page.documents, tail)

    async def _sampled(self, query: HistoryQuery, sample: int) -> bytes:
        partition = partition_of(query.station_id)
        total = await self._count(query, self._sample_window_max, "sample_window_too_large")
        documents = await self._store.pick(partition, query.low, query.high, ranks(total, sample))
        items = [_ENCODER.encode(_SAMPLED.decode(document)) for document in documents]
        head = {
            **query.echo("sampled"),
            "sampleRequested": sample,
            "totalMatched": total,
            "count": len(items),
        }
        return joined(head, "items", items)

    async def _bucketed(self, query: HistoryQuery, unit: Unit) -> bytes:
        total = await self._count(query, self._bucket_window_max, "bucket_window_too_large")
        zone = self._zones.get(query.station_id, UTC)
        now_us = timestamps.from_datetime(self._clock.now())
        folder = Folder(unit, zone, query.low_us, min(query.high_us, max(now_us, query.low_us)))
        after: Key | None = None
        while True:
            page = await self._store.query(
                partition_of(query.station_id), query.low, query.high, limit=_PAGE, after=after
            )
            await asyncio.to_thread(_fold, folder, page.documents)
            after = page.last_key
            if after is None:
                break
        buckets = folder.finish()
        head = {
            **query.echo("bucketed"),
            "bucket": unit,
            "timeZone": str(zone),
            "totalMatched": total,
            "count": len(buckets),
        }
        return joined(head, "items", [_ENCODER.encode(bucket) for bucket in buckets])

    async def _count(self, query: HistoryQuery, most: int, error: str) -> int:
        total = await self._store.count(partition_of(query.station_id), query.low, query.high)
        if total > most:
            raise BadRequest(error, details=(f"from and to hold {total} observations, at most {most} are read",))
        return total


def joined(head: Mapping[str, Any], name: str, documents: list[bytes], tail: Mapping[str, Any] | None = None) -> bytes:
    """Return an object with the members of ``head``, a list of documents that are JSON already, and ``tail``."""
    begin = json.dumps(head)[:-1] + f', "{name}": ['
    end = ", " + json.dumps(tail)[1:] if tail else "}"
    return b"%b%b]%b" % (begin.encode(), b", ".join(documents), end.encode())


def _fold(folder: Folder, documents: list[bytes]) -> None:
    for document in documents:
        item = _FOLDED.decode(document)
        folder.add(timestamps.to_epoch_us(item.source_ts_sort_utc), item.weather)
