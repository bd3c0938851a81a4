"""The keeper: a small process between the app and a server, so that nothing is left running.

``python -m dflash_viz.lanes.keeper LOGFILE COMMAND...`` runs the command and ends it, with every
process it has started, as soon as the keeper's standard input closes. The app holds the other end
of that pipe and never writes: when the app ends, however it ends, the kernel closes it.
"""

from __future__ import annotations

import contextlib
import ctypes
import select
import signal
import subprocess
import sys
import time

import psutil

GRACE_S = 5.0
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def _prctl(option: int, value: int) -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value)


def _follow_parent() -> None:
    """In the child: end when the keeper is killed, which then cannot do it."""
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _end_all(child: subprocess.Popen[bytes]) -> None:
    """Ask the server to end, then leave no descendant alive, orphans included."""
    if child.poll() is None:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE_S)
    deadline = time.monotonic() + GRACE_S
    # Orphans are re-parented to us, so they stay in sight; new ones may appear while we kill.
    while (rest := psutil.Process().children(recursive=True)) and time.monotonic() < deadline:
        for process in rest:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(rest, timeout=1.0)


def main(log: str, command: list[str]) -> int:
    """Keep one server until it ends or the app does; returns the server's exit status."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with open(log, "wb") as output:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_follow_parent,  # noqa: PLW1509 (the keeper has one thread)
        )
        try:
            while child.poll() is None:
                if select.select([sys.stdin], [], [], 0.25)[0]:
                    break  # nobody ever writes: readable means closed
        finally:
            _end_all(child)
    status = child.wait()
    return status if status >= 0 else 128 - status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
