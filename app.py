"""DFlash Viz: start the engines and the page.

``python app.py`` serves the embedded default on http://127.0.0.1:7860; ``--help`` lists the rest.
"""

from __future__ import annotations

import argparse
import errno
import os
import signal
import socket
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

from dflash_viz.bench.record import read_gallery
from dflash_viz.lanes import Fleet, LaneError, load_preset, read_secrets, read_servers
from dflash_viz.lanes.auto import AUTO, choose_preset
from dflash_viz.space import Limits, SpaceError, read_spacefile
from dflash_viz.trace import TraceError
from dflash_viz.ui import create_app, launch

SERVERS_ENV = "DFLASH_VIZ_SERVERS"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
DEFAULT_PRESET = "embedded-cpu"
DEFAULT_PORT = 7860


def port_number(text: str) -> int:
    """A port from the command line. Raises ``ArgumentTypeError`` in words."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"a port is a number from 1 to 65535, not {text!r}")
    return int(text)


def why_closed(host: str, port: int) -> str:
    """Why nothing can listen there, and what to do."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as error:
        if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
            return f"{host} is no address of this machine: give --host one that is, or 0.0.0.0 for all."
        if error.errno == errno.EACCES:
            return f"Port {port} is not for ordinary users: choose one from 1024 on."
    return (
        f"Port {port} is in use. Stop the program that uses it, or choose another: "
        f"python app.py --port {port + 1}"
    )


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="See speculative decoding happen, on real engines.")
    parser.add_argument(
        "--preset",
        help=f"a preset's name, a path to its YAML file, or {AUTO}: the largest that this machine has room "
        f"for; {DEFAULT_PRESET} by default",
    )
    parser.add_argument("--host", help="the interface to listen on; 127.0.0.1 by default, 0.0.0.0 in a Space")
    parser.add_argument("--port", type=port_number, help=f"the port to listen on; {DEFAULT_PORT} by default")
    parser.add_argument("--no-engine", action="store_true", help="show recorded runs only")
    parser.add_argument(
        "--spacefile", type=Path, help="run as the Space of this file: its kind, preset, port and limits"
    )
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


@dataclass(frozen=True)
class Settings:
    """What the command line and the Spacefile come to; ``local`` as in ``create_app``."""

    preset: str
    host: str
    port: int
    engine: bool
    local: bool
    limits: Limits


def settle(options: argparse.Namespace) -> Settings:
    """A Space, which its environment tells, has its Spacefile beside this file. What is said on the
    command line counts more than what the file says.

    Raises ``SpaceError`` for a file that is not valid.
    """
    in_space = "SPACE_ID" in os.environ
    path = options.spacefile or (Path(__file__).with_name("Spacefile") if in_space else None)
    space = None if path is None else read_spacefile(path)
    host = options.host or ("0.0.0.0" if in_space else "127.0.0.1")
    port = options.port if options.port is not None else space.app_port if space else DEFAULT_PORT
    engine = not options.no_engine and (space is None or space.kind == "engine")
    asked = options.preset or (space.preset if space else DEFAULT_PRESET)
    return Settings(
        preset=pick(asked, engine and not options.server),
        host=host,
        port=port,
        engine=engine,
        local=space is None and host in LOOPBACK,
        limits=space.limits if space else Limits(),
    )


def pick(asked: str, starts_engines: bool) -> str:
    """The preset that is asked for; ``auto`` is for this machine to say, once engines are to start here."""
    if asked != AUTO:
        return asked
    if not starts_engines:
        return DEFAULT_PRESET
    choice = choose_preset()
    print(f"Preset {choice.preset}: {load_preset(choice.preset).title}. {choice.why}", flush=True)
    return choice.preset


def make_fleet(options: argparse.Namespace, settings: Settings) -> Fleet | None:
    """The lanes that are asked for; None for recorded runs only. Raises ``LaneError``."""
    if options.server:
        secrets = read_secrets(options.token_file, options.api_key_file)
        return Fleet([], read_servers(options.server, secrets))
    return Fleet(load_preset(settings.preset).lanes) if settings.engine else None


def main(arguments: list[str]) -> int:
    """Run until interrupted; returns the exit status."""
    try:
        options = parse_arguments(arguments)
        settings = settle(options)
        fleet = make_fleet(options, settings)
        gallery = read_gallery()
    except (LaneError, SpaceError, TraceError) as error:
        print(error, file=sys.stderr)
        return 2
    demo = create_app(fleet, gallery, settings.local, settings.preset, settings.limits)
    try:
        url = launch(demo, settings.host, settings.port, block=False)
    except OSError:
        print(why_closed(settings.host, settings.port), file=sys.stderr)
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
