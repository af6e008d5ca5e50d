"""Match the benchmark files with PostgreSQL: `python postgres_runner.py FOLDER COUNT`.

See pststream/benchmarks/scenarios/peers.py for the contract of peers. The program starts a server in a scratch folder,
on a Unix socket only. One GiST index covers (rarest keyword, rectangle): each keyword of an object is looked up in it
together with the point, and the candidates' other keywords are tested afterwards.
"""

import glob
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SERVER = {"shared_buffers": "2GB", "work_mem": "256MB", "maintenance_work_mem": "1GB", "fsync": "off", "jit": "off",
          "max_wal_size": "8GB", "listen_addresses": ""}  # fmt: skip
LOAD = """
CREATE EXTENSION btree_gist;
CREATE UNLOGGED TABLE subscriptions (key int8, west float8, south float8, east float8, north float8, rarest int8,
                                     terms int8[]);
CREATE UNLOGGED TABLE objects (id int8, lon float8, lat float8, terms int8[]);
\\copy subscriptions FROM 'subscriptions.tsv'
\\copy objects FROM PROGRAM 'head -n {count} objects.tsv'
ALTER TABLE subscriptions ADD COLUMN box box GENERATED ALWAYS AS (box(point(west, south), point(east, north))) STORED;
CREATE INDEX ON subscriptions USING gist (rarest, box);
VACUUM ANALYZE;
"""
MATCH = """
SELECT count(*) || ' ' || coalesce(sum(s.key), 0)
FROM objects o, unnest(o.terms) AS term, subscriptions s
WHERE s.rarest = term AND s.box @> box(point(o.lon, o.lat), point(o.lon, o.lat))
  AND o.lon BETWEEN s.west AND s.east AND o.lat BETWEEN s.south AND s.north AND s.terms <@ o.terms
"""


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


def main(folder: str, count: int) -> dict[str, object]:
    """Start a server, load the files, run the query, stop the server; return the figures."""
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

    control = str(bin_folder / "pg_ctl")
    data = f"{scratch}/data"
    settings = " ".join(f"-c {name}='{value}'" for name, value in SERVER.items())
    run(str(bin_folder / "initdb"), "-D", data, "-A", "trust", "-U", "postgres", **user, cwd=scratch)
    try:
        run(
            control,
            "-D",
            data,
            "-w",
            "-l",
            f"{scratch}/log",
            "-o",
            f"-k {scratch} {settings}",
            "start",
            **user,
            cwd=scratch,
        )
        began = time.perf_counter()
        psql(LOAD.format(count=count))
        loaded = time.perf_counter() - began
        times = []
        for _ in range(2):
            began = time.perf_counter()
            matches, key_sum = psql(MATCH).split()
            times.append(time.perf_counter() - began)
        version = psql("SHOW server_version")
    finally:
        subprocess.run([control, "-D", data, "-m", "immediate", "stop"], stdout=subprocess.DEVNULL, cwd=scratch, **user)  # type: ignore[call-overload]
        shutil.rmtree(scratch, ignore_errors=True)
    return {
        "version": version.strip(),
        "setting": "GiST (rarest keyword, box), second run",
        "load_seconds": loaded,
        "seconds": times[-1],
        "matches": int(matches),
        "key_sum": int(key_sum),
    }


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
