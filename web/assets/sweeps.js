// sweeps.js: the list of sweeps.
import {call} from "./api.js";
import {el, fill, empty} from "./dom.js";
import {ago, counted} from "./format.js";
import * as store from "./store.js";

const ORDER = ["done", "running", "starting", "preempting", "paused", "queued", "failed", "cancelled"];

/** How many points have which state, as a bar. */
export function stateBar(states, total) {
    return el("div", {class: "state-bar", role: "img",
        "aria-label": ORDER.filter((state) => states[state]).map((state) => `${states[state]} ${state}`).join(", ")},
        ORDER.filter((state) => states[state]).map((state) => {
            const piece = el("i", {class: state, title: `${states[state]} ${state}`});
            piece.style.flexGrow = states[state] / total;
            return piece;
        }));
}

class Sweeps {
    constructor(host) {
        this.body = el("div", {class: "cards"});
        fill(host, el("div", {class: "view"}, el("div", {class: "view-head"}, el("h1", {}, "Sweeps")), this.body));
        this.stop = store.onJobs(() => this.load());
        this.load();
    }

    async load() {
        if (this.loading) { this.again = true; return; }
        this.loading = true;
        try {
            const {sweeps} = await call("Sweeps", {limit: 100});
            if (!this.closed) this.draw(sweeps);
        } catch (error) {
            if (error.name !== "Unreachable") fill(this.body, empty(error.message));
        }
        setTimeout(() => { this.loading = false; if (this.again && !this.closed) { this.again = false; this.load(); } }, 500);
    }

    draw(sweeps) {
        const known = new Map();
        for (const job of store.list()) {
            if (!job.sweep) continue;
            const states = known.get(job.sweep) ?? known.set(job.sweep, {}).get(job.sweep);
            states[job.state] = (states[job.state] ?? 0) + 1;
        }
        if (sweeps.length === 0)
            return fill(this.body, empty("No sweeps yet. ", el("code", {}, "trainctl submit SPEC --sweep train.optimizer.lr=0.1,0.01"),
                " or ", el("a", {href: "#/submit"}, "Submit"), " makes one."));
        return fill(this.body, sweeps.map((sweep) => {
            const states = {...known.get(sweep.id) ?? {}}, waiting = sweep.points - sweep.expanded;
            if (waiting > 0 && !sweep.cancelled) states.queued = (states.queued ?? 0) + waiting;
            return el("a", {class: "card link-card", href: `#/sweeps/${sweep.id}`, "data-sweep": sweep.id},
                el("header", {}, el("h2", {}, sweep.name || "sweep"), el("span", {class: "dim num"}, String(sweep.id))),
                    stateBar(states, sweep.points),
                el("p", {class: "dim num"}, `${counted(sweep.points, "point")} · ${sweep.user} · ${ago(sweep.submitted)}`));
        }));
    }

    close() {
        this.closed = true;
        this.stop();
    }
}

export const open = (host) => new Sweeps(host);
