// job_parts.js: the parts of a job that are tables: decisions, history, profile, specification.
import {call, textExact} from "./api.js";
import {el, fill, empty, facts, stateChip, table} from "./dom.js";
import {bytes, duration, moment, percent, value} from "./format.js";

function candidates(list) {
    return table(["Device", "Verdict", {text: "Ends in", class: "num"}, {text: "Step", class: "num"}, {text: "Needs", class: "num"},
        {text: "Free", class: "num"}, "From", {text: "Why", class: "wide"}],
        list.map((one) => [one.device, one.verdict, duration(one.seconds), duration(one.step_seconds), bytes(one.memory),
            bytes(one.headroom),
            one.basis ?? "", one.reason ?? ""]), "What each device offers");
}

function decision(one, title) {
    return el("article", {class: "card decision"},
        el("header", {}, el("h2", {}, title), el("span", {class: "dim num"}, one.time ? moment(one.time) : "")),
        el("p", {}, el("b", {}, one.verdict), one.device ? ` on ${one.device}` : "", one.attempt ? ` (attempt ${one.attempt})` : "",
            one.reason ? `: ${one.reason}` : ""),
        one.needs && el("p", {class: "warning"}, `It starts when: ${one.needs}`),
        one.candidates?.length ? candidates(one.candidates) : "");
}

/** Why the job is where it is: each decision, with what every device offered. */
export class Decisions {
    constructor(host, shown) {
        this.host = host;
        this.id = shown.job.id;
        this.update(shown);
    }

    async update(shown) {
        const stamp = `${shown.job.state} ${shown.job.attempt} ${shown.job.reason} ${shown.transitions?.length}`;
        if (this.stamp === stamp) return;
        this.stamp = stamp;
        try {
            const reply = await call("Explain", {id: this.id});
            if (this.stamp !== stamp) return; // a later answer is on its way, or is here
            const list = reply.decisions.map((one) => decision(one, one.attempt ? `Attempt ${one.attempt}` : "Latest decision")).reverse();
            fill(this.host, el("div", {class: "stack"}, reply.now ? decision(reply.now, "A decision made now") : "", list,
                !reply.now && list.length === 0 ? empty("No decision has been made about it.") : "",
                reply.edits?.length ? [el("h2", {}, "Edits"),
                    table(["Time", {text: "Change", class: "wide"}], reply.edits.map((one) => [moment(one.time), one.reason ?? ""]),
                        "Edits")] : ""));
        } catch (error) {
            if (this.stamp === stamp) fill(this.host, empty(error.message));
        }
    }
}

/** States, attempts, checkpoints, dependencies. */
export class History {
    constructor(host, shown) {
        this.host = host;
        this.update(shown);
    }

    async update(shown) {
        const stamp = `${shown.transitions?.length} ${shown.attempts?.length} ${shown.job.state} ${shown.job.best?.step}`;
        if (this.stamp === stamp) return;
        this.stamp = stamp;
        const kept = await call("Checkpoints", {id: shown.job.id}).catch(() => ({checkpoints: []}));
        if (this.stamp !== stamp) return;
        const titled = (title, headings, rows) => rows.length ? [el("h2", {}, title), table(headings, rows, title)] : "";
        const number = (text) => ({text, class: "num"});
        fill(this.host, el("div", {class: "stack"},
            titled("States", ["Time", "From", "To", {text: "Why", class: "wide"}], [...shown.transitions ?? []].reverse().map((one) =>
                [el("span", {class: "num"}, moment(one.time)), one.from ?? "", stateChip(one.to), one.reason ?? ""])),
            titled("Attempts", [number("Attempt"), "Device", "Started", number("Ran"), "Ended", number("Memory"), number("Step"),
                {text: "Message", class: "wide"}],
                [...shown.attempts ?? []].reverse().map((one) => [String(one.number), one.device, moment(one.started),
                    one.ended ? duration(one.ran ?? one.ended - one.started) : "runs",
                    one.ending ? `${one.ending}${one.exit_status ? ` ${one.exit_status}` : ""}${one.signal ? ` by signal ${one.signal}` : ""}` : "",
                    bytes(one.peak_bytes), duration(one.step_seconds), one.message ?? ""])),
            titled("Dependencies", ["Job", "Waits for", "State"], (shown.dependencies ?? []).map((one) =>
                [el("a", {href: one.sweep ? `#/sweeps/${one.sweep}` : `#/jobs/${one.job}`},
                    one.sweep ? `sweep ${one.sweep}` : String(one.job)), one.on, one.state ? stateChip(one.state) : "removed"])),
            titled("Checkpoints", [number("Step"), "Time", number("Size"), "", "Metrics"], kept.checkpoints.map((one) =>
                [value(one.step), moment(one.time), bytes(one.bytes), one.best ? "best" : "",
                    Object.entries(one.metrics).map(([name, number]) => `${name} ${value(number)}`).join(", ")]))));
    }
}

/** Where the time went (docs/profile.md). */
export class Profile {
    constructor(host, shown) {
        this.host = host;
        this.id = shown.job.id;
        this.update(shown);
    }

    async update(shown) {
        const stamp = shown.job.state;
        if (this.stamp === stamp) return;
        this.stamp = stamp;
        try {
            const {profile, attempt} = await call("Profile", {id: this.id});
            if (this.stamp !== stamp) return;
            const steps = profile.batches || 1, number = (text) => ({text, class: "num"});
            const rows = (list, key) => (list ?? []).slice(0, 40).map((row) => [row[key] ?? row.name ?? "?", String(row.calls ?? ""),
                value(row.seconds / steps * 1e3), bar(row.share), row.flops ? (row.flops / row.seconds / 1e9).toFixed(1) : "",
                row.ceiling_share ? `${percent(row.ceiling_share)} ${row.bound ?? ""}` : ""]);
            const headings = (what) => [what, number("Calls"), number("ms/step"), "Share", number("GFLOP/s"), "Of ceiling"];
            fill(this.host, el("div", {class: "stack"}, facts([["Attempt", String(attempt)], ["Device", profile.model],
                ["Precision", profile.precision],
                ["Steps recorded", String(steps)], ["Batch", String(profile.batch_size ?? "")],
                    ["Threads", String(profile.threads_used ?? "")]]),
                el("h2", {}, "Phases of the whole run"), phases(profile.phases ?? {}),
                el("h2", {}, "Operators"), table(headings("Operator"), rows(profile.operators, "operator"), "Operators"),
                profile.layers?.length ? [el("h2", {}, "Layers"), table(headings("Layer"), rows(profile.layers, "layer"), "Layers")] : ""));
        } catch (error) {
            if (this.stamp === stamp) fill(this.host, empty(error.message));
        }
    }
}

function bar(share) {
    const inner = el("i");
    inner.style.width = `${Math.min(1, share ?? 0) * 100}%`;
    return el("span", {class: "share"}, el("span", {class: "track"}, inner), el("span", {class: "num"}, percent(share)));
}

function phases(list) {
    const entries = Object.entries(list).filter(([, seconds]) => typeof seconds === "number"),
        total = entries.reduce((sum, [, seconds]) => sum + seconds, 0) || 1;
    return table(["Phase", {text: "Time", class: "num"}, "Share"], entries.sort((a, b) => b[1] - a[1]).map(([name, seconds]) =>
        [name, duration(seconds), bar(seconds / total)]), "Phases");
}

/** The specification with its defaults, and what the plan says. */
export class Specification {
    constructor(host, shown) {
        const {spec, plan} = shown;
        fill(host, el("div", {class: "stack"}, el("pre", {class: "spec", tabindex: "0"}, textExact(spec, 2)),
            plan ? el("details", {}, el("summary", {}, "Plan"), el("pre", {}, JSON.stringify(plan, null, 2))) : ""));
    }
}
