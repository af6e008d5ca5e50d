"""Define the kind `range`: objects in a region whose words satisfy the keywords; each pair is reported once."""

from pststream.kinds.contract import QueryKind
from pststream.kinds.range import message, pieces, request
from pststream.kinds.range.explain import CONDITIONS, facts, read_query

RANGE = QueryKind(
    name="range",
    fields=request.FIELDS,
    columns=request.COLUMNS,
    piece_columns=pieces.COLUMNS,
    brief_columns=message.COLUMNS,
    conditions=CONDITIONS,
    parse_request=request.parse_request,
    make_pieces=pieces.make_pieces,
    read_query=read_query,
    facts=facts,
    brief=message.brief,
    message_part=message.message_part,
    parse_columns=request.parse_columns,
)
