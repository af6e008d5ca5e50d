"""Deliver to a webhook: post batches as signed JSON, and halve a rejected batch to isolate its refused messages.

    {"batch": "<id>", "messages": [{"id": …, "kind": …, …}, …]}

`Idempotency-Key` identifies the messages of a request: the same messages are sent again under the same key, other
messages never are, also after settings have changed the size of batches.

2xx: accepted. 400, 413 and 422 mean that the content is at fault: the batch is halved until the messages at fault are
alone, and these are refused. Any other status (redirects are not followed) means that the sink is down.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus
from ipaddress import ip_network
from urllib.parse import urlsplit

from pststream import __version__
from pststream.base import names
from pststream.base.errors import SettingError
from pststream.delivery.sinks.allowed_addresses import parse_networks, resolve
from pststream.delivery.sinks.contract import MessageBatch, Refusal, SinkDown, SinkKind
from pststream.delivery.sinks.http_post import post
from pststream.delivery.sinks.settings import SinkSettings
from pststream.delivery.sinks.signature import HEADER, sign

CONTENT_FAULTS = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
TEMPORARY = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
LONGEST_PAUSE = 3600.0
"""Seconds."""


class WebhookSink:
    """Posts batches to a URL."""

    max_bytes = 1_000_000
    lanes = 1

    def __init__(self, settings: SinkSettings, clock: Callable[[], float] = time.time) -> None:
        self.max_messages = settings.messages or 100
        self._settings = settings
        self._allowed = parse_networks(settings.networks)
        self._clock = clock

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Post a batch; refused messages are found by halving."""
        if not self._settings.secret:
            raise SinkDown(_missing_secret(self._settings), permanent=True)
        return self._post(batch)

    def _post(self, batch: MessageBatch) -> list[Refusal]:
        messages = batch.messages
        body = b'{"batch":"%s","messages":[%s]}' % (batch.id.encode(), b",".join(m.body for m in messages))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"pststream/{__version__}",
            "Idempotency-Key": sha256("\n".join(m.id for m in messages).encode()).hexdigest(),
            HEADER: sign(self._settings.secret, int(self._clock()), body),
        }
        response = post(self._settings.target, body, headers, self._settings.timeout_seconds, self._allowed)
        batch.on_response()
        if 200 <= response.status < 300:
            return []
        if response.status not in CONTENT_FAULTS:
            permanent = response.status < 500 and response.status not in TEMPORARY
            raise SinkDown(
                f"HTTP status {response.status}", wait_seconds=_wait_seconds(response.retry_after), permanent=permanent
            )
        if len(messages) == 1:
            return [Refusal(messages[0], f"HTTP status {response.status}")]
        half = len(messages) // 2
        first, second = (
            replace(batch, id=f"{batch.id}.{n}", messages=some)
            for n, some in enumerate((messages[:half], messages[half:]))
        )
        return self._post(first) + self._post(second)


def _missing_secret(settings: SinkSettings) -> str:
    return f"it has no secret: set {names.SINK_VARIABLES}{settings.name.upper()}_SECRET"


def _wait_seconds(retry_after: str) -> float:
    """Return the seconds that Retry-After asks for; its other form, a date, is left to the back-off."""
    return min(float(retry_after), LONGEST_PAUSE) if retry_after.isdecimal() else 0.0


def _check_settings(settings: SinkSettings, in_file: bool) -> None:
    """Check the URL and the networks. Errors quote no target, which may contain a token."""
    section = f"sinks.{settings.name}"
    try:
        url = urlsplit(settings.target)
        complete = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        complete = False
    if not complete:
        raise SettingError(f"{section}.target", "is not a URL", "give https://host/path")
    if url.password is not None or url.username is not None:
        hint = "put a token in the path or query, and set the target in the environment"
        raise SettingError(f"{section}.target", "contains a user or a password, which webhooks do not accept", hint)
    if in_file and url.query:
        hint = f"a query may contain a token: set {names.SINK_VARIABLES}{settings.name.upper()}_TARGET instead"
        raise SettingError(f"{section}.target", "has a query, and is in a file", hint)
    for text in settings.networks.split():
        try:
            ip_network(text)
        except ValueError:
            raise SettingError(f"{section}.networks", f"{text!r} is not a network", "write it as 10.1.0.0/16") from None


def _find_delivery_obstacle(settings: SinkSettings) -> str:
    if not settings.secret:
        return _missing_secret(settings)
    parts = urlsplit(settings.target)
    try:
        resolve(parts.hostname or "", parts.port or 443, parse_networks(settings.networks))
    except SinkDown as error:
        return str(error)
    return ""


KIND = SinkKind("webhook", "a URL", WebhookSink, _find_delivery_obstacle, _check_settings)
