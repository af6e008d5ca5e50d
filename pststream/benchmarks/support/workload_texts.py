"""Describe the workload of a benchmark in one line, so that its figures can be compared with those of the paper."""

from pststream.generator.draw_subscriptions import SubscriptionStyle
from pststream.generator.synthetic_arrays import DEFAULT_VOCABULARY

_WORDS = {"and": "joined by AND", "or": "joined by OR", "both": "joined by AND or OR"}


def describe_workload(style: SubscriptionStyle, requests: str, vocabulary: int = DEFAULT_VOCABULARY.size) -> str:
    """Return a line on the subscriptions, the words and the requests of a workload.

    requests  how objects relate to insertions and deletions, and how long subscriptions live
    """
    low, high = style.keywords
    keywords = f"{low} to {high} keywords {_WORDS[style.connective]}"
    share = f"frequent_share {style.frequent_share:g}" + (" (as the paper)" if style.frequent_share == 1.0 else "")
    return f"{style.kind.upper()}, {keywords}, {share}, {vocabulary:,} words, {requests}"


FIVE_A_REQUEST = "five objects a request, half of them deletions after lifetimes of N(mu, (0.2 mu)^2)"
"""The requests of the paper's workloads (section VI-A)."""
