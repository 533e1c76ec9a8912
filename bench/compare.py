"""bench/run: measures, and prints the rows of the targets table as text and, by --json, as JSON."""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from importlib import metadata
from pathlib import Path

import measure
import profilers
import rows


def machine() -> dict[str, object]:
    model = next(
        (
            line.split(":", 1)[1].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    packages = ("pyrometer", "ddtrace", "pyroscope-io", "py-spy", "Flask", "gunicorn", "starlette",
                "uvicorn")  # fmt: skip
    return {
        "cpu": model,
        "cores": len(measure.CORES),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in packages},
        "load_before": os.getloadavg()[0],
    }


def collect(experiment: rows.Experiment, options: rows.Options) -> tuple[dict, list[str]]:
    """values[row][profiler] = one figure a round (None: it failed), and what went wrong."""
    names = [*profilers.IN_PROCESS, profilers.CONTROL, profilers.FLOOR, "py-spy", "tachyon"]
    values: dict[str, dict[str, list]] = {
        row: {name: [] for name in names} for row in experiment.rows
    }
    failures: list[str] = []
    try:
        for turn in range(experiment.rounds(options)):
            try:
                figures = experiment.run(options, turn)
            except (measure.Failed, OSError) as failure:
                failures.append(str(failure))
                continue
            for row, by_profiler in figures.items():
                for name in names:
                    values[row][name].append(by_profiler.get(name))
    finally:
        experiment.end()
    return {
        row: {name: v for name, v in by_name.items() if any(x is not None for x in v)}
        for row, by_name in values.items()
    }, failures


COMPARED = {  # how a row's target is meant -> field of a summary
    "ratio to none": "ratio_to_none",
    "more than none": "more_than_none",
    "ratio to ddtrace": "ratio_to_ddtrace",
}


def spread(values: list[float]) -> dict[str, float]:
    return {"best": min(values), "median": statistics.median(values), "worst": max(values)}


def summarize(key: str, values: dict[str, list]) -> dict[str, object]:
    """A row: figures, their relation to the unprofiled program, and whether the target is met."""
    row = rows.ROWS[key]
    summary: dict[str, object] = {"key": key, "title": row.title, "unit": row.unit}
    summary["profilers"] = result = {}
    for name, figures in values.items():
        known = [value for value in figures if value is not None]
        result[name] = {"values": figures, **spread(known)}
        for base, field, combine in (
            ("none", "ratio_to_none", lambda a, b: a / b if b else None),
            ("none", "more_than_none", lambda a, b: a - b),
            ("ddtrace", "ratio_to_ddtrace", lambda a, b: a / b if b else None),
            (profilers.FLOOR, "above_floor", lambda a, b: a - b),
        ):
            # Paired within a round: what the machine did then hit both.
            pairs = [
                combine(value, other)
                for value, other in zip(figures, values.get(base, []))
                if value is not None and other is not None
            ]
            pairs = [pair for pair in pairs if pair is not None]
            if pairs and name != base:
                result[name][field] = spread(pairs)
                if field == "ratio_to_none" and result[base]["best"]:
                    # Other programs only ever add: each one's best round is the least disturbed.
                    result[name]["best_to_best"] = result[name]["best"] / result[base]["best"]
    ours = result.get("pyrometer")
    compared = COMPARED.get(row.compared)
    figure = ours if compared is None or ours is None else ours.get(compared)
    if row.target is not None and figure is not None:
        # The best of many noisy ratios says nothing.
        best = ours["best_to_best"] if compared == "ratio_to_none" else figure["best"]
        summary["target"] = {"at_most": row.target, "of": row.compared,
                             "median_meets": figure["median"] <= row.target,
                             "best_meets": best <= row.target}  # fmt: skip
    return summary


def show(summary: dict, out=sys.stdout) -> None:
    def number(value: float) -> str:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"

    def triple(figures: dict) -> str:
        median, best, worst = (number(figures[key]) for key in ("median", "best", "worst"))
        return f"{median} ({best} … {worst})"

    row = rows.ROWS[summary["key"]]
    print(f"\n{summary['title']}, {summary['unit']}", file=out)
    for name, figures in summary["profilers"].items():
        line = f"  {name:10} {triple(figures):32}"
        for field, words in (("ratio_to_none", "x unprofiled"), ("more_than_none", "more")):
            if field in figures and field == COMPARED.get(row.compared):
                line += f"  {triple(figures[field])} {words}"
                if field == "ratio_to_none":
                    line += f", {number(figures['best_to_best'])} best to best"
        if "ratio_to_ddtrace" in figures and name == "pyrometer":
            line += f"  {triple(figures['ratio_to_ddtrace'])} x ddtrace"
        if "above_floor" in figures and name == "pyrometer":
            line += f"  {triple(figures['above_floor'])} above a thread that only wakes"
        print(line.rstrip(), file=out)
    if "target" in summary:
        target = summary["target"]
        verdict = ("met" if target["median_meets"] else
                   "met by the best round only" if target["best_meets"] else "missed")  # fmt: skip
        print(f"  target     at most {target['at_most']:g} ({target['of']}): {verdict}", file=out)


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="bench/run",
        description="Cost of profilers, side by side: median (best … worst) of all rounds.",
        epilog="Rows: " + ", ".join(rows.ROWS),
    )
    parser.add_argument("--quick", action="store_true", help="few and short rounds: a first look")
    parser.add_argument("--memory-seconds", type=int, metavar="N",
                        help="until memory is read: 60 by default, 600 for the target")  # fmt: skip
    parser.add_argument("--only", action="append", metavar="ROW", help="may be repeated")
    parser.add_argument("--without", action="append", default=[], metavar="PROFILER")
    parser.add_argument("--rounds", type=int, metavar="N")
    parser.add_argument("--json", metavar="FILE", help="also write everything there")
    arguments = parser.parse_args()
    options = rows.Options(without=set(arguments.without))
    if arguments.quick:
        options = rows.Options(rounds=2, seconds=3, settle=2, slices=3, slice_s=1, window_s=10,
                               memory_s=10, without=options.without)  # fmt: skip
    if arguments.memory_seconds:
        options.memory_s = arguments.memory_seconds
    if arguments.rounds:
        options.rounds = options.slices = arguments.rounds
    unknown = set(arguments.only or []) - set(rows.ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(rows.ROWS)}")

    about = machine()
    print("{cpu}, {cores} cores, Linux {kernel}, Python {python}".format(**about))
    print(", ".join(f"{name} {version}" for name, version in about["versions"].items()))
    print(f"load of the machine before: {about['load_before']:.1f}" +
          ("; it is busy with other work: trust ratios, and best rounds more than medians"
           if about["load_before"] > 0.5 * about["cores"] else ""))  # fmt: skip
    began = time.monotonic()
    summaries, failures = [], []
    for experiment in rows.experiments():
        if arguments.only and not set(arguments.only) & set(experiment.rows):
            continue
        values, failed = collect(experiment, options)
        failures += failed
        for key in experiment.rows:
            if values[key] and (not arguments.only or key in arguments.only):
                summaries.append(summarize(key, values[key]))
                show(summaries[-1])
    about["load_after"] = os.getloadavg()[0]
    print(f"\nload of the machine after: {about['load_after']:.1f}; "
          f"{time.monotonic() - began:.0f} s")  # fmt: skip
    for failure in failures:
        print(f"failed: {failure}", file=sys.stderr)
    if arguments.json:
        document = {"machine": about, "rows": summaries, "failures": failures}
        Path(arguments.json).write_text(json.dumps(document, indent=1) + "\n")
    return 1 if failures else 0


sys.exit(main())
