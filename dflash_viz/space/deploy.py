"""Creating and updating a Space on the Hub."""

from __future__ import annotations

import contextlib
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete, HfApi
from huggingface_hub.errors import HfHubHTTPError, OfflineModeIsEnabled

from dflash_viz.space.hardware import CPU_BASIC
from dflash_viz.space.model import SpaceError, Spacefile
from dflash_viz.space.render import copied_files, render
from dflash_viz.space.spacefile import read_spacefile

Say = Callable[[str], None]

_HUBS_OWN = ".gitattributes"
"""The one file of a Space that the Hub made."""
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
# What the hub's client raises when there was no answer at all; it is its HTTP library's own class, and
# which library that is depends on the client's version.
_TRANSPORT: type[Exception] = HfHubHTTPError.__bases__[0]
_WORDS = {
    401: "the Hub does not accept the token. Make one with write access at "
    "https://huggingface.co/settings/tokens, and put it into HF_TOKEN.",
    402: "the Hub wants to be paid for this: the account needs a payment method, credits or a plan.",
    403: "the token may not do this. It needs write access to {owner}, and the account the right to what is "
    "asked for.",
    404: "the Hub does not know {name}. Check the owner's name, and that the token may see the Space.",
    409: "the Hub has a conflict with what is there: another deployment may be at work. Try again.",
    413: "the files are too large for the Hub.",
    429: "the Hub's quota for requests is used up. Wait some minutes, then try again.",
}


@dataclass(frozen=True)
class Target:
    """Where to deploy: ``name`` is OWNER/NAME, ``endpoint`` another Hub than the usual one."""

    name: str
    token: str
    endpoint: str | None = None


def describe(path: Path, name: str, environment: Mapping[str, str]) -> list[str]:
    """What ``deploy`` would do, in sentences; sends nothing. Raises ``SpaceError`` as it would."""
    space = read_spacefile(path)
    _check_name(name)
    made = ["README.md", "Spacefile", *(["Dockerfile"] if space.kind == "engine" else [])]
    count = len(copied_files(space)) + len(made)
    sleep = "after 48 hours" if space.hardware == CPU_BASIC else _sleep(space.sleep_time)
    missing = [key for key in space.secrets if not environment.get(key)]
    lines = [
        f"Create or update the Space {name}, kind {space.kind}, with sdk {space.sdk}.",
        f"Hardware: {space.hardware}, sleeping {sleep} without visitors.",
        *(f"Variable {key} = {value!r}" for key, value in space.variables.items()),
        *(f"Secret {key}, from the environment" for key in space.secrets if key not in missing),
        *(f"Secret {key}, which is NOT in the environment: a new Space needs it" for key in missing),
        *(f"While it is built: fetch {model}." for model in space.models),
        f"Upload what has changed of {count} files, {', '.join(made)} among them; delete others.",
    ]
    return lines


def _sleep(seconds: int) -> str:
    return "never" if seconds == -1 else f"after {seconds} seconds"


def deploy(path: Path, target: Target, environment: Mapping[str, str], say: Say) -> str:
    """Create the Space, or bring it up to date: only what differs is sent. Returns its address.

    The secrets' values are taken from ``environment``. Of a Space that exists, a secret that is not
    there stays as it is. Raises ``SpaceError`` for whatever goes wrong, without any secret in it.
    """
    space = read_spacefile(path)
    _check_name(target.name)
    secrets = {key: environment[key] for key in space.secrets if environment.get(key)}
    api = HfApi(endpoint=target.endpoint, token=target.token)
    with tempfile.TemporaryDirectory() as scratch, _plainly(target, secrets):
        folder = Path(scratch) / "space"
        render(path, folder)
        if _exists(api, target.name):
            _update(api, space, target.name, secrets, say)
        else:
            _create(api, space, target.name, secrets, say)
        _upload(api, target.name, folder, say)
    return f"{api.endpoint}/spaces/{target.name}"


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SpaceError(f"{name!r} is no Space's name. Give its owner too: OWNER/NAME.")


def _exists(api: HfApi, name: str) -> bool:
    try:
        api.space_info(name)
    except HfHubHTTPError as error:
        if error.response.status_code == 404:
            return False
        raise
    return True


def _create(api: HfApi, space: Spacefile, name: str, secrets: Mapping[str, str], say: Say) -> None:
    _need([key for key in space.secrets if key not in secrets])
    api.create_repo(
        name,
        repo_type="space",
        space_sdk=space.sdk,
        space_hardware=space.hardware,  # type: ignore[arg-type]  # the Hub takes more than the enumeration
        space_sleep_time=_sleep_time(space),
        space_variables=[{"key": key, "value": value} for key, value in space.variables.items()],
        space_secrets=[{"key": key, "value": value} for key, value in secrets.items()],
    )
    say(f"Created {name} on {space.hardware}.")


def _update(api: HfApi, space: Spacefile, name: str, secrets: Mapping[str, str], say: Say) -> None:
    """Set what differs. A secret cannot be read back, so that one that is given is always set."""
    there = api.get_space_variables(name)
    for key, value in space.variables.items():
        if key not in there or there[key].value != value:
            api.add_space_variable(name, key, value)
            say(f"Set the variable {key}.")
    if others := sorted(there.keys() - space.variables.keys()):
        say(f"Variables that the Spacefile does not name stay as they are: {', '.join(others)}.")
    if space.secrets:
        known = api.get_space_secrets(name)
        _need([key for key in space.secrets if key not in secrets and key not in known])
    for key, value in secrets.items():
        api.add_space_secret(name, key, value)
        say(f"Set the secret {key}.")
    _update_hardware(api, space, name, say)


def _update_hardware(api: HfApi, space: Spacefile, name: str, say: Say) -> None:
    runtime = api.get_space_runtime(name)
    sleep_time = _sleep_time(space)
    if (runtime.requested_hardware or runtime.hardware) != space.hardware:
        api.request_space_hardware(name, space.hardware, sleep_time=sleep_time)  # type: ignore[arg-type]
        say(f"Asked for {space.hardware}.")
    elif sleep_time is not None and (runtime.sleep_time or -1) != sleep_time:
        api.set_space_sleep_time(name, sleep_time)
        say(f"It sleeps {_sleep(sleep_time)} without visitors.")


def _sleep_time(space: Spacefile) -> int | None:
    """None where it cannot be chosen."""
    return None if space.hardware == CPU_BASIC else space.sleep_time


def _need(missing: list[str]) -> None:
    if missing:
        raise SpaceError(
            f"These secrets are not in the environment: {', '.join(missing)}. Set them there and try again."
        )


def _upload(api: HfApi, name: str, folder: Path, say: Say) -> None:
    """Send what differs, and delete what is no longer part of the app. In one commit, for the Hub builds the
    Space after each; its client would make several of so many files."""
    before = api.space_info(name).sha
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    files = {path.relative_to(folder).as_posix(): path for path in paths}
    gone = set(api.list_repo_files(name, repo_type="space")) - files.keys() - {_HUBS_OWN}
    changes: list[CommitOperationAdd | CommitOperationDelete] = [
        *(CommitOperationAdd(inside, path) for inside, path in files.items()),
        *(CommitOperationDelete(inside) for inside in sorted(gone)),
    ]
    done = api.create_commit(name, changes, commit_message="Rendered from the Spacefile", repo_type="space")
    say("The files are up to date already." if done.oid == before else "Uploaded what has changed.")


@contextlib.contextmanager
def _plainly(target: Target, secrets: Mapping[str, str]) -> Iterator[None]:
    """Turns what the Hub's client raises into ``SpaceError``, in which no secret is repeated."""
    try:
        yield
    except HfHubHTTPError as error:
        status = error.response.status_code
        owner = target.name.partition("/")[0]
        words = _WORDS.get(status, f"the Hub answered with status {status}.")
        said = f" The Hub says: {error.server_message}" if error.server_message else ""
        text = words.format(owner=owner, name=target.name) + said
        raise SpaceError(f"{target.name} was not deployed: {_hide(text, target, secrets)}") from None
    except (_TRANSPORT, OfflineModeIsEnabled) as error:
        where = target.endpoint or "the Hub"
        raise SpaceError(
            f"{target.name} was not deployed: {where} cannot be reached ({type(error).__name__}). Check the "
            "network."
        ) from None
    except SpaceError:
        raise
    except (ValueError, RuntimeError, OSError) as error:  # the client's own checks, and its uploader
        what = _hide(str(error), target, secrets)
        raise SpaceError(f"{target.name} was not deployed: {what}") from None


def _hide(text: str, target: Target, secrets: Mapping[str, str]) -> str:
    for value in (target.token, *secrets.values()):
        text = text.replace(value, "***")
    return text
