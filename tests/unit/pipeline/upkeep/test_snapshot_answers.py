"""`maintain` says which snapshot of answers it writes."""

from pathlib import Path

from pststream.base import names
from pststream.cli.result_texts import describe_maintenance
from pststream.pipeline.upkeep.maintain import maintain
from pststream.settings import load_settings
from pststream.state.data_files import list_data_files
from pststream.state.home import Home as State
from tests.commands import new_home
from tests.worlds import moment, write_rows


def test_the_snapshot_is_counted_and_shown(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home", engine="local", workers=1, planner="grid")
    request = {"op": "insert", "subscription_id": "s", "kind": "knn", "k": 3, "created_at": moment(0)}
    things = [{"object_id": f"o{n}", "ts": moment(n), "lon": n, "lat": 0, "text": "tea"} for n in range(2)]
    home.ingest("requests", [write_rows(tmp_path / "r.jsonl", [request | {"point": {"lon": 0, "lat": 0}}])])
    home.ingest("objects", [write_rows(tmp_path / "o.jsonl", things)])
    home.match()
    messages: list[str] = []
    document = maintain(State(home.path), load_settings(home.path), messages.append)
    (file,) = list_data_files(State(home.path), names.ANSWERS)
    assert document["answer_snapshot"] == {"batch_id": 1, "rows": 2, "bytes": file.bytes}
    buckets = State(home.path).answer_buckets
    assert f"writing the snapshot of answers: 0 of {buckets} buckets" in messages
    assert describe_maintenance(document).endswith("; wrote the snapshot of answers after batch 1, 2 rows")
    again = home.run("maintain")
    assert again["answer_snapshot"] is None and "snapshot" not in describe_maintenance(again)
