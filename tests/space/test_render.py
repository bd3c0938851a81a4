"""What is rendered: front matter, Dockerfile and files that belong together."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from dflash_viz.lanes import load_preset
from dflash_viz.lanes.auto import BY_SIZE, ON_CPU
from dflash_viz.lanes.spec import Preset
from dflash_viz.space import SpaceError, checks
from dflash_viz.space import render as render_module
from dflash_viz.space.render import render as render_space
from dflash_viz.weights.resolver import ROOT
from tests.space.made import GPU, VIEWER, spacefile

DRAFTER = "assets/drafters/smollm2-135m-instruct-dflash-b8"
KINDS: dict[str, dict[str, Any]] = {"cpu": {}, "gpu": GPU, "viewer": VIEWER}


def rendered(folder: Path, **changes: Any) -> Path:
    """The folder of a rendered Space."""
    out = folder / "out"
    render_space(spacefile(folder, **changes), out)
    return out


def front_matter(out: Path) -> dict[str, Any]:
    block = re.match(r"---\n(.*?)\n---\n", (out / "README.md").read_text(), re.DOTALL)
    assert block is not None
    read = yaml.safe_load(block[1])
    assert isinstance(read, dict)
    return read


def steps(out: Path) -> list[tuple[str, str]]:
    """The Dockerfile's instructions and their arguments."""
    lines = (out / "Dockerfile").read_text().splitlines()
    return [
        (name, rest) for name, _, rest in (line.partition(" ") for line in lines if not line.startswith("#"))
    ]


def digest(out: Path) -> dict[str, str]:
    return {
        str(file.relative_to(out)): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in out.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_repository_gives_the_same_bytes(kind: str, tmp_path: Path) -> None:
    path = spacefile(tmp_path, **KINDS[kind])
    names = [render_space(path, tmp_path / name) for name in ("one", "two")]
    assert digest(tmp_path / "one") == digest(tmp_path / "two")
    assert names[0] == names[1] == sorted(digest(tmp_path / "one"))


@pytest.mark.parametrize("kind", KINDS)
def test_the_front_matter_says_what_the_spacefile_says(kind: str, tmp_path: Path) -> None:
    read = front_matter(rendered(tmp_path, **KINDS[kind], models=["Qwen/Qwen3-4B"] if kind == "gpu" else []))
    own = yaml.safe_load((tmp_path / "Spacefile").read_text())
    for name in ("title", "emoji", "colorFrom", "colorTo", "sdk", "license", "short_description"):
        assert read[name] == own[name]
    assert read["suggested_hardware"] == own["hardware"]
    assert ("app_port" in read) == (kind != "viewer")
    assert ("app_file" in read) == ("sdk_version" in read) == (kind == "viewer")
    assert read.get("models", []) == own["models"]


def test_a_viewers_front_matter_names_gradio_python_and_the_app(tmp_path: Path) -> None:
    out = rendered(tmp_path, **VIEWER)
    read = front_matter(out)
    assert f"gradio=={read['sdk_version']}\n" in (out / "requirements.txt").read_text()
    assert (out / read["app_file"]).is_file()
    assert read["python_version"] == "3.11"  # text: 3.10 would be read as 3.1


def test_titles_are_text_in_yaml(tmp_path: Path) -> None:
    title = 'Blocks: "one", #two & {three}'
    assert front_matter(rendered(tmp_path, title=title))["title"] == title


@pytest.mark.parametrize("kind", KINDS)
def test_the_app_is_there_and_nothing_else(kind: str, tmp_path: Path) -> None:
    out = rendered(tmp_path, **KINDS[kind])
    names = digest(out)
    for needed in ("app.py", "assets/page.js", "assets/recorded/gallery.yaml", "dflash_viz/lanes/keeper.py"):
        assert needed in names
    for folder in ("tests", "training", "docs", ".ci", ".git"):
        assert not (out / folder).exists()
    assert not [name for name in names if "__pycache__" in name]
    assert (out / "assets" / "drafters").exists() == (kind != "viewer")
    assert (out / "Dockerfile").exists() == (kind != "viewer")
    assert (out / "Spacefile").read_bytes() == (tmp_path / "Spacefile").read_bytes()
    assert max(file.stat().st_size for file in out.rglob("*")) < 10_000_000


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_what_the_dockerfile_copies_and_runs_is_there(kind: str, tmp_path: Path) -> None:
    out = rendered(tmp_path, **KINDS[kind])
    copied: set[str] = set()
    for name, rest in steps(out):
        words = rest.split()
        if name == "COPY":
            sources = [word for word in words[:-1] if not word.startswith("--")]
            assert all((out / source).exists() for source in sources)
            copied |= {"everything"} if "." in sources else set(sources)
        if name == "RUN":
            for file in re.findall(r"\S+\.(?:sh|txt)\b", rest):
                assert file in copied, f"{file} is used before it is copied"
            for module in re.findall(r"-m (dflash_viz\S*)", rest):
                assert "everything" in copied
                assert (out / module.replace(".", "/")).is_dir()


def test_an_included_requirements_file_is_copied_too(tmp_path: Path) -> None:
    out = rendered(tmp_path, **GPU)
    copies = " ".join(rest for name, rest in steps(out) if name == "COPY")
    for file in re.findall(r"^-r (\S+)$", (out / "requirements-engine-cuda.txt").read_text(), re.MULTILINE):
        assert file in copies.split()


@pytest.mark.parametrize("kind", ["cpu", "gpu"])
def test_an_ordinary_user_runs_the_app_on_the_port(kind: str, tmp_path: Path) -> None:
    done = steps(rendered(tmp_path, **KINDS[kind], app_port=7861))
    instructions = [name for name, _ in done]
    users = [rest for name, rest in done if name == "USER"]
    assert users == ["user"]
    made = next(n for n, (name, rest) in enumerate(done) if name == "RUN" and "--uid 1000 user" in rest)
    assert made < instructions.index("USER") < instructions.index("COPY")
    assert all("--chown=user" in rest for name, rest in done if name == "COPY")
    assert ("EXPOSE", "7861") in done
    command = json.loads(done[-1][1])
    assert done[-1][0] == "CMD"
    assert command[1:] == ["app.py", "--spacefile", "Spacefile", "--host", "0.0.0.0"]


def test_the_base_image_follows_the_hardware(tmp_path: Path) -> None:
    assert steps(rendered(tmp_path))[0] == ("FROM", "python:3.11-slim")
    (tmp_path / "gpu").mkdir()
    gpu = steps(rendered(tmp_path / "gpu", **GPU))
    assert gpu[0][1].startswith("nvidia/cuda:13")
    assert any("requirements-engine-cuda.txt" in rest for name, rest in gpu if name == "RUN")
    assert not any("install.sh" in rest for _, rest in gpu)


def test_an_engine_on_the_cpu_asks_for_no_more_shared_memory_than_a_container_has(tmp_path: Path) -> None:
    """Apart from its engine, vLLM's worker refuses to start with 64 MB of it."""
    done = steps(rendered(tmp_path))
    there = done.index(("ENV", "VLLM_ENABLE_V1_MULTIPROCESSING=0"))
    assert there < [name for name, _ in done].index("CMD")


def test_weights_are_prepared_while_the_space_is_built(tmp_path: Path) -> None:
    models = ["Qwen/Qwen3-4B", "z-lab/Qwen3-4B-DFlash-b16"]
    done = [rest for name, rest in steps(rendered(tmp_path, models=models)) if name == "RUN"]
    assert done[-3:] == [f".venv/bin/python -m dflash_viz.weights {name}" for name in ["embedded", *models]]


def test_a_gated_model_is_fetched_with_the_secret_of_the_space(tmp_path: Path) -> None:
    done = steps(rendered(tmp_path, models=["meta/gated"], secrets=["HF_TOKEN"]))
    fetch = next(rest for name, rest in done if name == "RUN" and "meta/gated" in rest)
    assert fetch.startswith("--mount=type=secret,id=HF_TOKEN,mode=0444 HF_TOKEN=")


def test_without_a_lane_on_it_the_embedded_target_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lanes = [msgspec.structs.replace(lane, target="a/b") for lane in load_preset("embedded-cpu").lanes]
    for module in (render_module, checks):
        monkeypatch.setattr(module, "load_preset", lambda _: Preset("Other", lanes))
    assert "embedded" not in (rendered(tmp_path, **GPU) / "Dockerfile").read_text()


@pytest.mark.parametrize("changes", [{}, GPU], ids=["CPU", "GPU"])
def test_what_the_app_may_choose_is_there(tmp_path: Path, changes: dict[str, Any]) -> None:
    out = rendered(tmp_path, preset="auto", **changes)
    assert {f"{name}.yaml" for name in (*BY_SIZE, ON_CPU)} <= {
        one.name for one in out.glob("assets/presets/*")
    }
    assert any((out / "assets" / "drafters").iterdir())
    assert "dflash_viz.weights embedded" in (out / "Dockerfile").read_text()


def test_nothing_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("mine")
    with pytest.raises(SpaceError, match="not an empty folder"):
        rendered(tmp_path)
    assert [file.name for file in (tmp_path / "out").iterdir()] == ["mine"]


def test_an_invalid_spacefile_renders_nothing(tmp_path: Path) -> None:
    with pytest.raises(SpaceError, match="short_description"):
        rendered(tmp_path, short_description="x" * 61)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("missing", ["assets/presets/embedded-cpu.yaml", DRAFTER, "app.py", "dflash_viz"])
def test_what_git_does_not_know_is_said(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [*render_module._tracked(), f"{DRAFTER}/config.json"]
    names = [name for name in known if not name.startswith(missing)]
    monkeypatch.setattr(render_module, "_tracked", lambda: names)
    with pytest.raises(SpaceError, match=f"The Space needs {missing}/?, which is not in the repository"):
        rendered(tmp_path)
    assert not (tmp_path / "out").exists()


def test_outside_of_a_clone_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = spacefile(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    with pytest.raises(SpaceError, match="git cannot list the files"):
        render_space(path, tmp_path / "out")


def test_the_repository_is_where_the_files_come_from(tmp_path: Path) -> None:
    out = rendered(tmp_path)
    assert (out / "app.py").read_bytes() == (ROOT / "app.py").read_bytes()
