// jobs.js: the list of all jobs. Only the rows on the screen are elements, so ten thousand jobs scroll as ten do.
import {el, fill, setText, note} from "./dom.js";
import {ago, duration, fraction, value, count} from "./format.js";
import {ACTIONS, act, here} from "./actions.js";
import {jobsText} from "./compare.js";
import * as store from "./store.js";

const STATES = ["running", "queued", "paused", "done", "failed", "cancelled"];
const SPARE = 8; // rows above and below the screen
const kept = {text: "", states: new Set(), mine: false, scroll: 0, at: null, marked: new Set()};

const stateGroup = (job) => job.state === "starting" || job.state === "preempting" ? "running" : job.state;

function matches(job, words) {
    if (kept.states.size && !kept.states.has(stateGroup(job))) return false;
    if (kept.mine && job.user !== here.user) return false;
    return words.every(([key, word]) => {
        if (key) return String(job[key] ?? "").toLowerCase().startsWith(word);
        return String(job.id) === word || `${job.name} ${job.user} ${job.group ?? ""} ${job.device ?? ""} ${job.reason ?? ""}`
            .toLowerCase().includes(word);
    });
}

/** "cnn user:alice" becomes [[null, "cnn"], ["user", "alice"]]. */
function parseWords(text) {
    return text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
        const match = word.match(/^(user|state|name|device|group|sweep|kind):(.+)$/);
        return match ? [match[1], match[2]] : [null, word];
    });
}

function lossOf(job) {
    const metrics = job.metrics ?? {};
    const name = job.best?.metric ?? ["validation_loss", "train_loss", "loss"].find((one) => one in metrics);
    const number = metrics[name] ?? job.best?.value ?? job.progress?.loss;
    return number === undefined || number === null ? ["", ""] : [value(number), name ?? "loss"];
}

/** The elements of one row, and what fills them with a job. */
function makeRow(list) {
    const mark = el("input", {type: "checkbox", tabindex: "-1"});
    const id = el("span"), name = el("a", {class: "name", tabindex: "-1"}), state = el("span", {class: "state"});
    const bar = el("span", {class: "bar"}, el("i")), device = el("span", {class: "c-device"}), user = el("span", {class: "c-user"});
    const loss = el("span", {class: "c-loss num"}), ran = el("span", {class: "c-ran num"}), when = el("span", {class: "c-when num"});
    const reason = el("span", {class: "c-reason"});
    const row = el("div", {class: "job-row", role: "row"},
        el("span", {class: "c-mark", role: "gridcell"}, mark), el("span", {role: "gridcell", class: "c-id num"}, id),
        el("span", {role: "gridcell", class: "c-name"}, name), el("span", {role: "gridcell", class: "c-state"}, state, bar),
        ...[device, user, loss, ran, when, reason].map((cell) => { cell.setAttribute("role", "gridcell"); return cell; }));
    let shown = null;
    row.addEventListener("click", (event) => {
        if (event.target === mark) { list.mark(shown.id, mark.checked); return; }
        list.moveTo(shown.id);
        if (event.target !== name) location.hash = `#/jobs/${shown.id}`;
    });
    row.fill = (job, index) => {
        shown = job;
        const part = fraction(job), [number, metric] = lossOf(job);
        row.setAttribute("aria-rowindex", index + 2);
        row.setAttribute("aria-selected", String(kept.at === job.id));
        row.dataset.job = job.id;
        mark.checked = kept.marked.has(job.id);
        mark.setAttribute("aria-label", `Mark job ${job.id}`);
        setText(id, String(job.id));
        setText(name, job.name || "(private)");
        name.href = `#/jobs/${job.id}`;
        setText(state, job.held && job.state === "queued" ? "held" : job.stopped ? "stopped" : job.state);
        state.className = `state ${job.state}`;
        bar.hidden = part === null || store.isFinal(job);
        bar.firstChild.style.width = `${(part ?? 0) * 100}%`;
        setText(device, job.device ?? "");
        setText(user, job.user);
        setText(loss, number);
        loss.title = metric;
        setText(ran, job.ran ? duration(job.ran) : "");
        setText(when, ago(job.submitted));
        setText(reason, job.reason ?? "");
        reason.title = job.reason ?? "";
    };
    return row;
}

class JobList {
    constructor(host) {
        this.rows = [];
        this.shown = [];
        this.search = el("input", {type: "search", placeholder: "Filter: words, user:…, device:…", "aria-label": "Filter jobs",
                                   value: kept.text, spellcheck: "false",
                                       oninput: () => { kept.text = this.search.value; this.filter(); }});
        this.chips = el("div", {class: "chips", role: "group", "aria-label": "States"});
        this.bulk = el("div", {class: "bulk", role: "group", "aria-label": "Marked jobs", hidden: true});
        this.body = el("div", {class: "job-space"});
        this.head = el("div", {class: "job-row job-head", role: "row"},
            [["c-mark", ""], ["c-id num", "Job"], ["c-name", "Name"], ["c-state", "State"], ["c-device", "Device"], ["c-user", "User"],
             ["c-loss num", "Metric"], ["c-ran num", "Ran"], ["c-when num", "Submitted"], ["c-reason", "What"]]
                .map(([style, text]) => el("span", {class: style, role: "columnheader"}, text)));
        this.frame = el("div", {class: "job-frame", role: "grid", tabindex: "0", "aria-label": "Jobs", onscroll: () => this.draw()},
                        this.head, this.body);
        this.nothing = el("p", {class: "empty", hidden: true});
        fill(host, el("div", {class: "view jobs-view"},
            el("div", {class: "view-head"}, el("h1", {}, "Jobs"), this.search), this.chips, this.bulk, this.frame, this.nothing));
        this.resize = new ResizeObserver(() => this.draw());
        this.resize.observe(this.frame);
        this.stop = store.onJobs(() => this.filter());
        this.clock = setInterval(() => this.draw(), 5000);
        this.filter();
        this.frame.scrollTop = kept.scroll;
    }

    filter() {
        const words = parseWords(kept.text);
        this.shown = store.list().filter((job) => matches(job, words));
        this.frame.setAttribute("aria-rowcount", this.shown.length + 1);
        this.fillChips();
        this.fillBulk();
        this.nothing.hidden = this.shown.length > 0;
        this.frame.classList.toggle("vacant", this.shown.length === 0);
        if (this.shown.length === 0)
            fill(this.nothing, !store.complete() ? "Loading…" : store.list().length ? "No job matches the filter." :
                [ "No jobs yet. ", el("a", {href: "#/submit"}, "Submit one"), " or run ", el("code", {}, "trainctl submit"), "."]);
        this.draw();
    }

    fillChips() {
        const counts = store.states();
        counts.running = (counts.running ?? 0) + (counts.starting ?? 0) + (counts.preempting ?? 0);
        if (this.chips.children.length === 0) {
            for (const state of STATES)
                this.chips.append(el("button", {type: "button", class: "chip", "data-state": state, onclick: () => this.toggle(state)},
                                     el("span", {class: `dot ${state}`}), el("span", {}, state), el("b", {class: "num"})));
            this.chips.append(el("button", {type: "button", class: "chip", "data-state": "mine",
                                            onclick: () => { kept.mine = !kept.mine; this.filter(); }}, "only mine"));
        }
        for (const chip of this.chips.children) {
            const state = chip.dataset.state, pressed = state === "mine" ? kept.mine : kept.states.has(state);
            chip.setAttribute("aria-pressed", String(pressed));
            if (state !== "mine") setText(chip.lastChild, count(counts[state] ?? 0));
        }
    }

    toggle(state) {
        if (!kept.states.delete(state)) kept.states.add(state);
        this.frame.scrollTop = 0;
        this.filter();
    }

    mark(id, marked) {
        if (marked) kept.marked.add(id);
        else kept.marked.delete(id);
        this.fillBulk();
        this.draw();
    }

    fillBulk() {
        for (const id of kept.marked) if (!store.byId(id)) kept.marked.delete(id);
        const marked = [...kept.marked].map(store.byId);
        this.bulk.hidden = marked.length === 0;
        const shape = `${marked.length} ${ACTIONS.map((action) => marked.filter(action.fits).length)}`;
        if (this.bulk.hidden || this.bulkShape === shape) return;
        this.bulkShape = shape;
        fill(this.bulk, el("b", {}, `${marked.length} marked`),
            el("button", {type: "button", class: "primary", onclick: () => this.compare()}, "Compare"),
            here.readOnly ? [] : ACTIONS.filter((action) => marked.some(action.fits)).map((action) => el("button", {
                type: "button", class: action.danger ? "danger-quiet" : "",
                onclick: async () => { await act(action, [...kept.marked].map(store.byId)); }}, action.label)),
            el("button", {type: "button", class: "quiet", onclick: () => { kept.marked.clear(); this.filter(); }}, "None"));
    }

    compare() {
        const ids = [...kept.marked];
        if (ids.length === 0 && kept.at) ids.push(kept.at);
        if (ids.length) location.hash = `#/compare?jobs=${jobsText(ids)}`;
        else note("Mark jobs first: their boxes, or x");
    }

    /** Fills the rows that the screen shows. */
    draw() {
        const height = this.rowHeight ??= parseFloat(getComputedStyle(this.frame).getPropertyValue("--row")) || 40;
        const narrow = matchMedia("(max-width: 720px)").matches;
        const step = narrow ? height * 1.75 : height;
        const above = this.head.offsetHeight, top = Math.max(0, this.frame.scrollTop - above);
        const first = Math.max(0, Math.floor(top / step) - SPARE);
        const number = Math.min(this.shown.length - first, Math.ceil(this.frame.clientHeight / step) + 2 * SPARE);
        kept.scroll = this.frame.scrollTop;
        this.step = step;
        this.body.style.height = `${this.shown.length * step}px`;
        while (this.rows.length < number) {
            const row = makeRow(this);
            this.rows.push(row);
            this.body.append(row);
        }
        for (let i = 0; i < this.rows.length; i++) {
            const row = this.rows[i], job = this.shown[first + i];
            row.hidden = i >= number || !job;
            if (row.hidden) continue;
            row.style.transform = `translateY(${(first + i) * step}px)`;
            row.fill(job, first + i);
        }
    }

    moveTo(id) {
        kept.at = id;
        this.draw();
    }

    move(by) {
        if (this.shown.length === 0) return;
        const index = this.shown.findIndex((job) => job.id === kept.at);
        const next = Math.max(0, Math.min(this.shown.length - 1, index < 0 ? 0 : index + by));
        kept.at = this.shown[next].id;
        const top = next * this.step, room = this.frame.clientHeight - this.head.offsetHeight;
        if (top < this.frame.scrollTop) this.frame.scrollTop = top;
        else if (top + this.step > this.frame.scrollTop + room) this.frame.scrollTop = top + this.step - room;
        this.draw();
    }

    key(event) {
        const page = Math.max(1, Math.floor(this.frame.clientHeight / this.step) - 2);
        const moves = {j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity};
        if (event.key in moves) this.move(moves[event.key]);
        else if (event.key === "Enter" && kept.at && !event.target.closest("a,button")) location.hash = `#/jobs/${kept.at}`;
        else if (event.key === "x" && kept.at) this.mark(kept.at, !kept.marked.has(kept.at));
        else if (event.key === "/") this.search.focus();
        else if (event.key === "c") this.compare();
        else if (event.key === "Delete" && !here.readOnly) this.cancel();
        else return false;
        return true;
    }

    cancel() {
        const ids = kept.marked.size ? [...kept.marked] : kept.at ? [kept.at] : [];
        const there = ids.map(store.byId).filter(Boolean); // another page may have removed some
        if (there.length) act(ACTIONS.find((action) => action.name === "Cancel"), there);
    }

    close() {
        this.stop();
        this.resize.disconnect();
        clearInterval(this.clock);
    }
}

export const open = (host) => new JobList(host);
