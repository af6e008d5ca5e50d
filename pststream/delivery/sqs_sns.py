"""SQS queues and SNS topics, by boto3: endpoint and credentials come from the standard chain alone.

Standard queues and topics keep no order. FIFO ones (their names end in .fifo) do: a message's group is its
subscription, its deduplication id is its own id, and two messages of one group never share a request, so that one that
fails is not overtaken.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from pststream.delivery.contract import Batch, Message, Refusal, SinkDown
from pststream.sink_settings import SinkSettings

MOST_ENTRIES = 10
MOST_BYTES = 262_144
"""Of a request, and so of a message, attributes included."""

_ATTRIBUTE_BYTES = 256


def aws_session() -> boto3.session.Session:
    """A session of its own, since the default one is not for threads; boto3 itself does not read AWS_REGION."""
    return boto3.session.Session(region_name=os.environ.get("AWS_REGION") or None)


class _Requests:
    """Sends messages by requests of ten."""

    most_messages = 100
    most_bytes = 10 * MOST_BYTES
    lanes = 1

    def __init__(self, settings: SinkSettings) -> None:
        self._target = settings.target
        self._timeout = settings.timeout_seconds
        self._fifo = settings.target.endswith(".fifo")
        self._client: Any = None

    def deliver(self, batch: Batch) -> list[Refusal]:
        """Send a batch; messages that are too large, or at fault as the service says, are refused."""
        refused = []
        for messages in requests_of(batch.messages, self._fifo):
            if weight(messages[0]) > MOST_BYTES:
                refused.append(Refusal(messages[0], f"larger than {MOST_BYTES} bytes"))
            else:
                refused += self._request(messages, batch.heard)
        return refused

    def _request(self, messages: list[Message], heard: Callable[[], None]) -> list[Refusal]:
        """Send messages in one request; where the service finds that too long, in halves."""
        try:
            found = self._send([self._entry(number, message) for number, message in enumerate(messages)])
        except ClientError as error:
            if not _code(error).endswith("BatchRequestTooLong"):
                raise _down(error) from None
            heard()
            if len(messages) == 1:
                return [Refusal(messages[0], _code(error))]
            half = len(messages) // 2
            return self._request(messages[:half], heard) + self._request(messages[half:], heard)
        except BotoCoreError as error:
            raise SinkDown(type(error).__name__) from None
        heard()
        return _refusals(messages, found.get("Failed", []))

    def _entry(self, number: int, message: Message) -> dict[str, Any]:
        attributes = {"message_id": message.id, "kind": message.kind}
        entry: dict[str, Any] = {
            "Id": str(number),
            "MessageAttributes": {k: {"DataType": "String", "StringValue": v} for k, v in attributes.items()},
        }
        if self._fifo:
            group = hashlib.sha256(message.subscription_id.encode("utf-8", "surrogatepass")).hexdigest()
            entry |= {"MessageGroupId": group, "MessageDeduplicationId": message.id}
        return entry | self._body(message.body.decode("ascii"))

    def _service(self, name: str) -> Any:
        """The client, made when it is first needed."""
        if self._client is None:
            config = Config(
                connect_timeout=self._timeout, read_timeout=self._timeout, retries={"total_max_attempts": 1}
            )
            self._client = aws_session().client(name, config=config)
        return self._client

    def _body(self, body: str) -> dict[str, str]:
        raise NotImplementedError

    def _send(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        raise NotImplementedError


class Queue(_Requests):
    """An SQS queue, by its URL."""

    def _body(self, body: str) -> dict[str, str]:
        return {"MessageBody": body}

    def _send(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = self._service("sqs").send_message_batch(QueueUrl=self._target, Entries=entries)
        return found


class Topic(_Requests):
    """An SNS topic, by its ARN."""

    def _body(self, body: str) -> dict[str, str]:
        return {"Message": body}

    def _send(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = self._service("sns").publish_batch(
            TopicArn=self._target, PublishBatchRequestEntries=entries
        )
        return found


def weight(message: Message) -> int:
    """Bytes of a message as the services count them, about."""
    return len(message.body) + _ATTRIBUTE_BYTES


def requests_of(messages: Sequence[Message], one_of_a_group: bool) -> Iterator[list[Message]]:
    """The messages in order, cut into requests that the services take; one that is too large stands alone."""
    held: list[Message] = []
    held_bytes = 0
    groups: set[str] = set()
    for message in messages:
        full = len(held) == MOST_ENTRIES or held_bytes + weight(message) > MOST_BYTES
        if held and (full or (one_of_a_group and message.subscription_id in groups)):
            yield held
            held, held_bytes, groups = [], 0, set()
        held.append(message)
        held_bytes += weight(message)
        groups.add(message.subscription_id)
    if held:
        yield held


def _refusals(messages: list[Message], failed: list[dict[str, Any]]) -> list[Refusal]:
    """What the answer says of single messages; HTTP status 200 does not mean that all were taken."""
    for entry in failed:
        # A service that throttles calls it the sender's fault.
        if not entry.get("SenderFault") or "hrottl" in entry.get("Code", ""):
            raise SinkDown(str(entry.get("Code", "InternalError")))
    return [Refusal(messages[int(entry["Id"])], str(entry.get("Code", "SenderFault"))) for entry in failed]


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", "ClientError"))


def _down(error: ClientError) -> SinkDown:
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    code = _code(error)
    return SinkDown(code, lasting=400 <= status < 500 and "hrottl" not in code)
