"""Start a PostgreSQL server in a scratch folder, on a Unix socket only, and run scripts on it."""

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

SERVER = {"shared_buffers": "2GB", "work_mem": "256MB", "maintenance_work_mem": "1GB", "fsync": "off", "jit": "off",
          "max_wal_size": "8GB", "listen_addresses": ""}  # fmt: skip


def programs() -> Path:
    """Return the folder of PostgreSQL's programs; those of the server are rarely on PATH."""
    on_path = shutil.which("initdb")
    folders = (
        [Path(on_path).resolve().parent]
        if on_path
        else [Path(p) for p in sorted(glob.glob("/usr/lib/postgresql/*/bin"))]
    )
    if not folders:
        raise SystemExit("absent: no initdb on PATH or in /usr/lib/postgresql")
    return folders[-1]


@contextmanager
def serve(folder: str) -> Iterator[Callable[[str], str]]:
    """Start a server and stop it in the end; yield a function that runs a script of psql in `folder`."""
    bin_folder = programs()
    # The server refuses to run as root.
    user = {"user": "postgres"} if os.geteuid() == 0 else {}
    scratch = tempfile.mkdtemp(prefix="pststream-postgres-")
    if user:
        owner = pwd.getpwnam("postgres")
        os.chown(scratch, owner.pw_uid, owner.pw_gid)

    def run(*command: str, **options: object) -> str:
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **options)  # type: ignore[call-overload]
        return str(done.stdout)

    def psql(script: str) -> str:
        options = ("-qAtX", "-v", "ON_ERROR_STOP=1", "-h", scratch, "-U", "postgres", "-d", "postgres")
        return run(str(bin_folder / "psql"), *options, input=script, cwd=folder)

    control, data = str(bin_folder / "pg_ctl"), f"{scratch}/data"
    settings = " ".join(f"-c {name}='{value}'" for name, value in SERVER.items())
    run(str(bin_folder / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", **user, cwd=scratch)
    try:
        options = f"-k {scratch} {settings}"
        run(control, "-D", data, "-w", "-l", f"{scratch}/log", "-o", options, "start", **user, cwd=scratch)
        yield psql
    finally:
        subprocess.run([control, "-D", data, "-m", "immediate", "stop"], stdout=subprocess.DEVNULL, cwd=scratch, **user)  # type: ignore[call-overload]
        shutil.rmtree(scratch, ignore_errors=True)
