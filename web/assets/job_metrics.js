// job_metrics.js: a chart for each metric of a job. The daemon hands out buckets; what comes later is followed, value by value.
import {call, FINAL} from "./api.js";
import {el, fill, empty, setText} from "./dom.js";
import {Chart, AXES, colour, lastText, seriesOf, setAxis, stepsBetween} from "./chart.js";
import {follow} from "./live.js";
import {count, counted, value} from "./format.js";

const POINTS = 600, FIRST = 12;
const kept = {axis: "step", log: false, smoothing: 0};
const order = (name) => (/loss/.test(name) ? "0" : /acc|f1|auc/.test(name) ? "1" : "2") + name;

export class Metrics {
    constructor(host, shown) {
        this.job = shown.job;
        this.live = !FINAL.has(shown.job.state); // even if it has ended since: what came last may be missing
        this.charts = new Map();
        this.body = el("div", {class: "charts"});
        const smoothing = el("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: kept.smoothing, "aria-label": "Smoothing",
                                       oninput: () => { kept.smoothing = Number(smoothing.value); this.redraw(); }});
        const axis = el("select", {"aria-label": "Horizontal axis", onchange: () => { kept.axis = axis.value; this.redraw(); }},
            Object.keys(AXES).map((name) => el("option", {selected: kept.axis === name}, name)));
        const log = el("input", {type: "checkbox", checked: kept.log, onchange: () => { kept.log = log.checked; this.redraw(); }});
        fill(host, el("div", {class: "tools"}, el("label", {}, "over", axis), el("label", {}, "smooth", smoothing),
            el("label", {}, log, "logarithmic"),
            el("a", {href: `#/compare?jobs=${this.job.id}`}, "Compare with others")), this.body);
        this.update(shown);
    }

    update(shown) {
        this.job = shown.job;
        for (const one of this.charts.values()) if (one.failed && !one.reading) this.read(one);
        this.show(Object.keys(shown.job.metrics ?? {}).sort((a, b) => order(a) < order(b) ? -1 : 1));
    }

    show(names) {
        if (names.length === 0) {
            fill(this.body, empty(FINAL.has(this.job.state) ? "The job reported no metrics." : "No metrics yet."));
            this.nothing = true;
            return;
        }
        if (this.nothing) fill(this.body);
        this.nothing = false;
        for (const name of names.slice(0, this.all ? names.length : FIRST)) if (!this.charts.has(name)) this.add(name);
        this.showMore(this.all ? 0 : Math.max(0, names.length - FIRST));
    }

    showMore(number) {
        this.more ??= el("button", {type: "button", onclick: () => { this.all = true; this.update({job: this.job}); }});
        setText(this.more, counted(number, "more metric"));
        if (number === 0) this.more.remove();
        else if (this.body.lastChild !== this.more) this.body.append(this.more);
    }

    add(name) {
        const last = el("b", {class: "num"}), rows = el("small", {class: "dim num"});
        const one = {name, last, rows, curve: null, range: null};
        one.chart = new Chart({height: 210, label: `${name} of job ${this.job.id}`, onRange: (low, high) => {
            const range = low === null ? null : stepsBetween(one.curve, kept.axis, low, high);
            if (low !== null && !range) return;
            one.range = range;
            this.read(one);
        }});
        this.charts.set(name, one);
        this.body.append(el("article", {class: "card chart-card", "data-metric": name}, el("header", {}, el("h2", {}, name), last),
            one.chart.element, rows));
        this.read(one);
    }

    async read(one) {
        if (one.reading) { one.again = true; return; }
        one.reading = true;
        do {
            one.again = one.failed = false;
            one.missed = [];
            try {
                const begin = one.range ? one.curve.begin : undefined; // times count from the first value of all
                one.curve = await call("Curve", {id: this.job.id, name: one.name, points: POINTS, ...(one.range ?? {})});
                one.curve.begin = begin ?? one.curve.times[0];
            } catch (error) {
                one.rows.textContent = error.message;
                one.failed = true; // update() tries again
                break;
            }
            if (this.closed) return;
            for (const part of one.missed) this.append(one, part);
            this.draw(one);
        } while (one.again);
        one.reading = false;
        this.follow();
    }

    /** Follows what comes behind the curves, once all are read. */
    follow() {
        const all = [...this.charts.values()], curves = all.map((one) => one.curve).filter(Boolean);
        if (this.end || !this.live || curves.length === 0 || !all.every((one) => one.curve || one.failed)) return;
        this.cursor = Math.min(...curves.map((curve) => curve.next));
        this.end = follow("Metrics", () => ({id: this.job.id, after: this.cursor, limit: 500}), (reply) => {
            const parts = new Map();
            for (const row of reply.rows) {
                if (!parts.has(row.name)) parts.set(row.name, {begin: this.cursor, end: reply.next, rows: []});
                parts.get(row.name).rows.push(row);
            }
            this.cursor = reply.next;
            for (const [name, part] of parts) if (this.charts.has(name)) this.grow(this.charts.get(name), part);
        });
    }

    /** What comes while the curve is read may be missing in it, and waits. */
    grow(one, part) {
        if (one.reading) { one.missed.push(part); return; }
        if (!this.append(one, part)) return;
        // a long tail of single values beside buckets of many looks unlike them, so the whole is put into buckets again
        if (one.curve.steps.length > 1.3 * POINTS) this.read(one);
        else this.draw(one);
    }

    /** Adds values between two cursors behind the curve, each as a bucket of its own. False: it has grown by none. */
    append(one, {begin, end, rows}) {
        const curve = one.curve;
        if (!curve || one.range || end <= curve.next) return false;
        if (begin < curve.next) { this.read(one); return false; } // the curve has some of them
        for (const row of rows) this.appendRow(curve, row);
        curve.next = end;
        return true;
    }

    appendRow(curve, row) {
        if (row.step <= (curve.steps[curve.steps.length - 1] ?? -Infinity)) return;
        curve.rows++;
        if (row.value === null || row.value === undefined) { curve.nonfinite++; return; }
        for (const [list, number] of [["steps", row.step], ["times", row.time], ["minima", row.value], ["maxima", row.value],
                                      ["means", row.value], ["counts", 1]]) curve[list].push(number);
        if (curve.epochs) curve.epochs.push(row.epoch ?? curve.epochs[curve.epochs.length - 1]);
    }

    draw(one) {
        const curve = one.curve;
        one.last.textContent = one.range ? value(curve.means[curve.means.length - 1]) : lastText(curve, this.job.metrics?.[one.name]);
        one.rows.textContent = `${counted(curve.rows, "value")}${curve.nonfinite ? `, ${count(curve.nonfinite)} not finite` : ""}`;
        setAxis(one.chart, kept.axis);
        one.chart.set([seriesOf(curve, one.name, kept.axis, colour(0))], kept);
    }

    redraw() { for (const one of this.charts.values()) if (one.curve) this.draw(one); }

    close() {
        this.closed = true;
        this.end?.();
        for (const one of this.charts.values()) one.chart.close();
    }
}
