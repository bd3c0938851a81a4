"""Token ids to bytes, on the real tokenizer of the embedded target."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from dflash_viz.lanes.detokenize import Detokenizer, TextStream
from dflash_viz.weights import resolve_model


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_file(str(resolve_model("embedded") / "tokenizer.json"))


@settings(max_examples=300, deadline=None)
@given(text=st.text(max_size=40))
def test_bytes_rejoin_to_the_tokenizers_text(tokenizer: Tokenizer, text: str) -> None:
    detokenizer = Detokenizer(tokenizer)
    ids = tokenizer.encode(text).ids
    joined = b"".join(map(detokenizer.to_bytes, ids)).decode("utf-8", "replace")
    assert joined == tokenizer.decode(ids, skip_special_tokens=False)


def test_stream_shows_whole_characters_only(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    text = "안녕 😀🎉 漢字"
    stream = TextStream(detokenizer)
    parts = [stream.feed([token]) for token in tokenizer.encode(text).ids]
    assert "".join(parts) == text
    assert "" in parts, "some character needs several tokens"
    assert not any("�" in part for part in parts)


def test_special_and_unknown_tokens(tokenizer: Tokenizer) -> None:
    detokenizer = Detokenizer(tokenizer)
    assert detokenizer.to_bytes(2) == b"<|im_end|>"
    assert detokenizer.is_special(2)
    assert detokenizer.to_bytes(10_000_000) == b"[10000000]"
    assert TextStream(detokenizer).feed([2]) == ""


def test_sentencepiece_pieces() -> None:
    from tokenizers import models

    vocab = {"▁the": 0, "<0xE2>": 1, "a": 2}
    detokenizer = Detokenizer(Tokenizer(models.WordLevel(vocab, unk_token="a")))
    assert [detokenizer.to_bytes(i) for i in range(3)] == [b" the", b"\xe2", b"a"]
