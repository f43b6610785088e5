// chart.js: curves on a canvas: a line for the means, a band from the smallest to the largest value, a logarithmic axis, a
// smoothed line, what lies under the pointer, and a closer look at a range that is dragged over.
import {el, fill} from "./dom.js";
import {value, duration} from "./format.js";

const LEFT = 54, RIGHT = 14, TOP = 12, BOTTOM = 26;

/** A colour for each of many curves: hues a golden angle apart, so that neighbours differ. */
export function colour(index) {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    const hue = (172 + index * 137.508) % 360, yellow = hue > 45 && hue < 100;
    return `hsl(${hue.toFixed(0)} ${dark ? 62 : 66}% ${dark ? 62 : yellow ? 36 : 42}%)`;
}

/** Steps of 1, 2 or 5 times a power of ten between two values. */
function linearTicks(low, high, number) {
    const rough = (high - low) / Math.max(1, number), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough;
    const found = [];
    for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + step * 1e-9; i++) found.push(i * step);
    return found;
}

function logTicks(low, high, number) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / number)), found = [];
    for (let power = first; power <= last; power += every)
        for (const factor of last - first <= 2 ? [1, 2, 5] : [1]) {
            const tick = factor * 10 ** power;
            if (tick >= low * 0.999 && tick <= high * 1.001) found.push(tick);
        }
    return found.length > 1 ? found : linearTicks(low, high, number);
}

/** An exponential moving average without a bias to its begin (Kingma and Ba 2015, section 3). */
export function smooth(values, weight) {
    let sum = 0, norm = 1;
    return weight > 0 ? values.map((one) => {
        sum = weight * sum + (1 - weight) * one;
        norm *= weight;
        return sum / (1 - norm);
    }) : values;
}

export class Chart {
    /** `options`: label, height, xLabel, xFormat, tipFormat(x), onRange(low, high | null): a range was dragged over, or given up;
     *  domain, range: [low, high] of the two axes, where these are fixed. */
    constructor(options = {}) {
        this.options = {xFormat: value, ...options};
        this.series = [];
        this.settings = {log: false, smoothing: 0, band: true};
        this.canvas = el("canvas", {role: "img", "aria-label": options.label ?? "curves"});
        this.tip = el("div", {class: "chart-tip", hidden: true});
        this.element = el("div", {class: "chart"}, this.canvas, this.tip);
        this.element.style.height = `${options.height ?? 220}px`;
        this.observer = new ResizeObserver(() => this.request());
        this.observer.observe(this.element);
        this.element.addEventListener("pointermove", (event) => this.point(event));
        this.element.addEventListener("pointerleave", () => { this.at = null; this.tip.hidden = true; this.request(); });
        this.element.addEventListener("pointerdown", (event) => this.press(event));
        this.element.addEventListener("pointerup", (event) => this.release(event));
        this.element.addEventListener("dblclick", () => this.options.onRange?.(null, null));
    }

    /** Each: {name, x, means, minima, maxima, colour}, and gap: a longer way from one x to the next interrupts the line. */
    set(series, settings = {}) {
        this.series = series.filter((one) => one.x.length);
        Object.assign(this.settings, settings);
        for (const one of this.series) one.line = smooth(one.means, this.settings.smoothing);
        this.request();
    }

    request() {
        this.frame ??= requestAnimationFrame(() => { this.frame = null; this.draw(); });
    }

    /** The extent of what is drawn; values that a logarithmic axis has no place for do not count. */
    extent() {
        let [left, right, low, high] = [Infinity, -Infinity, Infinity, -Infinity];
        const {log, smoothing, band} = this.settings;
        for (const one of this.series) {
            left = Math.min(left, one.x[0]);
            right = Math.max(right, one.x[one.x.length - 1]);
            const lows = smoothing || !band ? one.line : one.minima, highs = smoothing || !band ? one.line : one.maxima;
            for (let i = 0; i < lows.length; i++) {
                if (!log || lows[i] > 0) low = Math.min(low, lows[i]);
                if (!log || highs[i] > 0) high = Math.max(high, highs[i]);
            }
        }
        if (left > right || low > high) return null;
        if (left === right) { left -= 0.5; right += 0.5; }
        if (this.options.domain) [left, right] = this.options.domain;
        if (this.options.range) return {left, right, low: this.options.range[0], high: this.options.range[1]};
        if (low === high) { const room = Math.abs(low) * 0.1 || 1; low = log ? low / 1.1 : low - room;
            high = log ? high * 1.1 : high + room; }
        const room = log ? Math.log(high / low) * 0.04 : (high - low) * 0.05;
        return log ? {left, right, low: low / Math.exp(room), high: high * Math.exp(room)} : {left, right, low: low - room,
            high: high + room};
    }

    draw() {
        const width = this.element.clientWidth, height = this.element.clientHeight, ratio = devicePixelRatio || 1;
        if (!width || !height) return;
        if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
            this.canvas.width = Math.round(width * ratio);
            this.canvas.height = Math.round(height * ratio);
        }
        const g = this.canvas.getContext("2d"), style = getComputedStyle(this.element);
        g.setTransform(ratio, 0, 0, ratio, 0, 0);
        g.clearRect(0, 0, width, height);
        const extent = this.shown = this.extent();
        this.drawn = performance.now();
        if (!extent) return;
        const {log} = this.settings, {left, right, low, high} = extent;
        const across = (width - LEFT - RIGHT) / (right - left), bottom = height - BOTTOM;
        const x = this.toX = (one) => LEFT + (one - left) * across;
        const y = this.toY = log ? (one) => bottom - (bottom - TOP) * Math.log(Math.max(one, low) / low) / Math.log(high / low)
                                 : (one) => bottom - (bottom - TOP) * (one - low) / (high - low);
        this.drawAxes(g, style, {width, height, bottom, x, y, extent});
        g.save();
        g.beginPath();
        g.rect(LEFT, TOP - 4, width - LEFT - RIGHT, bottom - TOP + 8);
        g.clip();
        for (const one of this.series) this.drawSeries(g, one, x, y);
        g.restore();
        this.drawPointer(g, style, height);
    }

    drawAxes(g, style, {width, height, bottom, x, y, extent}) {
        const {left, right, low, high} = extent, ink = style.getPropertyValue("--ink-3"), line = style.getPropertyValue("--line");
        g.font = `11px ${style.fontFamily}`;
        g.fillStyle = ink;
        g.strokeStyle = line;
        g.lineWidth = 1;
        g.textBaseline = "middle";
        g.textAlign = "right";
        const ticks = this.settings.log ? logTicks(low, high, Math.max(2, height / 48)) : linearTicks(low, high, Math.max(2, height / 48));
        g.beginPath();
        for (const tick of ticks) {
            g.moveTo(LEFT, Math.round(y(tick)) + 0.5);
            g.lineTo(width - RIGHT, Math.round(y(tick)) + 0.5);
            g.fillText(value(Number(tick.toPrecision(10))), LEFT - 8, y(tick));
        }
        g.stroke();
        g.textBaseline = "alphabetic";
        const places = linearTicks(left, right, Math.max(2, width / 110));
        for (const [index, tick] of places.entries()) {
            g.textAlign = index === places.length - 1 && x(tick) > width - 40 ? "right" : "center";
            g.fillText(this.options.xFormat(Number(tick.toPrecision(10))), g.textAlign === "right" ? width - RIGHT : x(tick), bottom + 17);
        }
    }

    drawSeries(g, one, x, y) {
        const faint = this.near && this.near !== one && this.series.length > 1;
        if (this.settings.band && one.x.length > 1 && one.counts?.some((count) => count > 1)) {
            g.globalAlpha = (faint ? 0.3 : 1) * (this.series.length > 12 ? 0.05 : 0.16);
            g.fillStyle = one.colour;
            for (const [begin, end] of pieces(one)) {
                g.beginPath();
                for (let i = begin; i < end; i++) g.lineTo(x(one.x[i]), y(one.maxima[i]));
                for (let i = end - 1; i >= begin; i--) g.lineTo(x(one.x[i]), y(one.minima[i]));
                g.fill();
            }
        }
        g.globalAlpha = faint ? 0.25 : 1;
        g.strokeStyle = g.fillStyle = one.colour;
        g.lineWidth = this.near === one ? 2.4 : this.series.length > 12 ? 1.2 : 1.7;
        g.lineJoin = "round";
        for (const [begin, end] of pieces(one)) {
            g.beginPath();
            if (end - begin === 1) g.arc(x(one.x[begin]), y(one.line[begin]), one.x.length === 1 ? 3 : 1.5, 0, 2 * Math.PI);
            else for (let i = begin; i < end; i++) if (!this.settings.log || one.line[i] > 0) g.lineTo(x(one.x[i]), y(one.line[i]));
            if (end - begin === 1) g.fill();
            else g.stroke();
        }
        g.globalAlpha = 1;
    }

    drawPointer(g, style, height) {
        if (!this.at) return;
        g.strokeStyle = style.getPropertyValue("--line-strong");
        g.beginPath();
        g.moveTo(this.at.x + 0.5, TOP);
        g.lineTo(this.at.x + 0.5, height - BOTTOM);
        g.stroke();
        if (this.pressed) {
            g.fillStyle = style.getPropertyValue("--accent");
            g.globalAlpha = 0.14;
            g.fillRect(Math.min(this.pressed.x, this.at.x), TOP, Math.abs(this.at.x - this.pressed.x), height - BOTTOM - TOP);
            g.globalAlpha = 1;
        }
        for (const {one, index} of this.at.points) {
            g.fillStyle = one.colour;
            g.beginPath();
            g.arc(this.toX(one.x[index]), this.toY(one.line[index]), 3.2, 0, 2 * Math.PI);
            g.fill();
        }
    }

    /** What is under the pointer: of each curve the nearest place. */
    point(event) {
        if (!this.shown) return;
        const box = this.element.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
        const {left, right} = this.shown, at = left + (px - LEFT) / (box.width - LEFT - RIGHT) * (right - left);
        const points = this.series.map((one) => ({one, index: nearest(one.x, at)})).filter(({one, index}) =>
            Math.abs(this.toX(one.x[index]) - px) < 40);
        points.sort((a, b) => Math.abs(this.toY(a.one.line[a.index]) - py) - Math.abs(this.toY(b.one.line[b.index]) - py));
        this.near = points[0]?.one ?? null;
        this.at = {x: Math.max(LEFT, Math.min(box.width - RIGHT, px)), points: this.series.length > 12 ? points.slice(0, 1) : points};
        this.tip.hidden = points.length === 0;
        if (points.length) this.fillTip(points.slice(0, 8), px, box.width);
        this.request();
    }

    fillTip(points, px, width) {
        const {one, index} = points[0];
        const {xLabel = "step", xFormat, tipFormat = (x) => `${xLabel} ${xFormat(x)}`} = this.options;
        fill(this.tip, el("b", {class: "num"}, tipFormat(one.x[index])),
            points.map(({one: each, index: i}) => {
                const dot = el("i", {});
                dot.style.background = each.colour;
                const range = each.counts?.[i] > 1 ? ` (${value(each.minima[i])} to ${value(each.maxima[i])})` : "";
                return el("span", {}, dot, `${each.name} `, el("b", {class: "num"}, value(each.line[i])),
                    el("small", {class: "num"}, range));
            }));
        this.tip.style.left = px > width / 2 ? "auto" : `${px + 14}px`;
        this.tip.style.right = px > width / 2 ? `${width - px + 14}px` : "auto";
    }

    press(event) {
        if (event.button !== 0 || !this.options.onRange || !this.shown) return;
        this.pressed = {x: event.clientX - this.element.getBoundingClientRect().left};
        this.element.setPointerCapture(event.pointerId);
    }

    release(event) {
        if (!this.pressed) return;
        const box = this.element.getBoundingClientRect(), {left, right} = this.shown;
        const ends = [this.pressed.x, event.clientX - box.left].sort((a, b) => a - b)
            .map((px) => left + Math.max(0, Math.min(1, (px - LEFT) / (box.width - LEFT - RIGHT))) * (right - left));
        const wide = Math.abs(event.clientX - box.left - this.pressed.x) > 8;
        this.pressed = null;
        if (wide) this.options.onRange(ends[0], ends[1]);
        this.request();
    }

    close() {
        this.observer.disconnect();
        cancelAnimationFrame(this.frame);
    }
}

/** The pieces of a curve between its gaps: [[begin, end behind it], …]. */
function pieces(one) {
    const found = [[0, one.x.length]];
    for (let i = 1; one.gap && i < one.x.length; i++)
        if (one.x[i] - one.x[i - 1] > one.gap) {
            found[found.length - 1][1] = i;
            found.push([i, one.x.length]);
        }
    return found;
}

function nearest(list, at) {
    let low = 0, high = list.length - 1;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (list[middle] < at) low = middle;
        else high = middle;
    }
    return Math.abs(list[low] - at) <= Math.abs(list[high] - at) ? low : high;
}

export const AXES = {
    step: {label: "step", of: (curve) => curve.steps, format: value},
    epoch: {label: "epoch", of: (curve) => curve.epochs ?? [], format: value},
    time: {label: "time", of: (curve) => curve.times.map((time) => time - curve.times[0]),
        format: (one) => one === 0 ? "0" : duration(one)},
};

/** A curve of the daemon as a series. */
export const seriesOf = (curve, name, axis, ink) => ({name, x: AXES[axis].of(curve), means: curve.means, minima: curve.minima,
    maxima: curve.maxima, counts: curve.counts, colour: ink});
