"""One part in this process, whose threads and memory were settled when it started: python -m
benchmarks.worker PART … FILE."""

import importlib
import json
import sys
from pathlib import Path

from .contest import settle


def main(part, threads, quick, file):
    """Write the rows of a part to a file, one JSON object per line, as they are found."""
    settle(int(threads))
    with Path(file).open("w", encoding="utf-8") as out:
        for row in importlib.import_module(f"benchmarks.{part}").rows(
            int(threads), quick == "quick"
        ):
            out.write(json.dumps(row.record()) + "\n")
            out.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
