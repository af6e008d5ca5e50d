"""Define the operator that runs an entry of jobs/ here or submits it to Spark, and returns the job's result."""

import json
import logging
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.hooks.spark_connect import SparkConnectHook
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import BaseHook, Context
from airflow.sdk.exceptions import AirflowException, AirflowNotFoundException

from pststream.airflow.runners import lineage
from pststream.airflow.runners.allowed_places import admit
from pststream.airflow.runners.cluster_mode import (
    OUTCOME_KEY,
    PYTHON_RUNNER,
    absolute_home,
    absolute_landing,
    check_cluster_manager,
    in_image,
    outcome_name,
    passed_variables,
    python_program,
    read_outcome_of,
)
from pststream.airflow.runners.engine_choice import engine_of, home_of, is_local, runs_here
from pststream.airflow.runners.job_log import log_result
from pststream.airflow.runners.job_outcome import (
    RETRY_POLICY,
    WORK_WAITS,
    JobRefused,
    check_outcome,
    read_outcome,
    within_xcom,
)
from pststream.airflow.runners.job_process import JOBS, PYTHON, JobProcess, environment
from pststream.airflow.runners.outcome_trigger import OutcomeTrigger
from pststream.airflow.runners.run_environment import run_environment, with_variables
from pststream.base import names
from pststream.base.texts import mask_urls

PROPERTIES = {
    "driver_class_path": "spark.driver.extraClassPath",
    "files": "spark.files",
    "py_files": "spark.submit.pyFiles",
    "_archives": "spark.archives",
    "packages": "spark.jars.packages",
    "exclude_packages": "spark.jars.excludes",
    "_repositories": "spark.jars.repositories",
    "_executor_memory": "spark.executor.memory",
    "_executor_cores": "spark.executor.cores",
    "_total_executor_cores": "spark.cores.max",
    "_num_executors": "spark.executor.instances",
}
"""By attribute of the operator, which has the name of the parameter, with `_` before it if it is not templated."""


def properties_of(operator: Any) -> dict[str, str]:
    """Return the properties that spark-submit would set; without `jars` and `driver_memory`, which have defaults."""
    values = {name: getattr(operator, parameter) for parameter, name in PROPERTIES.items()}
    return {name: str(value) for name, value in values.items() if value is not None}


JARS = Path(PYTHON).parents[1] / "share" / "pststream" / "jars"
DRIVER_MEMORY = "2g"
JARS_KEY, MEMORY_KEY = "spark.jars", "spark.driver.memory"
OPTIONS_KEY = "spark.driver.extraJavaOptions"
NO_SPARK = "spark://local"
"""The master of the engine `local`, which starts no Spark."""

CONNECT = f"{SparkConnectHook.conn_type}://"
"""How the address of a Spark Connect server begins where others have a master."""

log = logging.getLogger(__name__)

Outcome = tuple[dict[str, Any] | None, Exception | None]
"""The content of the result file, None if there is none, and the error of spark-submit or of the process."""


class SparkJob(SparkSubmitOperator):
    """Runs `jobs/<job>.py` in the pool of one slot, here or on Spark; returns the job's JSON document.

    The setting `engine` and the project's connection decide. `local` runs the job as a process of the task. So does a
    connection of type `spark_connect`, whose server then runs all steps. With one of type `spark`, `spark` submits the
    job; `auto` submits it to a cluster, and with a master `local[…]` runs it as a process of the task, which starts
    Spark, configured as if it had been submitted, only for a large step.

    job            name of the entry
    arguments      its arguments, templated; `--option=` with an empty value counts as not given
    summarize      makes the XCom from {"exit_code": …, "result": the command's JSON}; default: the command's JSON
    asks_for_work  the entry knows `--only-if-idle`: on a cluster it is submitted only if there is work
    aws_conn_id    a connection of type `aws` with the keys for homes and files in a bucket
    """

    jars: str | None
    env_vars: dict[str, Any] | None

    def __init__(
        self,
        *,
        job: str,
        arguments: Sequence[str],
        summarize: Callable[[dict[str, Any]], Any] | None = None,
        asks_for_work: bool = False,
        aws_conn_id: str | None = None,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("retries", 3)
        kwargs.setdefault("retry_policy", RETRY_POLICY)
        kwargs.setdefault("pool", names.SPARK_POOL)
        kwargs.setdefault("conn_id", names.SPARK_CONNECTION)
        super().__init__(
            application=str(JOBS / f"{job}.py"), application_args=list(arguments), name=f"pststream-{job}", **kwargs
        )
        self.job = job
        self.summarize = summarize
        self.asks_for_work = asks_for_work
        self.aws_conn_id = aws_conn_id
        self._process: JobProcess | None = None
        self._sees_home: bool | None = None
        """Whether the triggerer does; None before the task was deferred."""

    def execute(self, context: Context) -> Any:
        """Run or submit the job, wait, and return the summary; raises as `admit` and `check_outcome` do."""
        place = admit(self.application_args or [])
        with run_environment(place, self.aws_conn_id), tempfile.TemporaryDirectory(prefix="pststream-") as folder:
            outcome, cause = self._run(context, place.arguments, Path(folder) / "result.json")
        check_outcome(self.job, outcome, cause)
        lineage.report_tables(self.job, place.arguments, self)
        assert outcome is not None
        log_result(self.job, outcome["result"])
        return within_xcom(self.summarize(outcome) if self.summarize else outcome["result"])

    def resume(self, context: Context, event: bool) -> Any:
        """Go on after a wait for the driver; `event` is that of OutcomeTrigger."""
        self._sees_home = event
        return self.execute(context)  # of the class, which may add to it

    def table_uri(self, name: str) -> str:
        """Return the URI of a table of the home on which the job works."""
        return f"{lineage.home_uri(admit(self.application_args or []).home)}/tables/{name}"

    def on_kill(self) -> None:
        """Kill the process, or what was submitted."""
        if self._process is not None:
            self._process.kill()
        else:
            super().on_kill()

    def _run(self, context: Context, arguments: list[str], result: Path) -> Outcome:
        """Run the job where it belongs."""
        engine = engine_of(home_of(arguments), os.environ | (self.env_vars or {}))
        master = NO_SPARK if engine == "local" else _master(self._conn_id)
        if master.startswith(CONNECT):
            return self._run_connected(context, arguments, result)
        if runs_here(engine, master):
            return self._run_here(context, arguments, result, master)
        if self.asks_for_work and engine != "spark" and not self._is_submitted(context):
            outcome, cause = self._run_here(context, [*arguments, "--only-if-idle"], result, master)
            if outcome is None or outcome.get("kind") != WORK_WAITS:
                return outcome, cause
            result.unlink()
        return self._submit(context, arguments, result, master)

    def _run_here(self, context: Context, arguments: list[str], result: Path, master: str) -> Outcome:
        """Run the job as a process of the task."""
        submitted = {"spark.master": master.partition("://")[2], "spark.app.name": self.name}
        submitted |= properties_of(self) | lineage.spark_properties(self._spark_conf(), self, context)
        return self._run_process(arguments, result, context, master, {names.SPARK_CONF_VARIABLE: json.dumps(submitted)})

    def _run_connected(self, context: Context, arguments: list[str], result: Path) -> Outcome:
        """Run the job as a process of the task, whose steps run on the Spark Connect server of the connection."""
        own = properties_of(self) | {JARS_KEY: self.jars, MEMORY_KEY: self._driver_memory} | (self.conf or {})
        if ignored := sorted(name for name, value in own.items() if value):
            log.warning("a Spark Connect server has a configuration of its own: %s do not count", ", ".join(ignored))
        try:
            url = SparkConnectHook(self._conn_id).get_connection_url()
        except ValueError as error:
            raise JobRefused(f"connection {self._conn_id!r}: {error}") from error
        return self._run_process(arguments, result, context, CONNECT, {"SPARK_REMOTE": url})

    def _run_process(
        self, arguments: list[str], result: Path, context: Context, master: str, variables: Mapping[str, str]
    ) -> Outcome:
        self._process = JobProcess(self.job, {**self._variables(context, master), **variables})
        try:
            return self._process.run(arguments, result)
        finally:
            self._process = None

    def submit_job(self, context: Context) -> str | None:
        """Submit the job to a cluster, whose driver then goes on without this process.

        Raises RuntimeError after a wait for a driver: it has failed, and the next try submits again.
        """
        if self._sees_home is not None:
            raise RuntimeError("the driver has failed")
        context["task_state_store"].set(OUTCOME_KEY, outcome_name(context["ti"]))
        driver: str | None = super().submit_job(context)
        return driver

    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait for a driver: deferred if it can be found again, or here if the triggerer does not see the home."""
        if self.durable and self._sees_home is not False:
            home, name = absolute_home(self.application_args or []), context["task_state_store"].get(OUTCOME_KEY)
            if read_outcome_of(home, name) is None:
                self.defer(trigger=OutcomeTrigger(home, name), method_name="resume")
            # The driver ends now.
        super().poll_until_complete(external_id, context)

    def _submit(self, context: Context, arguments: list[str], result: Path, master: str) -> Outcome:
        """Submit the job with spark-submit."""
        self.conf = self._spark_conf()
        # Arrow needs java.nio; a standalone master starts drivers without it.
        self.conf[OPTIONS_KEY] = f"--add-opens=java.base/java.nio=ALL-UNNAMED {self.conf.get(OPTIONS_KEY, '')}".strip()
        self.jars, self._driver_memory = self.conf.pop(JARS_KEY, None), self.conf.pop(MEMORY_KEY)
        if self._in_cluster_mode():
            return self._submit_to_cluster(context, arguments, master)
        self.application_args = [f"--result={result}", *arguments]
        error = self._spark_submit(context, self._variables(context, master))
        return read_outcome(result), error

    def _spark_submit(self, context: Context, variables: Mapping[str, str]) -> Exception | None:
        """Run Airflow's own operator, which finds spark-submit by PATH, with these variables; return its error."""
        try:
            with with_variables(variables):
                super().execute(context)
        except FileNotFoundError as error:
            raise JobRefused(f"{error}: install Spark where Airflow's tasks run") from error
        except ValueError as error:
            raise JobRefused(
                f"Airflow's operator refuses the connection or an argument: {mask_urls(str(error))}"
            ) from error
        except (AirflowException, RuntimeError) as error:
            return error
        return None

    def _is_submitted(self, context: Context) -> bool:
        """Whether an earlier try has submitted a job whose driver is on the cluster."""
        return bool(self._in_cluster_mode() and context["task_state_store"].get(self.external_id_key))

    def _in_cluster_mode(self) -> bool:
        extra = BaseHook.get_connection(self._conn_id).extra_dejson
        return bool((self._deploy_mode or extra.get("deploy-mode")) == "cluster")

    def _submit_to_cluster(self, context: Context, arguments: list[str], master: str) -> Outcome:
        """Submit the job, or find the one that an earlier try has submitted; the outcome is in the home."""
        check_cluster_manager(master, self.env_vars)
        home, store = absolute_home(arguments), context["task_state_store"]
        words = [f"--result={home}/{outcome_name(context['ti'])}", *absolute_landing(arguments), f"--home={home}"]
        if "yarn" in master or "k8s" in master:  # a standalone master passes the whole environment on
            passed = passed_variables()
            self.env_vars = passed | (self.env_vars or {})
            self.conf = {f"spark.executorEnv.{name}": value for name, value in passed.items()} | (self.conf or {})
        # Airflow's operator then stores the id of the driver on each kind of cluster, so that the next try finds it.
        self._yarn_track_via_rm_api = "yarn" in master and self.durable
        self._track_driver_via_k8s_api = "k8s" in master and self.durable
        if "k8s" in master:
            self.application, self.jars = in_image(str(JOBS / f"{self.job}.py")), in_image(self.jars)
        elif "yarn" not in master:
            words = python_program(self.job, words)
            self.application, self._java_class = _any_jar(), PYTHON_RUNNER
        self.application_args = words
        error = self._spark_submit(context, {"PATH": environment()["PATH"]})
        outcome = read_outcome_of(home, store.get(OUTCOME_KEY) or outcome_name(context["ti"]))
        if outcome is not None or error is None:
            store.delete(self.external_id_key)  # the driver has ended: the next try, or a cleared task, submits again
        return outcome, error

    def _spark_conf(self) -> dict[str, str]:
        """Return Spark's configuration, with the operator's own `driver_memory`, `jars` and `conf`."""
        own = spark_conf()
        if self._driver_memory:
            own[MEMORY_KEY] = self._driver_memory
        if self.jars:
            jars = ",".join(filter(None, [own.get(JARS_KEY), self.jars]))
            own[JARS_KEY] = ",".join(dict.fromkeys(jars.split(",")))
        return own | (self.conf or {})

    def _variables(self, context: Context, master: str) -> dict[str, str]:
        """Return the environment variables of a job on this machine."""
        own = environment() | driver_address(master) | lineage.parent_run_variable(context["ti"])
        return own | lineage.transport_variable(self) | (self.env_vars or {})


def spark_conf() -> dict[str, str]:
    """Return the Spark configuration that the JVM needs at its start; the job sets the rest."""
    memory = os.environ.get("PSTSTREAM_SPARK_DRIVER_MEMORY") or DRIVER_MEMORY
    jars = ",".join(sorted(map(str, JARS.rglob("*.jar"))))
    conf = {"spark.driver.memory": memory, "spark.log.level": "WARN"}
    return conf | ({JARS_KEY: jars, **names.DELTA_CONF} if jars else {})


def _any_jar() -> str:
    """Return a jar that every node has: spark-submit asks for one, besides a class of Spark's own."""
    for jar in sorted(JARS.glob("*.jar")):
        return str(jar)
    raise JobRefused(f"no jars in {JARS}: run python -m pststream.cli.fetch_jars")


def driver_address(master: str) -> dict[str, str]:
    """Return the address of a local driver, loopback; nothing on a cluster, whose nodes use the machine's name."""
    return {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")} if is_local(master) else {}


def _master(connection_id: str) -> str:
    """Return the Spark master of the connection. Without the connection the provider would silently use YARN."""
    try:
        connection = BaseHook.get_connection(connection_id)
    except AirflowNotFoundException:
        raise JobRefused(
            f"no connection {connection_id!r}: add it in Airflow (Admin, Connections; type Spark Connect, host e.g. "
            "localhost, port 15002)"
        ) from None
    return f"{connection.conn_type}://{connection.host}"
