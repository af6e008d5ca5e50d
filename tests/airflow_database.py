"""Make Airflow's empty database once for all test processes; each Airflow of a test begins with a copy."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path


def empty_database(folder: Path) -> Path:
    """Return an empty database of Airflow; the first caller makes it.

    folder: the temporary folder of the test process (`tmp_path_factory.getbasetemp()`)
    """
    shared = (folder.parent if "PYTEST_XDIST_WORKER" in os.environ else folder) / "airflow-database"
    shared.mkdir(exist_ok=True)
    with open(shared / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "done").exists():
            command = [str(Path(sys.executable).parent / "airflow"), "db", "migrate"]
            environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
            environment |= {"AIRFLOW_HOME": str(shared), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
            subprocess.run(command, env=environment, check=True, capture_output=True, timeout=500)
            (shared / "done").touch()
    return shared / "airflow.db"
