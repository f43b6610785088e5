// history.js: what the daemon sampled of a device, or of the queue: a chart for each quantity, over the last hour and more.
import {call} from "./api.js";
import {el, fill, empty} from "./dom.js";
import {Chart, colour} from "./chart.js";
import {bytes, moment} from "./format.js";

const POINTS = 360, SECONDS_LEAST = 10;
const SPANS = {hour: 3600, day: 86400, week: 7 * 86400, month: 30 * 86400, year: 365 * 86400};
// the horizontal axis: minutes, hours or days before now
const UNITS = [["min", 60, 7200], ["h", 3600, 3 * 86400], ["d", 86400, Infinity]];
const GIB = 2 ** 30;
const kept = {span: "hour"};

/** Title, unit, factor of the values, and the range of the axis where it is fixed. */
const QUANTITIES = {
    utilisation: {title: "Utilisation", unit: "%", factor: 100, range: () => [0, 100]},
    memory_used: {title: "Memory", unit: "GiB", factor: 1 / GIB, range: (device) => device?.memory_total ? [0, device.memory_total / GIB] : null},
    temperature: {title: "Temperature", unit: "°C", factor: 1},
    power_watts: {title: "Power", unit: "W", factor: 1},
    jobs: {title: "Jobs", unit: "", factor: 1},
    queued: {title: "Jobs that wait", unit: "", factor: 1},
    running: {title: "Jobs that run", unit: "", factor: 1},
};

const scaled = (list, factor) => list.map((one) => one * factor);
const shown = (number) => Number(number.toPrecision(3)).toLocaleString("en-GB");

export class History {
    /** `device`: of type Device of io.traind; null: the queue. */
    constructor(host, device = null) {
        this.device = device;
        this.charts = new Map();
        this.spans = Object.keys(SPANS).map((name) => el("button", {type: "button", class: "chip", "data-span": name,
            onclick: () => { kept.span = name; this.range = null; this.read(); }}, name));
        this.told = el("p", {class: "dim", role: "status"});
        this.body = el("div", {class: "charts"});
        fill(host, el("div", {class: "tools", role: "group", "aria-label": "How far back"}, "the last", this.spans), this.told, this.body);
        this.read();
    }

    async read() {
        const now = Date.now() / 1000, mine = this.reading = {};
        const {from, to} = this.range ?? {from: now - SPANS[kept.span], to: now};
        clearTimeout(this.timer);
        for (const button of this.spans) button.setAttribute("aria-pressed", String(!this.range && button.dataset.span === kept.span));
        try {
            const reply = await call("History", {...(this.device ? {device: this.device.id} : {}), from, to, points: POINTS});
            if (this.closed || mine !== this.reading) return; // another span was chosen meanwhile
            this.draw(reply, now, {from, to});
        } catch (error) {
            if (!this.closed && error.name !== "Unreachable") this.told.textContent = error.message; // the banner tells that
        }
        // a closer look stands still
        if (!this.closed && !this.range) this.timer = setTimeout(() => document.hidden ? this.wait() : this.read(),
            1000 * Math.max(SECONDS_LEAST, SPANS[kept.span] / POINTS));
    }

    /** Goes on when somebody looks again. */
    wait() {
        document.addEventListener("visibilitychange", () => { if (!this.closed) this.read(); }, {once: true});
    }

    draw(reply, now, {from, to}) {
        this.now = now;
        this.unit = UNITS.find(([, , longest]) => now - from <= longest);
        this.domain = [(from - now) / this.unit[1], (to - now) / this.unit[1]];
        this.told.textContent = this.range ? `${moment(this.range.from)} to ${moment(this.range.to)}; a double click shows the whole again` : "";
        if (reply.series.length === 0) fill(this.body, empty(reply.period > 0 ? "Nothing was sampled in this time."
            : "Nothing was sampled: Period of [History] in the daemon's configuration is 0."));
        else if (this.charts.size === 0) fill(this.body);
        for (const [name, one] of this.charts) if (!reply.series.some((series) => series.quantity === name)) this.drop(name, one);
        for (const series of reply.series) if (series.quantity in QUANTITIES) this.drawSeries(series, reply);
    }

    drawSeries(series, reply) {
        const quantity = QUANTITIES[series.quantity], one = this.charts.get(series.quantity) ?? this.add(series.quantity);
        const [name, seconds] = this.unit, means = scaled(series.means, quantity.factor), last = series.means.length - 1;
        one.last.textContent = series.quantity === "memory_used" ? bytes(series.means[last]) : `${shown(means[last])} ${quantity.unit}`;
        one.chart.options.tick = (x, text) => x === 0 ? "now" : `${text} ${name}`.replace("-", "−");
        one.chart.options.tipFormat = (x) => moment(this.now + x * seconds);
        one.chart.options.domain = this.domain;
        one.chart.options.range = quantity.range?.(this.device);
        one.chart.set([{name: quantity.title, colour: colour(0), x: series.times.map((time) => (time - this.now) / seconds), means,
            minima: scaled(series.minima, quantity.factor), maxima: scaled(series.maxima, quantity.factor), counts: series.counts,
            gap: 2 * Math.max(reply.seconds, reply.period) / seconds}]);
    }

    add(name) {
        const last = el("b", {class: "num"}), {title, unit} = QUANTITIES[name];
        const chart = new Chart({height: 180, label: `${title} of ${this.device?.name ?? "the queue"}`, onRange: (low, high) => {
            const at = (x) => this.now + x * this.unit[1];
            this.range = low === null ? null : {from: at(low), to: Math.min(at(high), Date.now() / 1000)};
            this.read();
        }});
        const card = el("article", {class: "card chart-card", "data-quantity": name},
            el("header", {}, el("h2", {}, unit ? `${title}, ${unit}` : title), last), chart.element);
        const one = {chart, last, card};
        this.charts.set(name, one);
        this.body.append(card);
        return one;
    }

    drop(name, one) {
        one.chart.close();
        one.card.remove();
        this.charts.delete(name);
    }

    redraw() { this.read(); }

    close() {
        this.closed = true;
        clearTimeout(this.timer);
        for (const one of this.charts.values()) one.chart.close();
    }
}
