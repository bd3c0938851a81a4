"""Deploying against a Hub on loopback: what is sent, what is not sent again, and what is said."""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from huggingface_hub import constants

from dflash_viz import cli
from dflash_viz.space import SpaceError
from dflash_viz.space.deploy import Target, deploy, describe
from dflash_viz.space.render import render
from tests.space.hub import TOKEN, Hub, running_hub
from tests.space.made import GPU, VIEWER, spacefile

NAME = "someone/blocks"
SECRET = "s3cr3t-value"
SECRETS = {"secrets": ["KEY"]}
ENVIRONMENT = {"KEY": SECRET}
# A GPU's settings on a Space without the drafters' files, which would only make the tests slow.
UPGRADED = {**VIEWER, "hardware": "cpu-upgrade"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.setattr(constants, "HF_HUB_DISABLE_PROGRESS_BARS", True)
    with running_hub() as running:
        yield running


def send(hub: Hub, path: Path, environment: dict[str, str] | None = None, token: str = TOKEN) -> list[str]:
    """Deploy; what was said."""
    said: list[str] = []
    address = deploy(path, Target(NAME, token, hub.url), environment or {}, said.append)
    assert address == f"{hub.url}/spaces/{NAME}"
    return said


def refusal(hub: Hub, path: Path, environment: dict[str, str] | None = None, token: str = TOKEN) -> str:
    """Deploy in vain; what the error says, in which no secret may stand."""
    with pytest.raises(SpaceError) as refused:
        send(hub, path, environment, token)
    assert refused.value.__cause__ is None  # or a traceback would show what the client had
    assert SECRET not in str(refused.value)
    assert token not in str(refused.value)
    return str(refused.value)


def test_a_new_space_gets_all_that_the_spacefile_says(hub: Hub, tmp_path: Path) -> None:
    path = spacefile(tmp_path, **UPGRADED, **SECRETS, variables={"MODE": "quiet"}, sleep_time=600)
    said = send(hub, path, ENVIRONMENT)
    space = hub.spaces[NAME]
    assert (space.sdk, space.hardware, space.sleep_time) == ("gradio", "cpu-upgrade", 600)
    assert (space.variables, space.secrets) == ({"MODE": "quiet"}, ENVIRONMENT)
    render(path, tmp_path / "out")
    files = {
        str(file.relative_to(tmp_path / "out")): file.read_bytes()
        for file in (tmp_path / "out").rglob("*")
        if file.is_file()
    }
    assert space.files == {**files, ".gitattributes": b""}
    assert SECRET not in " ".join(said)


def test_the_free_hardware_is_not_told_when_to_sleep(hub: Hub, tmp_path: Path) -> None:
    send(hub, spacefile(tmp_path, **VIEWER, sleep_time=600))
    assert (hub.spaces[NAME].hardware, hub.spaces[NAME].sleep_time) == ("cpu-basic", None)


def test_a_second_deployment_without_changes_sends_nothing(hub: Hub, tmp_path: Path) -> None:
    path = spacefile(tmp_path, **UPGRADED, variables={"MODE": "quiet"}, sleep_time=-1)
    send(hub, path)
    before = hub.writes()
    assert send(hub, path) == ["The files are up to date already."]
    assert hub.writes() == before
    assert hub.spaces[NAME].commits == 1


def test_many_files_are_sent_in_one_commit_for_the_hub_builds_after_each(hub: Hub, tmp_path: Path) -> None:
    send(hub, spacefile(tmp_path))
    assert len(hub.spaces[NAME].files) > 250
    assert hub.spaces[NAME].commits == 1


def test_what_changed_is_sent_and_what_is_gone_is_deleted(hub: Hub, tmp_path: Path) -> None:
    send(hub, spacefile(tmp_path, **VIEWER, variables={"MODE": "quiet"}))
    space = hub.spaces[NAME]
    space.files["old.py"] = b"old"
    space.variables["THEIRS"] = "kept"
    hub.requests.clear()
    said = send(
        hub, spacefile(tmp_path, **UPGRADED, title="Other", sleep_time=600, variables={"MODE": "loud"})
    )
    assert "old.py" not in space.files
    assert ".gitattributes" in space.files
    assert b"title: Other" in space.files["README.md"]
    assert (space.hardware, space.sleep_time) == ("cpu-upgrade", 600)
    assert space.variables == {"MODE": "loud", "THEIRS": "kept"}
    assert "Variables that the Spacefile does not name stay as they are: THEIRS." in said
    api = f"POST /api/spaces/{NAME}"
    assert hub.writes() == [f"{api}/variables", f"{api}/hardware", f"{api}/commit/main"]


def test_the_sleep_time_alone_can_change(hub: Hub, tmp_path: Path) -> None:
    send(hub, spacefile(tmp_path, **UPGRADED, sleep_time=600))
    hub.requests.clear()
    send(hub, spacefile(tmp_path, **UPGRADED, sleep_time=-1))
    assert hub.spaces[NAME].sleep_time == -1
    assert f"POST /api/spaces/{NAME}/sleeptime" in hub.writes()
    assert f"POST /api/spaces/{NAME}/hardware" not in hub.writes()


def test_a_new_space_needs_its_secrets(hub: Hub, tmp_path: Path) -> None:
    words = refusal(hub, spacefile(tmp_path, **VIEWER, **SECRETS), {"KEY": ""})
    assert words == "These secrets are not in the environment: KEY. Set them there and try again."
    assert hub.spaces == {}


def test_a_secret_of_a_space_stays_until_another_is_given(hub: Hub, tmp_path: Path) -> None:
    path = spacefile(tmp_path, **VIEWER, **SECRETS)
    send(hub, path, ENVIRONMENT)
    send(hub, path)
    assert hub.spaces[NAME].secrets == ENVIRONMENT
    assert "Set the secret KEY." in send(hub, path, {"KEY": "another"})
    assert hub.spaces[NAME].secrets == {"KEY": "another"}
    both = spacefile(tmp_path, **VIEWER, secrets=["KEY", "NEW"])
    assert refusal(hub, both).startswith("These secrets are not in the environment: NEW.")


@pytest.mark.parametrize(
    ("part", "status", "words"),
    [
        ("/create", 402, "the Hub wants to be paid for this"),
        ("/create", 403, "the token may not do this. It needs write access to someone"),
        ("/create", 404, f"the Hub does not know {NAME}"),
        ("/create", 409, "the Hub has a conflict with what is there"),
        ("/create", 429, "the Hub's quota for requests is used up"),
        ("/create", 413, "the files are too large"),
        ("/create", 418, "the Hub answered with status 418"),
        ("/commit/main", 403, "the token may not do this"),
    ],
)
def test_the_hubs_refusals_are_said_in_words(
    part: str, status: int, words: str, hub: Hub, tmp_path: Path
) -> None:
    hub.faults[part] = (status, "", f"No {SECRET} and no {TOKEN}")
    said = refusal(hub, spacefile(tmp_path, **VIEWER, **SECRETS), ENVIRONMENT)
    assert said.startswith(f"{NAME} was not deployed: {words}")
    assert said.endswith("The Hub says: No *** and no ***")


@pytest.mark.parametrize("action", ["/variables", "/secrets", "/hardware"])
def test_an_update_can_be_refused_too(action: str, hub: Hub, tmp_path: Path) -> None:
    send(hub, spacefile(tmp_path, **VIEWER, **SECRETS), ENVIRONMENT)
    hub.faults[f"POST /api/spaces/{NAME}{action}"] = (403, "", "Forbidden")
    path = spacefile(tmp_path, **UPGRADED, **SECRETS, variables={"MODE": "loud"})
    assert "the token may not do this" in refusal(hub, path, ENVIRONMENT)


def test_a_wrong_token_is_said_and_not_shown(hub: Hub, tmp_path: Path) -> None:
    said = refusal(hub, spacefile(tmp_path, **VIEWER), token="hf_wrong")
    assert "the Hub does not accept the token" in said
    assert hub.spaces == {}


def test_a_hub_that_cannot_be_reached_is_said(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # nobody listens, and nobody else can
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SpaceError, match=r"cannot be reached \(ConnectError\)\. Check the network"):
            deploy(spacefile(tmp_path, **VIEWER), Target(NAME, TOKEN, url), {}, print)


@pytest.mark.parametrize("name", ["blocks", "a/b/c", "", "../x", "a/b c"])
def test_a_spaces_name_has_an_owner(name: str, hub: Hub, tmp_path: Path) -> None:
    path = spacefile(tmp_path, **VIEWER)
    with pytest.raises(SpaceError, match="OWNER/NAME"):
        deploy(path, Target(name, TOKEN, hub.url), {}, print)
    with pytest.raises(SpaceError, match="OWNER/NAME"):
        describe(path, name, {})
    assert hub.requests == []


def test_an_invalid_spacefile_is_not_sent(hub: Hub, tmp_path: Path) -> None:
    assert "emoji" in refusal(hub, spacefile(tmp_path, **VIEWER, emoji="x"))
    assert hub.requests == []


def run(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """Run the command line in this process; its exit status."""
    monkeypatch.setattr(sys, "argv", ["dflash_viz", "space", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.fixture
def no_token(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    monkeypatch.delenv("HUGGING_FACE_HUB_TOKEN", raising=False)
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))


@pytest.mark.usefixtures("no_token")
def test_without_a_token_it_is_only_said_what_would_be_done(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setenv("KEY", SECRET)
    given = {"variables": {"MODE": "quiet"}, "secrets": ["KEY", "OTHER"], "models": ["owner/model"]}
    path = spacefile(tmp_path, **GPU, **given, sleep_time=600)
    assert run(monkeypatch, "deploy", NAME, "--spacefile", path) == 0
    said, notice = capsys.readouterr()
    assert f"Create or update the Space {NAME}, kind engine, with sdk docker." in said
    assert "Hardware: a100-large, sleeping after 600 seconds without visitors." in said
    assert "Variable MODE = 'quiet'" in said
    assert "Secret KEY, from the environment" in said
    assert "Secret OTHER, which is NOT in the environment" in said
    assert "While it is built: fetch owner/model." in said
    assert "README.md, Spacefile, Dockerfile among them" in said
    assert SECRET not in said + notice
    assert "Nothing was sent: there is no token." in notice
    assert hub.requests == []


def test_the_command_line_deploys_with_the_token_of_the_environment(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", hub.url)
    monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", hub.url)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert run(monkeypatch, "deploy", NAME, "--spacefile", spacefile(tmp_path, **VIEWER)) == 0
    said, notices = capsys.readouterr()
    assert said == f"{hub.url}/spaces/{NAME}\n"
    assert f"Created {NAME} on cpu-basic." in notices
    assert TOKEN not in said + notices
    hub.faults["/variables"] = (403, "", "Forbidden")
    assert run(monkeypatch, "deploy", NAME, "--spacefile", tmp_path / "Spacefile") == 2
    assert "the token may not do this" in capsys.readouterr().err


@pytest.mark.parametrize(("changes", "status"), [({}, 0), ({"emoji": "x"}, 1), ({"bogus": 1}, 1)])
def test_check_on_the_command_line(
    changes: dict[str, Any],
    status: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, "check", "--spacefile", spacefile(tmp_path, **changes)) == status
    assert ("is valid." in capsys.readouterr().out) == (status == 0)


def test_render_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = spacefile(tmp_path, **VIEWER)
    assert run(monkeypatch, "render", tmp_path / "out", "--spacefile", path) == 0
    assert f"files are in {tmp_path / 'out'}" in capsys.readouterr().out
    assert run(monkeypatch, "render", tmp_path / "out", "--spacefile", path) == 2
    assert "not an empty folder" in capsys.readouterr().err
    assert run(monkeypatch, "check", "--spacefile", tmp_path / "none") == 2
