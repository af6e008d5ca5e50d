"""Give shells a `pststream` whose commands start at once: they are forked from a process that has loaded the program.

The first run of each command is a new process of the installed program, so each is shown to start by itself.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from threading import Thread

from tests.command_process import CommandProcess

BIN = Path(sys.executable).parent
INSTALLED = "installed"
"""The answer to a script that shall become a process of the installed program."""

SCRIPT = """\
#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({address!r})
    asked = [sys.argv[1:], dict(os.environ), os.getcwd(), os.getpid()]
    server.sendall(json.dumps(asked).encode() + b"\\n")
    answer = server.makefile().read()
if answer == {installed!r}:
    os.execv({program!r}, sys.argv)
sys.exit(int(answer))
"""


class _Server(ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, address: str) -> None:
        super().__init__(address, _Handler)
        self.seen: set[str] = set()


class _Handler(StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        """Run the command of a script, with the script's outputs, environment and folder; send the exit code."""
        arguments, environment, folder, pid = json.loads(self.rfile.readline())
        if arguments[0] not in self.server.seen:
            self.server.seen.add(arguments[0])
            self.wfile.write(INSTALLED.encode())
            return
        out, err = (f"/proc/{pid}/fd/{number}" for number in (1, 2))
        self.wfile.write(b"%d" % CommandProcess(arguments, environment, out, err, folder).wait())


@contextmanager
def forked_commands(folder: Path) -> Iterator[Path]:
    """Make a folder with the programs of the environment, `pststream` as the script; for this block it works."""
    address, programs = str(folder / "commands"), folder / "bin"
    programs.mkdir()
    for program in BIN.iterdir():
        if program.name != "pststream":
            (programs / program.name).symlink_to(program)
    names = {"python": sys.executable, "address": address, "installed": INSTALLED, "program": str(BIN / "pststream")}
    script = programs / "pststream"
    script.write_text(SCRIPT.format(**names), "utf-8")
    script.chmod(0o755)
    with _Server(address) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield programs
        server.shutdown()
