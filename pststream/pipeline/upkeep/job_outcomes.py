"""Delete old outcomes of jobs: small files in a home, which Airflow's tasks read when a job on a cluster has ended."""

from datetime import timedelta

from pyarrow.fs import FileSelector, FileType

from pststream.base import names
from pststream.base.utc_times import utc_now
from pststream.state.home import Home


def delete_old_outcomes(home: Home, days: float) -> int:
    """Delete the outcomes that were written more than `days` ago; return how many."""
    system, path = home.storage.file_system(f"{home.path}/{names.OUTCOMES}")
    oldest = utc_now() - timedelta(days=days)
    infos = system.get_file_info(FileSelector(path, allow_not_found=True, recursive=True))
    old = [info.path for info in infos if info.type == FileType.File and info.mtime < oldest]
    home.files.delete([f"{names.OUTCOMES}/{file.removeprefix(path).lstrip('/')}" for file in old])
    return len(old)
