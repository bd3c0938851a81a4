"""The Spacefile's checks: every fault is found, all at once, in words that say what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dflash_viz.lanes import LaneSpec
from dflash_viz.lanes.spec import Preset
from dflash_viz.space import Limits, SpaceError, Spacefile, check_spacefile, checks, read_spacefile
from dflash_viz.space.hardware import HARDWARE
from dflash_viz.weights.resolver import ROOT
from tests.space.made import GPU, VIEWER, fields, spacefile

SECRET = "hf_" + "x" * 20
PINNED = checks._gradio_version()


def test_the_repositorys_own_file_is_valid() -> None:
    assert check_spacefile(ROOT / "Spacefile") == []
    assert read_spacefile(ROOT / "Spacefile").limits == Limits()


@pytest.mark.parametrize(
    "changes", [VIEWER, GPU, {**GPU, "hardware": "l4x1"}, {**GPU, "hardware": "h200"}, {"emoji": "🇨🇭"}]
)
def test_other_deployments_are_valid_too(changes: dict[str, Any], tmp_path: Path) -> None:
    assert check_spacefile(spacefile(tmp_path, **changes)) == []


def test_every_field_is_explained_in_the_model() -> None:
    assert Spacefile.__doc__ is not None
    assert Limits.__doc__ is not None
    assert [name for name in fields() if f"``{name}``" not in Spacefile.__doc__] == []
    assert [name for name in Limits.__struct_fields__ if f"``{name}``" not in Limits.__doc__] == []


CASES: list[tuple[dict[str, Any], str]] = [
    ({"title": None}, "title is missing."),
    ({"title": 3}, "title must be text (put it in quotes)."),
    ({"title": "  "}, "title is empty."),
    ({"title": "one\ntwo"}, "title must be one line."),
    ({"bogus": 1}, "There is no field 'bogus'. Fields: title, kind, "),
    ({"kind": "engin"}, "kind must be one of: engine, viewer."),
    ({"short_description": "x" * 61}, "short_description has 61 characters; the Hub takes 60 at most."),
    ({"emoji": "x"}, "emoji must be one emoji and nothing else."),
    ({"emoji": "⚡⚡"}, "emoji must be one emoji and nothing else."),
    ({"emoji": ""}, "emoji must be one emoji and nothing else."),
    (
        {"colorFrom": "mauve"},
        "colorFrom must be one of: red, yellow, green, blue, indigo, purple, pink, gray.",
    ),
    ({"license": "Apache 2"}, "license must be an identifier of the Hub's, such as apache-2.0."),
    ({"sdk": "gradio"}, "A Space of kind engine needs sdk: docker, not gradio."),
    ({**VIEWER, "sdk": "docker"}, "A Space of kind viewer needs sdk: gradio, not docker."),
    ({"sdk_version": "1.2.3"}, f"sdk_version must be {PINNED}, the gradio that requirements.txt installs."),
    (
        {**VIEWER, "app_port": 8000},
        "app_port must be 7860 for a viewer: the Hub's Gradio SDK expects it there.",
    ),
    ({"app_port": 80}, "app_port must be from 1024 to 65535; ports below are not for ordinary users."),
    ({"app_port": "7860"}, "app_port must be a whole number."),
    ({"hardware": "cray-1"}, "There is no hardware 'cray-1'. Choose one of: cpu-basic, "),
    (
        {"hardware": "t4-small"},
        "hardware t4-small does not do: a T4 does not compute in bfloat16. Choose one of: ",
    ),
    (
        {"hardware": "zero-a10g"},
        "hardware zero-a10g does not do: ZeroGPU lends a GPU to single calls, and an ",
    ),
    (
        {**VIEWER, "hardware": "l4x1"},
        "A viewer runs no engine: it has no use for l4x1. Choose cpu-basic.",
    ),
    ({"sleep_time": 5}, "sleep_time must be at least 60 seconds, or -1 for never."),
    ({"python_version": 3.1}, "python_version must be text (put it in quotes)."),
    (
        {"python_version": "3.12"},
        'python_version must be "3.11" for this engine: scripts/install.sh builds for it.',
    ),
    (
        {**GPU, "python_version": "3.11"},
        'python_version must be "3.12" for this engine: the CUDA image brings it.',
    ),
    ({**VIEWER, "python_version": "3.9"}, "python_version must be one of 3.11, 3.12, 3.13."),
    ({"preset": "nowhere"}, "preset: There is no preset 'nowhere'. Known presets: "),
    (
        {"preset": "../mine.yaml"},
        "preset must be the name of a file in assets/presets; others are not in the Space.",
    ),
    ({"models": ["Qwen3-4B"]}, "models: 'Qwen3-4B' is no hub id, such as Qwen/Qwen3-4B."),
    ({"models": ["a/b; rm -rf"]}, "models: 'a/b; rm -rf' is no hub id, such as Qwen/Qwen3-4B."),
    ({"models": ["a/b", "a/b"]}, "models: 'a/b' stands there twice."),
    ({"models": "a/b"}, "models must be a list of names, each on a line of its own behind a dash."),
    ({**VIEWER, "models": ["a/b"]}, "A viewer runs no engine: it preloads no models."),
    ({"variables": {"A B": "x"}}, "variables: 'A B' is no name of a variable."),
    ({"variables": {"A": 1}}, "variables must be names with a text each."),
    (
        {"variables": {"HF_TOKEN": SECRET}},
        "variables: HF_TOKEN looks like a secret, and variables are public. Move its name to secrets.",
    ),
    (
        {"secrets": {"HF_TOKEN": SECRET}},
        "secrets are names only, a list of them: take the values out of the Spacefile.",
    ),
    (
        {"secrets": ["A", f"HF_TOKEN={SECRET}"]},
        "secrets: entry 2 is no name of a variable. Write the name alone; its value is taken from the "
        "environment by deploy.",
    ),
    ({"secrets": ["A", "A"]}, "secrets: a name stands there twice."),
    (
        {"secrets": ["MODE"], "variables": {"MODE": "x"}},
        "'MODE' is both a variable and a secret; the Hub takes one of them.",
    ),
    ({"limits": 5}, "limits must be fields with a number each."),
    ({"limits": {"runs": 5}}, "There is no field 'limits.runs'. Fields: runs_and_waiting, max_tokens, "),
    ({"limits": {"runs_and_waiting": 0}}, "limits.runs_and_waiting must be from 1 to 256."),
    ({"limits": {"max_tokens": 10**6}}, "limits.max_tokens must be from 16 to 32768."),
    ({"limits": {"max_tokens": "many"}}, "limits.max_tokens must be a whole number."),
    ({"limits": {"prompt_characters": 0}}, "limits.prompt_characters must be from 1 to 200000."),
    ({"limits": {"one_run_per_visitor": 1}}, "limits.one_run_per_visitor must be true or false."),
]


@pytest.mark.parametrize(("changes", "message"), CASES)
def test_a_fault_is_said_once_and_alone(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    problems = check_spacefile(spacefile(tmp_path, **changes))
    assert len(problems) == 1
    assert problems[0].startswith(message)
    assert SECRET not in problems[0]


def test_everything_wrong_is_said_at_once(tmp_path: Path) -> None:
    path = spacefile(
        tmp_path, **VIEWER, title=None, bogus=1, emoji="x", hardware="l4x1", limits={"max_tokens": 0}
    )
    problems = check_spacefile(path)
    assert len(problems) == 5
    with pytest.raises(SpaceError) as refused:
        read_spacefile(path)
    assert [f"- {one}" for one in problems] == str(refused.value).splitlines()[1:]


def test_a_preset_with_too_much_for_the_hardware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def problems(hardware: str, *engines: dict[str, Any], **environment: list[str]) -> list[str]:
        devices = environment.get("devices", [""] * len(engines))
        lanes = [
            LaneSpec(
                device, "none", engine=engine, environment={"CUDA_VISIBLE_DEVICES": device} if device else {}
            )
            for engine, device in zip(engines, devices, strict=True)
        ]
        monkeypatch.setattr(checks, "load_preset", lambda _: Preset("Large", lanes))
        changes = {} if hardware == "cpu-basic" else {**GPU, "hardware": hardware}
        return check_spacefile(spacefile(tmp_path, **changes))

    assert problems("a100-large", {"tensor-parallel-size": 2}) == [
        "The preset embedded-cpu needs 2 GPUs; a100-large has 1."
    ]
    needed = "The preset embedded-cpu needs {} GB for KV caches alone; {} GB."
    large = {"kv-cache-memory-bytes": "40G"}
    assert problems("a100-large", large) == []
    assert problems("a100-large", large, large) == [needed.format(86, "a100-large has 80")]
    assert problems("a100x4", large, large) == [needed.format(86, "each GPU of a100x4 has 80")]
    assert problems("a100x4", large, large, devices=["0", "1"]) == []
    small = {"kv-cache-memory-bytes": 8 * 10**9}
    assert problems("cpu-basic", small) == []
    assert problems("cpu-basic", small, small) == [needed.format(16, "cpu-basic has 16")]
    assert problems("a100-large", {"kv-cache-memory-bytes": "odd", "tensor-parallel-size": "odd"}) == []


@pytest.mark.parametrize(
    ("preset", "hardware", "expected"),
    [
        ("qwen3-4b", "l4x4", []),
        ("qwen3-4b", "l4x1", ["The preset qwen3-4b has no room on l4x1. Choose one of: l4x4, a10g-large"]),
        ("qwen3-8b", "cpu-basic", ["The preset qwen3-8b has no room on cpu-basic. Choose one of: l40sx4, "]),
        ("embedded-cuda", "l4x1", []),
        ("auto", "l4x1", []),
        ("auto", "cpu-basic", []),
    ],
)
def test_a_preset_says_where_it_fits(tmp_path: Path, preset: str, hardware: str, expected: list[str]) -> None:
    changes = {**GPU, "hardware": hardware} if hardware != "cpu-basic" else {}
    problems = check_spacefile(spacefile(tmp_path, **changes, preset=preset))
    assert len(problems) == len(expected)
    assert all(one.startswith(words) for one, words in zip(problems, expected, strict=True))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "holds no fields"),
        (b"- a\n- b\n", "holds no fields"),
        (b"title: [\n", r"is not valid YAML \(line \d\)"),
        (b"title: \xff\n", "is not valid YAML"),
        (b"title: " + b"[" * 50_000, "is not valid YAML"),
        (b"#" * 100_001, "is too large"),
        (b"title: !!python/object/apply:os.getcwd []\n", "is not valid YAML"),
    ],
)
def test_what_is_no_spacefile_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "Spacefile").write_bytes(content)
    with pytest.raises(SpaceError, match=message):
        check_spacefile(tmp_path / "Spacefile")


def test_a_missing_file_is_said(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="No such file"):
        check_spacefile(tmp_path / "Spacefile")


def test_the_hubs_client_knows_the_hardware() -> None:
    """Its list is the Hub's of the day it was made; what is not on it is said beside the table."""
    from huggingface_hub import SpaceHardware

    theirs = {one.value for one in SpaceHardware}
    assert HARDWARE.keys() - theirs == {"h100", "h100x8", "h200", "h200x8"}
    assert theirs == (HARDWARE.keys() | checks.UNFIT.keys()) & theirs
