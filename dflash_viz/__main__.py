"""``python -m dflash_viz``: benchmarks, validation, reports and traces on the command line."""

from dflash_viz.cli import main

if __name__ == "__main__":
    main()
