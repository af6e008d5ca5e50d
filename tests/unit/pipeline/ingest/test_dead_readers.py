"""A file whose reader dies is quarantined with the reason, and the files beside it are ingested."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pststream.base import names
from pststream.base.errors import InputFileError, PassingError
from pststream.input.input_files import sha256_of
from pststream.pipeline.ingest import ingest as ingest_module
from pststream.pipeline.ingest import ingest_transaction, isolated_reader
from pststream.pipeline.ingest.ingest import ReaderOptions, ingest, release
from pststream.pipeline.ingest.isolated_reader import DEAD_TRIES, NOTE, noted_reading
from pststream.settings import Settings
from pststream.state import quarantine
from pststream.state.home import Home
from pststream.tables.delta_tables import read_table
from tests.commands import ENTRY, ROOT

HOSTILE = str(ROOT / "tests" / "hostile_readers")
SETTINGS = Settings(engine="local", read_seconds=300, read_memory_bytes=700_000_000)
"""On a busy machine a process takes seconds to load what reads the first file; only `sleep.csv` is not waited for."""

REASONS = {
    "abort.csv": "its reader was ended by SIGABRT",
    "kill.csv": "its reader was ended by SIGKILL",
    "sleep.csv": "reading it takes more than 1 second",
    "allocate.csv": "reading it takes more than 700,000,000 bytes of memory",
    "lack.csv": "reading it needs more memory than there is",
}


@pytest.fixture(scope="module", autouse=True)
def compiled_kernels(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compile the kernels that read rows: the first process to need them takes longer than a test waits."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "objects").mkdir()
    land(folder, "a.csv")
    home = Home(folder / "home")
    home.init()
    ingest(home, SETTINGS, "objects", [str(folder / "objects")], ReaderOptions())


@pytest.fixture
def home(hand_home: Home) -> Home:
    text = 'engine = "local"\nread_seconds = 300\nread_memory_bytes = 700000000\n'
    Path(hand_home.path, "pststream.toml").write_text(text)
    return hand_home


@pytest.fixture
def landing(tmp_path: Path) -> Path:
    """Make a landing folder with two good files."""
    (tmp_path / "landing" / "objects").mkdir(parents=True)
    land(tmp_path / "landing", "a.csv", "z.csv")
    return tmp_path / "landing"


def land(landing: Path, *files: str) -> None:
    for name in files:
        rows = "".join(f"{name}{n},2026-03-01T00:00:{n:02}Z,1,2,tea\n" for n in range(40))
        (landing / "objects" / name).write_text("object_id,ts,lon,lat,text\n" + rows)


def land_parquet_bomb(landing: Path) -> None:
    """Let a megabyte land that is 69 GB of text when it is read: 65,536 texts, each a prefix of the one before.

    Only reading them shows that they are one list. The file has two long texts and then empty ones, whose prefixes of
    0 bytes become prefixes of a megabyte: lengths are differences in packed bits.
    """
    count, long, content = 65_536, 1 << 20, io.BytesIO()
    texts = pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), ["x" * long] * 2 + [""] * (count - 2))
    values = {"object_id": ["a"], "ts": ["2026-03-01T00:00:00Z"], "lon": ["1"], "lat": ["2"], "text": texts}
    encoding = {"text.list.element": "DELTA_BYTE_ARRAY"}
    sizes = {"data_page_size": 1 << 30, "write_batch_size": count, "write_statistics": False}
    pq.write_table(
        pa.table(values), content, compression="none", use_dictionary=False, column_encoding=encoding, **sizes
    )
    bomb = bytearray(content.getvalue())
    head = b"".join(map(varint, (128, 4, count, 0, 2 * long - 1)))  # 128 differences in 4 blocks, the least is -long
    assert bomb.count(head) == 1
    first = slice(bomb.index(head) + len(head) + 4, bomb.index(head) + len(head) + 4 + 4 * 22)  # 32 of 22 bits
    packed = int.from_bytes(bomb[first], "little")
    assert [packed >> 22 * place & (1 << 22) - 1 for place in range(3)] == [2 * long, 0, long]
    bomb[first] = (packed | long << 22).to_bytes(4 * 22, "little")
    (landing / "objects" / "bomb.parquet").write_bytes(bomb)


def varint(value: int) -> bytes:
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


def note_dead_tries(home: Home, landing: Path) -> None:
    """Note that all landed files were read when processes died."""
    tries = {sha256_of(str(path)): DEAD_TRIES for path in landing.glob("*/*.*")}
    home.files.write(NOTE, json.dumps(tries).encode())


def held(home: Home) -> dict[str, list[str]]:
    return {Path(one["path"]).name: one["reasons"] for one in quarantine.read_entries(home)}


def accepted(home: Home) -> dict[str, int]:
    """Return the accepted rows of each file in the log."""
    rows = read_table(home.table(names.FILES)).to_pylist()
    return {Path(row["path"]).name: row["accepted"] for row in rows if row["status"] == "done"}


def run(home: Home, landing: Path, **environment: str) -> tuple[int, str]:
    """Run the main job once in a new process with the hostile readers; return its exit code and its log."""
    done = subprocess.run(
        [sys.executable, "-c", ENTRY, "run", str(landing), "--home", home.path],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((HOSTILE, str(ROOT)))} | environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    return done.returncode, done.stderr


@pytest.mark.slow
def test_each_death_is_the_reason_of_its_file(home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HOSTILE)  # for the process that reads
    land(landing, *(REASONS.keys() - {"sleep.csv"}))
    note_dead_tries(home, landing)
    done = ingest(home, SETTINGS, "objects", [str(landing / "objects")], ReaderOptions(), quarantine_unreadable=True)
    assert done["files"] == 2 and accepted(home) == {"a.csv": 40, "z.csv": 40}
    land(landing, "sleep.csv")
    note_dead_tries(home, landing)
    hasty = replace(SETTINGS, read_seconds=1)
    assert ingest(home, hasty, "objects", [str(landing)], ReaderOptions(), quarantine_unreadable=True)["files"] == 0
    assert held(home) == {name: [reason] for name, reason in REASONS.items()}
    assert ingest(home, SETTINGS, "objects", [str(landing)], ReaderOptions(), quarantine_unreadable=True)["files"] == 0


@pytest.mark.slow
def test_a_file_that_kills_the_process_is_found_by_the_third_run(
    home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    land(landing, "kill.csv")
    for tries in (1, 2):
        assert run(home, landing)[0] == -signal.SIGKILL
        assert set(json.loads(home.files.read(NOTE)).values()) == {tries} and accepted(home) == {}
    code, log = run(home, landing)
    assert (code, accepted(home)) == (0, {"a.csv": 40, "z.csv": 40}), log
    assert held(home) == {"kill.csv": [REASONS["kill.csv"]]}
    with pytest.raises(InputFileError, match=REASONS["kill.csv"]), monkeypatch.context() as patch:
        patch.syspath_prepend(HOSTILE)
        release(home, SETTINGS, [1])
    land(landing, "m.csv")
    log: list[Any] = []
    assert ingest(home, SETTINGS, "objects", [str(landing)], ReaderOptions(), log.append, True)["files"] == 1
    assert not any("in a process of its own" in line for line in log)


@pytest.mark.slow
def test_a_fresh_killer_at_each_start_delays_a_good_file_by_three_at_most(home: Home, landing: Path) -> None:
    for start, code in ((1, -signal.SIGKILL), (2, -signal.SIGKILL), (3, 0)):
        killer = landing / "objects" / str(start) / "kill.csv"
        killer.parent.mkdir()
        killer.write_text(f"object_id,ts,lon,lat,text\n{start},2026-03-01T00:00:00Z,1,2,tea\n")
        assert run(home, landing)[0] == code
    assert accepted(home) == {"a.csv": 40, "z.csv": 40}
    assert [one["reasons"] for one in quarantine.read_entries(home)] == [[REASONS["kill.csv"]]] * 3


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [("both", "both", "both"), ("objects", "objects", "requests")])
def test_fresh_killers_of_both_kinds_delay_a_good_file_by_two_starts(
    home: Home, landing: Path, kinds: tuple[str, ...]
) -> None:
    (landing / "requests").mkdir()
    row = {"op": "insert", "subscription_id": "s", "keywords": "tea", "bbox": [0, 0, 9, 9]}
    (landing / "requests" / "z.jsonl").write_text(json.dumps(row) + "\n")
    for start, kind in enumerate(kinds):
        for one in ("objects", "requests") if kind == "both" else (kind,):
            (landing / one / str(start)).mkdir()
            killer = landing / one / str(start) / ("kill.csv" if one == "objects" else "kill.jsonl")
            content = f"object_id,ts,lon,lat,text\n{start},2026-03-01T00:00:00Z,1,2,tea\n"
            killer.write_text(content if one == "objects" else json.dumps({"dies": "kill.csv", "n": start}) + "\n")
        assert run(home, landing)[0] == (-signal.SIGKILL if start < DEAD_TRIES else 0)
    assert accepted(home) == {"a.csv": 40, "z.csv": 40, "z.jsonl": 1}
    assert not isolated_reader.has_suspects(home)


def test_files_that_died_before_are_ingested_before_the_others(
    home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And once one has died too often, all that follow are read one by one."""
    groups: list[tuple[list[str], bool]] = []
    stage = ingest_module.stage_files

    def stage_files(home: Home, settings: Settings, files: Any, *others: Any) -> Any:
        groups.append(([Path(file["path"]).name for file in files], others[-1]))
        return stage(home, settings, files, *others)

    monkeypatch.setattr(ingest_module, "stage_files", stage_files)
    for tries, apart in ((DEAD_TRIES - 1, False), (DEAD_TRIES, True)):
        land(landing, f"m{tries}.csv", f"z{tries}.csv")
        home.files.write(NOTE, json.dumps({sha256_of(str(landing / "objects" / f"z{tries}.csv")): tries}).encode())
        ingest(home, SETTINGS, "objects", [str(landing)], ReaderOptions(), quarantine_unreadable=True)
        (_, first), (_, last) = groups[-2:]
        assert groups[-2][0] == [f"z{tries}.csv"] and f"m{tries}.csv" in groups[-1][0]
        assert (first, last) == (apart, apart)
    assert len(groups) == 4 and set(accepted(home).values()) == {40}


def test_what_the_process_survives_is_found_at_once(home: Home, landing: Path) -> None:
    """For a file that is read without end see tests/e2e/test_dead_readers.py."""
    land(landing, "lack.csv")
    code, log = run(home, landing)
    assert (code, accepted(home)) == (0, {"a.csv": 40, "z.csv": 40}), log
    assert held(home) == {"lack.csv": [REASONS["lack.csv"]]}
    assert not home.files.exists(NOTE)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["ingest.parsed", "gate.quarantined"])
def test_killed_while_a_dead_file_is_quarantined(home: Home, landing: Path, step: str) -> None:
    land(landing, "abort.csv")
    note_dead_tries(home, landing)
    assert run(home, landing, PSTSTREAM_CRASH_AT=step)[0] == -signal.SIGKILL
    code, log = run(home, landing)
    assert (code, accepted(home)) == (0, {"a.csv": 40, "z.csv": 40}), log
    assert held(home) == {"abort.csv": [REASONS["abort.csv"]]}


def test_ingest_names_the_file_and_changes_nothing(home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(HOSTILE)
    land(landing, "abort.csv")
    note_dead_tries(home, landing)
    for _ in range(2):
        with pytest.raises(InputFileError, match=r"abort.csv: its reader was ended by SIGABRT"):
            ingest(home, SETTINGS, "objects", [str(landing / "objects")], ReaderOptions())
    assert accepted(home) == {} and held(home) == {}
    assert ingest(home, SETTINGS, "objects", [str(landing / "objects" / "a.csv")], ReaderOptions())["files"] == 1


def test_the_reader_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    program = (
        "import datetime, os\n"
        "from pststream.pipeline.ingest.isolated_reader import isolated_reader\n"
        "with isolated_reader(print) as reader:\n"
        "    print(reader.pid, flush=True)\n"
        "    os.abort()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == -signal.SIGABRT
    until = time.monotonic() + 30
    while Path(f"/proc/{int(done.stdout)}").exists():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_reader_loads_no_module_from_the_current_folder(landing: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (landing / "ctypes.py").write_text("raise SystemExit(3)\n", "utf-8")
    monkeypatch.chdir(landing)
    with isolated_reader.isolated_reader(len) as reader:
        assert reader.pid


@pytest.mark.parametrize("note", [b"", b"[1]", b'{"0": "x"}', b"\xff", b'{"0": 2'])
def test_a_damaged_note_is_no_note(home: Home, landing: Path, note: bytes) -> None:
    home.files.write(NOTE, note)
    assert ingest(home, SETTINGS, "objects", [str(landing / "objects")], ReaderOptions())["files"] == 2
    assert not home.files.exists(NOTE)


@pytest.mark.slow
def test_a_lack_of_memory_is_no_fault_of_a_parquet_file(home: Home, landing: Path) -> None:
    """The address space of the process is limited: it cannot read the bomb, and leaves it to the other process."""
    land_parquet_bomb(landing)
    limit = "import resource; resource.setrlimit(resource.RLIMIT_AS, (5 << 30, 5 << 30)); "
    command = [sys.executable, "-c", limit + ENTRY, "run", str(landing), "--home", home.path]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert (done.returncode, accepted(home)) == (0, {"a.csv": 40, "z.csv": 40}), done.stderr
    assert held(home) == {"bomb.parquet": [REASONS["allocate.csv"]]}


def test_an_error_that_says_nothing_about_the_files_is_no_dead_try(
    home: Home, landing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(ingest_transaction, "stage_in_parts", fail)
    paths = [str(landing / "objects")]
    for error, noted in ((PassingError("x", errno.ENOSPC), False), (ValueError("unforeseen"), True)):
        with pytest.raises(type(error)):
            ingest(home, SETTINGS, "objects", paths, ReaderOptions())
        assert home.files.exists(NOTE) == noted


def test_more_files_than_the_note_keeps_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the files of each dead try would push out those of the try before, and none would ever be a suspect."""
    monkeypatch.setattr(isolated_reader, "MAX_FILES", 2)
    home, offered = Home(tmp_path), [str(number) for number in range(6)]
    for _ in range(DEAD_TRIES):
        with pytest.raises(KeyboardInterrupt), noted_reading(home, offered):
            raise KeyboardInterrupt
    with noted_reading(home, offered) as suspects:
        assert suspects == dict.fromkeys(offered, DEAD_TRIES)
    with noted_reading(home, ["new"]) as suspects:
        assert not suspects
        assert json.loads((tmp_path / NOTE).read_text("ascii")) == {"4": DEAD_TRIES, "5": DEAD_TRIES, "new": 1}
