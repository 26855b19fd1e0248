"""python -m benchmarks [PART …] [--quick] [--threads 1 2] [--output FOLDER]: every part in a
process of its own; prints a table and leaves it in the folder as benchmarks.json, .md and .png."""

import argparse
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from .contest import environment
from .report import draw, markdown, show

PARTS = (
    "machine",
    "start_up",
    "potential",
    "right_hand_side",
    "interaction",
    "advection",
    "particles",
    "steps",
    "studies",
    "growth",
    "kernel_machines",
    "minima",
)
PACKAGES = ("hkflow", "numpy", "numba", "torch", "jax", "ducc0", "PyMPDATA", "py-pde", "clawpack")
BUSY = 15.0  # percent of the machine that others may use while two threads are measured


def measure(part, threads, quick):
    """Rows of a part as dictionaries; a failure is a row, too."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "rows")
        command = [
            sys.executable,
            "-m",
            "benchmarks.worker",
            part,
            str(threads),
            "quick" if quick else "full",
            str(file),
        ]
        project = Path(__file__).parent.parent  # whose hkflow is measured, whatever is installed
        path = os.pathsep.join(map(str, (project / "solver", project)))
        variables = environment(threads) | {"PYTHONPATH": path}
        run = subprocess.run(
            command, cwd=folder, env=variables, stderr=subprocess.PIPE, text=True, check=False
        )
        rows = (
            [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
            if file.exists()
            else []
        )
    if run.returncode:
        last = (run.stderr.strip() or f"exit code {run.returncode}").split("\n")[-1]
        rows.append({"name": part, "note": f"failed: {last}", "met": False})
        print(run.stderr, file=sys.stderr)
    if quick:
        rows = [row | {"goal": None, "met": None} if "goal" in row else row for row in rows]
    return [row | {"part": part, "threads": threads} for row in rows]


def machine():
    """What was measured on, and with which versions."""
    versions = {}
    for name in PACKAGES:
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "python": platform.python_version(),
        "versions": versions,
    }


def main():
    """Run, print, write."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "parts", nargs="*", metavar="PART", help=f"all if none is named: {', '.join(PARTS)}"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="small sizes, to see that all works; no goal is meant for them",
    )
    parser.add_argument(
        "--threads", type=int, nargs="+", help="default: 1, then 2 if nothing else runs"
    )
    parser.add_argument(
        "--output", type=Path, default=Path("build/benchmarks"), help="default: build/benchmarks"
    )
    options = parser.parse_args()
    unknown = [part for part in options.parts if part not in PARTS]
    if unknown:
        parser.error(f"unknown part '{unknown[0]}'; choose from: {', '.join(PARTS)}")
    options.output.mkdir(parents=True, exist_ok=True)
    report = {"began": time.time(), "quick": options.quick, "machine": machine(), "rows": []}
    for threads in options.threads or (1, 2):
        for part in options.parts or PARTS:
            busy = psutil.cpu_percent(interval=1.0)
            if threads > 1 and not options.threads and busy > BUSY:
                reason = f"skipped: others use {busy:.0f} % of the machine"
                found = [{"name": part, "part": part, "threads": threads, "note": reason}]
            else:
                found = measure(part, threads, options.quick)
            show(part, threads, found)
            report["rows"] += found
            report["seconds"] = time.time() - report["began"]
            (options.output / "benchmarks.json").write_text(
                json.dumps(report, indent=1), encoding="utf-8"
            )
            (options.output / "benchmarks.md").write_text(
                markdown(report["rows"]), encoding="utf-8"
            )
    draw(report["rows"], options.output / "benchmarks.png")
    goals = [row["met"] for row in report["rows"] if row.get("met") is not None]
    print(f"{sum(goals)} of {len(goals)} goals met; {options.output}/benchmarks.json, .md and .png")


if __name__ == "__main__":
    main()
