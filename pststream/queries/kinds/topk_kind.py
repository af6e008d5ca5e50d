"""Define the kind `topk`: the k objects of a window with the best scores of place and text.

Source: Skype, section 3 (Definitions 2 and 3, Equation 1). `question.py` lists the departures in the score. Of equal
scores the newest object comes first, then the last in the log; the paper does not say which.
"""

from pststream.queries.kinds.answer_query import CONDITIONS, brief, facts, make_no_pieces, message_part
from pststream.queries.kinds.contract import QueryKind
from pststream.queries.kinds.topk_explain import BEST_SCORES
from pststream.queries.kinds.topk_request import COLUMNS, FIELDS, describe, parse_columns, parse_request, read_query

NAME = "topk"

TOPK = QueryKind(
    name=NAME,
    fields=FIELDS,
    columns=COLUMNS,
    piece_columns=(),
    brief_columns=tuple(column.name for column in COLUMNS),
    conditions=CONDITIONS,
    parse_request=parse_request,
    make_pieces=make_no_pieces,
    read_query=read_query,
    facts=facts,
    brief=lambda row: brief(describe(row), NAME),
    message_part=lambda row: message_part(describe(row), NAME),
    parse_columns=parse_columns,
    answers=BEST_SCORES,
)
"""It has an index of its own, and no pieces in the worker index."""
