"""The Spark configuration: a local driver listens on loopback, that of a cluster does not."""

import pytest

from pststream.pipeline.engine import spark_session
from pststream.settings import Settings


@pytest.mark.parametrize("master", ["local", "local[2]", "local[*]"])
def test_a_local_driver_is_on_loopback(master: str) -> None:
    conf = spark_session.spark_conf(Settings(spark_master=master))
    assert conf["spark.driver.host"] == conf["spark.driver.bindAddress"] == "127.0.0.1"


@pytest.mark.parametrize("master", ["spark://localhost:7077", "k8s://https://h:6443", "local-cluster[2,1,512]"])
def test_the_driver_of_a_cluster_is_where_its_nodes_find_it(master: str) -> None:
    conf = spark_session.spark_conf(Settings(spark_master=master))
    assert not {"spark.driver.host", "spark.driver.bindAddress"} & set(conf)
