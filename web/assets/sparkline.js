// sparkline.js: a small curve of parts from 0 to 1, as SVG.
import {el} from "./dom.js";

const WIDTH = 240, HEIGHT = 36;

export function sparkline(parts, label, style) {
    const step = WIDTH / Math.max(60, parts.length - 1), begin = WIDTH - step * (parts.length - 1);
    let path = "", last = null, first = null;
    parts.forEach((part, index) => {
        if (part === null) { last = null; return; }
        const x = begin + index * step, y = HEIGHT - 1 - Math.min(1, part) * (HEIGHT - 2);
        path += `${last === null ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
        first ??= x;
        last = x;
    });
    const known = last !== null && !parts.includes(null);
    return el("svg:svg", {class: `sparkline ${style}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img",
                          "aria-label": label},
        known && el("svg:path", {class: "area", d: `${path}L${last.toFixed(1)} ${HEIGHT}L${first.toFixed(1)} ${HEIGHT}Z`}),
        el("svg:path", {class: "line", d: path || "M0 0"}));
}
