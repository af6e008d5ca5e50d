"""A webhook: messages posted as signed JSON.

    {"batch": "<id>", "messages": [{"id": …, "kind": …, …}, …]}

`Idempotency-Key` names the messages of a request: the same ones come again under the same key, others never do, also
after settings have changed what a batch holds.

2xx: taken. 400, 413 and 422 say that what was sent is at fault: the batch is halved until the messages at fault stand
alone, and these are refused. Any other status (redirects are not followed) says that the sink is.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from http import HTTPStatus

from pststream import __version__
from pststream.delivery.allowed_addresses import networks_of
from pststream.delivery.contract import Batch, Refusal, SinkDown
from pststream.delivery.http_post import post
from pststream.delivery.signature import HEADER, sign
from pststream.sink_settings import PREFIX, SinkSettings

AT_FAULT = (HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY)
PASSING = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)
LONGEST_PAUSE = 3600.0


class Webhook:
    """Posts batches to a URL."""

    most_bytes = 1_000_000
    lanes = 1

    def __init__(self, settings: SinkSettings, clock: Callable[[], float] = time.time) -> None:
        self.most_messages = settings.messages or 100
        self._settings = settings
        self._allowed = networks_of(settings.networks)
        self._clock = clock

    def deliver(self, batch: Batch) -> list[Refusal]:
        """Post a batch; refused messages are found by halving."""
        if not self._settings.secret:
            raise SinkDown(f"it has no secret: set {PREFIX}{self._settings.name.upper()}_SECRET", lasting=True)
        return self._post(batch)

    def _post(self, batch: Batch) -> list[Refusal]:
        messages = batch.messages
        body = b'{"batch":"%s","messages":[%s]}' % (batch.id.encode(), b",".join(m.body for m in messages))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"pststream/{__version__}",
            "Idempotency-Key": sha256("\n".join(m.id for m in messages).encode()).hexdigest(),
            HEADER: sign(self._settings.secret, int(self._clock()), body),
        }
        answer = post(self._settings.target, body, headers, self._settings.timeout_seconds, self._allowed)
        batch.heard()
        if 200 <= answer.status < 300:
            return []
        if answer.status not in AT_FAULT:
            lasting = answer.status < 500 and answer.status not in PASSING
            raise SinkDown(f"HTTP status {answer.status}", wait_seconds=_pause(answer.retry_after), lasting=lasting)
        if len(messages) == 1:
            return [Refusal(messages[0], f"HTTP status {answer.status}")]
        half = len(messages) // 2
        first, second = (
            replace(batch, id=f"{batch.id}.{n}", messages=part)
            for n, part in enumerate((messages[:half], messages[half:]))
        )
        return self._post(first) + self._post(second)


def _pause(retry_after: str) -> float:
    """Seconds that Retry-After asks for; its other form, a date, is left to the back-off."""
    return min(float(retry_after), LONGEST_PAUSE) if retry_after.isdecimal() else 0.0
