"""Define the kind `frequent_terms`: at each step, the k terms that the most objects of a region have in a window.

Source: SSTD, Definition 3, the continuous version: window T, step. Departures:

- reports are made at the multiples of the step since 1970, by the times of the objects. The paper counts steps from the
  clock;
- a window does not have its first moment: tick - T < `ts` <= tick. So windows as long as the step share no object;
- a term counts once for each object that has it;
- a late object corrects the reports that count it. The paper does not speak of late objects;
- the duration of a query is the field `expires_at`.
"""

from pststream.queries.kinds.answer_query import brief, facts, make_no_pieces, message_part
from pststream.queries.kinds.contract import QueryKind
from pststream.queries.kinds.frequent_terms_explain import CONDITIONS, REPORTS
from pststream.queries.kinds.frequent_terms_request import (
    COLUMNS,
    FIELDS,
    check_start,
    check_starts,
    describe,
    parse_columns,
    parse_request,
    read_query,
)

NAME = "frequent_terms"

FREQUENT_TERMS = QueryKind(
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
    check_start=check_start,
    check_starts=check_starts,
    answers=REPORTS,
)
"""Questions about stored objects make its reports, so no insertion has a piece."""
