"""Files that are written atomically: the old content or the new, and nothing left over."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pststream.atomic_files import TEMPORARY_PREFIX, replacing, write_atomically


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
    code = "import os, sys\nfrom pathlib import Path\nfrom pststream.atomic_files import replacing\n"
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
