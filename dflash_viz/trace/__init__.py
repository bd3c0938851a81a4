"""The trace: the record of one request in one lane, and the one source of everything shown."""

from dflash_viz.trace.model import (
    PLAIN,
    SCHEMA_VERSION,
    Check,
    Draw,
    End,
    Fingerprint,
    Header,
    Last,
    Line,
    Message,
    ModelPrint,
    Origin,
    Position,
    Sampling,
    Step,
    TokenProb,
    Trace,
)
from dflash_viz.trace.reader import TraceError, decode_lines, read_trace
from dflash_viz.trace.writer import TraceWriter, encode_line, write_trace

__all__ = [
    "PLAIN",
    "SCHEMA_VERSION",
    "Check",
    "Draw",
    "End",
    "Fingerprint",
    "Header",
    "Last",
    "Line",
    "Message",
    "ModelPrint",
    "Origin",
    "Position",
    "Sampling",
    "Step",
    "TokenProb",
    "Trace",
    "TraceError",
    "TraceWriter",
    "decode_lines",
    "encode_line",
    "read_trace",
    "write_trace",
]
