"""A door in front of a server that a test can shut, open again, or leave silent."""

from __future__ import annotations

import contextlib
import socket
import threading

from dflash_viz.lanes.server import free_port


class Proxy:
    """Forwards connections to a port of this machine, byte by byte.

    ``hide``: the hooks' routes are not found behind it, as on a server that was started without them.
    """

    def __init__(self, target: int, hide: bool = False) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.silent = False
        self._target = target
        self._hide = hide
        self._lock = threading.Lock()
        self._sockets: set[socket.socket] = set()
        self.open()

    def open(self) -> None:
        """Let connections in."""
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def shut(self) -> None:
        """Refuse new connections and cut those that there are."""
        # Closing alone does not wake the thread that waits for a connection.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            cut, self._sockets = self._sockets, set()
        for one in cut:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = listener.accept()
                theirs = socket.create_connection(("127.0.0.1", self._target))
                with self._lock:
                    self._sockets |= {ours, theirs}
                for pair in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._pump, args=pair, daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self.silent:
                    continue
                sink.sendall(data.replace(b" /dflash_viz/", b" /dflash_off/") if self._hide else data)
        with contextlib.suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)
