// queue.js: the jobs that wait for a device, in their order, and those that wait for something else.
import {call} from "./api.js";
import {el, fill, empty, selecting, table} from "./dom.js";
import {ago, moment} from "./format.js";
import {History} from "./history.js";
import * as store from "./store.js";

const link = (job) => el("a", {href: `#/jobs/${job.id}`}, job.name || "(private)");
const WAITS = {planning: "plan", device_busy: "device", memory: "memory", held: "release", backoff: "retry", draining: "drained device",
    reserved: "reservation", user_limit: "limit of the user", device_lost: "lost device", dependency: "other jobs",
    group_limit: "place in its group", time: "its time", sweep: "its sweep"};

class Queue {
    constructor(host) {
        this.body = el("div", {class: "stack"});
        fill(host, el("div", {class: "view"}, el("div", {class: "view-head"}, el("h1", {}, "Queue")), this.body,
            el("h2", {}, "History"), this.past = el("section", {class: "stack", "aria-label": "History"})));
        this.history = new History(this.past);
        this.stop = store.onChange(() => this.load());
        this.stopJobs = store.onJobs(() => this.draw());
        this.load();
    }

    async load() {
        if (this.loading) { this.again = true; return; }
        this.loading = true;
        try {
            this.queue = (await call("Queue", {limit: 200})).jobs;
            this.draw();
        } catch (error) {
            if (error.name !== "Unreachable") fill(this.body, empty(error.message));
        }
        this.loading = false;
        if (this.again && !this.closed) { this.again = false; this.load(); }
    }

    draw() {
        if (!this.queue || selecting(this.body)) return;
        const waiting = new Set(this.queue.map((job) => job.id));
        const others = store.list().filter((job) => job.state === "queued" && job.wait_reason && !waiting.has(job.id)).reverse();
        const rows = this.queue.map((job) => [String(job.queue_position ?? ""), String(job.id), link(job), job.user, String(job.priority),
            job.expected_start ? el("span", {title: moment(job.expected_start)}, ago(job.expected_start)) : "not known", job.reason ?? ""]);
        fill(this.body,
            el("h2", {}, "For a device"),
            rows.length ? table([{text: "Place", class: "num"}, {text: "Job", class: "num"}, "Name", "User",
                {text: "Priority", class: "num"},
                                 "Starts", {text: "Why it waits", class: "wide"}], rows, "Jobs that wait for a device")
                        : empty("No job waits for a device."),
            others.length ? [el("h2", {}, "For something else"),
                table([{text: "Job", class: "num"}, "Name", "User", "Waits for", {text: "Why", class: "wide"}],
                    others.slice(0, 300).map((job) =>
                    [String(job.id), link(job), job.user, WAITS[job.wait_reason] ?? job.wait_reason, job.reason ?? ""]),
                      "Jobs that wait for something else")] : []);
    }

    redraw() { this.history.redraw(); }

    close() {
        this.closed = true;
        this.history.close();
        this.stop();
        this.stopJobs();
    }
}

export const open = (host) => new Queue(host);
