"""Addresses, keys and tokens from the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from dflash_viz.lanes import LaneError, Server, read_secrets, read_servers
from dflash_viz.lanes.access import Secrets, credentials


def test_addresses_and_names() -> None:
    given = ["http://localhost:8000/", "plain=https://example.org/vllm/v1", "http://[::1]:8001", "http://h"]
    servers = read_servers(given, Secrets())
    assert [(server.name, server.url) for server in servers] == [
        ("localhost:8000", "http://localhost:8000"),
        ("plain", "https://example.org/vllm"),
        ("::1:8001", "http://[::1]:8001"),
        ("h", "http://h"),
    ]
    assert [server.on_this_machine for server in servers] == [True, False, True, False]


@pytest.mark.parametrize(
    "text",
    ["", "localhost:8000", "ftp://h", "file:///etc/passwd", "http://", "http://h:99999", "http://h/?a=1",
     "http://h/#a", "name=", "http://a b/", "http://h/\n"[:-1] + "\x00", "javascript:alert(1)"],
)  # fmt: skip
def test_what_is_no_address_is_refused_in_words(text: str) -> None:
    with pytest.raises(LaneError):
        read_servers([text], Secrets())


def test_passwords_do_not_belong_into_addresses() -> None:
    with pytest.raises(LaneError, match="--api-key-file") as refused:
        read_servers(["http://me:hidden@h"], Secrets())
    assert "hidden" not in str(refused.value)


def test_two_lanes_of_one_name_are_refused() -> None:
    with pytest.raises(LaneError, match="name each"):
        read_servers(["http://h:1", "http://h:1/"], Secrets())
    assert len(read_servers(["a=http://h:1", "b=http://h:1"], Secrets())) == 2


def test_secrets_come_from_files_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DFLASH_VIZ_TOKEN", "from-environment")
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    file = tmp_path / "key"
    file.write_text("from-file\n")
    assert read_secrets(None, file) == Secrets("from-environment", "from-file")
    assert read_secrets(file, None) == Secrets("from-file", "")
    server = Server("a", "http://h", read_secrets(None, file))
    assert "from-" not in repr(server) + str(server)


@pytest.mark.parametrize("content", [b"", b"two\nlines", b"\xff\xfe", "schlüssel".encode()])
def test_what_no_header_can_carry_is_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "key"
    file.write_bytes(content)
    with pytest.raises(LaneError, match="key") as refused:
        read_secrets(file, None)
    assert "schl" not in str(refused.value)
    with pytest.raises(LaneError, match="cannot be read"):
        read_secrets(tmp_path / "none", None)


def test_token_and_key_have_a_header_each() -> None:
    assert credentials("t", "k") == {"X-DFlash-Viz-Token": "t", "Authorization": "Bearer k"}
    assert credentials("", "") == {}
