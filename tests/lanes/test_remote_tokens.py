"""Where the texts of a server's tokens come from."""

from __future__ import annotations

from pathlib import Path

import pytest
from tokenizers import Tokenizer, models

from dflash_viz.lanes import Server
from dflash_viz.lanes.detokenize import Detokenizer
from dflash_viz.lanes.remote_tokens import ServerTokens, find_tokens
from dflash_viz.lanes.server import free_port

HERE = Server("here", "http://127.0.0.1:1")
ELSEWHERE = Server("there", "http://example.invalid:1")


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A model's folder with nothing but a tokenizer in it."""
    words = models.WordLevel({"zero": 0, "one": 1}, unk_token="zero")
    Tokenizer(words).save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def test_a_folder_on_this_machine_has_them(target: Path) -> None:
    found = find_tokens(HERE, str(target), "m", steps=True)
    assert isinstance(found, Detokenizer)
    assert found.to_bytes(1) == b"one"


def test_a_path_of_another_machine_means_nothing_here(target: Path) -> None:
    assert isinstance(find_tokens(ELSEWHERE, str(target), "m", steps=True), ServerTokens)


def test_nothing_is_looked_for_where_no_step_will_need_it(target: Path) -> None:
    assert isinstance(find_tokens(HERE, str(target), "m", steps=False), ServerTokens)


@pytest.mark.parametrize("content", [b"", b"{}", b"[1", b"\xff"])
def test_a_broken_tokenizer_leaves_the_server(target: Path, content: bytes) -> None:
    (target / "tokenizer.json").write_bytes(content)
    assert isinstance(find_tokens(HERE, str(target), "m", steps=True), ServerTokens)


@pytest.mark.parametrize("name", ["some/model", "a b/c", "../x", "", "/"])
def test_no_way_to_the_hub_leaves_the_server(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", f"http://127.0.0.1:{free_port()}")
    assert isinstance(find_tokens(ELSEWHERE, name, "m", steps=True), ServerTokens)


async def test_a_server_that_tells_nothing_leaves_the_ids() -> None:
    tokens = ServerTokens(Server("gone", f"http://127.0.0.1:{free_port()}"), "m")
    await tokens.prepare({3, 4})
    assert tokens.latin1({3, 4}) == {3: "[3]", 4: "[4]"}
    assert not tokens.is_special(3)
