"""The table on the screen, the same as a text, and the figure."""

import numpy as np
from rich.console import Console
from rich.table import Table

SIGNS = {">=": "≥", "<=": "≤", None: ""}


def number(value):
    """A number in four digits at most."""
    return "" if value is None else f"{value:,.0f}" if abs(value) >= 1000.0 else f"{value:.3g}"


def cells(row):
    """The columns of a row: what, value, ratio or interval, goal, met, note."""
    low, high, ratio = (row.get(key) for key in ("low", "high", "ratio"))
    spread = f" ({number(low)} – {number(high)})" if low is not None else ""
    goal = row.get("goal")
    return (
        row["name"],
        f"{number(row.get('value'))} {row.get('unit', '')}".strip(),
        number(ratio) + spread,
        f"{SIGNS[goal[0]]} {number(goal[1])}" if goal else "",
        {True: "yes", False: "NO", None: ""}[row.get("met")],
        row.get("note", ""),
    )


def show(part, threads, rows):
    """Print the table of one part."""
    if not rows:
        return
    table = Table(
        title=f"{part}, {threads} thread{'s' if threads > 1 else ''}", title_justify="left"
    )
    for name, justify in (
        ("", "left"),
        ("value", "right"),
        ("ratio", "right"),
        ("goal", "right"),
        ("met", "left"),
        ("", "left"),
    ):
        table.add_column(name, justify=justify, overflow="fold")
    for row in rows:
        table.add_row(*cells(row))
    console = Console(highlight=False)
    (console if console.is_terminal else Console(width=190, highlight=False)).print(table)


def markdown(rows):
    """The same tables as one text, for docs/reference/performance.md."""
    lines, before = [], None
    for row in rows:
        heading = f"{row['part']}, {row['threads']} thread{'s' if row['threads'] > 1 else ''}"
        if heading != before:
            lines += [
                "",
                f"### {heading}",
                "",
                "| | value | ratio | goal | met | |",
                "| --- | ---: | ---: | ---: | --- | --- |",
            ]
            before = heading
        lines.append(f"| {' | '.join(cells(row))} |")
    return "\n".join([*lines[1:], ""])


def draw(rows, file):
    """Left: ratios in units of their goals, right of 1 is met. Middle: error against seconds.
    Right: cost against size."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    goals = [
        row
        for row in rows
        if row.get("goal") and row["goal"][1] and (row.get("ratio") or row.get("value"))
    ]
    figure, axes = plt.subplots(
        1,
        3,
        figsize=(18, max(5.0, 0.24 * len(goals))),
        width_ratios=(1.0, 1.1, 1.1),
        layout="constrained",
    )
    factors = []
    for row in goals:
        factor = (row.get("ratio") or row["value"]) / row["goal"][1]
        factors.append(factor if row["goal"][0] == ">=" else 1.0 / factor)
    names = [f"{row['name']}, {row['threads']} thr." for row in goals]
    axes[0].barh(
        np.arange(len(goals)),
        factors,
        color=["tab:green" if factor >= 1.0 else "tab:red" for factor in factors],
    )
    axes[0].set(
        yticks=np.arange(len(goals)),
        yticklabels=names,
        xscale="log",
        xlabel="goal met by a factor of",
    )
    axes[0].tick_params(axis="y", labelsize=6)
    axes[0].invert_yaxis()
    axes[0].axvline(1.0, color="black", linewidth=0.8)
    for axis, part, labels in (
        (axes[1], "advection", ("seconds for one turn", "relative l2 error")),
        (axes[2], "growth", ("size", "seconds, or megabytes")),
    ):
        for row in rows:
            if row.get("part") == part and row.get("points"):
                axis.plot(
                    *np.transpose(row["points"]), "o-", markersize=3, linewidth=1, label=row["name"]
                )
        axis.set(xscale="log", yscale="log", xlabel=labels[0], ylabel=labels[1])
        if axis.lines:
            axis.legend(fontsize=6)
    figure.savefig(file, dpi=120)
    plt.close(figure)
