"""Answer the benchmark's questions with Polars: `python questions_polars.py FOLDER`.

See benchmarks/support/question_peers.py for the contract. All questions of a kind are one join: by their
rarest word, by each of their words (topk), or by cells of a grid (frequent_terms).
"""

import json
import math
import sys
import time
from pathlib import Path

try:
    import polars as pl
except ImportError:
    raise SystemExit("absent: polars is not installed") from None

WIDE, HIGH = 4.0, 2.0
"""Degrees of a cell."""


def cells(column: str, size: float) -> pl.Expr:
    """Return the number of the cell of a longitude or latitude."""
    return (pl.col(column) / size).floor().cast(pl.Int64)


def metres(radius: float) -> pl.Expr:
    """Return the distance between the columns lon, lat and lon_q, lat_q."""
    lat, lat_q = pl.col("lat").radians(), pl.col("lat_q").radians()
    across = (((pl.col("lon") - pl.col("lon_q")).radians()) / 2).sin() ** 2
    half = ((lat - lat_q) / 2).sin() ** 2 + lat_q.cos() * lat.cos() * across
    return 2 * radius * pl.min_horizontal(half.sqrt(), 1.0).arcsin()


def with_words(objects: pl.LazyFrame, asked: pl.LazyFrame, each: bool) -> pl.LazyFrame:
    """Join objects and questions by a word: the rarest, or each."""
    words = asked.with_columns(word="terms_q").explode("word") if each else asked.with_columns(word="rarest")
    postings = objects.select("row", word="terms").explode("word").join(words, on="word")
    joined = postings.join(objects, on="row").filter(pl.col("ts") > pl.col("after"))
    shared = pl.col("terms").list.set_intersection("terms_q").list.len()
    return joined if each else joined.filter(shared == pl.col("terms_q").list.len())


def ranked(rows: pl.LazyFrame, order: list[str], descending: list[bool]) -> pl.LazyFrame:
    """Number the rows of each question in an order, and keep the first k."""
    numbered = rows.sort(["question", *order], descending=[False, *descending]).with_columns(
        rank=pl.int_range(1, pl.len() + 1, dtype=pl.Int64).over("question")
    )
    return numbered.filter(pl.col("k").is_null() | (pl.col("rank") <= pl.col("k")))


NEWEST = (["ts", "object_key"], [True, True])
INSIDE = pl.col("lon").is_between("west", "east") & pl.col("lat").is_between("south", "north")


def answer_range(objects: pl.LazyFrame, asked: pl.LazyFrame, radius: float) -> pl.LazyFrame:
    """Return all objects of each region, newest first."""
    return ranked(with_words(objects, asked, False).filter(INSIDE), *NEWEST)


def answer_knn(objects: pl.LazyFrame, asked: pl.LazyFrame, radius: float) -> pl.LazyFrame:
    """Return the k nearest."""
    rows = with_words(objects, asked, False).with_columns(metres=metres(radius).cast(pl.Float32))
    return ranked(rows, ["metres", *NEWEST[0]], [False, *NEWEST[1]])


def answer_topk(objects: pl.LazyFrame, asked: pl.LazyFrame, radius: float) -> pl.LazyFrame:
    """Return the k best."""
    keys = ["question", "row"]
    pairs = (
        with_words(objects, asked, True).group_by(keys).agg(pl.len().alias("shared"), pl.all().exclude(keys).first())
    )
    lengths = pl.col("terms").list.len().cast(pl.Float64) * pl.col("terms_q").list.len().cast(pl.Float64)
    near = pl.max_horizontal(1 - metres(radius) / (math.pi * radius), 0.0)
    score = pl.col("alpha") * near + (1 - pl.col("alpha")) * (pl.col("shared") / lengths.sqrt())
    rows = pairs.with_columns(score=score.cast(pl.Float32))
    return ranked(rows, ["score", *NEWEST[0]], [True, *NEWEST[1]])


def answer_frequent_terms(objects: pl.LazyFrame, asked: pl.LazyFrame, radius: float) -> pl.LazyFrame:
    """Return the k terms of most objects."""
    across = pl.int_ranges(cells("west", WIDE), cells("east", WIDE) + 1)
    along = pl.int_ranges(cells("south", HIGH), cells("north", HIGH) + 1)
    boxes = asked.with_columns(x=across, y=along).explode("x").explode("y")
    placed = objects.with_columns(x=cells("lon", WIDE), y=cells("lat", HIGH))
    inside = placed.join(boxes, on=["x", "y"]).filter((pl.col("ts") > pl.col("after")) & INSIDE)
    counts = inside.select("question", "k", term="terms").explode("term").group_by("question", "k", "term").len()
    place = pl.col("len").rank("min", descending=True).over("question")
    words = pl.scan_parquet("words.parquet")
    return ranked(counts.filter(place <= pl.col("k")).join(words, on="term"), ["len", "word"], [True, False])


KINDS = {
    "range": answer_range,
    "knn": answer_knn,
    "topk": answer_topk,
    "frequent_terms": answer_frequent_terms,
}


def main(folder: str) -> dict[str, object]:
    """Load the objects, answer each kind twice, and return the figures of the second time."""
    given = json.loads(Path(folder, "questions.json").read_text("utf-8"))
    began = time.perf_counter()
    columns = ["object_key", "object_id", pl.col("ts").dt.timestamp("us"), "lon", "lat", "terms"]
    loaded = pl.scan_parquet(given["files"]).select(columns).filter(pl.col("ts") > given["after"])
    objects = loaded.with_row_index("row").collect()
    seconds = time.perf_counter() - began
    renamed = {"lon": "lon_q", "lat": "lat_q", "terms": "terms_q"}
    kinds = {}
    for kind, answer in KINDS.items():
        asked = pl.scan_parquet(f"{kind}.parquet").rename(renamed)
        name = "word" if kind == "frequent_terms" else "object_id"
        for _ in range(2):
            began = time.perf_counter()
            least = asked.select(pl.col("after").min()).collect().item()
            recent = objects.lazy().filter(pl.col("ts") > least)
            rows = answer(recent, asked, given["radius_m"]).select("question", "rank", answer=name).collect()
            taken = time.perf_counter() - began
        rows.write_parquet(f"answers-polars-{kind}.parquet")
        kinds[kind] = {"questions": asked.select(pl.len()).collect().item(), "seconds": taken}
    setting = "data frame in memory, one join for all questions of a kind, second run"
    return {"version": pl.__version__, "setting": setting, "load_seconds": round(seconds, 1), "kinds": kinds}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
