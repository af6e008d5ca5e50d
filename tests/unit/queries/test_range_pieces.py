"""The index pieces of range queries: one for each box, with the clauses and the circle of its insertion."""

import pyarrow as pa

from pststream.queries.kinds.contract import RequestLimits
from pststream.queries.kinds.range import STORED_COLUMNS as REQUEST_COLUMNS
from pststream.queries.kinds.range import make_pieces, parse_request
from pststream.queries.kinds.registry import DEFAULT_KIND, split_by_kind
from pststream.queries.shapes.registry import PIECE_COLUMNS

SCHEMA = pa.schema([(column.name, column.type) for column in REQUEST_COLUMNS])


def insertions(*regions: dict[str, object]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(
        [parse_request({"keywords": "tea"} | region, RequestLimits()) for region in regions], SCHEMA
    )


def test_two_boxes_are_two_pieces() -> None:
    circle = {"lon": 0.0, "lat": 0.0, "radius_m": 1.0}
    rows = insertions({"bbox": [5, 5, 6, 6]}, {"bbox": [0, 1, 2, 3]}, {"bbox": [170, 1, -170, 3]}, {"circle": circle})
    row, columns = make_pieces(rows.slice(1))
    assert set(columns.schema.names) == {"clauses", *(column.name for column in PIECE_COLUMNS)}
    assert row.tolist() == [0, 1, 1, 2]
    boxes = list(zip(*(columns.column(side).to_pylist() for side in ("west", "south", "east", "north"))))
    assert boxes[:3] == [(0.0, 1.0, 2.0, 3.0), (170.0, 1.0, 180.0, 3.0), (-180.0, 1.0, -170.0, 3.0)]
    assert columns.column("circle").to_pylist() == [None, None, None, [0.0, 0.0, 1.0]]
    assert len(set(map(str, columns.column("clauses").to_pylist()))) == 1


def test_pieces_of_all_shapes_stand_in_the_order_of_their_rows() -> None:
    circle = {"lon": 0.0, "lat": 0.0, "radius_m": 1.0}
    strip = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [21, 20], [20, 20], [0, 0]]]}
    rows = insertions({"geometry": strip}, {"bbox": [0, 1, 2, 3]}, {"circle": circle}, {"geometry": strip})
    row, columns = make_pieces(rows)
    counts = [row.tolist().count(place) for place in range(4)]
    assert row.tolist() == sorted(row.tolist()) and counts[1:3] == [1, 1] and counts[0] == counts[3] > 4
    edges = columns.column("polygon_edges").to_pylist()
    assert [values is None for values in edges] == [place in (1, 2) for place in row.tolist()]
    assert edges[: counts[0]] == edges[-counts[3] :]
    assert columns.column("circle").to_pylist()[counts[0] + 1] == [0.0, 0.0, 1.0]
    row, columns = make_pieces(rows.slice(0, 0))
    assert (len(row), columns.num_rows) == (0, 0)


def test_rows_of_one_kind_and_no_rows_are_one_group() -> None:
    kinds = pa.array([DEFAULT_KIND] * 3)
    rows = pa.RecordBatch.from_pydict({"kind": kinds, "row": [1, 2, 3]})
    assert [(kind.name, part.column("row").to_pylist()) for kind, part in split_by_kind(rows)] == [
        (DEFAULT_KIND, [1, 2, 3])
    ]
    (empty,) = split_by_kind(rows.slice(3))
    assert (empty[0].name, empty[1].num_rows) == (DEFAULT_KIND, 0)
