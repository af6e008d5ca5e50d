"""Become the Spark Connect server on which Airflow's jobs run their steps; docs/where-it-runs.md.

    spark_connect.py [PROPERTY=VALUE ...]      properties of Spark besides those of PSTStream

PSTSTREAM_SPARK_MASTER is the master. The server asks for no token, since Spark's client sends one without TLS only to
its own machine: let Airflow alone reach port 15002.
"""

import os
import sys

from pststream.engine.spark_server import server_command
from pststream.engine.spark_session import shared_conf
from pststream.settings import load_settings

if __name__ == "__main__":
    os.environ.pop("SPARK_DAEMON_MEMORY", None)  # it would count before spark.driver.memory
    own = dict(word.split("=", 1) for word in sys.argv[1:])
    command = server_command(shared_conf(load_settings(None)) | own)
    os.execvp(command[0], command)
