"""Run the example of two homes of docs/airflow.md in an Airflow of its own, and print the matches of each home as JSON.

    python tests/dags/two_homes.py FOLDER [DATABASE]

FOLDER    empty; gets Airflow's home, the DAG folder, the homes
DATABASE  a file with Airflow's tables, which is copied; without it they are made

Needs `pststream[airflow]` and nothing else, so that it also runs where only the package is installed (`make
package-check`). The jobs run with the engine `local`: there is neither a Spark nor a connection to it.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from landing_folder import fill_landing  # type: ignore[import-not-found]

DOCUMENT = Path(__file__).parents[2] / "docs" / "airflow.md"
CITIES = ("malmo", "stockholm")


def main(folder: Path, database: str | None = None) -> int:
    """Run both DAGs and twice the consumer; print what they did."""
    prepare(folder, database)
    from airflow.dag_processing.dagbag import DagBag

    bag = DagBag(dag_folder=str(folder / "dags"))
    assert bag.import_errors == {}, bag.import_errors
    for city in CITIES:
        fill_landing(folder / "data" / city / "landing")
    document: dict[str, Any] = {"dags": sorted(bag.dags), "homes": {}}
    for city in CITIES:
        run = bag.dags[f"{city}_micro_batch"].test()
        states = {task.task_id: str(task.state) for task in run.get_task_instances()}
        homes = sorted(home.parent.name for home in (folder / "data").glob("*/home.json"))
        document["homes"][city] = {"states": states, "pairs": pairs_of(folder / "data" / city), "homes": homes}
    consumer = bag.dags["count_new_matches"]
    document["counts"] = [counts_of(consumer.test()) for _ in range(2)]
    document["runs_left"] = runs_after_clean(consumer.dag_id)
    print(json.dumps(document))
    return 0


def runs_after_clean(dag_id: str) -> int:
    """Run the command of the document that deletes old runs, as if it were later; return how many a DAG still has."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    [command] = re.findall(r"^airflow db clean .+$", DOCUMENT.read_text("utf-8"), re.M)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    later = command.replace("30 days ago", "tomorrow")
    subprocess.run(["bash", "-c", later], env=os.environ | {"PATH": path}, check=True, stdout=sys.stderr)
    with create_session() as session:
        return int(session.query(DagRun).filter_by(dag_id=dag_id).count())


def prepare(folder: Path, database: str | None) -> None:
    """Write the DAG files into a subfolder of the DAG folder, and make Airflow's tables; nothing is imported yet."""
    subfolder = folder / "dags" / "team" / "maps"
    subfolder.mkdir(parents=True)
    examples = re.findall(r"^```python\n(\"\"\".*?)^```$", DOCUMENT.read_text("utf-8"), re.M | re.S)
    for number, text in enumerate(examples):
        (subfolder / f"example_{number}.py").write_text(text.replace("/data", str(folder / "data")), "utf-8")
    for name in [name for name in os.environ if name.startswith(("AIRFLOW", "PSTSTREAM_"))]:
        if name != "PSTSTREAM_CACHE_DIR":
            del os.environ[name]
    os.environ |= {
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(folder / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "PSTSTREAM_ENGINE": "local",
        "PSTSTREAM_WORKERS": "2",
        "PSTSTREAM_SIGMA": "100000",
    }
    (folder / "airflow").mkdir()
    if database:
        shutil.copy(database, folder / "airflow" / "airflow.db")
    else:
        subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=True, stdout=sys.stderr)


def pairs_of(home: Path) -> list[list[str]]:
    """Return the matches of a home, sorted."""
    import pststream

    rows = pststream.open(str(home)).matches().to_pylist()
    return sorted([row["object_id"], row["subscription_id"]] for row in rows)


def counts_of(run: Any) -> Any:
    """Return the XCom of the consumer."""
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        wanted = {"run_id": run.run_id, "task_id": "count", "key": "return_value"}
        return XComModel.deserialize_value(session.query(XComModel).filter_by(**wanted).one())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
