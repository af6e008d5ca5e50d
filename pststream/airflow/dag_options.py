"""Define what the DAGs of one home share: its address, the prefix of their names, connections, assets and callbacks."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from airflow.sdk import Asset, AssetOrTimeSchedule, CronTriggerTimetable

from pststream.airflow.alerts import Alerts
from pststream.airflow.runners.allowed_places import FORM
from pststream.airflow.runners.engine_choice import file_name
from pststream.airflow.runners.lineage import home_uri
from pststream.base import names

PREFIX = "pststream_"
TABLES = (names.MATCHES, names.PLANS, names.QUESTION_ANSWERS)
MAINTENANCE, PLAN_CHANGE, MICRO_BATCH = 1, 5, 10
"""Priorities in the pool: of two tasks that wait for the slot, the one with the greater number gets it."""

Callback = Callable[[Any], Any]


@dataclass(frozen=True)
class DagOptions:
    """The options of all DAGs of a home. Two homes in one Airflow need two prefixes.

    home           folder or `s3://bucket/prefix` of the tables; None: the connection, else Airflow's variable
                   `<prefix>home`, else `PSTSTREAM_HOME` in the environment of the task
    landing        folder or `s3://bucket/prefix` of new files; None: `landing` in `home`, or where `home` comes from
    prefix         how the ids of the DAGs and the names of the pool, the assets, the variables and the connection of
                   the sinks begin; if empty, only the ids of the DAGs have no prefix, and names begin with `pststream_`
    conn_id        a connection of type `pststream`, which names home and landing folder
    spark_conn_id  the connection to Spark
    aws_conn_id    a connection of type `aws`, whose keys the jobs use for homes and files in a bucket
    sinks_conn_id  the connection with the secrets of all sinks; None: `<prefix>sinks`. The connection of one sink is
                   `<prefix>sink_<name>`
    alerts_conn_id a connection with the URL that alerts are posted to; None: `<prefix>alerts`
    pool           pool with one slot for the jobs that write to the home; None: `<prefix>spark`
    on_failure     callbacks or notifiers, called after the alert is logged when a task has failed its last try; of
                   the DAG `health`: when a check begins to fail
    on_recovery    callbacks or notifiers, called when a check of the DAG `health` passes again
    assigned_users the users who may approve a change of the plan, as Airflow's HITLUser; none: each who may edit tasks
    notifiers      notifiers of Airflow, called when a change waits for approval
    schedules      by name of a DAG: its schedule, as Airflow's `DAG` takes it; None: manual runs only
    owner, tags    of all DAGs; each DAG also has the tag `pststream`
    """

    home: str | None = None
    landing: str | None = None
    prefix: str = PREFIX
    conn_id: str | None = None
    spark_conn_id: str = names.SPARK_CONNECTION
    aws_conn_id: str | None = None
    sinks_conn_id: str | None = None
    alerts_conn_id: str | None = None
    pool: str | None = None
    on_failure: Callback | Sequence[Callback] = ()
    on_recovery: Callback | Sequence[Callback] = ()
    assigned_users: Sequence[Mapping[str, str]] = ()
    notifiers: Sequence[Any] = ()
    schedules: Mapping[str, Any] = field(default_factory=dict)
    owner: str = "pststream"
    tags: Sequence[str] = ()

    def dag_arguments(self, name: str, cron: str, *, priority: int, after: Asset | None = None) -> dict[str, Any]:
        """Return the arguments of `DAG` that all DAGs share.

        name, cron  name of the DAG without prefix, its default schedule; `<PREFIX><NAME>_SCHEDULE` in the environment
                    overrides that, and `none` there means manual runs only
        after       an asset whose events start a run as well, unless there are manual runs only
        """
        return {
            "dag_id": self.prefix + name,
            "schedule": self._schedule(name, cron, after),
            "start_date": datetime(2026, 1, 1),
            "catchup": False,
            "max_active_runs": 1,
            "default_args": self.task_defaults(priority),
            "tags": ["pststream", *self.tags],
            "user_defined_filters": {"file_name": file_name},
        }

    def task_defaults(self, priority: int) -> dict[str, Any]:
        """Return the arguments of all tasks of a DAG."""
        return {
            "owner": self.owner,
            "on_failure_callback": [self.alerts.report_failure, *self.callbacks_on_failure],
            "priority_weight": priority,
            "weight_rule": "absolute",
            "show_return_value_in_logs": False,
        }

    def asset(self, name: str) -> Asset:
        """Return the asset of a table, of `imbalance` or of `question_files`.

        It has the address of what it names if the home is known when DAGs are read.
        """
        return Asset(name=self.named(name), uri=self._address(name))

    def named(self, name: str) -> str:
        """Return a name of this home in Airflow: of an asset, a pool, a variable, a connection."""
        return (self.prefix or PREFIX) + name

    @property
    def alerts(self) -> Alerts:
        """What logs the alerts and posts them to the URL of the connection."""
        return Alerts(self.alerts_conn_id or self.named("alerts"))

    @property
    def callbacks_on_failure(self) -> list[Callback]:
        """The callbacks of `on_failure`."""
        return _listed(self.on_failure)

    @property
    def callbacks_on_recovery(self) -> list[Callback]:
        """The callbacks of `on_recovery`."""
        return _listed(self.on_recovery)

    @property
    def job(self) -> dict[str, Any]:
        """The arguments of a `SparkJob` on the home."""
        return {
            "pool": self.pool or self.named("spark"),
            "conn_id": self.spark_conn_id,
            "aws_conn_id": self.aws_conn_id,
        }

    @property
    def home_arguments(self) -> list[str]:
        """The templates of the arguments that name the home; `runners.allowed_places.admit` makes one of them."""
        return self._arguments("home")

    @property
    def landing_arguments(self) -> list[str]:
        """The templates of the arguments that name the landing folder."""
        return self._arguments("landing")

    @property
    def pages(self) -> str:
        """The folder of proposals and pages: `PSTSTREAM_PAGES`, else `pages` in the home; a path, or an address."""
        home = self.home or os.environ.get("PSTSTREAM_HOME", "./pststream-home")
        folder = os.environ.get("PSTSTREAM_PAGES") or f"{home.rstrip('/')}/pages"
        return folder if names.storage_prefix(folder) else str(Path(folder).absolute())

    def _schedule(self, name: str, cron: str, after: Asset | None) -> Any:
        variable = re.sub(r"[^A-Z0-9]", "_", f"{self.named(name)}_schedule".upper())
        when = self.schedules[name] if name in self.schedules else os.environ.get(variable, cron)
        if when in (None, "", "none"):
            return None
        if isinstance(when, str) and after:
            return AssetOrTimeSchedule(timetable=CronTriggerTimetable(when, timezone="UTC"), assets=[after])
        return when

    def _address(self, name: str) -> str:
        if self.home is None:
            home_name = "" if self.named("") == PREFIX else f"{self.named('').rstrip('_-.')}/"
            return f"pststream://{home_name}{name}"
        return f"{home_uri(self.home)}/{'tables/' if name in TABLES else ''}{name}"

    def _arguments(self, name: str) -> list[str]:
        """Return the templates of `home` or `landing`: the address of these options, and that of the form, if any."""
        form = f"{{{{ params.get({name!r}) or '' }}}}"
        return [f"--{name}={{{{ {self._own(name)} }}}}", f"{FORM}{name}={form}"]

    def _own(self, name: str) -> str:
        """Return the expression of `home` or `landing`, whatever the form says: these options, else the variable."""
        landing = self.landing or (f"{self.home.rstrip('/')}/landing" if self.home else None)
        if value := {"home": self.home, "landing": landing}[name]:
            return repr(value)
        if self.conn_id:
            extra = f"conn[{self.conn_id!r}].extra_dejson"
            default = " or (" + extra + "['home'] ~ '/landing')" if name == "landing" else ""
            return f"{extra}.get({name!r}){default}"
        return f"var.value.get({self.named(name)!r}, '')"


def _listed(callbacks: Callback | Sequence[Callback]) -> list[Callback]:
    return [callbacks] if callable(callbacks) else list(callbacks)
