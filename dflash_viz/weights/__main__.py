"""``python -m dflash_viz.weights NAME``: prepare a model; progress as JSON lines on stdout.

The last line holds ``{"path": ..., "content_hash": ...}`` or ``{"error": ...}``. The app runs this as
a process of its own, so that torch and transformers never load into the app.
"""

from __future__ import annotations

import json
import sys

from dflash_viz.weights.resolver import EMBEDDED, WeightsError, content_hash, resolve_model


def _emit(**fields: object) -> None:
    print(json.dumps(fields), flush=True)


def main(name: str) -> int:
    """Resolve one model and report; returns the exit status."""
    try:
        path = resolve_model(name, lambda fraction, message: _emit(progress=fraction, message=message))
    except WeightsError as error:
        _emit(error=str(error))
        return 1
    _emit(path=str(path), content_hash=content_hash(path))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else EMBEDDED))
