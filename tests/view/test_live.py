"""The page of the docs where 1000 units learn: they move as those of the package from the same
start, its answers are those that the package gives again, and it listens."""

import json
import re
import runpy
import shutil

import numpy as np
import pytest
from conftest import ROOT
from test_view import ATTACK, dumped, needs_browser, part

LIVE = ROOT / "docs" / "_static" / "live"
TIME = 6.0
TOLERANCE = 4e-4  # of a loss; units that go to and fro across kinks differ from those that slide


@pytest.fixture(scope="module")
def made():
    """The names of the program that makes the answers."""
    return runpy.run_path(str(ROOT / "postprocess" / "live.py"))


@pytest.fixture(scope="module")
def answers():
    text = (LIVE / "answers.js").read_text(encoding="utf-8")
    return json.loads(text.removeprefix("const ANSWERS = ").removesuffix(";\n"))


def opened(state, folder=LIVE):
    """What the page says of itself once it has trained as far as its address says."""
    text = dumped(folder / "index.html", state)
    assert part(text, "errors") == "" and part(text, "state"), text[-2000:]
    return json.loads(part(text, "state")), text


def titled(text):
    """What a script of a test has made the title."""
    return json.loads(re.search("<title>(.*?)</title>", text)[1])


def copied(tmp_path, file, old, new):
    """The page with another text in one of its files."""
    folder = shutil.copytree(LIVE, tmp_path / "live")
    text = (folder / file).read_text(encoding="utf-8")
    assert old in text
    (folder / file).write_text(text.replace(old, new, 1), encoding="utf-8")
    return folder


def trained(made, preset, flow):
    """The loss and the solution of the package from the page's 1000 units, and its save at TIME."""
    points = np.array(preset["points"])
    found = made["trained"](points[:, :2], points[:, 2], made["FLOWS"][flow], made["UNITS"] // 2)
    save = made["TIMES"].index(TIME)
    return 0.5 * np.mean((found.predictions[save] - points[:, 2]) ** 2), found, save


TRAIN = """
setTimeout(() => {
  const found = CHOICES.map(([preset, flow]) => {
    state.flow = flow;
    choose(preset);
    while (network.time < 6) network.advance(6);
    draw();
    return JSON.parse(element("state").textContent);
  });
  document.title = JSON.stringify(found);
}, 1000);
"""


@needs_browser
def test_units_move_as_those_of_the_package(made, answers, tmp_path):
    flows, presets = list(made["FLOWS"]), answers["presets"]
    chosen = [[preset["name"], flow] for preset, flow in zip(presets, flows, strict=True)]
    script = TRAIN.replace("CHOICES", json.dumps(chosen))
    folder = copied(tmp_path, "index.html", "</body>", f"<script>{script}</script></body>")
    states = titled(opened("t=0", folder)[1])
    for number, (state, preset, flow) in enumerate(zip(states, presets, flows, strict=True)):
        loss, found, save = trained(made, preset, flow)
        assert state["time"] == TIME and state["preset"] == preset["name"] and state["off"] == 0.0
        assert state["loss"] == pytest.approx(loss, rel=TOLERANCE)
        assert state["mass"] == pytest.approx(found.mass[save], rel=TOLERANCE)
        np.testing.assert_allclose(state["h"], found.predictions[save], atol=3e-3)
        # infinitely many do nearly the same
        assert np.interp(TIME, *np.transpose(preset["curves"][number])) == pytest.approx(
            loss, rel=0.03
        )
        mine, theirs = np.clip(state["values"], -2.0, 2.0), np.array(state["theirs"])
        assert np.sqrt(np.mean((mine - theirs) ** 2)) < 0.02


@needs_browser
def test_sibling_units_that_grow_at_another_rate_are_seen(made, answers, tmp_path):
    folder = copied(tmp_path, "live.js", "both: [1, 2]", "both: [1, 1.99]")
    state, _ = opened(f"preset=Rings&t={TIME}", folder)
    assert state["loss"] != pytest.approx(trained(made, answers["presets"][0], "both")[0], rel=1e-3)


def test_answers_are_those_of_the_package(made, answers):
    assert {key: answers[key] for key in ("units", "mass", "pixels")} == {
        key: made[key.upper()] for key in ("units", "mass", "pixels")
    }
    for preset, (name, plus, minus) in zip(answers["presets"], made["presets"](), strict=True):
        wanted = [[*p, 1.0] for p in plus] + [[*p, -1.0] for p in minus]
        assert preset["name"] == name
        np.testing.assert_allclose(preset["points"], wanted, atol=6e-4)
    preset = answers["presets"][1]
    points = np.array(preset["points"])
    found = made["trained"](points[:, :2], points[:, 2], made["FLOWS"]["both"], 1250)
    now = np.interp(made["TIMES"], found.records["time"], found.records["objective"])
    then = np.interp(made["TIMES"], *np.array(preset["curves"][0]).T)
    np.testing.assert_allclose(now, then, atol=5e-4)  # as the page says


USE = """
setTimeout(() => {
  const log = [], at = (x, y) => {
    const { left, top, width } = plane.getBoundingClientRect();
    const [clientX, clientY] = [left + (x / 2 + 1) * width / 2, top + (1 - y / 2) * width / 2];
    return { clientX, clientY, pointerId: 1, buttons: 1, bubbles: true };
  };
  const point = (type, x, y) => plane.dispatchEvent(new PointerEvent(type, at(x, y)));
  const key = (key, target = plane) =>
    target.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  const select = (name, value) => {
    element(name).value = value;
    element(name).dispatchEvent(new Event("change"));
  };
  plane.setPointerCapture = () => {};
  select("preset", "own"); log.push(state.points.length, state.playing);
  point("pointerdown", -1, 0.5); point("pointermove", -0.9, 0.5); point("pointermove", -0.5, 0.5);
  log.push(state.points.length, Math.round(100 * state.points[1][0]), network.time);
  point("pointerup", -0.5, 0.5); log.push(state.playing);
  document.querySelector("[name=tool][value='-1']").click();
  point("pointerdown", 1, 0); log.push(state.points[2][2]);
  key("ArrowUp"); key("ArrowUp"); key("+"); log.push(state.points[3].join());
  key("Delete"); log.push(state.points.length, state.tool);
  const north = state.turn[1];
  key("ArrowUp", sphere); log.push(state.turn[1] - north);
  state.points = ANSWERS.presets[0].points.map(([x, y, label]) => [x, y, -label]);
  restart(); log.push(state.preset, state.flip, state.off);
  element("play").click(); element("play").click(); log.push(state.playing);
  select("flow", "move"); log.push(network.beta, state.playing);
  document.title = JSON.stringify(log);
}, 1000);
"""


@needs_browser
def test_pointer_keys_and_choices_do_what_they_say(tmp_path):
    folder = copied(tmp_path, "index.html", "</body>", f"<script>{USE}</script></body>")
    answers = (folder / "answers.js").read_text(encoding="utf-8")
    named = answers.replace('"Rings"', json.dumps(ATTACK), 1)
    (folder / "answers.js").write_text(named, encoding="utf-8")
    state, text = opened("t=0", folder)
    assert state["preset"] == ATTACK and "<img" not in text.split("<script")[0]  # names are text
    log = titled(text)
    assert log == [
        *(0, False),  # an empty plane
        *(2, -50, 0, True),  # a stroke of two points, which trains once it ends
        *(-1, "0,0.2,1", 3, 0, 6),
        *(0, -1, 0),  # rings with their labels exchanged
        *(True, 0, True),
    ]


def test_the_page_needs_nothing_else_and_is_short():
    scripts = (LIVE / "live.js").read_text(encoding="utf-8")
    page = (LIVE / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"https?://|import\b|fetch\(|url\(|<link", page + scripts)
    assert re.findall('src="(.*?)"', page) == ["answers.js", "live.js"]
    assert scripts.count("\n") <= 400
