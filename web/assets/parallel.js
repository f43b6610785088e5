// parallel.js: parallel coordinates: an axis for each key that a sweep varies, and one for the metric; each trial is a line,
// coloured by its metric.
import {el} from "./dom.js";
import {value} from "./format.js";

const TOP = 34, BOTTOM = 18, SIDE = 60, HEIGHT = 300;

const tickText = (one) => Number.isInteger(one) ? value(one) : value(Number(one.toPrecision(Math.abs(one) < 0.001 ? 2 : 3)));

/** A number that comes as text, as in an environment variable, is one. */
export const asNumber = (one) => typeof one === "string" && one.trim() && Number.isFinite(Number(one)) ? Number(one) : one;

/** Where values lie on an axis, 0 to 1: numbers by size (by magnitude, if they span a factor of 50), others by name. */
function makeAxis(name, values) {
    const known = values.filter((one) => one !== null && one !== undefined);
    if (known.length && known.every((one) => typeof one === "number")) {
        const low = Math.min(...known), high = Math.max(...known), log = low > 0 && high / low >= 50;
        const place = (one) => high === low ? 0.5 : log ? Math.log(one / low) / Math.log(high / low) : (one - low) / (high - low);
        const back = (part) => log ? low * (high / low) ** part : low + part * (high - low);
        return {name, place, ticks: high === low ? [[0.5, value(low)]] : [0, 0.5,
            1].map((part) => [part, tickText(back(part))])};
    }
    const words = [...new Set(known.map((one) => JSON.stringify(one)))].sort();
    const place = (one) => words.length < 2 ? 0.5 : words.indexOf(JSON.stringify(one)) / (words.length - 1);
    const every = Math.ceil(words.length / 12); // as many as there is room for
    return {name, place, ticks: words.map((word, index) => [words.length < 2 ? 0.5 : index / (words.length - 1),
        word.replace(/^"|"$/g, "").slice(0, 14)]).filter((_, index) => index % every === 0)};
}

/** Writes text, cut to a width. */
function fitText(g, text, width, x, y) {
    while (text.length > 3 && g.measureText(text).width > width) text = `${text.slice(0, -2)}…`;
    g.fillText(text, x, y);
}

export class Parallel {
    /** `options`: onHover(trial | null), onFilter(), onOpen(trial). */
    constructor(options) {
        this.options = options;
        this.trials = [];
        this.axes = [];
        this.brushes = new Map(); // name of an axis: [low, high], parts of it
        this.canvas = el("canvas", {role: "img", "aria-label": "Parallel coordinates of the trials; the table below has the same"});
        this.element = el("div", {class: "parallel"}, this.canvas);
        this.element.style.height = `${HEIGHT}px`;
        this.observer = new ResizeObserver(() => this.request());
        this.observer.observe(this.element);
        this.element.addEventListener("pointermove", (event) => this.move(event));
        this.element.addEventListener("pointerleave", () => { this.show(null); options.onHover(null); });
        this.element.addEventListener("pointerdown", (event) => this.press(event));
        this.element.addEventListener("pointerup", () => this.release());
        this.element.addEventListener("pointercancel", () => this.release());
        // a finger along an axis keeps a range of it; elsewhere it scrolls the page
        this.element.addEventListener("touchstart", (event) => {
            if (this.axisAt(this.place(event.touches[0])[0]) >= 0) event.preventDefault();
        }, {passive: false});
    }

    set(keys, metric, trials, low) {
        this.trials = trials;
        this.low = low;
        const last = (key) => key.split(".").pop(), short = (key) => keys.filter((one) => last(one) === last(key)).length > 1 ? key : last(key);
        this.axes = [...keys.map((key) => ({...makeAxis(short(key), trials.map((one) => asNumber(one.values[key]))),
            of: (one) => asNumber(one.values[key])})),
                     {...makeAxis(metric, trials.map((one) => one.value)), of: (one) => one.value, isMetric: true}];
        this.request();
    }

    /** Whether the trial lies within every range that was dragged over. */
    keeps(trial) {
        return this.axes.every((axis) => {
            const range = this.brushes.get(axis.name), one = axis.of(trial);
            if (!range) return true;
            if (one === null || one === undefined) return false;
            const part = axis.place(one);
            return part >= range[0] && part <= range[1];
        });
    }

    show(trial) {
        if (this.near === trial) return;
        this.near = trial;
        this.request();
    }

    request() {
        this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
    }

    x(index) { return SIDE + (this.axes.length < 2 ? 0 : index / (this.axes.length - 1) * (this.element.clientWidth - 2 * SIDE)); }
    axisAt(px) { return this.axes.findIndex((_, index) => Math.abs(this.x(index) - px) < 16); }
    y(part) { return TOP + (1 - part) * (HEIGHT - TOP - BOTTOM); }

    points(trial) {
        return this.axes.map((axis, index) => [this.x(index), this.y(axis.place(axis.of(trial)))]);
    }

    draw() {
        const width = this.element.clientWidth, ratio = devicePixelRatio || 1;
        if (!width || this.axes.length === 0) return;
        this.canvas.width = Math.round(width * ratio);
        this.canvas.height = Math.round(HEIGHT * ratio);
        const g = this.canvas.getContext("2d"), style = getComputedStyle(this.element), metric = this.axes[this.axes.length - 1];
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        const dark = style.colorScheme === "dark";
        // from grey to the accent: the better, the stronger
        const ink = (trial) => { const good = this.low ? 1 - metric.place(trial.value) : metric.place(trial.value);
            return `hsl(${(215 - 40 * good).toFixed(0)} ${(12 + 64 * good).toFixed(0)}% ${(dark ? 38 + 18 * good : 72 - 40 * good).toFixed(0)}%)`; };
        const draw = (trial, alpha, wide) => {
            g.globalAlpha = alpha;
            g.strokeStyle = ink(trial);
            g.lineWidth = wide;
            g.beginPath();
            this.points(trial).forEach(([x, y], index, all) => {
                if (index === 0) { g.moveTo(x, y); return; }
                const [fromX, fromY] = all[index - 1], middle = (fromX + x) / 2;
                g.bezierCurveTo(middle, fromY, middle, y, x, y);
            });
            g.stroke();
        };
        const kept = this.trials.filter((one) => this.keeps(one)).sort((a, b) => this.low ? b.value - a.value : a.value - b.value);
        const alpha = this.near ? 0.18 : Math.max(0.25, Math.min(0.9, 40 / kept.length + 0.2));
        if (kept.length < this.trials.length) for (const one of this.trials) if (!this.keeps(one)) draw(one, 0.06, 1);
        for (const one of kept) draw(one, alpha, 1.4);
        if (this.near && kept.includes(this.near)) draw(this.near, 1, 3);
        g.globalAlpha = 1;
        this.drawAxes(g, style);
    }

    drawAxes(g, style) {
        g.font = `11px ${style.fontFamily}`;
        for (const [index, axis] of this.axes.entries()) {
            const x = this.x(index), last = index === this.axes.length - 1;
            g.strokeStyle = style.getPropertyValue("--line-strong");
            g.lineWidth = 1;
            g.beginPath();
            g.moveTo(Math.round(x) + 0.5, this.y(0));
            g.lineTo(Math.round(x) + 0.5, this.y(1));
            g.stroke();
            const range = this.brushes.get(axis.name);
            if (range) {
                g.fillStyle = style.getPropertyValue("--accent");
                g.globalAlpha = 0.35;
                g.fillRect(x - 6, this.y(range[1]), 12, Math.max(2, this.y(range[0]) - this.y(range[1])));
                g.globalAlpha = 1;
            }
            g.fillStyle = style.getPropertyValue("--ink");
            g.textAlign = index === 0 ? "left" : last ? "right" : "center";
            g.font = `600 12px ${style.fontFamily}`;
            fitText(g, axis.name, (this.element.clientWidth - 2 * SIDE) / Math.max(1, this.axes.length - 1) - 8,
                index === 0 ? Math.max(2, x - SIDE + 4) : last ? Math.min(this.element.clientWidth - 2, x + SIDE - 4) : x, 14);
            g.font = `11px ${style.fontFamily}`;
            g.textAlign = last ? "left" : "right";
            g.fillStyle = style.getPropertyValue("--ink-3");
            g.strokeStyle = style.getPropertyValue("--surface");
            g.lineWidth = 4;
            for (const [part, text] of axis.ticks) {
                g.strokeText(text, last ? x + 8 : x - 8, this.y(part) + 4); // so that lines do not cross it
                g.fillText(text, last ? x + 8 : x - 8, this.y(part) + 4);
            }
        }
    }

    place(event) {
        const box = this.element.getBoundingClientRect();
        return [event.clientX - box.left, event.clientY - box.top];
    }

    move(event) {
        const [px, py] = this.place(event);
        if (this.pressed) {
            const part = (y) => Math.max(0, Math.min(1, 1 - (y - TOP) / (HEIGHT - TOP - BOTTOM)));
            this.brushes.set(this.pressed.axis.name, [part(Math.max(py, this.pressed.y)), part(Math.min(py, this.pressed.y))]);
            this.pressed.moved ||= Math.abs(py - this.pressed.y) > 4;
            this.request();
            return;
        }
        const segment = Math.max(0, Math.min(this.axes.length - 2,
            Math.floor((px - SIDE) / ((this.element.clientWidth - 2 * SIDE) / Math.max(1, this.axes.length - 1)))));
        const left = this.x(segment), part = Math.max(0, Math.min(1, (px - left) / (this.x(segment + 1) - left))),
            bend = part * part * (3 - 2 * part);
        let best = null, distance = 12;
        for (const one of this.trials) {
            if (!this.keeps(one)) continue;
            const points = this.points(one), y = points[segment][1] + bend * (points[Math.min(segment + 1,
                points.length - 1)][1] - points[segment][1]);
            if (Math.abs(y - py) < distance) { best = one; distance = Math.abs(y - py); }
        }
        this.show(best);
        this.options.onHover(best);
    }

    press(event) {
        const [px, py] = this.place(event), index = this.axisAt(px);
        if (index < 0) { if (this.near) this.options.onOpen(this.near); return; }
        this.pressed = {axis: this.axes[index], y: py, moved: false};
        this.element.setPointerCapture(event.pointerId);
    }

    release() {
        if (!this.pressed) return;
        if (!this.pressed.moved) this.brushes.delete(this.pressed.axis.name);
        this.pressed = null;
        this.request();
        this.options.onFilter();
    }

    close() {
        this.observer.disconnect();
        cancelAnimationFrame(this.frame);
    }
}
