"""Compute all figures of the papers, or what is missing of them, and write their pictures and
claims into docs/gallery.md.

python postprocess/gallery.py [--scale paper] [FIGURE …]

The page shows what lies in docs/gallery: figures that are not computed in this call stay as they
are there.
"""

import argparse
import json
import shutil
from pathlib import Path

import hkflow

ROOT = Path(__file__).parent.parent
SCALES = ("quick", "paper")
HEAD = """# Gallery

The figures of the five papers, and one of what others prove of attention, computed by `hkflow reproduce`, each with what is new here
and with what its paper says of it as checks with numbers. `quick` is a small version, all of them together take {quick:.0f} minutes on
two cores; `paper` has the paper's own parameters. A claim that does not come out is marked **no**, and the paragraph says why. Made by `python postprocess/gallery.py`.
"""


def keep(made, folder):
    """Copy the picture and the claims of a Reproduction into the folder of the gallery."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{made.name}-{made.scale}"
    shutil.copy(made.folder / "figure.png", folder / f"{name}.png")
    shutil.copy(made.folder / "claims.json", folder / f"{name}.json")


def section(name, module, folder):
    """A figure's part of the page."""
    title, paragraph = (" ".join(part.split()) for part in module.__doc__.strip().split("\n\n", 1))
    lines = [f"## {name}", f"**{title}** {paragraph}"]
    for scale in SCALES:
        if (folder / f"{name}-{scale}.json").exists():
            lines += _scale(name, scale, folder)
    if not (folder / f"{name}-paper.json").exists():
        lines.append(
            f"Not run at the paper's scale: `hkflow reproduce {name} --scale paper` takes about {module.MINUTES['paper']:g} minutes."
        )
    return "\n\n".join(lines)


def _scale(name, scale, folder):
    found = json.loads((folder / f"{name}-{scale}.json").read_text(encoding="utf-8"))
    command = f"hkflow reproduce {name}" + (" --scale paper" if scale == "paper" else "")
    rows = [hkflow.Claim(**claim) for claim in found["claims"]]
    table = ["| claim | holds | what came out |", "| --- | --- | --- |"]
    table += [
        f"| {row.says} | {'yes' if row.holds else '**no**'} | {row.evidence} |".replace("|γ|", "γ")
        for row in rows
    ]
    picture = f"![{name} at {scale} scale](gallery/{name}-{scale}.png)"
    return [
        f"`{command}`, {found['seconds'] / 60.0:.1f} minutes of one core:",
        picture,
        "\n".join(table),
    ]


def main():
    """Compute, keep, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("figures", nargs="*", help="names; all if none is given")
    parser.add_argument("--scale", choices=SCALES, default="quick")
    parser.add_argument(
        "--runs", type=Path, default=Path("reproductions"), help="where runs are kept"
    )
    parser.add_argument(
        "--page-only", action="store_true", help="write the page from what lies in docs/gallery"
    )
    options = parser.parse_args()
    docs, found = ROOT / "docs", hkflow.figures()
    for name in [] if options.page_only else options.figures or found:
        print(name, flush=True)
        folder = options.runs / name / options.scale
        with hkflow.StudyProgress(quiet=False) as watch:
            made = hkflow.reproduce(name, options.scale, folder, watch=watch)
        keep(made, docs / "gallery")
    parts = [HEAD.format(quick=sum(module.MINUTES["quick"] for module in found.values()))]
    parts += [section(name, module, docs / "gallery") for name, module in found.items()]
    (docs / "gallery.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
