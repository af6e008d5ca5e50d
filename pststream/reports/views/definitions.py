"""Define the views of a home: pairs, subscriptions, batches_done, rejects_by_file, and write them in each dialect.

A view counts the rows of finished batches and finished ingests only. docs/tables.md describes the columns.
"""

from collections.abc import Callable

from pststream import names
from pststream.delta_tables import AnyHome
from pststream.reports.views.dialects import DIALECTS, Dialect
from pststream.reports.views.region_text import radius_of_circle, region_as_text

TableName = Callable[[str], str]
"""Returns the name under which a query reads a table."""


def _pairs(d: Dialect, table: TableName) -> str:
    """Each pair that `export matches` writes, once: without retracted pairs."""
    done = f"batch_id IN (SELECT batch_id FROM {table(names.BATCHES)} WHERE status = 'done')"

    def exploded(columns: str, condition: str) -> str:
        pairs = d.unnest("subscription_keys", "subscription_key")
        return (
            f"SELECT {columns}, subscription_key\n  FROM {table(names.MATCHES)} {pairs}\n  WHERE {condition} AND {done}"
        )

    columns = "object_key, object_id, ts, batch_id, plan_version, worker"
    return f"""\
SELECT
  matched.object_key, matched.object_id, matched.ts,
  matched.subscription_key, inserted.subscription_id, inserted.payload,
  matched.batch_id, matched.plan_version, matched.worker
FROM (
  {exploded(columns, "NOT retracted")}
) AS matched
JOIN {table(names.REQUESTS)} AS inserted
  ON inserted.subscription_key = matched.subscription_key AND inserted.op = 'insert'
LEFT JOIN (
  {exploded("object_key", "retracted")}
) AS retractions
  ON retractions.object_key = matched.object_key AND retractions.subscription_key = matched.subscription_key
WHERE retractions.object_key IS NULL"""


def _subscriptions(d: Dialect, table: TableName) -> str:
    """Each subscription, live or ended, with its region as WKT and its end by deletion or expiry."""
    ingested = _of_finished_ingests(table)
    return f"""\
SELECT
  subscription_key, subscription_id, kind, keywords, region, radius_m, created_at, end_at,
  created_at <= current_timestamp AND (end_at IS NULL OR end_at > current_timestamp) AS is_live,
  payload
FROM (
  SELECT
    inserted.subscription_key, inserted.subscription_id, inserted.kind, inserted.keywords,
    {region_as_text(d)} AS region,
    {radius_of_circle(d)} AS radius_m,
    inserted.effective_at AS created_at,
    CASE
      WHEN inserted.expires_at IS NULL OR deleted.deleted_at <= inserted.expires_at THEN deleted.deleted_at
      ELSE inserted.expires_at
    END AS end_at,
    inserted.payload
  FROM {table(names.REQUESTS)} AS inserted
  LEFT JOIN (
    SELECT subscription_key, min(effective_at) AS deleted_at
    FROM {table(names.REQUESTS)}
    WHERE op = 'delete' AND {ingested}
    GROUP BY subscription_key
  ) AS deleted
    ON deleted.subscription_key = inserted.subscription_key
  WHERE inserted.op = 'insert' AND inserted.{ingested}
) AS requested"""


def _batches_done(d: Dialect, table: TableName) -> str:
    """Each finished batch, once."""
    return f"""\
SELECT
  batch_id, plan_version, objects_after, objects_to, requests_after, requests_to, objects_version, requests_version,
  objects, discarded, requests, matches, retractions, stream_time, removals, candidates, changes, evaluations,
  seconds_by_step, started_at, finished_at
FROM {table(names.BATCHES)}
WHERE status = 'done'"""


def _rejects_by_file(d: Dialect, table: TableName) -> str:
    """The number of rejected rows of each ingested file, and each answered file of questions, by field and reason."""
    file, row = d.quoted("file"), d.quoted("row")
    return f"""\
SELECT
  ingest_id, kind, {file}, field, reason, count(*) AS rejects, min({row}) AS first_row
FROM {table(names.REJECTS)}
WHERE {_of_finished_ingests(table)} OR kind = '{names.QUESTIONS}'
GROUP BY ingest_id, kind, {file}, field, reason"""


def _of_finished_ingests(table: TableName) -> str:
    return f"ingest_id IN (SELECT ingest_id FROM {table(names.FILES)} WHERE status = 'done')"


VIEWS: dict[str, Callable[[Dialect, TableName], str]] = {
    "pairs": _pairs,
    "subscriptions": _subscriptions,
    "batches_done": _batches_done,
    "rejects_by_file": _rejects_by_file,
}
"""The query of each view by its name. To add a view, write its query and add a line here and to docs/tables.md."""

VIEWED_TABLES = (names.BATCHES, names.FILES, names.MATCHES, names.REJECTS, names.REQUESTS)
"""The tables that views read, a ledger before the tables whose rows it counts."""


def view_query(home: AnyHome, view: str, dialect: Dialect) -> str:
    """Return the query of a view, on the tables at the addresses of a home."""
    return VIEWS[view](dialect, lambda name: dialect.table(home, name))


def view_statements(home: AnyHome, dialect: str) -> list[str]:
    """Return the statements that create the views in a dialect of DIALECTS, without semicolons."""
    d = DIALECTS[dialect]
    created = [f"CREATE OR REPLACE VIEW {d.prefix}{view} AS\n{view_query(home, view, d)}" for view in VIEWS]
    return [*d.prepare(home, VIEWED_TABLES), *created]
