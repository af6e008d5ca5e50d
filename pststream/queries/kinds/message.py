"""Show a range query by its keywords: in messages to sinks, and as one line in lists of subscriptions."""

from collections.abc import Mapping
from typing import Any

from pststream.queries.kinds.contract import MessagePart
from pststream.queries.kinds.keywords import EVERY_OBJECT_TEXT, words_of_keywords

COLUMNS = ("keywords",)


def message_part(row: Mapping[str, Any]) -> MessagePart:
    """Show the keywords as written; a message lists their words that the object has."""
    return MessagePart({"keywords": row["keywords"]}, words_of_keywords(row["keywords"]))


def brief(row: Mapping[str, Any]) -> str:
    """Show the keywords as written."""
    return row["keywords"] or EVERY_OBJECT_TEXT
