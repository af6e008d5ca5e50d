"""Answer the benchmark's questions with DuckDB: `python questions_duckdb.py FOLDER`.

See benchmarks/support/question_peers.py for the contract. All questions of a kind are one join: by their
rarest word, by each of their words (topk), or by cells of a grid (frequent_terms).
"""

import json
import sys
import time
from pathlib import Path

try:
    import duckdb
except ImportError:
    raise SystemExit("absent: duckdb is not installed") from None

METRES = "2 * {radius_m} * asin(least(1, sqrt(pow(sin(radians(p.lat - q.lat) / 2), 2) + cos(radians(q.lat)) * \
cos(radians(p.lat)) * pow(sin(radians(p.lon - q.lon) / 2), 2))))"
RANKED = "row_number() OVER (PARTITION BY question ORDER BY {order}, ts DESC, object_key DESC)"
WORDS = """WITH p AS (SELECT *, unnest(terms) AS term FROM objects WHERE ts > {after}),
           q AS (SELECT *, {words} AS word FROM read_parquet('{kind}.parquet'))"""
MATCHED = "p.term = q.word AND p.ts > q.after AND list_has_all(p.terms, q.terms)"
CELLS = "generate_series(floor({low} / {size})::BIGINT, floor({high} / {size})::BIGINT)"
QUERIES = {
    "range": f"""{WORDS}
SELECT question, {RANKED.format(order="1")} AS rank, object_id AS answer
FROM p JOIN q ON {MATCHED} AND p.lon BETWEEN q.west AND q.east AND p.lat BETWEEN q.south AND q.north""",
    "knn": f"""{WORDS},
a AS (SELECT question, k, ts, object_key, object_id, CAST({METRES} AS FLOAT) AS metres FROM p JOIN q ON {MATCHED})
SELECT question, {RANKED.format(order="metres")} AS rank, object_id AS answer FROM a QUALIFY rank <= k""",
    "topk": f"""{WORDS},
a AS (SELECT question, k, q.alpha, ts, object_key, object_id, {METRES} AS metres, len(p.terms) AS own,
             len(q.terms) AS asked FROM p JOIN q ON p.term = q.word AND p.ts > q.after),
b AS (SELECT question, k, ts, object_key, object_id,
             CAST(alpha * greatest(0, 1 - metres / (pi() * {{radius_m}})) + (1 - alpha) * (count(*) / sqrt(asked * own))
                  AS FLOAT) AS score
      FROM a GROUP BY question, k, alpha, ts, object_key, object_id, metres, own, asked)
SELECT question, {RANKED.format(order="score DESC")} AS rank, object_id AS answer FROM b QUALIFY rank <= k""",
    "frequent_terms": f"""WITH
c AS (SELECT *, unnest({CELLS.format(low="west", high="east", size=4)}) AS x FROM read_parquet('{{kind}}.parquet')),
q AS (SELECT *, unnest({CELLS.format(low="south", high="north", size=2)}) AS y FROM c),
a AS (SELECT question, k, unnest(terms) AS term FROM (
    SELECT q.question, q.k, p.terms
    FROM (SELECT *, floor(lon / 4)::BIGINT AS x, floor(lat / 2)::BIGINT AS y FROM objects WHERE ts > {{after}}) p
    JOIN q ON p.x = q.x AND p.y = q.y AND p.ts > q.after
          AND p.lon BETWEEN q.west AND q.east AND p.lat BETWEEN q.south AND q.north)),
b AS (SELECT question, k, term, count(*) AS counted FROM a GROUP BY ALL),
d AS (SELECT *, rank() OVER (PARTITION BY question ORDER BY counted DESC) AS place FROM b QUALIFY place <= k),
e AS (SELECT question, k, word AS answer, row_number() OVER (PARTITION BY question ORDER BY counted DESC, word) AS rank
      FROM d JOIN read_parquet('words.parquet') USING (term))
SELECT question, rank, answer FROM e WHERE rank <= k""",
}


def main(folder: str) -> dict[str, object]:
    """Load the objects, answer each kind twice, and return the figures of the second time."""
    given = json.loads(Path(folder, "questions.json").read_text("utf-8"))
    began = time.perf_counter()
    connection = duckdb.connect(f"{folder}/peer.duckdb")
    connection.execute("SET memory_limit = '6GB'")
    connection.execute(
        """CREATE TABLE objects AS SELECT object_key, object_id, epoch_us(ts) AS ts, lon, lat, terms
           FROM read_parquet(?) WHERE epoch_us(ts) > ? ORDER BY object_key""",
        [given["files"], given["after"]],
    )
    loaded = time.perf_counter() - began
    kinds = {}
    for kind, query in QUERIES.items():
        words = "unnest(terms)" if kind == "topk" else "rarest"
        questions, least = connection.execute(f"SELECT count(*), min(after) FROM '{kind}.parquet'").fetchone()
        text = query.format(kind=kind, words=words, radius_m=given["radius_m"], after=least)
        for _ in range(2):
            began = time.perf_counter()
            answers = connection.execute(text).to_arrow_table()
            seconds = time.perf_counter() - began
        connection.register("answers", answers)
        connection.execute(f"COPY answers TO 'answers-duckdb-{kind}.parquet'")
        kinds[kind] = {"questions": questions, "seconds": seconds}
    setting = "table in the order of time, one join for all questions of a kind, second run"
    return {"version": duckdb.__version__, "setting": setting, "load_seconds": round(loaded, 1), "kinds": kinds}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
