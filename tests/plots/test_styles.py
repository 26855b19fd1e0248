"""Styles of journals: widths, fonts, and LaTeX's own format."""

import pickle
import re
import shutil
import subprocess
from io import BytesIO

import matplotlib
import pytest
from matplotlib import font_manager
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from PIL import Image
from typer.testing import CliRunner

import hkflow
from hkflow.app.cli import app
from hkflow.plots.figures import COLUMN, JOURNALS, PAGE, TEX, style, write_figure


def width_of(path):
    with Image.open(path) as picture:
        return picture.width / picture.info["dpi"][0] * 25.4  # mm


def plot(figure):
    ax = figure.subplots()
    ax.plot([1, 2], [3, 4])
    ax.set(xlabel="petal_width 5 %", ylabel="mass |ν|")


@pytest.mark.parametrize("name", JOURNALS)
def test_a_picture_is_as_wide_as_the_journal_wants(tmp_path, name):
    with style(name):
        column = write_figure(plot, tmp_path / "column.png", (COLUMN, 2.0))
        page = write_figure(plot, tmp_path / "page.png", (PAGE, 2.0))
    assert width_of(column) == pytest.approx(JOURNALS[name].column, abs=0.2)
    assert width_of(page) == pytest.approx(JOURNALS[name].page, abs=0.2)


@pytest.mark.parametrize("name", JOURNALS)
def test_matplotlib_brings_the_fonts(name):
    for font in JOURNALS[name].fonts:
        assert "matplotlib" in font_manager.findfont(font, fallback_to_default=False)


def test_a_style_ends_with_its_block_and_an_unknown_one_is_told(tmp_path):
    with style("nature"), style():
        assert Figure().text(0, 0, "a").get_fontsize() == 7.0
    picture = write_figure(plot, tmp_path / "after.png", (COLUMN, 2.0))
    assert width_of(picture) == pytest.approx(85.0, abs=0.2)
    with pytest.raises(hkflow.CaseError, match="Choose from: aps, .*springer"), style("lancet"):
        pass


@pytest.mark.parametrize("command", ["plot", "compare", "margin", "study", "animate"])
def test_commands_know_all_styles_and_refuse_others_before_they_compute(command):
    words = CliRunner().invoke(app, [command, "--help"]).output.split()
    assert set(JOURNALS) - {"hkflow"} <= {word.strip(",") for word in words}
    paths = ["absent", "absent"] if command == "compare" else ["absent"]
    refused = CliRunner().invoke(app, [command, *paths, "--style", "lancet"])
    assert isinstance(refused.exception, hkflow.CaseError) and "lancet" in str(refused.exception)


def test_a_pgf_is_read_by_latex(tmp_path):
    tex = next(filter(None, map(shutil.which, TEX)), None)
    if tex is None:
        pytest.skip("no TeX is installed")
    write_figure(plot, tmp_path / "picture.pgf", (COLUMN, 2.0))
    (tmp_path / "paper.tex").write_text(
        r"\documentclass{article}\usepackage{pgf}\usepackage[strings]{underscore}"
        r"\def\mathdefault#1{#1}"
        r"\begin{document}\input{picture.pgf}\end{document}"
    )
    command = [tex, "-halt-on-error", "-interaction=nonstopmode", "paper.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=100)
    assert done.returncode == 0 and (tmp_path / "paper.pdf").exists(), done.stdout[-900:]
    width = re.search(r"pgfqpoint\{([\d.]+)in\}", (tmp_path / "picture.pgf").read_text())
    assert float(width[1]) == pytest.approx(COLUMN, abs=0.01)


def test_without_a_tex_that_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(hkflow.CaseError, match="install one of lualatex, xelatex, pdflatex"):
        write_figure(plot, tmp_path / "picture.pgf", (COLUMN, 2.0))


def test_a_png_is_drawn_once_and_is_the_picture_of_savefig(tmp_path):
    drawn = []

    class Counted(Artist):
        def draw(self, renderer):
            drawn.append(renderer)

    def draw(figure):
        for ax in figure.subfigures(1, 2)[1].subplots(2, 1):
            ax.loglog([1.0, 10.0], [1e-3, 2.0], label="x")
            ax.set_ylabel("θ")
            ax.legend()
        figure.add_artist(Counted())

    written = write_figure(draw, tmp_path / "a.png", (COLUMN, 2.0))
    assert len(drawn) == 1
    with style():
        figure = Figure(figsize=(COLUMN, 2.0), layout="constrained")
        draw(figure)
        figure.savefig(tmp_path / "b.png")
    assert written.read_bytes() == (tmp_path / "b.png").read_bytes()


def colors_of(content):
    """The colours of the pixels of a PNG, (n, 3) numbers up to 255 as tuples."""
    with Image.open(BytesIO(content)) as picture:
        return {color for _, color in picture.convert("RGB").getcolors(1 << 24)}


def test_a_drawn_figure_keeps_its_style_in_a_notebook_of_any_theme():
    """Colours of curves are looked up when they are drawn; pyplot, which has notebooks show
    figures, is not wanted for that."""
    objective = hkflow.Objective(hkflow.FEATURES["relu"], hkflow.RISKS["square"], [[1.0, 1.0]], [1])
    problem = hkflow.Problem(hkflow.circle_mesh(16), objective, hkflow.Flow(1.0, 2.0))
    solution = hkflow.solve(problem, 0.1)
    figure = hkflow.plots.draw("records", solution)
    shown = figure._repr_png_()
    assert {(0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00)} <= colors_of(shown)
    with matplotlib.style.context("dark_background"):
        assert pickle.loads(pickle.dumps(figure))._repr_png_() == shown
        assert hkflow.plots.draw("records", solution)._repr_png_() == shown
