"""Answer the benchmark's questions with PostgreSQL: `python questions_postgresql.py FOLDER`.

See benchmarks/support/question_peers.py for the contract. Each question of a kind is a lateral query over an
index of the words (GIN), of the places (GiST) or of the times (BRIN), as the planner chooses.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pc_csv
import pyarrow.parquet as pq
from postgres_server import serve

LOAD = """
CREATE UNLOGGED TABLE objects (object_key int8, object_id text, ts int8, lon float8, lat float8, terms int8[]);
CREATE UNLOGGED TABLE words (term int8 PRIMARY KEY, word text COLLATE "C");
\\copy objects FROM 'objects.tsv'
\\copy words FROM 'words.tsv'
CREATE INDEX ON objects USING gin (terms);
CREATE INDEX ON objects USING gist (point(lon, lat));
CREATE INDEX ON objects USING brin (ts);
VACUUM ANALYZE;
"""
QUESTIONS = """
CREATE UNLOGGED TABLE {kind} (question int8, after int8, west float8, south float8, east float8, north float8,
                              lon float8, lat float8, k int8, alpha float8, terms int8[], rarest int8);
\\copy {kind} FROM '{kind}.tsv'
"""
INSIDE = """point(o.lon, o.lat) <@ box(point(q.west, q.south), point(q.east, q.north)) AND o.ts > q.after
    AND o.lon BETWEEN q.west AND q.east AND o.lat BETWEEN q.south AND q.north"""
METRES = """2 * {radius_m} * asin(least(1, sqrt(pow(sin(radians(o.lat - q.lat) / 2), 2) + cos(radians(q.lat)) *
    cos(radians(o.lat)) * pow(sin(radians(o.lon - q.lon) / 2), 2))))"""
SCORE = f"""q.alpha * greatest(0, 1 - {METRES} / (pi() * {{radius_m}})) + (1 - q.alpha) *
    ((SELECT count(*) FROM unnest(q.terms) AS term WHERE term = ANY (o.terms))
     / sqrt(cardinality(q.terms) * cardinality(o.terms)))"""
OBJECTS = """SELECT object_id AS answer, row_number() OVER (ORDER BY {order}, ts DESC, object_key DESC) AS rank
    FROM objects o WHERE {condition} ORDER BY rank LIMIT q.k"""
ANSWERS = {
    "range": OBJECTS.format(order="1::int", condition=f"o.terms @> q.terms AND {INSIDE}"),
    "knn": OBJECTS.format(order=f"({METRES})::real", condition="o.terms @> q.terms AND o.ts > q.after"),
    "topk": OBJECTS.format(order=f"({SCORE})::real DESC", condition="o.terms && q.terms AND o.ts > q.after"),
    "frequent_terms": f"""SELECT word AS answer, row_number() OVER (ORDER BY counted DESC, word) AS rank
    FROM (SELECT term, count(*) AS counted FROM objects o, unnest(o.terms) AS term WHERE {INSIDE} GROUP BY term) c
    JOIN words USING (term) ORDER BY rank LIMIT q.k""",
}
ASK = """\\copy (SELECT question, rank, answer FROM {kind} q, LATERAL ({answers}) a WHERE question >= {first} \
AND question < {stop}) TO 'answers.tsv'"""


def write_text(table: pa.Table, path: Path) -> None:
    """Write tab-separated text as COPY reads it: lists as {1,2}, nulls as \\N."""
    for place, field in enumerate(table.schema):
        column = table.column(place).combine_chunks()
        if pa.types.is_list(field.type):
            words = pa.ListArray.from_arrays(column.offsets, column.values.cast(pa.string()))
            column = pc.binary_join_element_wise("{", pc.binary_join(words, ","), "}", "")
        table = table.set_column(place, field.name, pc.fill_null(column.cast(pa.string()), "\\N"))
    options = pc_csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    pc_csv.write_csv(table, path, options)


def load(folder: Path, given: dict[str, object], psql: Callable[[str], str]) -> float:
    """Load objects, words and questions; return the seconds."""
    began = time.perf_counter()
    names = ["object_key", "object_id", "ts", "lon", "lat", "terms"]
    parts = []
    for file in given["files"]:  # type: ignore[attr-defined]
        rows = pq.read_table(file, columns=names)
        rows = rows.set_column(2, "ts", rows.column("ts").cast(pa.int64()))
        parts.append(rows.filter(pc.greater(rows.column("ts"), given["after"])))
    write_text(pa.concat_tables(parts).combine_chunks(), folder / "objects.tsv")
    write_text(pq.read_table(folder / "words.parquet"), folder / "words.tsv")
    psql(LOAD)
    for kind in ANSWERS:
        write_text(pq.read_table(folder / f"{kind}.parquet").combine_chunks(), folder / f"{kind}.tsv")
        psql(QUESTIONS.format(kind=kind))
    return time.perf_counter() - began


def main(folder: Path) -> dict[str, object]:
    """Load the objects, answer questions of each kind until the limit, and return the figures."""
    given = json.loads((folder / "questions.json").read_text("utf-8"))
    with serve(str(folder)) as psql:
        loaded = load(folder, given, psql)
        kinds = {kind: ask(folder, kind, given, psql) for kind in ANSWERS}
        version = psql("SHOW server_version").strip()
    setting = "GIN (terms), GiST (place), BRIN (ts), a lateral query for each question"
    return {"version": version, "setting": setting, "load_seconds": round(loaded, 1), "kinds": kinds}


def ask(folder: Path, kind: str, given: dict[str, object], psql: Callable[[str], str]) -> dict[str, object]:
    """Answer the first questions of a kind, twice as many each time, until all are answered or the time is over."""
    count = pq.read_metadata(folder / f"{kind}.parquet").num_rows
    answered, step, seconds, parts = 0, 1, 0.0, []
    answers = ANSWERS[kind].format(**given)
    # The next step takes about twice as long as all before.
    while answered < count and 3 * seconds < float(given["limit_seconds"]):  # type: ignore[arg-type]
        stop = min(count, answered + step)
        query = " ".join(ASK.format(kind=kind, answers=answers, first=answered, stop=stop).split())
        began = time.perf_counter()
        psql(query)
        seconds += time.perf_counter() - began
        parts.append(read_answers(folder / "answers.tsv"))
        answered, step = stop, 2 * step
    pq.write_table(pa.concat_tables(parts), folder / f"answers-postgresql-{kind}.parquet")
    return {"questions": answered, "seconds": seconds}


def read_answers(path: Path) -> pa.Table:
    """Read what COPY wrote."""
    columns = {"question": pa.int64(), "rank": pa.int64(), "answer": pa.string()}
    if path.stat().st_size == 0:
        return pa.schema(list(columns.items())).empty_table()
    return pc_csv.read_csv(
        path,
        read_options=pc_csv.ReadOptions(column_names=list(columns)),
        parse_options=pc_csv.ParseOptions(delimiter="\t", quote_char=False),
        convert_options=pc_csv.ConvertOptions(column_types=columns),
    )


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
