"""Name the Spark property of each parameter of Airflow's Spark operator, for a Spark that a job starts itself."""

from typing import Any

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
