"""The head that the DAG files share: the schedule from the environment, one run at a time, failures reported."""

import os
import re
from datetime import datetime
from typing import Any

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable
from pststream_dags import alerts

from pststream import names

MATCHES = Asset(name="pststream_matches", uri=names.MATCHES_ASSET)
PLANS = Asset(name="pststream_plans", uri=names.PLANS_ASSET)
IMBALANCE = Asset(name="pststream_imbalance", uri=names.IMBALANCE_ASSET)


def head(dag_id: str, schedule: str, after: Asset | None = None) -> dict[str, Any]:
    """What the DAGs have in common, as arguments of `DAG`.

    schedule  a cron expression, unless `PSTSTREAM_<DAG_ID>_SCHEDULE` gives another; there `none` leaves it to triggers
    after     an asset whose events start a run too
    """
    cron = os.environ.get(f"PSTSTREAM_{dag_id.upper()}_SCHEDULE", schedule)
    when: Any = None if cron in ("", "none") else cron
    if when and after:
        when = AssetOrTimeSchedule(timetable=CronTriggerTimetable(cron, timezone="UTC"), assets=[after])
    return {
        "dag_id": dag_id,
        "schedule": when,
        "start_date": datetime(2026, 1, 1),
        "catchup": False,
        "max_active_runs": 1,
        "default_args": {"on_failure_callback": alerts.report_failure},
        "tags": ["pststream"],
        "user_defined_filters": {"file_name": file_name},
    }


def file_name(text: str) -> str:
    """A run's id as the name of a file."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)
