"""Define the hooks of our connection types: `pststream` names a home, `pststream_sink` the address of one sink."""

from typing import Any

from airflow.sdk import BaseHook


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
