"""The history of a home has all totals and only the latest batches."""

from pststream.base import names
from pststream.reports.reading.home_figures import read_batch_history
from pststream.state import ledger_tables
from pststream.state.home import Home
from pststream.tables.delta_tables import TableReader, read_table
from tests.unit.reports.commands.homes import add_batch


def test_many_batches_are_cut_and_the_totals_are_not(hand_home: Home) -> None:
    for _ in range(3):
        add_batch(hand_home)
    done = next(row for row in read_table(hand_home.table(names.BATCHES)).to_pylist() if row["status"] == "done")
    more = [{**done, "batch_id": number, "seconds_by_step": [("match", 1.0)]} for number in range(4, 104)]
    ledger_tables.append(hand_home, names.BATCHES, more)
    history = read_batch_history(TableReader(hand_home, tolerant=True))
    assert [batch.batch_id for batch in history.batches] == list(range(44, 104))
    assert history.totals.batches == 103
