"""Objects judged by the log: late ones, and ids that were taken before (DESIGN: what makes the matches pure)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from pststream import names
from pststream.kernels.fold import duplicate_objects
from pststream.pipeline.groups import group_starts, whole_partition
from pststream.quality.reasons import REASONS
from pststream.settings import Settings
from pststream.state import control, delta
from pststream.state.home import Home
from pststream.state.ledger import Ledger, key

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FIRST = -(2**63)
"""Horizon of a file before which there is none."""


def judge_objects(
    spark: "SparkSession", home: Home, settings: Settings, files: list[dict[str, Any]], parsed: "DataFrame"
) -> "DataFrame":
    """Parsed rows with `object_key`, `ingest_id`, `watermark` (microseconds, of the file) and the reason completed."""
    from pyspark.sql import functions as f

    watermarks = _watermarks(home, files, parsed)
    late_by = settings.lateness_seconds * 1_000_000
    watermark = f.create_map(*(f.lit(v).cast("long") for item in watermarks.items() for v in item))[f.col("file_seq")]
    rows = (
        parsed.withColumn("object_key", f.shiftleft("file_seq", names.ROW_BITS) + f.col("row"))
        .withColumn("ingest_id", f.lit(files[0]["ingest_id"]).cast("long"))
        .withColumn("watermark", watermark)
        .withColumn("horizon", f.coalesce(f.col("watermark") - late_by, f.lit(FIRST)))
    )
    rows = _rejected(
        rows,
        f.col("reason").isNull() & (f.unix_micros("ts") < f.col("horizon")),
        "ts",
        "late",
        f.col("ts").cast("string"),
    )
    known = [mark for mark in watermarks.values() if mark is not None]
    duplicates = _duplicates(spark, home, files, rows, min(known) - late_by if known else None)
    rows = rows.join(duplicates, "object_key", "left")
    return _rejected(rows, f.col("duplicate"), "object_id", "duplicate", f.col("object_id")).drop(
        "duplicate", "horizon"
    )


def _rejected(rows: "DataFrame", condition: Any, field: str, reason: str, raw: Any) -> "DataFrame":
    """Rows with the reject's columns filled in where the condition holds."""
    from pyspark.sql import functions as f

    hit = f.coalesce(condition, f.lit(False))
    values = {
        "field": f.lit(field),
        "detail": f.lit(REASONS[reason]),
        "raw": f.substring(raw, 1, 1000),
        "reason": f.lit(reason),
    }
    return rows.withColumns({name: f.when(hit, value).otherwise(f.col(name)) for name, value in values.items()})


def _watermarks(home: Home, files: list[dict[str, Any]], parsed: "DataFrame") -> dict[int, int | None]:
    """Greatest ts (microseconds) in the files before each of these."""
    from pyspark.sql import functions as f

    before = [file for file in Ledger(home).done("objects") if file["file_seq"] < files[0]["file_seq"]]
    moments = [file["max_ts"] for file in before if file["max_ts"] is not None]
    greatest = control.micros_of(max(moments)) if moments else None
    own: dict[int, int | None] = dict(parsed.groupBy("file_seq").agg(f.max(f.unix_micros("ts"))).collect())
    marks: dict[int, int | None] = {}
    for file in files:
        marks[file["file_seq"]] = greatest
        found = own.get(file["file_seq"])
        if found is not None:
            greatest = found if greatest is None else max(greatest, found)
    return marks


def _duplicates(
    spark: "SparkSession", home: Home, files: list[dict[str, Any]], rows: "DataFrame", horizon: int | None
) -> "DataFrame":
    """Keys of new rows that repeat an id: (object_key, duplicate=true)."""
    from pyspark.sql import functions as f

    columns = ("object_id", "object_key", f.unix_micros("ts").alias("ts"))
    new = rows.where("reason IS NULL").select(*columns, "horizon")
    seen = new.select("object_id")
    if horizon is not None:
        stored = delta.read(spark, home, names.OBJECTS).where(
            (f.col("object_key") < key(files[0]["file_seq"], 0)) & (f.col("ts") >= f.timestamp_micros(f.lit(horizon)))
        )
        stored = stored.select(*columns, f.lit(FIRST).alias("horizon")).join(
            new.select("object_id"), "object_id", "left_semi"
        )
        new = new.unionByName(stored)
        seen = new.select("object_id")
    repeated = seen.groupBy("object_id").count().where("count > 1").select("object_id")
    groups = (
        new.join(repeated, "object_id", "left_semi")
        .repartition("object_id")
        .sortWithinPartitions("object_id", "object_key")
    )
    return groups.mapInArrow(_fold, "object_key long, duplicate boolean")


def _fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = whole_partition(batches)
    if rows is None:
        return
    values = [rows.column(name).to_numpy() for name in ("object_key", "ts", "horizon")]
    duplicate = duplicate_objects(group_starts(rows.column("object_id")), *values, names.ROW_BITS)
    keys = values[0][duplicate]
    yield pa.RecordBatch.from_arrays([pa.array(keys), pa.array(np.ones(len(keys), bool))], ["object_key", "duplicate"])
