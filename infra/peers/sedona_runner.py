"""Match the benchmark files with SedonaDB: `python sedona_runner.py FOLDER COUNT`.

See benchmarks/scenarios/streams/peers.py for the contract of peers.

There are two queries that a user would write: a
join on the rarest keyword with the rectangle as a filter, and a spatial join with the keywords as a filter. Both run on
the first fiftieth of the objects and must agree; the faster one then runs on all objects.
"""

import json
import sys
import time

import sedona.db
import sedonadb

KEYWORD_JOIN = """
    SELECT count(*) AS matches, sum(s.key) AS key_sum
    FROM (SELECT lon, lat, terms, unnest(terms) AS term FROM objects) o JOIN subscriptions s ON o.term = s.rarest
    WHERE o.lon BETWEEN s.west AND s.east AND o.lat BETWEEN s.south AND s.north AND array_has_all(o.terms, s.terms)
"""
SPATIAL_JOIN = """
    SELECT count(*) AS matches, sum(s.key) AS key_sum
    FROM objects o JOIN boxes s ON ST_Intersects(s.box, o.point)
    WHERE array_has_all(o.terms, s.terms)
"""

QUERIES = {"keyword join": KEYWORD_JOIN, "spatial join": SPATIAL_JOIN}


def run_query(db: object, query: str) -> tuple[float, int, int]:
    """Run a query; return its seconds, matches and sum of keys."""
    began = time.perf_counter()
    (row,) = db.sql(query).to_arrow_table().to_pylist()  # type: ignore[attr-defined]
    return time.perf_counter() - began, int(row["matches"]), int(row["key_sum"] or 0)


def main(folder: str, count: int) -> dict[str, object]:
    """Load the files, try both queries, run the faster one; return the figures."""
    db = sedona.db.connect()
    began = time.perf_counter()
    db.read_parquet(f"{folder}/subscriptions.parquet").to_memtable().to_view("subscriptions")
    db.sql(
        "SELECT key, terms, ST_MakeEnvelope(west, south, east, north) AS box FROM subscriptions"
    ).to_memtable().to_view("boxes")
    db.read_parquet(f"{folder}/objects.parquet").to_memtable().to_view("all_objects")
    few = max(1, count // 50)
    chosen = "SELECT lon, lat, terms, ST_Point(lon, lat) AS point FROM all_objects WHERE id < "
    db.sql(f"{chosen} {few}").to_memtable().to_view("objects")
    loaded = time.perf_counter() - began
    tried = {name: run_query(db, query) for name, query in QUERIES.items()}
    if len({figures[1:] for figures in tried.values()}) > 1:
        raise SystemExit(f"the two queries do not agree: {tried}")
    best = min(tried, key=lambda name: tried[name][0])
    db.sql(f"{chosen} {count}").to_memtable().to_view("objects", overwrite=True)
    seconds, matches, key_sum = run_query(db, QUERIES[best])
    return {
        "version": sedonadb.__version__,
        "setting": "; ".join(f"{name}: {few} objects in {figures[0]:.2f} s" for name, figures in tried.items()),
        "load_seconds": loaded,
        "seconds": seconds,
        "matches": matches,
        "key_sum": key_sum,
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
