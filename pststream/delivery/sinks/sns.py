"""Publish the entries of one request to an SNS topic; aws_requests.py builds them and reads the response."""

from typing import Any

from pststream.delivery.sinks.aws_requests import AwsRequestSink, find_aws_obstacle
from pststream.delivery.sinks.contract import SinkKind


class SnsSink(AwsRequestSink):
    """Publishes messages to a topic, by its ARN."""

    service = "sns"

    def body_of(self, body: str) -> dict[str, str]:
        """Return the body of an entry."""
        return {"Message": body}

    def send_entries(self, entries: list[dict[str, Any]]) -> dict[str, Any]:
        """Publish entries in one request; return the response."""
        response: dict[str, Any] = self.client.publish_batch(TopicArn=self.target, PublishBatchRequestEntries=entries)
        return response


KIND = SinkKind("sns", "ARN of the topic", SnsSink, find_aws_obstacle)
