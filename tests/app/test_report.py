"""The report page: well formed, complete, and in need of nothing outside; shown by a browser where
there is one."""

import base64
import re
import shutil
import subprocess
from html import unescape
from html.parser import HTMLParser

import pytest
from conftest import ROOT
from typer.testing import CliRunner

import hkflow
from hkflow.app.cli import app
from hkflow.app.report import REPEATED, write_report
from hkflow.plots.kinds import PLOTS, available

IRIS = ROOT / "cases" / "quickstart" / "iris.toml"
VOID = {"meta", "img", "br", "hr", "link"}
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Page(HTMLParser):
    """Collects a page's texts, pictures and links, and sees that every tag is closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.sources, self.links, self.anchors = [], [], [], [], set()
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.open += [] if tag in VOID else [tag]
        self.sources += [attrs["src"]] if "src" in attrs else []
        self.links += [attrs["href"]] if "href" in attrs else []
        self.anchors |= {attrs["id"]} if "id" in attrs else set()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts += [data.strip()] if data.strip() else []


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two small runs, the second interrupted by a guard at its start."""
    place = tmp_path_factory.mktemp("runs")
    changes = {"domain.cells": 162, "time": {"end": 1.0, "saves": 3}}
    (place / "odd.toml").write_text(
        IRIS.read_text().replace('title = "Iris', 'title = "<b>&amp; Iris')
    )
    shutil.copy(IRIS.parent / "iris.csv", place / "iris.csv")
    return [
        hkflow.run(place / "odd.toml", output=place / name, seed=seed, **changes)
        for seed, name in enumerate(("one", "two"))
    ]


@pytest.fixture
def without_pictures(monkeypatch):
    monkeypatch.setattr("hkflow.app.report._figures", lambda run: [])


def test_a_page_holds_everything_and_needs_nothing(runs):
    result = CliRunner().invoke(app, ["report", str(runs[0].path)])
    assert result.exit_code == 0 and "report.html" in result.stdout
    text = (runs[0].path / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert not re.search(r"https?://|<script|@import|url\(", text)
    assert page.sources and all(
        source.startswith("data:image/png;base64,") for source in page.sources
    )
    for source in page.sources:
        assert base64.b64decode(source.partition(",")[2]).startswith(b"\x89PNG")
    drawn = [name for name in available(runs[0]) if name not in REPEATED]
    said = {text.removeprefix(": ") for text in page.texts}
    assert said.issuperset(PLOTS[name].shows for name in drawn)
    assert len(page.sources) == len(drawn)
    shown = " ".join(page.texts)
    assert (
        runs[0].status in shown
        and "F₁ max-margin" in shown
        and "numba" in shown
        and 'stepper = "muscl-hancock"' in shown
    )
    assert "<b>&amp; Iris" in shown  # a title is text, not a part of the page
    for name, value in (
        ("objective", runs[0].records["objective"][-1]),
        ("total mass", runs[0].records["mass"][-1]),
    ):
        assert page.texts[page.texts.index(name) + 1].startswith(f"{value:.8g} ± ")


@pytest.mark.usefixtures("without_pictures")
def test_several_runs_are_compared(runs, tmp_path):
    page = Page(
        write_report([run.path for run in runs], tmp_path / "report.html").read_text(
            encoding="utf-8"
        )
    )
    assert "2 runs" in page.texts and {link.lstrip("#") for link in page.links} == page.anchors == {
        "run-0",
        "run-1",
    }


@pytest.mark.usefixtures("without_pictures")
def test_an_interactive_report_holds_the_page_of_view_in_a_frame(runs):
    result = CliRunner().invoke(app, ["report", str(runs[0].path), "--interactive"])
    assert result.exit_code == 0
    text = (runs[0].path / "report.html").read_text(encoding="utf-8")
    frames = re.findall(r'<iframe srcdoc="([^"]*)"', text)
    assert [unescape(frame) for frame in frames] == [hkflow.page(runs[0]).text]
    assert "<script" not in text.replace(frames[0], "")
    assert hkflow.page(runs[0])._repr_html_() in text


@pytest.mark.usefixtures("without_pictures")
def test_what_cannot_be_reported_is_told(runs, tmp_path):
    missing = CliRunner().invoke(app, ["report", str(tmp_path / "absent")])
    assert isinstance(missing.exception, hkflow.RunFolderError)
    (tmp_path / "file").write_text("")
    with pytest.raises(hkflow.RunFolderError, match="cannot be written"):
        write_report([runs[0]], tmp_path / "file" / "report.html")


def test_a_browser_shows_it(runs, tmp_path):
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        pytest.skip("no Chromium is installed")
    path = write_report(runs, tmp_path / "report.html")
    command = [
        browser,
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--screenshot={tmp_path / 'page.png'}",
        path.as_uri(),
    ]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000
