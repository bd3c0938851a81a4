"""``vllm serve`` with its options, as ``python3 -m gpu.serve``.

The command itself wants the package's metadata under the name vllm, and its benchmarks; builds for CPUs and
packs for hosts without network lack them.
"""

from __future__ import annotations

import os

from vllm.entrypoints.cli.serve import ServeSubcommand
from vllm.utils.argparse_utils import FlexibleArgumentParser


def main() -> None:
    """Parse the command line and serve."""
    os.environ.setdefault("VLLM_WORKER_MULTIPROC_METHOD", "spawn")  # as the command does
    command = ServeSubcommand()
    parser = command.subparser_init(FlexibleArgumentParser().add_subparsers())
    given = parser.parse_args()
    command.validate(given)
    command.cmd(given)


if __name__ == "__main__":  # vLLM's own processes import this module again
    main()
