// job.js: one job: what it is, its states over time, and its parts (job_*.js).
import {call, FINAL} from "./api.js";
import {el, fill, setText, empty, facts, selecting, stateChip} from "./dom.js";
import {ago, bytes, duration, fraction, moment, percent, value} from "./format.js";
import {buttons, here} from "./actions.js";
import {Log} from "./job_log.js";
import {Metrics} from "./job_metrics.js";
import {Decisions, History, Profile, Specification} from "./job_parts.js";
import * as store from "./store.js";

const PARTS = [["metrics", "Metrics", Metrics], ["log", "Log", Log], ["decisions", "Decisions", Decisions], ["history", "History", History],
    ["profile", "Profile", Profile], ["spec", "Specification", Specification]];

class JobView {
    constructor(host, id, parameters) {
        this.id = id;
        this.title = el("h1", {class: "num"});
        this.state = el("span", {});
        this.buttons = el("div", {class: "actions"});
        this.reason = el("p", {class: "reason"});
        this.progress = el("div", {class: "progress", hidden: true});
        this.facts = el("div", {class: "stack"});
        this.line = el("div", {class: "timeline", role: "img", "aria-label": "States over time"});
        this.warnings = el("div", {});
        this.tabs = el("div", {class: "tabs", role: "tablist", "aria-label": "Parts of the job"}, PARTS.map(([name, label]) =>
            el("button", {type: "button", role: "tab", id: `tab-${name}`, "data-tab": name, "aria-controls": "part",
                onclick: () => this.choose(name)}, label)));
        this.part = el("div", {id: "part", role: "tabpanel", tabindex: "-1"});
        this.frame = el("div", {class: "view"},
            el("div", {class: "view-head"}, el("div", {class: "row title"},
                el("a", {href: "#/jobs", class: "dim", "aria-label": "All jobs"}, "←"), this.title, this.state),
               this.buttons),
            this.reason, this.progress, this.line, this.warnings, this.facts, this.tabs, this.part);
        this.host = host;
        fill(host, this.frame);
        this.wanted = parameters.tab;
        this.stop = store.onChange(() => this.load());
        this.load();
    }

    async load() {
        if (this.loading) { this.again = true; return; }
        this.loading = true;
        try {
            do {
                this.again = false;
                const shown = await call("Show", {id: this.id});
                if (this.closed) return;
                this.shown = shown;
                if (!this.frame.isConnected) fill(this.host, this.frame);
                this.draw();
            } while (this.again);
        } catch (error) {
            if (!this.closed && error.name !== "Unreachable") fill(this.host, empty(error.message));
        } finally {
            this.loading = false;
        }
    }

    draw() {
        const {job, spec} = this.shown;
        setText(this.title, `${job.name || "job"} `);
        this.title.append(el("span", {class: "dim"}, ` ${job.id}`));
        document.title = `${job.name || "job"} ${job.id} · traind`;
        fill(this.state, stateChip(job.state), job.held ? el("span", {class: "tag"}, "held") : "",
            job.stopped ? el("span", {class: "tag"}, "stopped early") : "");
        const shape = `${job.state} ${job.held}`;
        if (this.shape !== shape) {
            this.shape = shape;
            fill(this.buttons, buttons(job, () => this.shown.job), 
                here.readOnly ? "" : el("a", {class: "button", href: `#/submit?from=${job.id}`}, "Submit again"));
        }
        setText(this.reason, job.reason ?? "");
        this.drawProgress(job);
        if (!selecting(this.facts)) this.drawFacts(job, spec);
        this.drawLine(job);
        fill(this.warnings, (this.shown.warnings ?? []).slice(-3).map((text) => el("p", {class: "warning"}, text)));
        if (!this.name) this.choose(this.wanted ?? (Object.keys(job.metrics ?? {}).length ? "metrics" : job.state === "queued" ? "decisions" : "log"));
        else this.current?.update?.(this.shown);
    }

    drawProgress(job) {
        const part = fraction(job), progress = job.progress ?? {};
        this.progress.hidden = part === null || FINAL.has(job.state);
        if (this.progress.hidden) return;
        const inner = el("i");
        inner.style.width = `${part * 100}%`;
        fill(this.progress, el("div", {class: "track", role: "progressbar", "aria-valuenow": Math.round(part * 100),
            "aria-label": "Progress"}, inner),
            el("span", {class: "num"}, [percent(part), progress.steps ? `step ${value(progress.step)} of ${value(progress.steps)}` : null,
                progress.samples_per_second ? `${value(progress.samples_per_second)} samples/s` : null,
                progress.seconds_left ? `${duration(progress.seconds_left)} left` : null].filter(Boolean).join(" · ")));
    }

    drawFacts(job, spec) {
        const attempt = this.shown.attempts?.[this.shown.attempts.length - 1];
        fill(this.facts, facts([["Device", job.pinned ? `${job.device ?? ""} (bound to ${job.pinned})` : job.device], ["User", job.user],
            ["Submitted", `${moment(job.submitted)}, ${ago(job.submitted)}`], ["Ran", job.ran ? duration(job.ran) : null],
            ["Ended", job.ended ? moment(job.ended) : null], ["Exit status", job.exit_status], ["Priority", job.priority || null],
            ["Group", job.group], ["Sweep", job.sweep ? el("a", {href: `#/sweeps/${job.sweep}`}, `sweep ${job.sweep}`) : null],
            ["Place in the queue", job.queue_position], ["Starts", job.expected_start ? ago(job.expected_start) : null],
            ["Attempts", job.attempt > 1 ? job.attempt : null], ["Peak memory", attempt?.peak_bytes ? bytes(attempt.peak_bytes) : null],
            ["Energy", attempt?.energy_joules ? `${value(attempt.energy_joules / 3600)} Wh` : null],
            ["Best", job.best ? `${value(job.best.value)} ${job.best.metric}` : null]]),
                Array.isArray(spec?.command) ? el("code", {class: "clip", title: spec.command.join(" ")}, spec.command.join(" ")) : "");
    }

    /** The states over time: as wide as they lasted, but never too narrow to see. */
    drawLine(job) {
        const steps = (this.shown.transitions ?? []).filter((one) => one.from !== one.to), last = steps[steps.length - 1]?.time ?? 0;
        const now = job.ended ?? Math.max(last, Date.now() / 1000); // the clock here may be behind the daemon's
        const parts = steps.map((one, index) => ({state: one.to, begin: one.time, end: steps[index + 1]?.time ?? now, reason: one.reason}))
            .filter((one) => !FINAL.has(one.state));
        const total = parts.reduce((sum, one) => sum + one.end - one.begin, 0) || 1;
        this.line.hidden = parts.length === 0;
        this.line.setAttribute("aria-label", `States: ${parts.map((one) => `${one.state} ${duration(one.end - one.begin)}`).join(", ")}, ${job.state}`);
        fill(this.line, parts.map((one) => {
            const piece = el("span", {class: `piece ${one.state}`,
                title: `${one.state} ${duration(one.end - one.begin)} from ${moment(one.begin)}: ${one.reason ?? ""}`},
                (one.end - one.begin) / total > 0.12 ? `${one.state} ${duration(one.end - one.begin)}` : "");
            piece.style.flexGrow = Math.max(0.004, (one.end - one.begin) / total);
            return piece;
        }), FINAL.has(job.state) ? el("span", {class: `piece end ${job.state}`}, job.state) : "");
    }

    choose(name) {
        const found = PARTS.find(([one]) => one === name) ?? PARTS[0];
        if (this.name === found[0]) return;
        this.name = found[0];
        this.current?.close?.();
        for (const tab of this.tabs.children) {
            tab.setAttribute("aria-selected", String(tab.dataset.tab === this.name));
            tab.tabIndex = tab.dataset.tab === this.name ? 0 : -1;
        }
        this.part.setAttribute("aria-labelledby", `tab-${this.name}`);
        const host = el("div", {}); // of this part alone: what an earlier one is still waiting for fills its own, which is gone
        fill(this.part, host);
        history.replaceState(history.state, "", `#/jobs/${this.id}?tab=${this.name}`);
        this.current = new found[2](host, this.shown);
    }

    key(event) {
        const index = Number(event.key) - 1;
        if (PARTS[index]) this.choose(PARTS[index][0]);
        else if (["ArrowLeft", "ArrowRight"].includes(event.key) && event.target.closest?.("[role=tab]")) {
            const at = PARTS.findIndex(([one]) => one === this.name),
                next = (at + (event.key === "ArrowRight" ? 1 : PARTS.length - 1)) % PARTS.length;
            this.choose(PARTS[next][0]);
            this.tabs.children[next].focus();
        } else if (event.key === "Escape") location.hash = "#/jobs";
        else return false;
        return true;
    }

    redraw() { this.current?.redraw?.(); }

    close() {
        this.closed = true;
        this.stop();
        this.current?.close?.();
    }
}

export const open = (host, id, parameters) => new JobView(host, id, parameters);
