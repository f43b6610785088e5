// format.js: numbers and times as people read them.

/** A measured value in five digits: 0.51234, 1.2346e-7, 12,346, nan. */
export function value(number) {
    if (number === null || number === undefined) return "–";
    if (Number.isNaN(number)) return "nan";
    const size = Math.abs(number);
    if (size !== 0 && (size < 1e-4 || size >= 1e7)) return number.toExponential(3);
    if (Number.isInteger(number)) return count(number);
    return size >= 1e4 ? count(Math.round(number)) : String(Number(number.toPrecision(5)));
}

export const count = (number) => number.toLocaleString("en-GB");

/** 1 value, 2 values */
export const counted = (number, what) => `${count(number)} ${what}${number === 1 ? "" : "s"}`;

export function duration(seconds) {
    if (seconds === null || seconds === undefined) return "–";
    if (seconds < 0.0995) return `${(seconds * 1000).toPrecision(2)} ms`;
    if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
    seconds = Math.round(seconds);
    if (seconds < 60) return `${seconds} s`;
    const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
    const first = units.findIndex(([, size]) => seconds >= size);
    const [large, largeSize] = units[first], [small, smallSize] = units[first + 1] ?? [null, 1];
    let whole = Math.floor(seconds / largeSize), rest = small ? Math.round((seconds - whole * largeSize) / smallSize) : 0;
    if (small && rest * smallSize >= largeSize) { whole++; rest = 0; }
    return small && rest ? `${whole} ${large} ${rest} ${small}` : `${whole} ${large}`;
}

export function ago(time, now = Date.now() / 1000) {
    if (!time) return "–";
    const seconds = now - time;
    if (Math.abs(seconds) < 2) return "now";
    if (Math.abs(seconds) < 60) return seconds > 0 ? `${Math.floor(seconds)} s ago` : `in ${Math.ceil(-seconds)} s`;
    return seconds >= 0 ? `${duration(Math.floor(seconds))} ago` : `in ${duration(Math.ceil(-seconds))}`;
}

export function moment(time) {
    if (!time) return "–";
    const date = new Date(time * 1000);
    const day = date.toLocaleDateString("sv-SE"), clock = date.toLocaleTimeString("en-GB");
    return day === new Date().toLocaleDateString("sv-SE") ? clock : `${day} ${clock}`;
}

export function bytes(size) {
    if (size === null || size === undefined) return "–";
    const units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let unit = 0;
    while (size >= 1024 && unit < units.length - 1) { size /= 1024; unit++; }
    return `${unit && size < 100 ? size.toFixed(1) : Math.round(size)} ${units[unit]}`;
}

export const percent = (part) => part === null || part === undefined ? "–" : `${Math.round(part * 100)}%`;

/** The part of a job that is done, 0 to 1; null: nobody knows. */
export function fraction(job) {
    const progress = job.progress;
    if (job.state === "done") return 1;
    if (!progress) return null;
    if (progress.fraction !== null && progress.fraction !== undefined) return progress.fraction;
    if (progress.steps) return Math.min(1, progress.step / progress.steps);
    return progress.epochs && progress.epoch ? Math.min(1, progress.epoch / progress.epochs) : null;
}

/** What a sweep varies, on one line: a.b=1 c=2. */
export const point = (values) => Object.entries(values).map(([key, one]) =>
    `${key.split(".").pop()}=${typeof one === "number" ? value(one) : JSON.stringify(one)}`).join(" ");
