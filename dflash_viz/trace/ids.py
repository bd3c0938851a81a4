"""Names of what the app keeps: whoever knows one can open what it stands for, and nobody guesses one."""

from __future__ import annotations

import re
import secrets
from datetime import datetime

# The 22 characters are 16 random bytes.
_ID = re.compile(r"\d{8}-\d{6}-[A-Za-z0-9_-]{22}", re.ASCII)


def new_id() -> str:
    """A name for what begins now. Names sort by their time."""
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_urlsafe(16)}"


def is_id(text: str) -> bool:
    """Whether a text, which may come from anywhere, has the form of such a name."""
    return _ID.fullmatch(text) is not None


def began(name: str) -> str:
    """When it began, by this machine's clock: ``2026-01-31T12:00:00``."""
    day, clock = name[:8], name[9:15]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{clock[:2]}:{clock[2:4]}:{clock[4:]}"
