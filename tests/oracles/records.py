"""All rows of a request file as records, as the parser of single requests reads them."""

from collections.abc import Iterator

import numpy as np

from pststream.input.parse_requests import request_fields
from pststream.input.readers import read_requests
from pststream.input.row_chunks import RecordChunk, RequestChunk


def read_records(path: str, format: str | None) -> Iterator[RecordChunk]:
    """Yield the chunks of a file as records."""
    return map(to_records, read_requests(path, format, request_fields()))


def to_records(chunk: RequestChunk) -> RecordChunk:
    """Return all rows of a chunk as records."""
    records = chunk.records(np.arange(len(chunk.rows)))
    records.rejected.extend(chunk.rejected)
    return records
