// chart.js: curves on a canvas: a line for the means, a band from the smallest to the largest value, a logarithmic axis, a
// smoothed line, what lies under the pointer, and a closer look at a range that is dragged over.
import {el, fill} from "./dom.js";
import {value, duration} from "./format.js";

const LEFT_LEAST = 40, RIGHT = 14, TOP = 12, BOTTOM = 26;

/** A colour for each of many curves: hues a golden angle apart, so that neighbours differ. */
export function colour(index) {
    const dark = getComputedStyle(document.documentElement).colorScheme === "dark";
    const hue = (172 + index * 137.508) % 360, yellow = hue > 45 && hue < 100;
    return `hsl(${hue.toFixed(0)} ${dark ? 62 : 66}% ${dark ? 62 : yellow ? 36 : 42}%)`;
}

/** The multiples of a step between two values. They are counted: beyond 2^53 steps, adding one to a number changes nothing. */
function multiples(low, high, step) {
    const first = Math.ceil(low / step - 1e-9), number = Math.floor(high / step + 1e-9) - first + 1;
    return [...new Set(Array.from({length: Math.max(0, Math.min(number, 100))}, (_, index) => (first + index) * step))];
}

/** Steps of 1, 2 or 5 times a power of ten between two values. */
function linearTicks(low, high, number) {
    const parts = Math.max(1, number), rough = high / parts - low / parts, power = 10 ** Math.floor(Math.log10(rough));
    return multiples(low, high, [1, 2, 5, 10].map((one) => one * power).find((one) => one >= rough) ?? rough);
}

const wholeTicks = (low, high, number) => linearTicks(low, high, number).filter(Number.isInteger);

const TIMES = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400];

/** Seconds as clocks divide them. */
function timeTicks(low, high, number) {
    const rough = (high - low) / Math.max(1, number), step = TIMES.find((one) => one >= rough);
    if (rough < 0.5) return linearTicks(low, high, number);
    return step ? multiples(low, high, step) : linearTicks(low / 86400, high / 86400, number).map((one) => one * 86400);
}

function logTicks(low, high, number) {
    const first = Math.floor(Math.log10(low)), last = Math.ceil(Math.log10(high));
    const every = Math.max(1, Math.ceil((last - first) / number)), found = [];
    for (let power = first; power <= last; power += every)
        for (const factor of last - first <= 2 ? [1, 2, 5] : [1]) {
            const tick = factor * 10 ** power;
            if (tick >= low * 0.999 && tick <= Math.min(high * 1.001, Number.MAX_VALUE)) found.push(tick);
        }
    return found.length > 1 ? found : linearTicks(low, high, number);
}

/** Ticks as text, each in as many digits as tell it from its neighbours. */
function tickTexts(ticks) {
    return ticks.map((tick, index) => {
        const size = Math.abs(tick), apart = Math.min(...[ticks[index - 1], ticks[index + 1]].filter((one) => one !== undefined)
            .map((one) => Math.abs(one / 2 - tick / 2) * 2));
        if (size === 0 || !(apart > 0 && apart < Infinity)) return value(tick);
        const digits = Math.max(1, Math.min(17, Math.floor(Math.log10(size)) - Math.floor(Math.log10(apart)) + 1));
        if (size < 1e-4 || (size >= 1e7 && digits < 6) || size >= 1e15) return Number(tick.toPrecision(digits)).toExponential();
        return tick.toLocaleString("en-GB", {maximumSignificantDigits: digits});
    });
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
    /** `options`: label, height, those of setAxis(), tick(x, text): a text below the horizontal axis, tipFormat(x), onRange(low, high | null): a range was dragged over, or given up;
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
        this.element.addEventListener("pointerleave", () => { this.at = this.near = null; this.tip.hidden = true; this.request(); });
        this.element.addEventListener("pointerdown", (event) => this.press(event));
        this.element.addEventListener("pointerup", (event) => this.release(event));
        this.element.addEventListener("pointercancel", () => { this.pressed = null; this.request(); }); // the page is scrolled
        this.element.addEventListener("dblclick", () => this.options.onRange?.(null, null));
    }

    /** Each: {name, x, means, minima, maxima, colour}, and gap: a longer way from one x to the next interrupts the line. */
    set(series, settings = {}) {
        this.series = series.filter((one) => one.x.length);
        this.values = series.some((one) => one.means.length);
        Object.assign(this.settings, settings);
        for (const one of this.series) one.line = smooth(one.means, this.settings.smoothing);
        this.near = this.again(this.near);
        if (this.at) this.at.points = this.at.points.map(({one, index}) => ({one: this.again(one), index}))
            .filter(({one, index}) => one && index < one.x.length);
        this.request();
    }

    /** The series that has taken the place of an earlier one; null: none has. */
    again(earlier) { return this.series.find((one) => one.name === earlier?.name) ?? null; }

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
            for (const list of new Set([lows, one.line, highs]))
                for (const number of list) if (!log || number > 0) { low = Math.min(low, number); high = Math.max(high, number); }
        }
        if (left > right || low > high) return null;
        if (left === right) { left -= 0.5; right += 0.5; }
        if (this.options.domain) [left, right] = this.options.domain;
        if (this.options.range) return {left, right, low: this.options.range[0], high: this.options.range[1]};
        if (low === high) { const room = Math.abs(low) * 0.1 || 1; low = log ? low / 1.1 : low - room;
            high = log ? high * 1.1 : high + room; }
        if (log) {
            const room = Math.exp((Math.log(high) - Math.log(low)) * 0.04);
            return {left, right, low: Math.max(Number.MIN_VALUE, low / room), high: Math.min(Number.MAX_VALUE, high * room)};
        }
        const room = high * 0.05 - low * 0.05;
        return {left, right, low: Math.max(-Number.MAX_VALUE, low - room), high: Math.min(Number.MAX_VALUE, high + room)};
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
        g.font = `11px ${style.fontFamily}`;
        if (!extent) { this.drawNothing(g, style, width, height); return; }
        const {log} = this.settings, {left, right, low, high} = extent, bottom = height - BOTTOM;
        const ticks = (log ? logTicks : linearTicks)(low, high, Math.max(2, height / 48)), texts = tickTexts(ticks);
        this.left = Math.min(width * 0.45, Math.max(LEFT_LEAST, ...texts.map((text) => g.measureText(text).width + 14)));
        const across = (width - this.left - RIGHT) / (right - left);
        const x = this.toX = (one) => this.left + (one - left) * across;
        // halves, as the largest numbers are further apart than a number can say
        const y = this.toY = log ? (one) => bottom - (bottom - TOP) * (Math.log(Math.max(one, low)) - Math.log(low)) / (Math.log(high) - Math.log(low))
                                 : (one) => bottom - (bottom - TOP) * ((one / 2 - low / 2) / (high / 2 - low / 2));
        this.drawAxes(g, style, {width, bottom, x, y, extent, ticks, texts});
        g.save();
        g.beginPath();
        g.rect(this.left, TOP - 4, width - this.left - RIGHT, bottom - TOP + 8);
        g.clip();
        for (const one of this.series) this.drawSeries(g, one, x, y);
        g.restore();
        this.drawPointer(g, style, height);
    }

    /** Says why there is no curve. */
    drawNothing(g, style, width, height) {
        g.fillStyle = style.getPropertyValue("--ink-3");
        g.textAlign = "center";
        if (this.series.length) g.fillText("no value above 0, as a logarithmic axis needs", width / 2, height / 2);
        else if (this.values) g.fillText(`no value came with its ${this.options.xLabel ?? "step"}`, width / 2, height / 2);
    }

    drawAxes(g, style, {width, bottom, x, y, extent, ticks, texts}) {
        const {left, right} = extent;
        g.fillStyle = style.getPropertyValue("--ink-3");
        g.strokeStyle = style.getPropertyValue("--line");
        g.lineWidth = 1;
        g.textBaseline = "middle";
        g.textAlign = "right";
        g.beginPath();
        for (const [index, tick] of ticks.entries()) {
            g.moveTo(this.left, Math.round(y(tick)) + 0.5);
            g.lineTo(width - RIGHT, Math.round(y(tick)) + 0.5);
            g.fillText(texts[index], this.left - 8, y(tick));
        }
        g.stroke();
        g.textBaseline = "alphabetic";
        const isTime = this.options.xTicks === timeTicks;
        const places = (this.options.xTicks ?? linearTicks)(left, right, Math.max(2, (width - this.left) / (isTime ? 85 : 60)));
        const placeTexts = (isTime ? places.map(this.options.xFormat) : tickTexts(places))
            .map((text, index) => this.options.tick?.(places[index], text) ?? text);
        for (const [index, tick] of places.entries()) {
            g.textAlign = index === places.length - 1 && x(tick) > width - 40 ? "right" : "center";
            g.fillText(placeTexts[index], g.textAlign === "right" ? width - RIGHT : x(tick), bottom + 17);
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
        const {left, right} = this.shown, at = left + (px - this.left) / (box.width - this.left - RIGHT) * (right - left);
        const points = this.series.map((one) => ({one, index: nearest(one.x, at)})).filter(({one, index}) =>
            Math.abs(this.toX(one.x[index]) - px) < 40);
        points.sort((a, b) => Math.abs(this.toY(a.one.line[a.index]) - py) - Math.abs(this.toY(b.one.line[b.index]) - py));
        this.near = points[0]?.one ?? null;
        this.at = {x: Math.max(this.left, Math.min(box.width - RIGHT, px)), points: this.series.length > 12 ? points.slice(0, 1) : points};
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
            .map((px) => left + Math.max(0, Math.min(1, (px - this.left) / (box.width - this.left - RIGHT))) * (right - left));
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
    step: {label: "step", of: (curve) => curve.steps, format: value, ticks: wholeTicks},
    epoch: {label: "epoch", of: (curve) => curve.epochs ?? [], format: value},
    time: {label: "time", of: (curve) => curve.times.map((time) => time - (curve.begin ?? curve.times[0])),
        format: (one) => one === 0 ? "0" : duration(one), ticks: timeTicks},
};

/** Shows a chart's horizontal axis as `name` of AXES. */
export function setAxis(chart, name) {
    const {label, format, ticks} = AXES[name];
    Object.assign(chart.options, {xLabel: label, xFormat: format, xTicks: ticks});
}

/** The steps of a curve's values from `low` to `high` of an axis; null: there are none. */
export function stepsBetween(curve, axis, low, high) {
    if (axis === "step") return {first: Math.floor(low), last: Math.ceil(high)};
    const places = AXES[axis].of(curve), inside = curve.steps.filter((_, index) => places[index] >= low && places[index] <= high);
    return inside.length ? {first: inside[0], last: inside[inside.length - 1]} : null;
}

/** The last value of a curve: of a bucket of many values it has the mean, so `known`, the job's last value, is told. */
export function lastText(curve, known) {
    const mean = curve.means[curve.means.length - 1];
    return value(curve.counts[curve.counts.length - 1] === 1 && !Number.isNaN(known) ? mean : known ?? mean);
}

/** A curve of the daemon as a series. */
export const seriesOf = (curve, name, axis, ink) => ({name, x: AXES[axis].of(curve), means: curve.means, minima: curve.minima,
    maxima: curve.maxima, counts: curve.counts, colour: ink});
