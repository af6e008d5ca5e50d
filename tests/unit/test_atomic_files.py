"""Files that are written atomically: the old content or the new, and nothing left over."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pststream.base.atomic_files import (
    TEMPORARY_PREFIX,
    VARIABLE,
    create_atomically,
    make_folder,
    replacing,
    write_atomically,
)


def test_a_file_is_created_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"1")
    with replacing(path) as temporary:
        assert temporary.parent == tmp_path and temporary.name.startswith(TEMPORARY_PREFIX)
        temporary.write_bytes(b"2")
        assert path.read_bytes() == b"1"
    assert path.read_bytes() == b"2" and os.listdir(tmp_path) == ["a.json"]


def test_an_error_leaves_the_old_content_and_no_temporary_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"1")
    with pytest.raises(ValueError, match="half"), replacing(path) as temporary:
        temporary.write_bytes(b"2")
        raise ValueError("half written")
    assert path.read_bytes() == b"1" and os.listdir(tmp_path) == ["a.json"]


def test_it_keeps_the_rights_of_new_files(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    write_atomically(tmp_path / "a", b"")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_what_a_killed_process_left_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    code = "import os, sys\nfrom pathlib import Path\nfrom pststream.base.atomic_files import replacing\n"
    code += "with replacing(Path(sys.argv[1])) as temporary:\n    temporary.write_bytes(b'half')\n    os._exit(9)\n"
    assert subprocess.run([sys.executable, "-c", code, str(path)], check=False).returncode == 9
    assert os.listdir(tmp_path) != []
    write_atomically(path, b"whole")
    assert path.read_bytes() == b"whole" and os.listdir(tmp_path) == ["a.json"]


def test_several_writers_use_names_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with replacing(path, several_writers=True) as one, replacing(path, several_writers=True) as other:
        assert one != other
        one.write_bytes(b"1")
        other.write_bytes(b"2")
    assert path.read_bytes() == b"1" and os.listdir(tmp_path) == ["a"]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is done to files, in order: flushes, renames, links."""
    done: list[str] = []
    really = {name: getattr(os, name) for name in ("fsync", "replace", "link")}

    def fsync(opened: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{opened}"))
        done.append(f"flush {'folder' if path.is_dir() else 'content'}")
        really["fsync"](opened)

    def naming(name: str) -> Callable[[Path, Path], None]:
        def call(source: Path, target: Path) -> None:
            done.append(name)
            really[name](source, target)

        return call

    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setattr(os, "fsync", fsync)
    for name in ("replace", "link"):
        monkeypatch.setattr(os, name, naming(name))
    return done


def test_content_is_flushed_before_the_name_and_the_folder_after(tmp_path: Path, calls: list[str]) -> None:
    write_atomically(tmp_path / "a", b"1")
    assert calls == ["flush content", "replace", "flush folder"]
    calls.clear()
    assert create_atomically(tmp_path / "b", b"1")
    assert calls == ["flush content", "link", "flush folder"]
    calls.clear()
    assert not create_atomically(tmp_path / "b", b"2")
    assert calls == ["flush content", "link"]


def test_the_folders_above_a_new_folder_are_flushed(tmp_path: Path, calls: list[str]) -> None:
    make_folder(tmp_path / "a" / "b")
    assert calls == ["flush folder"] * 2
    make_folder(tmp_path / "a" / "b")
    assert calls == ["flush folder"] * 2


def test_flushing_can_be_turned_off(tmp_path: Path, calls: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    write_atomically(tmp_path / "a", b"1", durable=False)
    monkeypatch.setenv(VARIABLE, "0")
    write_atomically(tmp_path / "a", b"1")
    make_folder(tmp_path / "b" / "c")
    assert calls == ["replace", "replace"]
