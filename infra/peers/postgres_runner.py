"""Match the benchmark files with PostgreSQL: `python postgres_runner.py FOLDER COUNT`.

See benchmarks/scenarios/streams/peers.py for the contract of peers.

The program starts a server in a scratch folder,
on a Unix socket only. One GiST index covers (rarest keyword, rectangle): each keyword of an object is looked up in it
together with the point, and the candidates' other keywords are tested afterwards.
"""

import json
import sys
import time

from postgres_server import serve

LOAD = """
CREATE EXTENSION btree_gist;
CREATE UNLOGGED TABLE subscriptions (key int8, west float8, south float8, east float8, north float8, rarest int8,
                                     terms int8[]);
CREATE UNLOGGED TABLE objects (id int8, lon float8, lat float8, terms int8[]);
\\copy subscriptions FROM 'subscriptions.tsv'
\\copy objects FROM PROGRAM 'head -n {count} objects.tsv'
ALTER TABLE subscriptions ADD COLUMN box box GENERATED ALWAYS AS (box(point(west, south), point(east, north))) STORED;
CREATE INDEX ON subscriptions USING gist (rarest, box);
VACUUM ANALYZE;
"""
MATCH = """
SELECT count(*) || ' ' || coalesce(sum(s.key), 0)
FROM objects o, unnest(o.terms) AS term, subscriptions s
WHERE s.rarest = term AND s.box @> box(point(o.lon, o.lat), point(o.lon, o.lat))
  AND o.lon BETWEEN s.west AND s.east AND o.lat BETWEEN s.south AND s.north AND s.terms <@ o.terms
"""


def main(folder: str, count: int) -> dict[str, object]:
    """Start a server, load the files, run the query, stop the server; return the figures."""
    with serve(folder) as psql:
        began = time.perf_counter()
        psql(LOAD.format(count=count))
        loaded = time.perf_counter() - began
        times = []
        for _ in range(2):
            began = time.perf_counter()
            matches, key_sum = psql(MATCH).split()
            times.append(time.perf_counter() - began)
        version = psql("SHOW server_version")
    return {
        "version": version.strip(),
        "setting": "GiST (rarest keyword, box), second run",
        "load_seconds": loaded,
        "seconds": times[-1],
        "matches": int(matches),
        "key_sum": int(key_sum),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
