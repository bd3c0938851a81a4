"""DFlash Viz: start the engines and the page.

``python app.py`` serves the embedded default on http://127.0.0.1:7860; ``--help`` lists the rest.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from dflash_viz.bench.record import read_gallery
from dflash_viz.lanes import Fleet, LaneError, load_preset, read_secrets, read_servers
from dflash_viz.trace import TraceError
from dflash_viz.ui import create_app, launch

SERVERS_ENV = "DFLASH_VIZ_SERVERS"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="See speculative decoding happen, on real engines.")
    parser.add_argument(
        "--preset", default="embedded-cpu", help="a preset's name, or a path to its YAML file"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the interface to listen on")
    parser.add_argument("--port", type=int, default=7860, help="the port to listen on")
    parser.add_argument("--no-engine", action="store_true", help="show recorded runs only")
    parser.add_argument(
        "--server",
        action="append",
        metavar="[NAME=]URL",
        help="instead of starting engines, use a vLLM server that runs already; may be given several times "
        f"(else the environment variable {SERVERS_ENV}, a space between two)",
    )
    parser.add_argument(
        "--token-file",
        type=Path,
        help="holds the token of the hooks on these servers (else the environment variable DFLASH_VIZ_TOKEN)",
    )
    parser.add_argument(
        "--api-key-file",
        type=Path,
        help="holds the servers' API key (else the environment variable VLLM_API_KEY)",
    )
    options = parser.parse_args(arguments)
    options.server = options.server or ([] if options.no_engine else os.environ.get(SERVERS_ENV, "").split())
    if options.server and options.no_engine:
        parser.error("--server and --no-engine exclude each other")
    return options


def make_fleet(options: argparse.Namespace) -> Fleet | None:
    """The lanes that the command line asks for; None for recorded runs only. Raises ``LaneError``."""
    if options.no_engine:
        return None
    if options.server:
        secrets = read_secrets(options.token_file, options.api_key_file)
        return Fleet([], read_servers(options.server, secrets))
    return Fleet(load_preset(options.preset).lanes)


def main(arguments: list[str]) -> int:
    """Run until interrupted; returns the exit status."""
    options = parse_arguments(arguments)
    try:
        fleet = make_fleet(options)
        gallery = read_gallery()
    except (LaneError, TraceError) as error:
        print(error, file=sys.stderr)
        return 2
    demo = create_app(fleet, gallery, options.host in LOOPBACK, options.preset)
    try:
        url = launch(demo, options.host, options.port, block=False)
    except OSError:
        print(
            f"Port {options.port} is in use. Stop the program that uses it, or choose another: "
            f"python app.py --port {options.port + 1}",
            file=sys.stderr,
        )
        return 2
    print(f"DFlash Viz is at {url}  (Ctrl-C ends it)", flush=True)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        if fleet is not None:
            fleet.start()
        ended.wait()
    finally:
        if fleet is not None:
            fleet.close()
        demo.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
