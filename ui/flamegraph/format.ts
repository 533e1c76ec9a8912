// Numbers as people read them. A value that is not zero never reads as zero, and only the whole
// reads 100%.

const TIME: [number, string][] = [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
    [1, "ns"],
];
const SIZE: [number, string][] = [
    [2 ** 50, "PiB"],
    [2 ** 40, "TiB"],
    [2 ** 30, "GiB"],
    [2 ** 20, "MiB"],
    [2 ** 10, "KiB"],
    [1, "B"],
];
const COUNT: [number, string][] = [
    [1e12, "T"],
    [1e9, "G"],
    [1e6, "M"],
];

/** About four figures, thousands parted by a thin space. */
function figures(value: number): string {
    const digits = value >= 100 ? 1 : value >= 10 ? 2 : 3;
    const fixed = Number.isInteger(value) ? String(value) : value.toFixed(digits);
    const [whole, part] = fixed.split(".");
    const grouped = whole!.replace(/\B(?=(\d{3})+$)/g, "\u202f");
    return part === undefined ? grouped : `${grouped}.${part}`;
}

function scaled(value: number, units: [number, string][], base: string): string {
    for (const [size, unit] of units) {
        if (value >= size) {
            return `${figures(value / size)}\u00a0${unit}`;
        }
    }
    return `${figures(value)}${base}`;
}

/** Seconds up to ten minutes, since one unit is easier to compare; then two units. */
function formatDuration(ns: number): string {
    if (ns < 600e9) {
        return scaled(ns, TIME, ns === 0 ? "" : "\u00a0ns");
    }
    const seconds = Math.round(ns / 1e9);
    const minutes = Math.round(seconds / 60);
    return seconds < 7200
        ? `${Math.floor(seconds / 60)}\u00a0min ${seconds % 60}\u00a0s`
        : `${figures(Math.floor(minutes / 60))}\u00a0h ${minutes % 60}\u00a0min`;
}

export function formatValue(value: number, unit: string): string {
    switch (unit) {
        case "nanoseconds":
            return formatDuration(value);
        case "bytes":
            return scaled(value, SIZE, value === 0 ? "" : "\u00a0B");
        case "count":
            return scaled(value, COUNT, "");
        default:
            return unit === "" ? figures(value) : `${figures(value)}\u00a0${unit}`;
    }
}

export function formatPercent(value: number, whole: number): string {
    if (!(whole > 0)) {
        return "–";
    }
    const percent = (100 * value) / whole;
    if (value === 0 || value === whole) {
        return `${percent}%`;
    }
    if (percent < 0.01) {
        return "<0.01%";
    }
    if (percent > 99.95 && percent < 100) {
        return ">99.9%";
    }
    return `${percent.toFixed(percent >= 10 ? 1 : 2)}%`;
}

/** Local date and time to the second, with the zone. */
export function formatTime(ns: bigint): string {
    const date = new Date(Number(ns / 1_000_000n));
    const two = (value: number): string => String(value).padStart(2, "0");
    const offset = -date.getTimezoneOffset();
    const zone =
        offset === 0
            ? "UTC"
            : `UTC${offset < 0 ? "−" : "+"}${two(Math.floor(Math.abs(offset) / 60))}:${two(Math.abs(offset) % 60)}`;
    return (
        `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ` +
        `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())} ${zone}`
    );
}
