"""Define the kind `knn`: the k objects nearest to a point that satisfy the keywords, with or without a window.

Source: DkM-SKS, Definition 2 (no window, words joined by OR); SSTD, Definition 2 (words joined by AND). Departures:

- the distance is the great-circle distance. DkM-SKS takes the Euclidean one;
- of equal distances the newest object comes first, then the last in the log. DkM-SKS breaks ties arbitrarily;
- the duration of a query of SSTD is the field `expires_at`. A window of objects is neither paper's.
"""

from pststream.queries.kinds.answer_query import CONDITIONS, brief, facts, make_no_pieces, message_part
from pststream.queries.kinds.contract import QueryKind
from pststream.queries.kinds.knn_explain import NEAREST
from pststream.queries.kinds.knn_request import COLUMNS, FIELDS, describe, parse_columns, parse_request, read_query

NAME = "knn"

KNN = QueryKind(
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
    answers=NEAREST,
)
"""Its pieces depend on thresholds, so no insertion has one."""
