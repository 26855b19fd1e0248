"""Run the short scripts of this folder on quick cases and write their pictures into
docs/howto/scripts.md: python postprocess/scripts.py [SCRIPT …]

About two minutes on one core. The page shows what lies in docs/scripts: pictures that are not made
in this call stay as they are there.
"""

import ast
import subprocess
import sys
from pathlib import Path

from PIL import Image, ImageSequence

import hkflow

ROOT = Path(__file__).parent.parent
WIDTH, COLOURS = 680, 96  # of a picture: in pixels, and how many it has at most
CIRCLE = "verification/teacher-circle", {"domain.cells": 256, "time.saves": 41}
CLOUD = CIRCLE[0], {"method": {"kind": "particles", "particles": 60}, "time.saves": 41}
UNITS = [(f"icm/fig2-m{m}", {"time.end": 40.0, "time.saves": 81}) for m in (5, 1000)]
FLOWS = [(f"verification/circle-{flow}", {}) for flow in ("hellinger", "wasserstein")]
IRIS = "quickstart/iris", {"domain.cells": 2562}
# of each script its arguments: a (case, overrides) is the folder of its run, PICTURE what it writes
PICTURE = "picture"
SCRIPTS = {
    "decision": [("quickstart/three-classes", {}), PICTURE],
    "density": [IRIS, PICTURE],
    "predictions": [CIRCLE, PICTURE],
    "records": [PICTURE, *FLOWS],
    "spacetime": [CIRCLE, CLOUD, PICTURE],
    "paths": [PICTURE, *UNITS],
    "zoom": [("quickstart/iris-characteristics", {"domain.cells": 2562}), PICTURE],
    "animation": [CIRCLE, PICTURE],
}
HEAD = """# Figures from a few lines

Scripts of `postprocess`, as a beginning for one's own: each reads run folders and draws with
`hkflow.plots`. Their pictures here are of quick cases; `python postprocess/scripts.py` makes them
and this page, in two minutes.
"""


def run_of(case, overrides, folder):
    """The folder of the run of a case, made if it is not there."""
    kind = overrides.get("method", {}).get("kind", "")
    path = folder / f"{Path(case).name}{kind and '-'}{kind}"
    quick = {"error.companions": "none", "certificate.seconds": 0.0}
    return hkflow.run(ROOT / "cases" / f"{case}.toml", output=path, **overrides | quick).path


def make(name, folder):
    """Run a script, and keep its picture small."""
    film = name == "animation"
    made = folder / (name if film else f"{name}.png")
    words = [made if a == PICTURE else run_of(*a, folder) for a in SCRIPTS[name]]
    script = Path(__file__).parent / f"{name}.py"
    subprocess.run([sys.executable, script, *map(str, words)], check=True)
    pictures = ROOT / "docs" / "scripts"
    pictures.mkdir(exist_ok=True)
    if film:
        with Image.open(made / "density.gif") as film:
            frames = [
                small(f, 560, 16) for k, f in enumerate(ImageSequence.Iterator(film)) if k % 5 == 0
            ]
        frames[0].save(
            pictures / f"{name}.gif", save_all=True, append_images=frames[1:], duration=300, loop=0
        )
    else:
        small(Image.open(made), WIDTH, COLOURS).save(pictures / f"{name}.png", optimize=True)


def small(image, width, colours):
    """An image of at most so many pixels and colours."""
    image = image.convert("RGB")
    image.thumbnail((width, 2 * width), Image.Resampling.LANCZOS)
    return image.quantize(colours, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


def section(name):
    """A script's part of the page: its sentence, its command, its picture."""
    text = ast.get_docstring(ast.parse((Path(__file__).parent / f"{name}.py").read_text()))
    words = " ".join(text.split())
    sentence, _, command = words.partition("python postprocess/")
    picture = next((ROOT / "docs" / "scripts").glob(f"{name}.*")).name
    command, _, more = command.partition(" The ")
    sentence = sentence.rstrip(": ") + "." * (not sentence.rstrip(": ").endswith("."))
    return "\n\n".join([
        f"## {name}", sentence + (f" The {more}" if more else ""),
        f"`python postprocess/{command}`", f"![{sentence}](../scripts/{picture})",
    ])  # fmt: skip


def main():
    """Run the scripts and write the page."""
    for name in sys.argv[1:] or SCRIPTS:
        print(name, flush=True)
        make(name, Path("reproductions") / "scripts")
    page = "\n\n".join([HEAD.rstrip(), *map(section, SCRIPTS)]) + "\n"
    (ROOT / "docs" / "howto" / "scripts.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
