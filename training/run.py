"""Everything in one command: the target writes its text, a drafter is trained on it and exported."""

from __future__ import annotations

import argparse
from pathlib import Path

from dflash_viz.weights import resolve_model
from training import generate, train


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="embedded", help="folder, hub id or 'embedded'")
    parser.add_argument("--out", type=Path, required=True, help="drafter; its data goes beside it")
    parser.add_argument("--device", default="cuda")
    generate.add_arguments(parser)
    train.add_arguments(parser)
    args = parser.parse_args()
    target = resolve_model(args.target)
    data = args.out.with_name(args.out.name + "-data")
    generate.generate_from_arguments(args, target, data)
    train.train_from_arguments(args, target, data, args.out)


if __name__ == "__main__":
    main()
