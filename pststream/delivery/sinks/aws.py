"""Deliver to Amazon SQS and SNS: send messages in requests of at most ten, to a queue or a topic.

Endpoint and credentials come from AWS's standard chain only. Standard queues and topics keep no order. FIFO queues and
topics (their names end in .fifo) keep it: the group of a message is its subscription, its deduplication id is the
message id, and two messages of one group never share a request, so that no later message overtakes a failed one.

boto3 is imported when the first request is sent, as importing it takes about 0.1 s of every command.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pststream.base.optional_packages import needs_extra
from pststream.base.texts import mask_urls
from pststream.delivery.sinks.contract import Message, MessageBatch, Refusal, SinkDown, SinkKind
from pststream.delivery.sinks.settings import SinkSettings

MAX_ENTRIES = 10
MAX_REQUEST_BYTES = 262_144
"""Of a request, and so of a message, attributes included."""

_ATTRIBUTE_BYTES = 256


def find_aws_obstacle(settings: SinkSettings) -> str:
    """Return what prevents requests: missing credentials or region; or ""."""
    from botocore.exceptions import BotoCoreError

    from pststream.storage.aws import new_session

    try:
        session = new_session()
        if session.get_credentials() is None:
            return "no credentials in AWS's standard chain"
    except BotoCoreError as error:
        return mask_urls(str(error))
    return "" if session.region_name else "no region: set AWS_REGION"


class AwsRequestSink:
    """Sends messages in requests of at most ten; a subclass names the service, the field of an entry that carries the
    body of a message, the operation that sends entries, and its arguments for the target and the entries.
    """

    service: str
    body_field: str
    operation: str
    target_argument: str
    entries_argument: str
    max_messages = 100
    max_bytes = 10 * MAX_REQUEST_BYTES
    lanes = 1

    def __init__(self, settings: SinkSettings) -> None:
        self.target = settings.target
        self._timeout = settings.timeout_seconds
        self._fifo = settings.target.endswith(".fifo")
        self._client: Any = None

    def deliver(self, batch: MessageBatch) -> list[Refusal]:
        """Send a batch; messages that are too large, or at fault according to the service, are refused."""
        refused = []
        for messages in split_requests(batch.messages, self._fifo):
            if request_bytes(messages[0]) > MAX_REQUEST_BYTES:
                refused.append(Refusal(messages[0], f"larger than {MAX_REQUEST_BYTES} bytes"))
            else:
                refused += self._request(messages, batch.on_response)
        return refused

    def _request(self, messages: list[Message], on_response: Callable[[], None]) -> list[Refusal]:
        """Send messages in one request; in halves where the service rejects it as too long."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            response = self.send_entries([self._entry(ordinal, message) for ordinal, message in enumerate(messages)])
        except ClientError as error:
            fault: Any = error.response
            code = str(fault.get("Error", {}).get("Code", "ClientError"))
            if not code.endswith("BatchRequestTooLong"):
                status = fault.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
                raise SinkDown(code, permanent=400 <= status < 500 and "hrottl" not in code) from None
            on_response()
            if len(messages) == 1:
                return [Refusal(messages[0], code)]
            half = len(messages) // 2
            return self._request(messages[:half], on_response) + self._request(messages[half:], on_response)
        except BotoCoreError as error:
            raise SinkDown(type(error).__name__) from None
        on_response()
        return _refusals(messages, response.get("Failed", []))

    def _entry(self, ordinal: int, message: Message) -> dict[str, Any]:
        attributes = {"message_id": message.id, "kind": message.kind}
        entry: dict[str, Any] = {
            "Id": str(ordinal),
            "MessageAttributes": {k: {"DataType": "String", "StringValue": v} for k, v in attributes.items()},
        }
        if self._fifo:
            group = hashlib.sha256(message.subscription_id.encode("utf-8", "surrogatepass")).hexdigest()
            entry |= {"MessageGroupId": group, "MessageDeduplicationId": message.id}
        return entry | {self.body_field: message.body.decode("ascii")}

    @property
    def client(self) -> Any:
        """The client of the service, made when it is first needed."""
        if self._client is None:
            with needs_extra("aws"):
                from botocore.config import Config

                from pststream.storage.aws import new_session

            config = Config(
                connect_timeout=self._timeout, read_timeout=self._timeout, retries={"total_max_attempts": 1}
            )
            self._client = new_session().client(self.service, config=config)
        return self._client

    def send_entries(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        """Send entries in one request; return the response."""
        arguments = {self.target_argument: self.target, self.entries_argument: entries}
        response: dict[str, Any] = getattr(self.client, self.operation)(**arguments)
        return response


def request_bytes(message: Message) -> int:
    """Return the bytes of a message as the services count them, approximately."""
    return len(message.body) + _ATTRIBUTE_BYTES


def split_requests(messages: Sequence[Message], one_per_group: bool) -> Iterator[list[Message]]:
    """Split messages, in order, into requests that the services accept; a message that is too large comes alone."""
    request: list[Message] = []
    size = 0
    groups: set[str] = set()
    for message in messages:
        full = len(request) == MAX_ENTRIES or size + request_bytes(message) > MAX_REQUEST_BYTES
        if request and (full or (one_per_group and message.subscription_id in groups)):
            yield request
            request, size, groups = [], 0, set()
        request.append(message)
        size += request_bytes(message)
        groups.add(message.subscription_id)
    if request:
        yield request


def _refusals(messages: list[Message], failed: list[dict[str, Any]]) -> list[Refusal]:
    """Return the refused messages of a response; HTTP status 200 does not mean that all were accepted."""
    for entry in failed:
        # A service that throttles calls it the sender's fault.
        if not entry.get("SenderFault") or "hrottl" in entry.get("Code", ""):
            raise SinkDown(str(entry.get("Code", "InternalError")))
    return [Refusal(messages[int(entry["Id"])], str(entry.get("Code", "SenderFault"))) for entry in failed]


class SnsSink(AwsRequestSink):
    """Publishes messages to a topic, by its ARN."""

    service = "sns"
    body_field, operation = "Message", "publish_batch"
    target_argument, entries_argument = "TopicArn", "PublishBatchRequestEntries"


SNS = SinkKind("sns", "ARN of the topic", SnsSink, find_aws_obstacle)


class SqsSink(AwsRequestSink):
    """Sends messages to a queue, by its URL."""

    service = "sqs"
    body_field, operation = "MessageBody", "send_message_batch"
    target_argument, entries_argument = "QueueUrl", "Entries"


SQS = SinkKind("sqs", "URL of the queue", SqsSink, find_aws_obstacle)
