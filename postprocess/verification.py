"""Run every study in cases/studies, or what is missing of it, and write their tables and figures
into docs/reference/verification.md.

python postprocess/verification.py [--studies FOLDER] [STUDY …]

About half an hour on two cores at the first time; runs that lie in the folder from earlier are used
again.
"""

import argparse
import re
import shutil
from pathlib import Path

import hkflow

ROOT = Path(__file__).parent.parent
# shown besides the tables
FIGURES = (
    "space-sphere",
    "kinks-grid",
    "limiters",
    "monte-carlo",
    "noise",
    "tolerance-transport",
)
HEAD = """# Verification

Tables of the studies in `cases/studies`, made by `python postprocess/verification.py`; each alone by `hkflow study FILE`.
Orders stand between neighbours, with a least-squares fit and its 95 % confidence interval at the end. Seconds are of one core.
W₁ between a grid and particles cannot fall below about a quarter of the distance between neighbouring particles.
"""
VERDICT = re.compile(
    r"^(Holds|FAILS): order of (.+?)(?: \((.+)\))? (\S+), expected (.+)\.$", re.MULTILINE
)
BY_HAND = "## ReLU: figures wanted and found\n"  # the last section, which other programs measure


def at_a_glance(tables):
    """The table of all orders that are expected of a study, from the texts of the studies."""
    lines = [
        "| study | order of | with | found | expected | |",
        "| --- | --- | --- | ---: | --- | --- |",
    ]
    for text in tables:
        title = text.partition("\n")[0].removeprefix("## ")
        for word, name, group, order, band in VERDICT.findall(text):
            lines.append(f"| {title} | {name} | {group} | {order} | {band} | {word.lower()} |")
    return "## At a glance\n\n" + "\n".join(lines) + "\n"


def main():
    """Run, gather, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "studies", nargs="*", type=Path, help="study files; all of cases/studies if none is given"
    )
    parser.add_argument(
        "--folder", type=Path, default=Path("studies"), help="where the studies are kept"
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=ROOT / "docs" / "reference" / "verification.md",
        help="the page",
    )
    options = parser.parse_args()
    parts, tables = [], []
    for path in options.studies or sorted((ROOT / "cases" / "studies").glob("*.toml")):
        print(path)
        with hkflow.StudyProgress(quiet=False) as watch:
            result = hkflow.study(path, options.folder / path.stem, watch=watch)
        table = (result.folder / "table.md").read_text(encoding="utf-8")
        tables.append(table)
        parts.append(table + f"\n`hkflow study cases/studies/{path.name}`\n")
        if path.stem in FIGURES:
            picture = f"study-{path.stem}.png"
            shutil.copy(hkflow.plots.save_study(result), options.output.parent / picture)
            parts.append(f"![{result.study.table.title}]({picture})\n")
    if options.output.exists():
        parts.append("".join(options.output.read_text(encoding="utf-8").partition(BY_HAND)[1:]))
    page = "\n".join([HEAD, at_a_glance(tables), *parts])
    options.output.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
