"""Send the entries of one request to an SQS queue; aws_requests.py builds them and reads the response."""

from typing import Any

from pststream.delivery.sinks.aws_requests import AwsRequestSink, find_aws_obstacle
from pststream.delivery.sinks.contract import SinkKind


class SqsSink(AwsRequestSink):
    """Sends messages to a queue, by its URL."""

    service = "sqs"

    def body_of(self, body: str) -> dict[str, str]:
        """Return the body of an entry."""
        return {"MessageBody": body}

    def send_entries(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        """Send entries in one request; return the response."""
        response: dict[str, Any] = self.client.send_message_batch(QueueUrl=self.target, Entries=entries)
        return response


KIND = SinkKind("sqs", "URL of the queue", SqsSink, find_aws_obstacle)
