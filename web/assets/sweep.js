// sweep.js: one sweep: its best trial, parallel coordinates, and a table that can be sorted.
import {call} from "./api.js";
import {el, fill, setText, empty, note, stateChip} from "./dom.js";
import {confirm} from "./dialog.js";
import {duration, value, count, point} from "./format.js";
import {here} from "./actions.js";
import {LOSSES, jobsText} from "./compare.js";
import {Parallel, asNumber} from "./parallel.js";
import {stateBar} from "./sweeps.js";
import * as store from "./store.js";

const TRIALS_MAX = 5000;
const lower = (metric, search) => search ? search.mode === "min" : !/acc|auc|f1|precision|recall|r2|reward|score/.test(metric ?? "loss");

const isMissing = (one) => one === null || one === undefined;
const textOf = (one) => typeof one === "number" ? value(one) : typeof one === "string" ? one : JSON.stringify(one);

class SweepView {
    constructor(host, id) {
        this.id = id;
        this.host = host;
        this.sort = {key: "value", down: false};
        this.title = el("h1");
        this.bar = el("div");
        this.buttons = el("div", {class: "actions"});
        this.best = el("div", {class: "best"});
        this.parallel = new Parallel({onHover: (trial) => this.highlight(trial), onFilter: () => this.drawTable(),
            onOpen: (trial) => { location.hash = `#/jobs/${trial.job}`; }});
        this.table = el("div", {class: "table-frame sweep-table", tabindex: "0", role: "region", "aria-label": "Trials"});
        this.parallelCard = el("div", {class: "card"}, el("header", {}, el("h2", {}, "Parallel coordinates"),
            el("small", {class: "dim"}, "drag along an axis to keep a range of it")), this.parallel.element);
        fill(host, el("div", {class: "view"}, el("div", {class: "view-head"},
            el("div", {class: "row title"}, el("a", {href: "#/sweeps", class: "dim", "aria-label": "All sweeps"}, "←"), this.title),
                this.buttons),
            this.bar, this.best, this.parallelCard, this.table));
        this.stop = store.onChange(() => this.load());
        this.stopJobs = store.onJobs(() => {
            if (this.borrowed) this.later ??= setTimeout(() => { this.later = null; this.draw(); }, 500 + this.trials.length);
        });
        this.load();
    }

    async load() {
        if (this.loading) { this.again = true; return; }
        this.loading = true;
        try {
            const trials = [];
            let next = null, reply;
            do {
                reply = await call("Trials", {id: this.id, limit: 500, ...(next ? {first: next} : {})});
                trials.push(...reply.trials);
                next = reply.next;
            } while (next && trials.length < TRIALS_MAX);
            if (this.closed) return;
            Object.assign(this, {sweep: reply.sweep, search: reply.search, trials, cut: Boolean(next)});
            for (const one of trials) if (isMissing(one.value) && !isMissing(one.step)) one.value = NaN; // it is not finite
            this.borrowed = false;
            this.draw();
        } catch (error) {
            if (!this.closed && error.name !== "Unreachable") fill(this.host, empty(error.message));
        }
        // a long sweep is not read four times a second
        setTimeout(() => { this.loading = false; if (this.again && !this.closed) { this.again = false; this.load(); } },
            Math.min(5000, (this.trials?.length ?? 0) * 2));
    }

    draw() {
        const {sweep, trials} = this;
        setText(this.title, `${sweep.name || "sweep"} `);
        this.title.append(el("span", {class: "dim num"}, String(sweep.id)));
        const states = sweep.states ?? trials.reduce((found, one) => ({...found, [one.state]: (found[one.state] ?? 0) + 1}), {});
        fill(this.bar, stateBar(states, sweep.points), el("p", {class: "dim num"},
            Object.entries(states).filter(([, number]) => number).map(([state, number]) => `${count(number)} ${state}`).join(" · "),
            this.cut ? ` · the first ${count(TRIALS_MAX)} are shown` : ""));
        this.keys = [...new Set(trials.flatMap((one) => Object.keys(one.values)))];
        this.metric = this.search?.metric ?? (this.borrowed ? null : trials.find((one) => one.metric)?.metric) ?? this.borrow(trials);
        this.low = lower(this.metric, this.search);
        const measured = trials.filter((one) => Number.isFinite(one.value));
        this.top = trials.find((one) => one.job === this.search?.best) ??
            measured.reduce((best, one) => !best || (this.low ? one.value < best.value : one.value > best.value) ? one : best, null);
        this.drawBest();
        this.drawButtons(states);
        this.parallelCard.hidden = measured.length < 2 || this.keys.length === 0;
        this.parallel.set(this.keys, this.metric ?? "value", measured, this.low);
        this.drawTable();
    }

    /** A sweep of commands has no metric of its own: it is compared by one that its jobs report, a loss if there is one. */
    borrow(trials) {
        const metrics = trials.map((one) => store.byId(one.job)?.metrics ?? {}), names = new Set(metrics.flatMap((one) => Object.keys(one)));
        const name = LOSSES.find((one) => names.has(one)) ?? [...names].sort()[0] ?? null;
        this.borrowed = true;
        trials.forEach((one, index) => { one.value = metrics[index][name] ?? null; });
        return name;
    }

    drawBest() {
        const {top} = this;
        fill(this.best, top ? el("a", {class: "card link-card best-card", href: `#/jobs/${top.job}`},
            el("span", {class: "dim"}, "Best"), el("b", {class: "big num"}, value(top.value)),
                el("span", {}, `${this.metric ?? ""} · job ${top.job}`),
            el("code", {}, point(top.values))) : "");
    }

    drawButtons(states) {
        const open = Object.entries(states).some(([state, number]) => number && !["done", "failed", "cancelled"].includes(state));
        const ranked = this.trials.filter((one) => Number.isFinite(one.value)).sort((a,
            b) => this.low ? a.value - b.value : b.value - a.value).slice(0, 50);
        const shape = `${open} ${ranked.length}`;
        if (shape === this.shape) return;
        this.shape = shape;
        const change = (method, label) => el("button", {type: "button", class: method === "CancelSweep" ? "danger-quiet" : "",
            onclick: () => this.change(method, label)}, label);
        fill(this.buttons, ranked.length ? el("a", {class: "button",
            href: `#/compare?jobs=${jobsText(ranked.map((one) => one.job))}${this.metric ? `&metric=${encodeURIComponent(this.metric)}` : ""}`},
            ranked.length < 50 ? "Compare curves" : "Compare the best 50") : "",
            open && !here.readOnly ? [change("HoldSweep", "Hold"), change("ReleaseSweep", "Release"),
                change("CancelSweep", "Cancel")] : "");
    }

    async change(method, label) {
        if (method === "CancelSweep" && !await confirm(`Cancel sweep ${this.id}?`, "All points that have not ended end for good.",
            "Cancel sweep")) return;
        try {
            await call(method, {id: this.id});
            note(`${label}: sweep ${this.id}`);
            this.load();
        } catch (error) {
            note(error.message, true);
        }
    }

    columns() {
        return [{key: "job", label: "Job", num: true, of: (one) => one.job},
            ...this.keys.map((key) => ({key: `v:${key}`, label: key.split(".").slice(-2).join("."), title: key, num: true,
                of: (one) => asNumber(one.values[key])})),
            {key: "state", label: "State", of: (one) => one.state},
                {key: "value", label: this.metric ?? "value", num: true, of: (one) => one.value},
            ...(this.search ? [{key: "rung", label: "Rung", num: true, of: (one) => one.rung}] : []),
            {key: "ran", label: "Ran", num: true, of: (one) => one.ran}];
    }

    drawTable() {
        const columns = this.columns(), by = columns.find((column) => column.key === this.sort.key) ?? columns[0];
        const sign = (this.sort.down ? -1 : 1) * (by.key === "value" && !this.low ? -1 : 1);
        const rows = this.trials.filter((one) => this.parallel.keeps(one)).sort((a, b) => {
            const first = by.of(a), second = by.of(b);
            if (first === second) return a.job - b.job;
            if (isMissing(first) || isMissing(second)) return isMissing(first) ? 1 : -1;
            if (Number.isNaN(first) || Number.isNaN(second)) return Number.isNaN(first) ? 1 : -1;
            return sign * (first < second ? -1 : 1);
        });
        this.rowOf = new Map();
        const head = el("tr", {}, columns.map((column) => el("th", {scope: "col", class: column.num ? "num" : null, title: column.title,
            "aria-sort": column.key === by.key ? (sign < 0 ? "descending" : "ascending") : null},
            el("button", {type: "button", class: "sorter", "data-sort": column.key,
                onclick: () => { this.sort = {key: column.key, down: by.key === column.key && !this.sort.down}; this.drawTable(); }},
               column.label, column.key === by.key ? (sign < 0 ? " ↓" : " ↑") : ""))));
        const cell = (column, one) => {
            const found = column.of(one);
            if (column.key === "job") return el("a", {href: `#/jobs/${one.job}`}, String(one.job));
            if (column.key === "state") return [stateChip(one.state), one.stopped ? el("span", {class: "tag"}, "stopped") : ""];
            if (column.key === "ran") return found ? duration(found) : "";
            return isMissing(found) ? "" : textOf(found);
        };
        fill(this.table, el("table", {}, el("thead", {}, head), el("tbody", {}, rows.slice(0, 1000).map((one) => {
            const row = el("tr", {class: one === this.top ? "top" : null, "data-job": one.job,
                onpointerenter: () => this.parallel.show(one), onpointerleave: () => this.parallel.show(null)},
                columns.map((column) => el("td", {class: column.num ? "num" : null}, cell(column, one))));
            this.rowOf.set(one.job, row);
            return row;
        }))));
    }

    highlight(trial) {
        for (const [job, row] of this.rowOf ?? []) row.classList.toggle("near", job === trial?.job);
    }

    redraw() { this.parallel.request(); }

    close() {
        this.closed = true;
        this.stop();
        this.stopJobs();
        clearTimeout(this.later);
        this.parallel.close();
    }
}

export const open = (host, id) => new SweepView(host, id);
