"""From token ids to the bytes they stand for, so that nothing is lost where a character is split."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from typing import Protocol

from tokenizers import Tokenizer

_BYTE_FALLBACK = re.compile(r"^<0x([0-9A-Fa-f]{2})>$")


def _byte_level_alphabet() -> dict[str, int]:
    """The printable stand-ins that byte-level BPE uses for the 256 bytes (GPT-2's convention)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in set(printable)]
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


class TokenTable(Protocol):
    """Knows the bytes of every token; a ``remote`` one only those that ``prepare`` has fetched."""

    remote: bool

    async def prepare(self, tokens: set[int]) -> None:
        """Fetch what is not known of these tokens yet."""

    def is_special(self, token: int) -> bool:
        """Whether vLLM leaves the token out of the answer's text."""

    def to_bytes(self, token: int) -> bytes:
        """The bytes of one token."""

    def latin1(self, tokens: set[int]) -> dict[int, str]:
        """The trace's form: bytes written as latin-1."""


class Detokenizer:
    """Maps ids to bytes for byte-level BPE and for SentencePiece with byte fallback."""

    remote = False

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._alphabet = _byte_level_alphabet()
        self._special = {i for i, t in tokenizer.get_added_tokens_decoder().items() if t.special}
        self._byte_level = "ByteLevel" in str(tokenizer.decoder)

    @classmethod
    def from_folder(cls, folder: Path) -> Detokenizer:
        """The detokenizer of a model folder that holds ``tokenizer.json``."""
        return cls(Tokenizer.from_file(str(folder / "tokenizer.json")))

    async def prepare(self, tokens: set[int]) -> None:
        """All of them are known."""

    def is_special(self, token: int) -> bool:
        """Whether vLLM leaves the token out of the answer's text."""
        return token in self._special

    def to_bytes(self, token: int) -> bytes:
        """The bytes of one token; its id in brackets when the vocabulary does not hold it."""
        piece = self._tokenizer.id_to_token(token)
        if piece is None:
            return f"[{token}]".encode()
        if token in self._special:
            return piece.encode()
        if self._byte_level and all(c in self._alphabet for c in piece):
            return bytes(self._alphabet[c] for c in piece)
        if match := _BYTE_FALLBACK.match(piece):
            return bytes([int(match[1], 16)])
        return piece.replace("▁", " ").encode()

    def latin1(self, tokens: set[int]) -> dict[int, str]:
        """The trace's form: bytes written as latin-1."""
        return {token: self.to_bytes(token).decode("latin-1") for token in sorted(tokens)}


class TextStream:
    """The answer's text while its tokens arrive: whole characters only, special tokens left out."""

    def __init__(self, detokenizer: TokenTable) -> None:
        self._detokenizer = detokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, tokens: list[int]) -> str:
        """The text that these tokens complete."""
        shown = [t for t in tokens if not self._detokenizer.is_special(t)]
        return self._decoder.decode(b"".join(map(self._detokenizer.to_bytes, shown)))
