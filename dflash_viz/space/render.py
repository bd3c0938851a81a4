"""The files of a Space: what the app needs of the repository, and what is made from the Spacefile."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

from dflash_viz.lanes import load_preset
from dflash_viz.lanes.auto import AUTO, BY_SIZE, ON_CPU
from dflash_viz.space.checks import needs_gpu_image
from dflash_viz.space.dockerfile import dockerfile
from dflash_viz.space.model import SpaceError, Spacefile
from dflash_viz.space.spacefile import read_spacefile
from dflash_viz.weights.resolver import EMBEDDED, ROOT

_ALWAYS = ("app.py", "LICENSE", "NOTICE", "requirements.txt", "assets/", "dflash_viz/")
_CPU_ENGINE = ("requirements-engine-cpu.txt", "scripts/install.sh")
_GPU_ENGINE = ("requirements-engine-cuda.txt",)
_DRAFTERS = "assets/drafters/"
_TEXT = {
    "engine": (
        "Four ways to answer one prompt, side by side, on real vLLM engines: every drafted block, what the "
        "target accepts, and who is faster and why."
    ),
    "viewer": (
        "Recorded runs of speculative decoding on real vLLM engines: every drafted block, what the target "
        "accepts, and who is faster and why. Traces of your own can be opened too. No engine runs here."
    ),
}


def render(path: Path, out: Path) -> list[str]:
    """Write the files of the Space that the Spacefile at ``path`` describes into the new folder ``out``.

    Returns their names, sorted. The same repository gives the same bytes. Raises ``SpaceError`` for a
    Spacefile that is not valid, a folder that holds something, or a repository that cannot be listed.
    """
    space = read_spacefile(path)
    spacefile = path.read_bytes()
    names = copied_files(space)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise SpaceError(f"{out} is not an empty folder: name a new one, or empty it first.")
    for name in names:
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, target)
    made = {"README.md": _readme(space).encode(), "Spacefile": spacefile}
    if space.kind == "engine":
        made["Dockerfile"] = dockerfile(space, _uses_embedded(space)).encode()
    for name, content in made.items():
        (out / name).write_bytes(content)
    return sorted([*names, *made])


def copied_files(space: Spacefile) -> list[str]:
    """The names of the tracked files that the Space's app needs, sorted."""
    wanted = [*_ALWAYS]
    if space.kind == "engine":
        wanted += _GPU_ENGINE if needs_gpu_image(space) else _CPU_ENGINE
    names = [
        name
        for name in _tracked()
        if any(name == one or (one.endswith("/") and name.startswith(one)) for one in wanted)
        and (space.kind == "engine" or not name.startswith(_DRAFTERS))
        and (ROOT / name).is_file()
    ]
    for one in [*wanted, *_preset_files(space)]:
        if not any(name == one or name.startswith(one.rstrip("/") + "/") for name in names):
            raise SpaceError(f"The Space needs {one}, which is not in the repository: add it with git.")
    return names


def _preset_files(space: Spacefile) -> list[str]:
    """What an engine needs of the repository for its lanes: the presets, and folders with weights."""
    if space.kind == "viewer":
        return []
    lanes = [lane for name in _presets(space) for lane in load_preset(name).lanes]
    models = {model for lane in lanes for model in (lane.target, lane.drafter) if model}
    folders = sorted(model for model in models if (ROOT / model).is_dir())
    return [*(f"assets/presets/{name}.yaml" for name in _presets(space)), *folders]


def _presets(space: Spacefile) -> tuple[str, ...]:
    """The Space's preset, or those that it may choose from."""
    return (*BY_SIZE, ON_CPU) if space.preset == AUTO else (space.preset,)


def _tracked() -> list[str]:
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SpaceError(
            f"git cannot list the files of {ROOT}: a Space is rendered from a clone of the repository."
        ) from error
    return sorted(os.fsdecode(name) for name in listed.stdout.split(b"\0") if name)


def _uses_embedded(space: Spacefile) -> bool:
    return any(lane.target == EMBEDDED for name in _presets(space) for lane in load_preset(name).lanes)


def _readme(space: Spacefile) -> str:
    """The Space's README: the front matter that configures it, and a few words."""
    front = yaml.safe_dump(_front_matter(space), sort_keys=False, allow_unicode=True, width=1000)
    return (
        f"---\n{front}---\n\n# {space.title}\n\n{_TEXT[space.kind]}\n\n"
        "These files are rendered from the `Spacefile` by `python -m dflash_viz space deploy`; changes made "
        "here are lost with the next one.\n"
    )


def _front_matter(space: Spacefile) -> dict[str, Any]:
    """The keys that the Hub reads: https://huggingface.co/docs/hub/spaces-config-reference."""
    fields: dict[str, Any] = {
        "title": space.title,
        "emoji": space.emoji,
        "colorFrom": space.color_from,
        "colorTo": space.color_to,
        "sdk": space.sdk,
    }
    if space.kind == "engine":
        fields["app_port"] = space.app_port
    else:
        fields |= {
            "sdk_version": space.sdk_version,
            "python_version": space.python_version,
            "app_file": "app.py",
        }
    fields |= {"suggested_hardware": space.hardware, "license": space.license}
    if space.short_description:
        fields["short_description"] = space.short_description
    if space.models:
        fields["models"] = space.models
    return fields
