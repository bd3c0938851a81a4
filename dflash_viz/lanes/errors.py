"""The one exception of this package."""


class LaneError(RuntimeError):
    """An engine or a request failed; the message says why and what to do."""
