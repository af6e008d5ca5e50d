"""Define the settings of one sink, with their defaults: the keys of `[sinks.<name>]` in `pststream.toml`.

Neither the secret nor the target, which may contain a token, is part of a sink's `repr`.
"""

from dataclasses import dataclass

from pststream.base.setting_key import declare

MAX_LANES = 64


@dataclass(frozen=True)
class SinkSettings:
    """Settings of one sink. The target may be missing where nothing is delivered."""

    name: str
    kind: str = declare("", "the kind of sink")
    target: str = declare("", "where the sink delivers to", shown=False)
    secret: str = declare("", "webhook: key of the signatures; in the environment only", shown=False)
    networks: str = declare(
        "", "webhook: networks that are not public and yet allowed, such as 10.1.0.0/16, separated by blanks"
    )
    timeout_seconds: float = declare(10.0, "of one request", above=0, greatest=300)
    tries: int = declare(5, "of one request in a run, with growing waits in between", least=1)
    messages: int = declare(0, "of one request or file at most; 0: 100 for a webhook, 10,000 for a file", least=0)
    lanes: int = declare(
        1, "webhook, sqs, sns: concurrent requests; the messages of a subscription stay in one lane", least=1
    )
    limit: int = declare(
        0, "messages to one subscription in `limit_seconds`; further matches become one digest; 0: no limit", least=0
    )
    limit_seconds: int = declare(60, "see limit", least=1)
    from_batch: int = declare(1, "first batch that a new sink receives", least=1)
