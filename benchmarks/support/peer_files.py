"""Write one synthetic workload to the Parquet and TSV files that the peers (other systems) read.

    objects.parquet        id int64 from 0, lon, lat float64, terms list<int64>
    subscriptions.parquet  key int64 from 0, west, south, east, north float64, rarest int64, terms list<int64>

The same columns are written as tab-separated text (`objects.tsv`, `subscriptions.tsv`), lists as {1,2}. A subscription
requires all of its terms; `rarest` is the term that the fewest objects have.
"""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq

from benchmarks.support.measured_homes import frequencies
from pststream.base.arrow_columns import lists
from pststream.queries.shapes.registry import SIDES
from pststream.workloads.synthetic_arrays import SyntheticObjects, SyntheticSubscriptions, term_ids


def write_peer_files(folder: Path, objects: SyntheticObjects, subscriptions: SyntheticSubscriptions) -> None:
    """Write the four files into `folder`."""
    ids = term_ids(subscriptions.terms)
    offsets = subscriptions.term_offsets[subscriptions.clause_offsets]  # AND: a clause a term
    things = pa.table(
        {
            "id": np.arange(len(objects.lon)),
            "lon": objects.lon,
            "lat": objects.lat,
            "terms": lists(objects.term_offsets, term_ids(objects.terms)),
        }
    )
    asked = pa.table(
        {
            "key": np.arange(len(subscriptions.boxes)),
            **{side: subscriptions.boxes[:, place] for place, side in enumerate(SIDES)},
            "rarest": _rarest(ids, offsets, frequencies(objects).frequency(ids)),
            "terms": lists(offsets, ids),
        }
    )
    for name, rows in (("objects", things), ("subscriptions", asked)):
        pq.write_table(rows, folder / f"{name}.parquet", row_group_size=100_000)
        pc_csv.write_csv(
            _as_text(rows),
            folder / f"{name}.tsv",
            pc_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none"),
        )


def _rarest(ids: np.ndarray, offsets: np.ndarray, frequency: np.ndarray) -> np.ndarray:
    owner = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    order = np.lexsort((ids, frequency, owner))
    return ids[order[offsets[:-1]]]


def _as_text(rows: pa.Table) -> pa.Table:
    """Convert numbers to the shortest text that parses to the same number, lists to {1,2}."""
    terms = rows.column("terms").combine_chunks()
    words = pa.ListArray.from_arrays(terms.offsets, terms.values.cast(pa.string()))
    joined = pc.binary_join_element_wise("{", pc.binary_join(words, ","), "}", "")
    return rows.set_column(rows.schema.get_field_index("terms"), "terms", joined)
