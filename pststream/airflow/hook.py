"""Define the hook of connections of type `pststream`, whose extra has the home and the landing folder."""

from typing import Any

from airflow.sdk import BaseHook


class PSTStreamHook(BaseHook):
    """Reads a connection of type `pststream`."""

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
