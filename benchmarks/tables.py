"""How long tables of data take to become a problem, standardized: 50,000 rows of 21 columns,
against reading them with pandas.

python -m benchmarks.tables
"""

import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

import hkflow

ROWS, COLUMNS, REPEATS = 50_000, 21, 5
CASE = {
    "objective": {"activation": "linear", "loss": "square"},
    "domain": {"kind": "signed-sphere"},
    "flow": {"kind": "hellinger-kantorovich"},
    "method": {"kind": "characteristics", "particles": 16},
    "time": {"end": 1.0},
}


def read(**data):
    """The problem of a case with such data, standardized."""
    hkflow.check(CASE | {"data": data | {"label": "c0", "standardize": True}})


def best(work):
    """Least seconds of several calls."""
    spent = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return min(spent)


def main():
    """Print the table."""
    values = np.random.default_rng(0).standard_normal((ROWS, COLUMNS))
    frame = pd.DataFrame(values, columns=[f"c{k}" for k in range(COLUMNS)])
    print("| table | seconds | of pandas.read_csv |")
    print("| --- | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame.to_csv(path, index=False)
        other = best(lambda: pd.read_csv(path))
        rows = {"CSV, all digits": best(lambda: read(source="file", file=str(path)))}
        frame.to_csv(path, index=False, sep=";", decimal=",")
        rows["CSV, semicolons and decimal commas"] = best(
            lambda: read(source="file", file=str(path))
        )
        rows["frame of pandas"] = best(lambda: read(source="frame", frame=frame))
    for name, seconds in rows.items():
        print(f"| {name} | {seconds:.2f} | {seconds / other:.2f} |")


if __name__ == "__main__":
    main()
