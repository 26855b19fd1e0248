"""`hkflow run --watch`: the records of a run as curves on the terminal while it goes on."""

from typing import Any

import numpy as np

from ..methods.method import Method
from ..methods.record import SCALED
from ..solving.registry import record_of
from ..solving.state import LoopState
from .progress import ProgressBar, progress_bar

CURVE, LEAST = 48, 8  # columns of a curve, and where there is no room for them
GAP = 2  # columns between what stands side by side
LEVELS, PLAIN_LEVELS = "▁▂▃▄▅▆▇█", "_.-=+*#@"


class Series:
    """The values of one record, thinned by halves to at most `size`, evenly in steps."""

    def __init__(self, size: int = 8 * CURVE) -> None:
        self.size, self.stride, self.skipped = size, 1, 0
        self.kept: list[float] = []
        self.last = np.nan

    def add(self, value: float) -> None:
        """One more; what is not finite, as a certificate that was not taken, is left out."""
        if not np.isfinite(value):
            return
        self.last = value
        self.skipped += 1
        if self.skipped >= self.stride:
            self.kept.append(value)
            self.skipped = 0
        if len(self.kept) >= self.size:
            del self.kept[::2]
            self.stride *= 2

    def curve(self, columns: int, levels: str) -> str:
        """The values so far as a line of characters, lowest to highest; of many the mean of each
        column."""
        values = [*self.kept, self.last] if self.skipped else self.kept
        if not values:
            return ""
        parts = np.array_split(np.array(values), min(columns, len(values)))
        means = np.array([part.mean() for part in parts])
        low, high = means.min(), means.max()
        share = (means - low) / (high - low) if high > low else np.zeros(len(means))
        return "".join(levels[round(part * (len(levels) - 1))] for part in share)


class Watch(ProgressBar):
    """The bar, and under it a line for each record that tables compare: its value, its curve, and
    the bounds of the margin. Without a terminal it is the bar alone, or its lines."""

    def __init__(self) -> None:
        self.series: dict[str, Series] = {}

    def _make_bar(self) -> Any:
        bar = progress_bar("{task.description}")
        return Screen(bar, self.series) if hasattr(bar, "get_renderable") else bar

    def record(self, method: Method, clock: LoopState, record: dict[str, float]) -> None:
        with np.errstate(over="ignore"):
            unit = np.exp(record["log_scale"])
        for name, value in record.items():
            scaled = record_of(name).unit == SCALED
            self.series.setdefault(name, Series()).add(unit * value if scaled else value)

    def finish(self, method: Method, clock: LoopState, status: str) -> None:
        if self.bar:
            self.due = 0.0
            self.step(method, clock)  # what stays on the screen is the end
        super().finish(method, clock, status)


class Screen:
    """A bar of rich with the curves under it; stays when the run has ended. By the methods of
    rich.progress.Progress that ProgressBar uses."""

    def __init__(self, bar: Any, series: dict[str, Series]) -> None:
        from rich.live import Live

        self.bar, self.series = bar, series
        self.add_task = bar.add_task
        self.live = Live(
            console=bar.console, auto_refresh=False, get_renderable=self.shown, transient=False
        )

    def start(self) -> None:
        self.live.start(refresh=True)

    def stop(self) -> None:
        self.live.stop()

    def update(self, task: int, completed: float, description: str) -> None:
        self.bar.update(task, completed=completed, description=description)
        self.live.refresh()

    def shown(self) -> Any:
        """The bar and the table."""
        from rich.console import Group
        from rich.table import Table

        levels = PLAIN_LEVELS if self.bar.console.options.ascii_only else LEVELS
        shown = {name: self.series[name] for name in watched(self.series)}
        words = [
            (record_of(name).label, f"{one.last:.6g}", bounds(name, self.series))
            for name, one in shown.items()
        ]
        taken = sum(max(map(len, column)) + GAP for column in zip(*words, strict=True))
        columns = max(LEAST, min(CURVE, self.bar.console.width - taken))
        table = Table.grid(padding=(0, GAP))
        for _ in range(3):  # on a narrow terminal the bounds take several lines
            table.add_column(no_wrap=True)
        table.add_column(overflow="fold")
        for one, (label, value, within) in zip(shown.values(), words, strict=True):
            table.add_row(label, value, one.curve(columns, levels), within)
        return Group(self.bar.get_renderable(), table)


def watched(names: Any) -> list[str]:
    """Those of the records that are worth a curve: what tables compare but the steps, which the bar
    counts."""
    return [name for name in names if record_of(name).compared and name != "step"]


def bounds(name: str, series: dict[str, Series]) -> str:
    """Where the max-margin is known to lie, beside the margin; "" beside other records."""
    if name != "margin" or "margin_upper" not in series:
        return ""
    low, high = series["margin_lower"].last, series["margin_upper"].last
    return "" if np.isnan(high) else f"max-margin in [{low:.5g}, {high:.5g}]"
