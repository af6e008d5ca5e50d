"""Define the assets and DAG arguments that all DAGs share: schedule, one run at a time, failure callback."""

import os
import re
from datetime import datetime
from typing import Any

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable

from pststream import names
from pststream.airflow import alerts

MATCHES = Asset(name="pststream_matches", uri=names.MATCHES_ASSET)
PLANS = Asset(name="pststream_plans", uri=names.PLANS_ASSET)
IMBALANCE = Asset(name="pststream_imbalance", uri=names.IMBALANCE_ASSET)


def dag_defaults(dag_id: str, schedule: str, after: Asset | None = None) -> dict[str, Any]:
    """Return the arguments of `DAG` that all DAGs share.

    schedule  a cron expression; `PSTSTREAM_<DAG_ID>_SCHEDULE` overrides it, and `none` there means manual triggers only
    after     an asset whose events start a run as well
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
    """Return a text, such as a run id, as a valid file name."""
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text)
