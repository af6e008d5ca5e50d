"""Define operators that run one command on a home each: ingest, match, plan, balance."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseHook

from pststream.airflow.dag_options import PREFIX, DagOptions
from pststream.airflow.runners.spark_job import SparkJob
from pststream.airflow.tasks.data_docs import DataDocsJob


class HomeOperator(SparkJob):
    """Runs an entry of jobs/ on a home, as a process of the task or on Spark; its XCom is the command's JSON document.

    job, words     name of the entry, its arguments
    home           folder or `s3://bucket/prefix`, templated; None: as `DagOptions` says
    prefix         how the name of the pool begins
    conn_id        a connection of type `pststream`
    spark_conn_id  the connection to Spark
    """

    def __init__(
        self,
        *,
        job: str,
        words: Sequence[str],
        home: str | None = None,
        prefix: str = PREFIX,
        conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        options = DagOptions(prefix=prefix, conn_id=conn_id)
        where = options.home_arguments if home is None else [f"--home={home}"]
        spark = {"conn_id": kwargs.pop("spark_conn_id", options.spark_conn_id)}
        super().__init__(job=job, arguments=[*words, *where], **(options.job | kwargs | spark))


class IngestOperator(DataDocsJob, HomeOperator):
    """Runs `pststream ingest`: appends files to the log of objects or of requests.

    kind    `objects` or `requests`
    paths   files, folders or globs, templated
    strict  fail if a row is rejected; the accepted rows stay
    """

    def __init__(self, *, kind: str, paths: Sequence[str], strict: bool = False, **kwargs: Any) -> None:
        super().__init__(job="ingest", words=[kind, *paths, *(["--strict"] if strict else [])], **kwargs)


class MatchOperator(HomeOperator):
    """Runs `pststream match`: runs micro-batches until nothing is pending.

    max_objects  maximum of objects of a batch; None: the home's setting
    """

    def __init__(self, *, max_objects: int | None = None, **kwargs: Any) -> None:
        super().__init__(job="match", words=_options(max_objects=max_objects), **kwargs)


class PlanOperator(HomeOperator):
    """Runs `pststream plan`: makes a new plan version from recent objects.

    planner, workers  None: the home's settings
    """

    def __init__(self, *, planner: str | None = None, workers: int | None = None, **kwargs: Any) -> None:
        super().__init__(job="plan", words=_options(planner=planner, workers=workers), **kwargs)


class BalanceOperator(HomeOperator):
    """Runs `pststream balance`: moves raster cells (`local`), or makes a new partitioning if it is worth it (`global`).

    scope  `local` or `global`
    apply  False: show what would move, change nothing
    """

    def __init__(self, *, scope: str = "local", apply: bool = True, **kwargs: Any) -> None:
        super().__init__(job="balance", words=[scope, *(["--apply"] if apply else [])], **kwargs)


def _options(**values: Any) -> list[str]:
    return [f"--{name.replace('_', '-')}={value}" for name, value in values.items() if value is not None]


class PSTStreamHook(BaseHook):
    """Reads a connection of type `pststream`: its extra has the home and the landing folder."""

    conn_name_attr = "conn_id"
    default_conn_name = "pststream_default"
    conn_type = "pststream"
    hook_name = "PSTStream"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        self.conn_id = conn_id

    @property
    def home(self) -> str:
        """The home of the tables."""
        return str(self._extra()["home"])

    @property
    def landing(self) -> str:
        """The landing folder; by default `landing` in the home."""
        return str(self._extra().get("landing") or f"{self.home.rstrip('/')}/landing")

    def _extra(self) -> dict[str, Any]:
        extra: dict[str, Any] = self.get_connection(self.conn_id).extra_dejson
        return extra


class PSTStreamSinkHook(BaseHook):
    """Reads a connection of type `pststream_sink`; what it does not name is empty.

    target  extra `secret_target`: URL, queue or topic. The target may contain a token, and Airflow masks what an extra
            calls secret.
    secret  password: the key of a webhook's signatures
    homes   extra `homes`: the address of the home that both belong to, or a list; None: the home of the DAG
    """

    conn_name_attr = "conn_id"
    default_conn_name = "pststream_sink_default"
    conn_type = "pststream_sink"
    hook_name = "PSTStream sink"

    def __init__(self, conn_id: str = default_conn_name) -> None:
        super().__init__()
        connection = self.get_connection(conn_id)
        self.target = str(connection.extra_dejson.get("secret_target") or "")
        self.secret = str(connection.password or "")
        self.homes = connection.extra_dejson.get("homes")
