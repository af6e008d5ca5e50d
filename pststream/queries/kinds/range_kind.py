"""Define the kind `range`: objects in a region whose words satisfy the keywords; each pair is reported once."""

from pststream.queries.kinds import message, pieces, range_request
from pststream.queries.kinds.contract import QueryKind
from pststream.queries.kinds.range_explain import CONDITIONS, facts, read_query

RANGE = QueryKind(
    name="range",
    fields=range_request.FIELDS,
    columns=range_request.COLUMNS,
    piece_columns=pieces.COLUMNS,
    brief_columns=message.COLUMNS,
    conditions=CONDITIONS,
    parse_request=range_request.parse_request,
    make_pieces=pieces.make_pieces,
    read_query=read_query,
    facts=facts,
    brief=message.brief,
    message_part=message.message_part,
    parse_columns=range_request.parse_columns,
)
