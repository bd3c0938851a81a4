"""The Spacefile's fields: the one description of the app's deployment as a Space."""

from __future__ import annotations

from typing import Literal

import msgspec

Kind = Literal["engine", "viewer"]
Sdk = Literal["docker", "gradio"]
Colour = Literal["red", "yellow", "green", "blue", "indigo", "purple", "pink", "gray"]
"""The colours that the Hub knows."""


class SpaceError(ValueError):
    """A Space cannot be described, rendered or deployed; the message says everything that is wrong."""


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the public may ask of the app.

    ``runs_and_waiting`` is how many questions may run or wait for the machine, ``max_tokens`` how long
    an answer may be, ``prompt_characters`` how long a question. ``one_run_per_visitor`` refuses a second
    question of the same page while the first one runs.
    """

    runs_and_waiting: int = 32
    max_tokens: int = 1024
    prompt_characters: int = 20_000
    one_run_per_visitor: bool = True


class Spacefile(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The fields of the file.

    ``title``, ``short_description``, ``emoji``, ``colorFrom``, ``colorTo`` and ``license`` are what the
    Hub shows. ``kind``: an engine runs vLLM and needs the ``sdk`` docker, a viewer shows recorded runs
    and needs the ``sdk`` gradio. ``sdk_version`` is gradio's, ``python_version`` the interpreter's.
    ``app_port`` is where the app listens. ``hardware`` is one of the Hub's machines, ``sleep_time`` the
    seconds without visitors before it sleeps (-1: never). ``preset`` names the lanes; ``models`` are the
    hub ids that are fetched when the Space is built. ``variables`` are public; ``secrets`` are names,
    whose values come from the environment of whoever deploys. ``limits`` are the public's.
    """

    title: str
    kind: Kind
    sdk: Sdk
    sdk_version: str
    python_version: str
    short_description: str = ""
    emoji: str = "⚡"
    color_from: Colour = msgspec.field(default="blue", name="colorFrom")
    color_to: Colour = msgspec.field(default="green", name="colorTo")
    license: str = "apache-2.0"
    app_port: int = 7860
    hardware: str = "cpu-basic"
    sleep_time: int = 3600
    preset: str = "embedded-cpu"
    models: list[str] = []
    variables: dict[str, str] = {}
    secrets: list[str] = []
    limits: Limits = Limits()
