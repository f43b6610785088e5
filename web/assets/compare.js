// compare.js: one metric of many jobs over each other. The daemon puts the values into buckets, so a curve costs the same however
// long it is; a range that is dragged over is asked for anew, in finer ones.
import {call} from "./api.js";
import {el, fill, empty} from "./dom.js";
import {Chart, AXES, colour, lastText, seriesOf, setAxis, stepsBetween} from "./chart.js";
import {count, counted} from "./format.js";
import * as store from "./store.js";

export const LOSSES = ["validation_loss", "train_loss", "loss"];
const JOBS_MAX = 200, TOGETHER = 5;
const kept = {axis: "step", log: false, smoothing: 0, band: true};

/** "1,4-6" */
function parseJobs(text) {
    const found = new Set();
    for (const part of (text ?? "").split(/[\s,]+/)) {
        const match = part.match(/^(\d+)(?:-(\d+))?$/);
        if (!match) continue;
        for (let id = Number(match[1]); id <= Number(match[2] ?? match[1]) && found.size < JOBS_MAX; id++) found.add(id);
    }
    return [...found];
}

/** 1,4,5,6 → "1,4-6" */
export function jobsText(ids) {
    const sorted = [...ids].sort((a, b) => a - b), parts = [];
    for (let i = 0; i < sorted.length; i++) {
        let end = i;
        while (sorted[end + 1] === sorted[end] + 1) end++;
        parts.push(end > i + 1 ? `${sorted[i]}-${sorted[end]}` : sorted.slice(i, end + 1).join(","));
        i = end;
    }
    return parts.join(",");
}

class Compare {
    constructor(host, parameters) {
        this.ids = parseJobs(parameters.jobs);
        this.metric = parameters.metric ?? null;
        this.curves = new Map();
        this.hidden = new Set();
        this.ranges = null; // number of a job: its steps between the ends of a range that was dragged over
        this.jobsInput = el("input", {"aria-label": "Jobs", value: jobsText(this.ids), placeholder: "1,4-6", spellcheck: "false"});
        this.metricSelect = el("select", {"aria-label": "Metric",
            onchange: () => { this.metric = this.metricSelect.value; this.ranges = null; this.address(); this.load(); }});
        this.chart = new Chart({height: 440, label: "Metric of the chosen jobs", onRange: (low, high) => this.zoom(low, high)});
        this.status = el("span", {class: "dim num", role: "status"});
        this.legend = el("div", {class: "legend"});
        this.message = el("div", {});
        fill(host, el("div", {class: "view"},
            el("form", {class: "view-head", onsubmit: (event) => { event.preventDefault(); this.choose(); }}, el("h1", {}, "Compare"),
                el("span", {class: "row grow-end"}, this.jobsInput, el("button", {}, "Show"))),
            this.toolsRow = this.tools(), this.message,
            this.card = el("div", {class: "card chart-card"}, this.chart.element, this.status), this.legend));
        this.stopJobs = store.onJobs(() => this.jobsChanged());
        this.jobsChanged();
    }

    tools() {
        const smoothing = el("input", {type: "range", min: 0, max: 0.99, step: 0.01, value: kept.smoothing, "aria-label": "Smoothing",
            oninput: () => { kept.smoothing = Number(smoothing.value); this.draw(); }});
        const check = (key, text) => el("label", {}, el("input", {type: "checkbox", checked: kept[key], "data-setting": key,
            onchange: (event) => { kept[key] = event.target.checked; this.draw(); }}), text);
        const axis = el("select", {"aria-label": "Horizontal axis",
            onchange: () => { kept.axis = axis.value; this.ranges = null; this.load(); }},
            Object.keys(AXES).map((name) => el("option", {selected: kept.axis === name}, name)));
        return el("div", {class: "tools"}, this.metricSelect, el("label", {}, "over", axis), el("label", {}, "smooth", smoothing),
            check("log", "logarithmic"), check("band", "range"),
            this.wide = el("button", {type: "button", class: "quiet", hidden: true, onclick: () => this.zoom(null, null)}, "Whole range"));
    }

    choose() {
        this.ids = parseJobs(this.jobsInput.value);
        this.hidden.clear();
        this.ranges = null;
        this.failures = [];
        this.address();
        this.jobsChanged();
        this.load();
    }

    address() {
        history.replaceState(history.state, "", `#/compare?jobs=${jobsText(this.ids)}${this.metric ? `&metric=${encodeURIComponent(this.metric)}` : ""}`);
    }

    /** Metrics and names come with the jobs; curves are read again when a job has got further. */
    jobsChanged() {
        const names = new Set(this.ids.flatMap((id) => Object.keys(store.byId(id)?.metrics ?? {})));
        const usual = LOSSES.find((name) => names.has(name));
        if (!this.metric || (!names.has(this.metric) && names.size)) this.metric = usual ?? [...names][0] ?? this.metric;
        const text = [...names].sort().join("\n");
        if (this.namesText !== text) {
            this.namesText = text;
            fill(this.metricSelect, [...names].sort().map((name) => el("option", {value: name, selected: name === this.metric}, name)));
        }
        this.card.hidden = this.toolsRow.hidden = this.ids.length === 0;
        this.tell();
        const known = this.ids.map((id) => store.byId(id)?.name ?? "").join("\n");
        if (this.known !== known) {
            this.known = known;
            this.draw();
        }
        const stamp = [this.metric, ...this.ids.map((id) => { const job = store.byId(id);
            return job ? `${job.progress?.step ?? ""}${job.metrics?.[this.metric] ?? ""}` : ""; })].join();
        if (stamp === this.stamp) return;
        this.stamp = stamp;
        this.load();
    }

    /** What there is to do, or which curves could not be read last. */
    tell() {
        fill(this.message, this.ids.length === 0 ? empty("Name jobs above, or mark them in the list of jobs and press c.")
            : this.failures?.length ? el("p", {class: "error"}, this.failures.slice(0, 3).join("; ")) : "");
    }

    async load() {
        if (this.loading) { this.again = true; return; }
        this.loading = true;
        do {
            this.again = false;
            await this.read();
        } while (this.again && !this.closed);
        this.loading = false;
    }

    async readCurve(id, name, points, ranges) {
        const curve = await call("Curve", {id, name, points, ...(ranges?.get(id) ?? {})});
        curve.begin = (ranges ? this.curves.get(id)?.begin : null) ?? curve.times[0]; // times count from the first value of all
        return curve;
    }

    async read() {
        if (!this.metric || this.ids.length === 0) { this.curves.clear(); this.draw(); return; }
        const begun = performance.now(), metric = this.metric, found = new Map();
        const left = this.ids.filter((id) => !this.ranges || this.ranges.has(id));
        const points = Math.max(100, Math.min(2000, Math.round(this.chart.element.clientWidth / (this.ids.length > 20 ? 3 : 1.5))));
        const failures = [];
        await store.first(Promise.all(Array.from({length: TOGETHER}, async () => {
            for (let id; (id = left.shift()) !== undefined;) {
                try {
                    found.set(id, await this.readCurve(id, metric, points, this.ranges));
                } catch (error) {
                    failures.push(`${id}: ${error.message}`);
                }
            }
        })));
        if (this.closed || metric !== this.metric) return;
        this.curves = found;
        this.failures = failures;
        this.tell();
        const rows = [...found.values()].reduce((sum, curve) => sum + curve.rows, 0);
        const odd = [...found.values()].reduce((sum, curve) => sum + curve.nonfinite, 0);
        this.draw();
        await new Promise((resolve) => requestAnimationFrame(resolve));
        this.milliseconds = performance.now() - begun;
        this.status.textContent = `${counted(rows, "value")} of ${counted([...found.values()].filter((curve) => curve.rows).length, "job")}${odd ? `, ${count(odd)} of them not finite` : ""}`;
        this.status.dataset.milliseconds = this.milliseconds.toFixed(0);
        this.status.dataset.rows = rows;
    }

    draw() {
        setAxis(this.chart, kept.axis);
        const series = this.ids.filter((id) => this.curves.has(id) && !this.hidden.has(id)).map((id) =>
            seriesOf(this.curves.get(id), `${id} ${store.byId(id)?.name ?? ""}`, kept.axis, colour(this.ids.indexOf(id))));
        this.chart.set(series, {log: kept.log, smoothing: kept.smoothing, band: kept.band});
        this.wide.hidden = !this.ranges;
        this.drawLegend();
    }

    drawLegend() {
        fill(this.legend, this.ids.map((id, index) => {
            const curve = this.curves.get(id), job = store.byId(id), swatch = el("i", {});
            swatch.style.background = colour(index);
            const last = curve?.rows ? lastText(curve, job?.metrics?.[this.metric]) : "no values";
            return el("span", {class: "legend-entry"},
                el("button", {type: "button", class: "chip", "aria-pressed": String(!this.hidden.has(id)), "data-job": id,
                    onclick: () => { if (!this.hidden.delete(id)) this.hidden.add(id); this.draw(); }},
                   swatch, el("span", {}, `${id} ${job?.name ?? ""}`), el("b", {class: "num"}, last)),
                el("a", {href: `#/jobs/${id}`, class: "dim", "aria-label": `Open job ${id}`}, "↗"));
        }));
    }

    zoom(low, high) {
        const ranges = low === null ? null : new Map([...this.curves]
            .map(([id, curve]) => [id, stepsBetween(curve, kept.axis, low, high)]).filter(([, steps]) => steps));
        if (ranges?.size === 0) return;
        this.ranges = ranges;
        this.load();
    }

    redraw() { this.draw(); }

    close() {
        this.closed = true;
        this.stopJobs();
        this.chart.close();
    }
}

export const open = (host, parameters) => new Compare(host, parameters);
