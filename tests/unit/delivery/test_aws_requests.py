"""SQS and SNS against a real server process: requests of ten, ids, order of FIFO queues, refused messages."""

import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from pststream.delivery.sinks.aws import MAX_REQUEST_BYTES, SnsSink, SqsSink, split_requests
from pststream.delivery.sinks.contract import Message, MessageBatch, SinkDown
from pststream.delivery.sinks.settings import SinkSettings
from tests.moto_process import CREDENTIALS, free_port, moto_server


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of the server."""
    with moto_server() as url:
        yield url


@pytest.fixture
def aws(server: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment that the standard chain reads."""
    for name, value in {**CREDENTIALS, "AWS_ENDPOINT_URL": server}.items():
        monkeypatch.setenv(name, value)
    return server


def messages(count: int, subscriptions: int = 3, size: int = 10) -> tuple[Message, ...]:
    return tuple(
        Message(f"{n:032x}", "matched", f"s{n % subscriptions}", json.dumps({"n": n, "text": "x" * size}).encode())
        for n in range(count)
    )


def received(queue: str) -> list[dict[str, Any]]:
    """Receive and delete all messages of a queue."""
    sqs = boto3.client("sqs")
    received_messages: list[dict[str, Any]] = []
    while batch := sqs.receive_message(
        QueueUrl=queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"], AttributeNames=["All"]
    ).get("Messages"):
        for message in batch:
            sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
        received_messages += batch
    return received_messages


def new_queue(name: str) -> str:
    attributes = {"FifoQueue": "true"} if name.endswith(".fifo") else {}
    url: str = boto3.client("sqs").create_queue(QueueName=name, Attributes=attributes)["QueueUrl"]
    return url


def sink(kind: type, target: str) -> Any:
    return kind(SinkSettings("q", "sqs", target, timeout_seconds=60.0))


def test_a_queue(aws: str) -> None:
    queue = new_queue("plain")
    sent = messages(37)
    assert sink(SqsSink, queue).deliver(MessageBatch("1", sent)) == []
    arrived = received(queue)
    assert sorted(m["Body"].encode() for m in arrived) == sorted(m.body for m in sent)
    by_body = {m.body.decode(): m.id for m in sent}
    for message in arrived:
        attributes = {k: v["StringValue"] for k, v in message["MessageAttributes"].items()}
        assert attributes == {"message_id": by_body[message["Body"]], "kind": "matched"}


def test_a_fifo_queue_keeps_order_and_drops_repeats(aws: str) -> None:
    queue = new_queue("ordered.fifo")
    sent = messages(30)
    for _ in range(2):
        assert sink(SqsSink, queue).deliver(MessageBatch("1", sent)) == []
    arrived = [json.loads(m["Body"])["n"] for m in received(queue)]
    assert sorted(arrived) == list(range(30))
    for group in range(3):
        of_group = [n for n in arrived if n % 3 == group]
        assert of_group == sorted(of_group)


def test_a_message_that_is_too_large(aws: str) -> None:
    queue = new_queue("large")
    sent = (*messages(2), *messages(1, size=MAX_REQUEST_BYTES), *messages(1, size=MAX_REQUEST_BYTES - 1_000))
    refusals = sink(SqsSink, queue).deliver(MessageBatch("1", sent))
    assert [refusal.message for refusal in refusals] == [sent[2]]
    assert "larger than" in refusals[0].reason
    assert len(received(queue)) == 3


def test_a_missing_queue(aws: str) -> None:
    with pytest.raises(SinkDown) as caught:
        sink(SqsSink, f"{aws}/123456789012/missing").deliver(MessageBatch("1", messages(1)))
    assert caught.value.permanent and "NonExistent" in str(caught.value)


def test_the_region_of_either_variable(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = new_queue("regional")
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    assert sink(SqsSink, url).deliver(MessageBatch("1", messages(2))) == []


def test_a_server_that_is_down(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")
    with pytest.raises(SinkDown, match="EndpointConnectionError") as caught:
        sink(SnsSink, "arn:aws:sns:eu-north-1:123456789012:matches").deliver(MessageBatch("1", messages(1)))
    assert not caught.value.permanent


def test_no_credentials(aws: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(SinkDown, match="NoCredentialsError"):
        sink(SqsSink, f"{aws}/123456789012/plain").deliver(MessageBatch("1", messages(1)))


class Answering(SqsSink):
    """A queue whose service returns these failures and rejects requests of more than `most` messages as too long."""

    def __init__(self, failed: list[dict[str, Any]], most: int = 10) -> None:
        super().__init__(SinkSettings("q", "sqs", "https://sqs.example/q"))
        self.most, self.failed = most, failed
        self.sent: list[list[str]] = []

    def send_entries(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        if len(entries) > self.most:
            error = {"Code": "AWS.SimpleQueueService.BatchRequestTooLong", "Message": "too long"}
            raise ClientError({"Error": error, "ResponseMetadata": {"HTTPStatusCode": 400}}, "SendMessageBatch")
        self.sent.append([entry["MessageAttributes"]["message_id"]["StringValue"] for entry in entries])
        return {"Failed": self.failed}


def test_status_200_with_entries_that_failed() -> None:
    at_fault = {"Id": "1", "SenderFault": True, "Code": "InvalidMessageContents"}
    sent = messages(3)
    refusals = Answering([at_fault]).deliver(MessageBatch("1", sent))
    assert [(refusal.message, refusal.reason) for refusal in refusals] == [(sent[1], "InvalidMessageContents")]
    with pytest.raises(SinkDown, match="InternalError"):
        Answering([at_fault, {"Id": "2", "SenderFault": False, "Code": "InternalError"}]).deliver(
            MessageBatch("1", sent)
        )


def test_requests() -> None:
    sent = messages(25)
    assert [len(request) for request in split_requests(sent, one_per_group=False)] == [10, 10, 5]
    assert [len(request) for request in split_requests(sent, one_per_group=True)] == [3] * 8 + [1]
    large = messages(4, size=120_000)
    assert [len(request) for request in split_requests(large, one_per_group=False)] == [2, 2]
    assert list(split_requests([], one_per_group=True)) == []


def test_a_request_that_is_too_long_is_halved() -> None:
    sink, ten = Answering([], most=3), messages(10)
    assert sink.deliver(MessageBatch("x", ten)) == []
    assert [one for request in sink.sent for one in request] == [message.id for message in ten]
    assert max(map(len, sink.sent)) <= 3
    refused = Answering([], most=0).deliver(MessageBatch("x", ten[:2]))
    assert [(one.message.id, one.reason) for one in refused] == [
        (message.id, "AWS.SimpleQueueService.BatchRequestTooLong") for message in ten[:2]
    ]


def test_a_throttled_message_is_not_refused() -> None:
    throttled = {"Id": "1", "SenderFault": True, "Code": "KmsThrottled"}
    with pytest.raises(SinkDown, match="KmsThrottled") as down:
        Answering([throttled]).deliver(MessageBatch("x", messages(3)))
    assert not down.value.permanent
