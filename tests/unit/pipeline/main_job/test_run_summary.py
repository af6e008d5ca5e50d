"""The run summary counts the files and batches that were done since a time."""

from pststream.base import names
from pststream.pipeline.main_job.run import summarize_since
from pststream.state import ledger_tables
from pststream.state.home import Home
from tests.unit.reports.commands.homes import add_batch, add_file, at, insertion, reject, thing


def test_files_and_batches_done_since_are_counted(hand_home: Home) -> None:
    add_file(hand_home, "requests", [insertion(1, "s")])
    add_file(hand_home, "objects", [thing(1, "a"), thing(3, "b")], [reject(2, "late"), reject(4, "duplicate")])
    add_file(hand_home, "objects", [thing(1, "c")], [reject(2, "late")])
    add_file(hand_home, "objects", [thing(1, "d")], done=False)
    add_batch(hand_home, minutes=100)
    add_batch(hand_home, minutes=200, done=False)
    event = {"kind": "requests", "path": "term-statistics", "sha256": "", "bytes": 0, "options": "{}", "status": "done"}
    counts = {"rows": 1, "accepted": 0, "rejected": 0, "started_at": at(0), "statistics_version": 1}
    ledger_tables.append(hand_home, names.FILES, [{"file_seq": 5, "ingest_id": 5, **event, **counts}])
    summary = summarize_since(hand_home, at(0))
    assert summary["ingest"] == {
        "requests": {"files": 1, "rows": 1, "accepted": 1, "rejected": 0, "rejects_by_reason": {}},
        "objects": {
            "files": 2, "rows": 6, "accepted": 3, "rejected": 3, "rejects_by_reason": {"duplicate": 1, "late": 2},
        },
    }  # fmt: skip
    assert [batch["batch_id"] for batch in summary["batches"]] == [1]
    assert summarize_since(hand_home, at(1000)) == {"ingest": {}, "batches": []}
