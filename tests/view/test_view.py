"""`hkflow view`: what a page holds is what the run holds, as exactly as it says; no text of a run
becomes a part of the page; and a browser, where there is one, draws it and answers."""

import base64
import json
import re
import shutil
import subprocess
import zlib
from functools import partial
from html import unescape
from html.parser import HTMLParser

import h5py
import matplotlib.image
import numpy as np
import pytest
from conftest import CASES, ROOT
from typer.testing import CliRunner

import hkflow
from hkflow.app.cli import app
from hkflow.store.shown import are_beyond
from hkflow.store.snapshots import read_snapshots
from hkflow.view.packing import (
    LEVELS,
    MAX_NUMBERS,
    SIGNED_LEVELS,
    packed,
    page_data,
    quantised,
)

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium to open the page with")
IRIS = ROOT / "cases" / "quickstart" / "iris.toml"
ATTACK = "</script><img src=x onerror=\"document.title='broken'\"><!--<script> & ${1+1} 'x'"
SHORT = {"domain.cells": 162, "time": {"end": 3.0, "saves": 4}}


def read_back(codes, low, high, signed=False):
    """The values that `quantised` packed, as the page reads them."""
    k = codes.astype(float) - 128.0 * signed
    steps = (SIGNED_LEVELS if signed else LEVELS) - 1
    return np.where(
        k == 0.0, 0.0, np.sign(k) * np.exp(low + (np.abs(k) - 1.0) / steps * (high - low))
    )


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """A grid on S², two signs, whose title and columns attack the page."""
    place = tmp_path_factory.mktemp("iris")
    lines = (IRIS.parent / "iris.csv").read_text(encoding="utf-8").splitlines()
    quoted = '"' + ATTACK.replace('"', '""') + '"'
    lines[0] = lines[0].replace("petal_length", quoted)
    (place / "iris.csv").write_text("\n".join(lines), encoding="utf-8")
    text = IRIS.read_text(encoding="utf-8")
    text = re.sub("^title = .*$", lambda _: f"title = {json.dumps(ATTACK)}", text, flags=re.M)
    text = text.replace('"petal_length"', json.dumps(ATTACK))
    (place / "iris.toml").write_text(text, encoding="utf-8")
    return hkflow.run(place / "iris.toml", output=place / "run", **SHORT)


def case(name):
    return next(path for path in CASES if path.as_posix().endswith(f"{name}.toml"))


@pytest.fixture(scope="module")
def circles(tmp_path_factory):
    """The same problem on the circle by a grid and by particles."""
    place, short = tmp_path_factory.mktemp("circles"), {"time": {"end": 2.0, "saves": 3}}
    changes = {"domain.cells": 48, "data.n": 30, **short}
    file = case("icm/fig2")
    return (
        hkflow.run(file, output=place / "grid", **changes),
        hkflow.run(file, output=place / "particles", **changes | {"method.kind": "particles"}),
    )


@pytest.fixture(scope="module")
def rings(tmp_path_factory):
    """Characteristics on S²."""
    file, place = case("quickstart/rings"), tmp_path_factory.mktemp("rings")
    return hkflow.run(file, output=place / "rings", **SHORT)


class Page(HTMLParser):
    """The elements of a page and the texts of its scripts by id."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.texts, self.at = [], {}, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.at = dict(attrs).get("id") if tag == "script" else tag

    def handle_endtag(self, tag):
        self.at = None

    def handle_data(self, data):
        if self.at:
            self.texts[self.at] = self.texts.get(self.at, "") + data


def unpacked(facts, numbers):
    """Facts and arrays of every run of a page, read by NumPy."""
    content, start, found = zlib.decompress(base64.b64decode(numbers)), 0, []
    for run in json.loads(facts):
        arrays = {}
        for name, (code, shape, size) in run["arrays"].items():
            part = np.frombuffer(content, "u1", size, start)
            start += size
            if code in ("u1", "i2"):
                planes = part.reshape(int(code[1]), -1).T
                steps = np.ascontiguousarray(planes).view(f"<u{code[1]}").reshape(shape)
                arrays[name] = np.cumsum(steps, axis=0, dtype=steps.dtype).view(f"<{code}")
            else:
                arrays[name] = part.view(f"<{code}").reshape(shape)
        found.append((run, arrays))
    assert start == len(content)
    return found


def spread(low, high, steps=254):
    """By what share a number of one byte may be off."""
    return np.exp((high - low) / steps / 2.0) - 1.0


def off_from(density, facts, arrays, read=read_back):
    """How far densities of a page are from others, in units of what the page says."""
    worst = 0.0
    for save, (low, high) in enumerate(facts["cells"]["ranges"]):
        got = np.exp(facts["logMass"][save]) * read(arrays["density"][save], low, high)
        seen = got > 0.0
        assert (density[save][~seen] <= 1.001e-6 * density[save].max()).all()
        relative = np.abs(np.log(got[seen] / density[save][seen]))
        worst = max(worst, relative.max() / (np.log1p(spread(low, high)) + 1e-5))
    return worst


def in_file(run):
    with h5py.File(run.path / "results.h5") as file:
        return np.exp(file["log_scale"][:])[:, None, None] * file["density"][:]


def test_densities_are_those_of_the_file_within_what_is_said(iris, circles):
    [(facts, arrays)] = unpacked(*page_data([iris]))
    assert arrays["density"].shape == (4, 2, 162)
    assert 0.2 < off_from(in_file(iris), facts, arrays) < 1.0
    assert spread(*facts["cells"]["ranges"][-1]) < 0.03
    run = circles[0]  # with atoms on kinks, which its cells count
    [(facts, arrays)] = unpacked(*page_data([run]))
    counted = np.exp(run.log_scale)[:, None, None] * run.density
    assert 0.2 < off_from(counted, facts, arrays) < 1.0 < off_from(in_file(run), facts, arrays)
    assert facts["points"]["counts"][-1] > 0


def test_sibling_a_byte_read_with_another_step_is_seen(iris):
    [(facts, arrays)] = unpacked(*page_data([iris]))
    wrong = lambda codes, low, high: read_back(codes, low, high * 1.01 - 0.01 * low)
    assert off_from(in_file(iris), facts, arrays, wrong) > 1.5


@pytest.mark.parametrize("signed", [False, True])
def test_a_byte_holds_numbers_over_six_decades(rng, signed):
    values = np.exp(rng.uniform(-20.0, 5.0, 4000)) * (
        rng.choice([-1.0, 1.0], 4000) if signed else 1
    )
    values[:5] = 0.0
    codes, low, high = quantised(values, signed)
    got, most = read_back(codes, low, high, signed), np.abs(values).max()
    seen = np.abs(values) > 1e-6 * most
    assert (got[~seen] == 0.0).all() and (np.sign(got[seen]) == np.sign(values[seen])).all()
    off = np.abs(np.log(got[seen] / values[seen])).max()
    assert 0.5 < off / np.log1p(spread(low, high, 126 if signed else 254)) < 1.0 + 1e-9


def test_points_are_those_of_the_run(circles, rings):
    for run in (circles[1], rings):
        [(facts, arrays)] = unpacked(*page_data([run]))
        for save in range(len(run.time)):
            atoms, (low, high) = (
                run.atoms_at(save, normalised=True),
                facts["points"]["ranges"][save],
            )
            assert facts["points"]["counts"][save] == len(atoms)
            np.testing.assert_allclose(
                arrays["positions"][save] / 32767, atoms.positions, atol=2e-5
            )
            assert ((arrays["pointSigns"][save] == 1) == (atoms.signs > 0)).all()
            weights, seen = read_back(arrays["weights"][save], low, high), atoms.weights > 0.0
            seen &= atoms.weights > 1.001e-6 * atoms.weights.max()
            np.testing.assert_allclose(
                weights[seen], atoms.weights[seen], rtol=spread(low, high) + 1e-5
            )
        shown = facts["data"]["n"] and arrays["predictions"]
        wanted = (
            run.scaled_predictions * np.exp(run.log_scale - run.log_mass * run.classifies)[:, None]
        )
        np.testing.assert_allclose(shown, wanted, rtol=1e-5, atol=1e-7)


def test_too_many_points_leave_the_heaviest(rings, monkeypatch):
    count = len(rings.atoms_at(0))
    room = count // 3
    monkeypatch.setattr("hkflow.view.packing.MAX_NUMBERS", 3 * room * len(rings.time))
    [(facts, arrays)] = unpacked(*page_data([rings]))
    assert set(facts["points"]["counts"]) == {room} and facts["points"]["of"] == count
    last = rings.atoms_at(-1, normalised=True).weights
    assert arrays["positions"].shape[1] == room < count and facts["points"]["least"] < 1.0
    assert (
        read_back(arrays["weights"][-1], *facts["points"]["ranges"][-1]).max() > 0.97 * last.max()
    )


def test_of_many_saves_some_are_shown_evenly(iris, circles, rings, monkeypatch):
    whole = unpacked(*page_data([iris, *circles, rings]))
    monkeypatch.setattr("hkflow.view.packing.MAX_SAVES", 2)
    for (facts, arrays), (all_facts, all_arrays) in zip(
        unpacked(*page_data([iris, *circles, rings])), whole, strict=True
    ):
        assert facts["saves"] == len(all_facts["time"]) > 2
        ends = [0, facts["saves"] - 1]
        assert facts["time"] == [all_facts["time"][k] for k in ends]
        assert facts["logMass"] == [all_facts["logMass"][k] for k in ends]
        for name, bars in facts["errors"].items():
            if name != "normalised":
                assert bars == [all_facts["errors"][name][k] for k in ends]
        for name in {"density", "map", "positions", "predictions", "gradients"} & arrays.keys():
            np.testing.assert_array_equal(arrays[name], all_arrays[name][ends])


@pytest.fixture
def many_files(tmp_path, monkeypatch):
    """A run of particles none of whose saves stay in memory but the last that was read, and the
    files that are read, in order."""
    read = []

    def counted(file):
        read.append(file)
        return read_snapshots(file)

    # a run that computes for long writes a file for each save
    monkeypatch.setattr("hkflow.store.run_writer.MAX_WAIT", 0.0)
    monkeypatch.setattr("hkflow.store.run.KEPT", 1)
    monkeypatch.setattr("hkflow.store.run.read_snapshots", counted)
    changes = {"domain.cells": 48, "data.n": 30, "time": {"end": 2.0, "saves": 9}}
    output = tmp_path / "many"
    run = hkflow.run(case("icm/fig2"), output=output, **changes | {"method.kind": "particles"})
    read.clear()
    return run, read


def test_the_page_reads_each_state_once(many_files):
    run, read = many_files
    packed(run)
    assert len(read) == len(set(read)) == 9
    # sibling: log masses that are asked for by themselves read all of them again
    assert len(run.log_mass) == 9 and len(read) == 18


def test_a_mass_beyond_numbers_at_one_save_makes_all_predictions_those_per_mass(
    circles, monkeypatch
):
    run = circles[1]
    wanted = [np.abs(run.predict(run.inputs, k, True, prepared=True)).max() for k in range(3)]
    least = run.log_mass.min()
    assert run.log_mass[-1] > least + 0.01 and not run.classifies
    for largest, per_mass in ((least + 0.01, True), (600.0, False)):
        beyond = partial(are_beyond, largest=largest)
        monkeypatch.setattr("hkflow.view.packing.are_beyond", beyond)
        facts, arrays = packed(run)
        h = facts["data"]["h"], facts["map"]["h"]
        assert h == (("h/|ν|",) * 2 if per_mass else ("h",) * 2)
        got = np.abs(arrays["predictions"]).max(axis=1)
        assert np.allclose(got, wanted, rtol=1e-5) == per_mass
        corner = [[low for low, _ in facts["map"]["frames"]]]
        exact = [run.predict(corner, k, per_mass, prepared=True)[0] for k in range(3)]
        drawn = arrays["map"][:, 0] * np.array(facts["map"]["largest"]) / 32767
        np.testing.assert_allclose(drawn, exact, atol=1e-4 * max(facts["map"]["largest"]))


def test_loss_gradients_and_the_map_make_what_the_run_makes(iris):
    [(facts, arrays)] = unpacked(*page_data([iris]))
    objective, weights = iris.problem.objective, iris.cell_density_at(2) * iris.mesh.volumes
    fixed = objective.at_fixed_points(iris.mesh.centers, (1, -1))
    fixed.evaluate(weights, iris.log_scale[2])
    phi = np.maximum(arrays["inputs"] @ (arrays["centers"].T / 32767), 0.0)
    J = np.outer([1.0, -1.0], arrays["gradients"][2] @ phi) + facts["potential"]["decay"]
    np.testing.assert_allclose(J, fixed.potential, atol=1e-4 * np.abs(fixed.potential).max())
    (low, high), (down, up) = facts["map"]["frames"]
    n = facts["map"]["pixels"]
    corner = iris.predict([[low, down], [high, up]], 2, normalised=True, prepared=True)
    got = arrays["map"][2] * facts["map"]["largest"][2] / 32767
    np.testing.assert_allclose(got[[0, n * n - 1]], corner, atol=2e-5 * np.abs(got).max())


def test_no_text_of_a_run_becomes_a_part_of_the_page(iris):
    result = CliRunner().invoke(app, ["view", str(iris.path)])
    assert result.exit_code == 0 and "view.html" in result.stdout
    text = (iris.path / "view.html").read_text(encoding="utf-8")
    page = Page(text)
    assert (
        page.tags.count("script") == 5 and "img" not in page.tags and ATTACK in page.texts["title"]
    )
    [facts] = json.loads(page.texts["facts"])
    assert facts["title"] == ATTACK and facts["columns"][0] == ATTACK
    assert not re.search(r"https?://|@import|url\(|<link|src=(?!x )", text)
    assert "default-src 'none'" in text
    assert unpacked(page.texts["facts"], page.texts["numbers"])
    # sibling: unescaped, the attack is seen
    assert "img" in Page(text.replace("\\u003c", "<")).tags


def test_a_page_of_51_saves_of_2562_cells_is_small(iris, monkeypatch):
    """Bytes that nothing compresses in the place of densities and points."""
    noise = np.random.default_rng(0)

    def worst(run):
        facts, arrays = packed(run)
        arrays["density"] = noise.integers(0, 256, (51, 2, 2562), dtype=np.uint8)
        arrays["triangles"] = noise.integers(0, 5120, (15360, 3)).astype(np.uint32)
        arrays["map"] = noise.integers(-99, 99, (51, 2401)).astype(np.int16)
        return facts, arrays

    monkeypatch.setattr("hkflow.view.packing.packed", worst)
    _, numbers = page_data([iris])
    assert len(numbers) < 1_200_000 and MAX_NUMBERS == 400_000


def dumped(path, state="", what="--dump-dom"):
    """The document after a browser has drawn the page of a file, or another thing to keep of it."""
    words = [
        *(CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"),
        *("--enable-unsafe-swiftshader", "--window-size=1200,900"),
        *("--virtual-time-budget=5000", what, f"{path.as_uri()}#{state}"),
    ]
    return subprocess.run(words, capture_output=True, text=True, timeout=120).stdout


def part(text, name):
    """What a hidden element of a document holds."""
    return unescape(re.search(rf'id="{name}"[^>]*>(.*?)</pre>', text, re.S)[1])


def opened(path, state=""):
    """The page after a browser has drawn it: its state and readouts; it must have no errors."""
    text = dumped(path, state)
    assert part(text, "errors") == "" and part(text, "state"), text[:500]
    readouts = re.findall(r'class="readout"[^>]*>(.*?)</p>', text, re.S)[:-1]
    return json.loads(part(text, "state")), readouts, re.search("<title>(.*?)</title>", text)[1]


def number_after(word, text):
    found = re.search(rf"{re.escape(word)} (-?[\d.]+(?:e-?\d+)?)", text.replace("−", "-"))
    return float(found[1])


@needs_browser
def test_a_browser_shows_the_numbers_of_the_file(iris, tmp_path):
    page = hkflow.page(iris).write(tmp_path / "page.html")
    save = 2
    density = np.exp(iris.log_scale[save]) * iris.cell_density_at(save)[0]
    cell = int(density.argmax())
    x, y, z = iris.mesh.centers[cell]
    turn = f"{np.degrees(np.arctan2(y, x)):.6f},{np.degrees(np.arcsin(z)):.6f}"
    state, [readout], title = opened(page, f"save={save}&turn={turn}&hover=1,{cell}&datum=7")
    assert state["save"] == save and title.startswith("&lt;/script")
    said = float(re.search(r"± ([\d.]+) %", readout)[1])
    assert 0.0 < said < 3.0
    assert number_after("density of ν", readout) == pytest.approx(
        density[cell], rel=said / 100 + 1e-3
    )
    fixed = iris.problem.objective.at_fixed_points(iris.mesh.centers, (1, -1))
    fixed.evaluate(iris.cell_density_at(save) * iris.mesh.volumes, iris.log_scale[save])
    assert number_after("J =", readout) == pytest.approx(fixed.potential[0, cell], rel=1e-3)
    h = iris.scaled_predictions[save, 7] * np.exp(iris.log_scale[save] - iris.log_mass[save])
    assert number_after("h/|ν| =", readout) == pytest.approx(h, rel=1e-3)
    # in front is the colour of that cell, as exact as ten colours of the map make it
    assert state["front"][0]["index"] == cell
    logs = np.log(iris.density) + (iris.log_scale - iris.log_mass)[:, None, None]
    low = max(logs.min(), logs.max() - 4.0 * np.log(10.0))
    level = (logs[save].max() - low) / (logs.max() - low)
    wanted = 255.0 * np.array(matplotlib.colormaps["viridis"](level)[:3])
    assert np.abs(np.array(state["front"][0]["color"][:3]) - wanted).max() < 20.0


@needs_browser
def test_a_browser_shows_circles_points_and_two_runs(circles, rings, tmp_path, monkeypatch):
    Bars = type("Bars", (dict,), {"bars": property(dict), "normalised": True})
    errors = Bars(objective=np.full(4, 0.1), margin=np.full(4, 0.2))
    monkeypatch.setitem(vars(rings), "errors", errors)
    page = hkflow.page(*circles, rings).write(tmp_path / "page.html")
    state, readouts, _ = opened(page, "save=1&hover=1,20&hover=1,5,1&datum=4")
    times = np.unique(np.concatenate([run.time for run in (*circles, rings)]))
    assert state["saves"] == len(times) and len(readouts) == 3
    for run, readout in zip(circles, readouts, strict=False):
        save = np.searchsorted(run.time, times[1], side="right") - 1
        assert number_after("h =", readout) == pytest.approx(
            run.scaled_predictions[save, 4], rel=2e-3
        )
    weight = circles[1].atoms_at(save).weights[5]
    assert number_after("weight of ν", readouts[1]) == pytest.approx(weight, rel=0.03)
    charts = {title: (bars, band) for title, bars, band in state["charts"][2]}
    assert charts["margin/|ν|, certified γ"] == (True, True)  # error bars and the certified band
    assert charts["log mass log |ν|"] == (False, False)


def painted(run, save, turn, folded, radius):
    """The sphere of sign +1, or of ν₊ − ν₋, every third pixel as NumPy draws
    it: (n, n, 3) in 0 … 255."""
    (sl, sb), (cl, cb) = np.sin(np.radians(turn)), np.cos(np.radians(turn))
    right, up, front = [-sl, cl, 0.0], [-sb * cl, -sb * sl, cb], [cb * cl, cb * sl, sb]
    ticks = every_third(radius) / radius
    u, v = np.meshgrid(ticks, -ticks)
    w = np.sqrt(np.maximum(0.0, 1.0 - u**2 - v**2))
    cells = (np.stack([u, v, w], axis=-1) @ [right, up, front] @ run.mesh.centers.T).argmax(axis=-1)
    density = run.density * np.exp(run.log_scale - run.log_mass)[:, None, None]
    high = np.log(density.max())
    low = max(np.log(density[density > 0.0].min()), high - 4.0 * np.log(10.0))
    place = lambda x: np.clip((np.log(np.maximum(x, 1e-30)) - low) / (high - low), 0.0, 1.0)
    plus, minus = density[save]
    if not folded:
        return 255.0 * matplotlib.colormaps["viridis"](place(plus))[cells, :3]
    level = 4.0 * (1.0 + np.sign(plus - minus) * place(np.abs(plus - minus)))
    return np.column_stack([np.interp(level, range(9), channel) for channel in DIVERGING])[cells]


DIVERGING = (
    (8, 33, 104, 181, 246, 252, 246, 219, 150),
    (69, 121, 172, 213, 246, 217, 167, 107, 62),
    (120, 181, 217, 234, 244, 180, 100, 28, 4),
)


def every_third(radius):
    """Pixels from the middle of a disc."""
    return 3 * np.arange(-int(radius / 3), int(radius / 3) + 1)


def share_seen(picture, wanted, disc):
    """The share of the pixels inside a disc of a screenshot whose colours are the wanted ones."""
    x, y, radius = disc
    off = every_third(radius)
    inside = np.hypot(*np.meshgrid(off, off)) < 0.85 * radius
    found = picture[np.ix_(round(y) + off, round(x) + off)]
    return (np.abs(found - wanted).max(axis=-1)[inside] < 20.0).mean()


@needs_browser
def test_a_screenshot_is_what_numpy_draws_of_the_numbers(iris, tmp_path):
    page, turn, save = hkflow.page(iris).write(tmp_path / "page.html"), (35.0, 22.0), 3
    words = f"save={save}&turn={turn[0]},{turn[1]}&kinks=0&fold=1"
    state, _, _ = opened(page, words)
    dumped(page, words, f"--screenshot={tmp_path / 'page.png'}")
    picture = 255.0 * matplotlib.image.imread(tmp_path / "page.png")[..., :3]
    [front] = state["front"]
    seen = lambda *view: share_seen(
        picture, painted(iris, save, *view, front["disc"][2]), front["disc"]
    )
    assert seen(turn, True) > 0.95
    # siblings: turned by three degrees, or not folded, it is another picture
    assert seen((38.0, 22.0), True) < 0.93 and seen(turn, False) < 0.5


USE = """
window.requestAnimationFrame = (act) => setTimeout(act, 0);  // without a screen
window.addEventListener("load", () => setTimeout(() => {
  const log = [], find = (name) => document.querySelector(`.${name} canvas`);
  const sphere = find("measure"), data = find("decision");
  const at = (canvas, x, y) => {
    const { left, top } = canvas.getBoundingClientRect();
    return { clientX: left + x, clientY: top + y, pointerId: 1, buttons: 1, bubbles: true };
  };
  const drag = (type, x) => sphere.dispatchEvent(new PointerEvent(type, at(sphere, x, 150)));
  const key = (key, target = document.body) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  sphere.setPointerCapture = () => {};
  drag("pointerdown", 150); drag("pointermove", 200); drag("pointerup", 200);
  log.push(state.turn[0]);
  key("Home"); log.push(state.now);
  key("ArrowRight"); log.push(state.now);
  key(" "); log.push(state.playing);
  key(" "); log.push(state.playing);
  key("ArrowUp", sphere); log.push(state.turn[1]);
  key("Enter", sphere); log.push(views[0].run.unit.kind);
  key("ArrowRight", data); log.push(state.datum);
  key("Escape"); log.push(state.datum, views[0].run.unit);
  element("clock").value = 2;
  element("clock").dispatchEvent(new Event("input")); log.push(state.now);
  const [x, y, i] = views[0].decision.spots[3];
  data.dispatchEvent(new MouseEvent("click", at(data, x, y))); log.push(state.datum, i);
  const discs = () => views[0].measure.layout(state).discs.map((disc) => [disc.sign, disc.x]);
  log.push(discs().length, discs()[0][1] < discs()[1][1]);  // side by side
  element("fold").click(); log.push(discs()[0][0], discs().length);
  element("fold").click();
  setTimeout(() => {
    document.documentElement.style.width = "380px";  // of a phone
    window.dispatchEvent(new Event("resize"));
  }, 50);
  setTimeout(() => {
    const size = (canvas) => Math.round(canvas.clientWidth * canvas.getContext("2d").ratio);
    const fits = [sphere, data].every((canvas) => canvas.width === size(canvas));
    log.push(discs()[0][1] === discs()[1][1], fits, element("runs").scrollWidth <= 380);
    document.title = JSON.stringify(log);
  }, 100);
}, 1500));
"""


@needs_browser
def test_drag_keys_slider_and_click_do_what_they_say(iris, tmp_path):
    page = hkflow.page(iris).write(tmp_path / "page.html")
    text = re.sub(r"<meta http-equiv[^>]*>", "", page.read_text(encoding="utf-8"))
    page.write_text(text.replace("</body>", f"<script>{USE}</script></body>"), encoding="utf-8")
    _, _, title = opened(page, "turn=0,20")
    log = json.loads(title)
    assert log[:11] == [-20, 0, 1, True, False, 26, "cell", 0, None, None, 2]
    assert log[11] == log[12]
    assert log[13:] == [2, True, 0, 1, True, True, True]  # folded; then as narrow as a phone


@needs_browser
def test_sibling_an_error_of_the_page_is_seen(iris, tmp_path):
    page = hkflow.page(iris).write(tmp_path / "page.html")
    text = page.read_text(encoding="utf-8")
    page.write_text(text.replace('"density":["u1"', '"other":["u1"'), encoding="utf-8")
    with pytest.raises(AssertionError):
        opened(page)


def test_a_run_without_a_save_has_no_page(tmp_path):
    result = CliRunner().invoke(app, ["view", str(tmp_path / "absent")])
    assert isinstance(result.exception, hkflow.HkflowError)
