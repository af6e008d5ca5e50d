"""Keep the gold table of a home, `gold/pairs`: the view `pairs` with place, text, keywords and day, as a Delta table.

Spark SQL reads and writes it, in a session with Spark's defaults. An update takes the batches after the last one that
the table has. It first deletes the pairs that these batches retract, then appends their new pairs in one commit, whose
transaction id is the last of these batches: the commit that says up to which batch the table is. An update that is
killed between the two begins again at the same batch, and deletes nothing twice. Retracted pairs never come again.

The log of the table has bounds of numbers and times alone, so no id or text of a row remains in it.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as pds

from pststream.base import names
from pststream.base.arrow_columns import ATTRIBUTES, TIME
from pststream.base.errors import PairsBusy, PstError
from pststream.base.progress import Progress, no_progress
from pststream.engine.spark_session import check_jars, get_session
from pststream.reports.reading.pairs import count_gold_rows, gold_batch, gold_table, has_gold_table
from pststream.reports.views import SPARK, pairs_query, spark_path, sql_literal
from pststream.settings import Settings
from pststream.state.crash_points import crash_point
from pststream.state.erasures import count_removed_pairs, removed_rows
from pststream.state.home import RUNNER_WAIT_SECONDS, Home
from pststream.state.tables import TABLES
from pststream.tables.delta_tables import latest_dataset
from pststream.tables.ledgers import read_batches

GOLD_PAIRS = f"{names.GOLD}/{names.PAIRS}"
"""The table in counts of removed rows."""

MARK = f"{names.GOLD}/deleting"
"""File of a home that is there from a deletion of rows until older versions are deleted, which `maintain` finishes."""

COLUMNS = {
    **dict.fromkeys(("object_key", "object_id", "ts"), names.MATCHES),
    **dict.fromkeys(("subscription_key", "owner", "subscription_id", "payload"), names.REQUESTS),
    **dict.fromkeys(("batch_id", "plan_version", "worker"), names.MATCHES),
    **dict.fromkeys(("lon", "lat", "text", "attributes"), names.OBJECTS),
    "keywords": names.REQUESTS,
}
"""The columns before `day`, each with the table that declares it."""

TYPES = {
    **{pa.int64(): "BIGINT", pa.float64(): "DOUBLE", pa.string(): "STRING", TIME: "TIMESTAMP"},
    ATTRIBUTES: "MAP<STRING, STRUCT<type: STRING, value: STRING>>",
}


def update_pairs(
    home: Home, settings: Settings, *, rebuild: bool = False, dry_run: bool = False, progress: Progress = no_progress
) -> dict[str, Any]:
    """Add the pairs of the batches that are done and not in the table yet, and delete those that they retract.

    rebuild: first replace the rows, in one commit, by the pairs of the batches that the table has
    dry_run: only say which batches are new

    Returns {"dry_run", "rebuilt", "batch_from" (the last batch before; 0: none), "batch_to" (the last one now),
    "deleted", "rows" (of the table; None: there is none), "seconds"}. Raises UsageError if Spark cannot reach the home,
    PairsBusy while another process writes to the table, PstError if the table has batches that the home does not have.
    """
    began = time.perf_counter()
    home.check()
    check_jars(settings, home)
    with home.locked(names.PAIRS, PairsBusy, wait_seconds=RUNNER_WAIT_SECONDS):
        after = gold_batch(home)
        to = max((row["batch_id"] for row in read_batches(home, after - 1) if row["status"] == "done"), default=0)
        if after > to:
            hint = f"delete the folder {home.path}/{names.GOLD}, then run: pststream pairs"
            raise PstError(f"{gold_table(home)} is of batch {after}, but the last batch of the home is {to}", hint)
        deleted = 0
        if not dry_run:
            if rebuild and has_gold_table(home):
                progress(f"pairs: rebuilding up to batch {after}")
                _write(home, settings, 0, after, again=True)
            if not has_gold_table(home) or to > after:
                progress(f"pairs: batches {after + 1} to {to}")
                _create(home, settings)
                deleted = _delete_retracted(home, settings, after, to)
                crash_point("pairs.deleted")
                _write(home, settings, after, to)
                crash_point("pairs.appended")
        return {
            "dry_run": dry_run,
            "rebuilt": rebuild and not dry_run,
            "batch_from": after,
            "batch_to": to,
            "deleted": deleted,
            "rows": count_gold_rows(home) if has_gold_table(home) else None,
            "seconds": round(time.perf_counter() - began, 3),
        }


def update_hourly(home: Home, settings: Settings, *, progress: Progress = no_progress) -> dict[str, Any] | None:
    """Update the table unless the setting `pairs_table` is `never`; then return None."""
    return None if settings.pairs_table == names.NEVER else update_pairs(home, settings, progress=progress)


def _sql(settings: Settings, statement: str) -> Any:
    """Run a statement in the session; return the DataFrame of its result."""
    return get_session(settings).sql(statement)


def _table(home: Home, name: str = names.PAIRS) -> str:
    return spark_path(gold_table(home) if name == names.PAIRS else home.table(name))


def _create(home: Home, settings: Settings) -> None:
    """Create the table unless it exists: clustered, with a change data feed, without deletion vectors."""
    declared = [next(one for one in TABLES[table].columns if one.name == name) for name, table in COLUMNS.items()]
    columns = [f"{one.name} {TYPES[one.type]} COMMENT {sql_literal(one.meaning)}" for one in declared]
    columns.append("day DATE COMMENT 'of ts, in UTC'")
    bounded = [*(one.name for one in declared if one.type not in (pa.string(), ATTRIBUTES)), "day"]
    properties = {
        "delta.enableChangeDataFeed": "true",
        "delta.enableDeletionVectors": "false",
        "delta.dataSkippingStatsColumns": ",".join(bounded),
    }
    listed = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    _sql(
        settings,
        f"CREATE TABLE IF NOT EXISTS {_table(home)} ({', '.join(columns)}) USING DELTA"
        f" CLUSTER BY (subscription_key, day) TBLPROPERTIES ({listed})",
    )


def _delete_retracted(home: Home, settings: Settings, after: int, to: int) -> int:
    """Delete the pairs that the batches in (after, to] retract; return how many. Only their days are read."""
    retracted = f"{_table(home, names.MATCHES)} WHERE retracted AND batch_id > {after} AND batch_id <= {to}"
    ((first, last),) = _sql(settings, f"SELECT CAST(min(ts) AS DATE), CAST(max(ts) AS DATE) FROM {retracted}").collect()
    if first is None:
        return 0
    return _merge_away(
        home,
        settings,
        f"SELECT DISTINCT object_key, subscription_key FROM (SELECT object_key, explode(subscription_keys) AS"
        f" subscription_key FROM {retracted})",
        ("object_key", "subscription_key"),
        f"pairs.day BETWEEN DATE'{first}' AND DATE'{last}'",
    )


def _merge_away(home: Home, settings: Settings, source: str, keys: Sequence[str], bounds: str) -> int:
    """Delete the rows that have the keys of a row of the query `source`; `bounds`: what else is true of these rows."""
    same = " AND ".join(f"pairs.{key} = gone.{key}" for key in keys)
    merge = f"MERGE INTO {_table(home)} AS pairs USING ({source}) AS gone ON {bounds} AND {same}"
    (counts,) = _sql(settings, f"{merge} WHEN MATCHED THEN DELETE").collect()
    return int(counts["num_deleted_rows"])


def _write(home: Home, settings: Settings, after: int, to: int, *, again: bool = False) -> None:
    """Append the pairs of the batches in (after, to], in one commit that makes `to` the last batch of the table.

    again: replace the rows of these batches, which the table has
    """
    batches = f"batch_id > {after} AND batch_id <= {to}"
    keys = f"SELECT min(object_key), max(object_key) FROM {_table(home, names.MATCHES)} WHERE {batches}"
    ((low, high),) = _sql(settings, keys).collect()
    pairs = pairs_query(SPARK, lambda name: _table(home, name), batches, "keywords")
    rows = _sql(
        settings,
        f"SELECT {', '.join(COLUMNS)}, CAST(ts AS DATE) AS day FROM ({pairs}) AS pairs"
        f" LEFT JOIN (SELECT object_key AS number, lon, lat, text, attributes FROM {_table(home, names.OBJECTS)}"
        f" WHERE object_key BETWEEN {low or 0} AND {high or 0}) AS objects ON objects.number = pairs.object_key",
    )
    # A server may still run the append of a process that was killed: the later of two such commits fails, and if that
    # append was committed after this update read the position, its rows are replaced, not repeated.
    writer = rows.write.format("delta").mode("overwrite").option("replaceWhere", batches)
    if not again:
        writer = writer.option("txnAppId", names.PAIRS).option("txnVersion", to)
    writer.save(home.storage.spark_uri(gold_table(home)))


@contextmanager
def _deleting(home: Home, settings: Settings) -> Iterator[None]:
    """Delete older versions and change files after a block that deletes rows."""
    home.files.write(MARK, b"")
    yield
    crash_point("pairs.erased")
    _vacuum(home, settings, 0)
    home.files.delete([MARK])


def _vacuum(home: Home, settings: Settings, hours: int) -> None:
    """Delete data files and change files that the table has not listed for some hours."""
    get_session(settings).conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    _sql(settings, f"VACUUM {_table(home)} RETAIN {hours} HOURS")


def erase_pairs(home: Home, settings: Settings, objects: np.ndarray, subscriptions: np.ndarray) -> int:
    """Delete the pairs of objects and subscriptions with these keys (int64, ascending), with all older versions.

    Returns the rows deleted; starts no Spark if there are none. The table is locked (`locked_pairs`).
    """
    count = count_pairs_of(home, objects, subscriptions)
    if count or home.files.exists(MARK):
        with _deleting(home, settings):
            for column, keys in (("object_key", objects), ("subscription_key", subscriptions)):
                if len(keys):
                    spark = get_session(settings)
                    spark.createDataFrame(pa.table({column: keys})).createOrReplaceTempView("gone_keys")
                    bounds = f"pairs.{column} BETWEEN {keys[0]} AND {keys[-1]}"
                    _merge_away(home, settings, "SELECT * FROM gone_keys", (column,), bounds)
    return count


def count_pairs_of(home: Home, objects: np.ndarray, subscriptions: np.ndarray) -> int:
    """Count the pairs of objects and subscriptions with these keys; 0 without a table."""
    if not has_gold_table(home):
        return 0
    among = pds.field("object_key").isin(pa.array(objects)) | pds.field("subscription_key").isin(
        pa.array(subscriptions)
    )
    return int(latest_dataset(gold_table(home)).count_rows(filter=among))


def drop_old_pairs(home: Home, settings: Settings, bound: int) -> int:
    """Delete the pairs of objects before a time (microseconds), with all older versions; return how many.

    Starts no Spark if there are none.
    """
    if not has_gold_table(home):
        return 0
    count = int(latest_dataset(gold_table(home)).count_rows(filter=pds.field("ts") < pa.scalar(bound, TIME)))
    if count:
        with _deleting(home, settings):
            _sql(settings, f"DELETE FROM {_table(home)} WHERE ts < timestamp_micros({bound})")
    return count


def check_gold(home: Home, settings: Settings) -> None:
    """Raise UsageError if the table exists and Spark cannot change it."""
    if has_gold_table(home):
        check_jars(settings, home)


@contextmanager
def locked_pairs(home: Home) -> Iterator[None]:
    """Keep others from writing to the table. Raises PairsBusy."""
    with home.locked(names.PAIRS, PairsBusy, wait_seconds=RUNNER_WAIT_SECONDS):
        yield


def compact_pairs(home: Home, settings: Settings) -> None:
    """Cluster and compact the table, and delete files that it has not listed for `retention_days`, if it exists."""
    if has_gold_table(home):
        with locked_pairs(home):
            _sql(settings, f"OPTIMIZE {_table(home)}")
            was_killed = home.files.exists(MARK)
            _vacuum(home, settings, 0 if was_killed else settings.retention_days * 24)
            home.files.delete([MARK])


def count_pairs_off(home: Home) -> int | None:
    """Return the rows of the table minus those of the view after the same batch, by the ledger of batches.

    None while another process writes to the table. The home is locked, so that no erasure runs.
    """
    try:
        with home.locked(names.PAIRS, PairsBusy):
            to, rows = gold_batch(home), count_gold_rows(home)
    except PairsBusy:
        return None
    counted = sum((row["matches"] or 0) - (row["retractions"] or 0) for row in read_batches(home, 0, to))
    gone = count_removed_pairs(removed_rows(home))
    removed = gone.batch_ids <= to
    return int(rows - counted + gone.pairs[removed].sum() - gone.retractions[removed].sum())
