// submit.js: a specification becomes a job, or a sweep of jobs. What is wrong with it is told by the daemon, at the key.
import {call, parseExact, textExact} from "./api.js";
import {el, fill, note, table} from "./dom.js";
import {duration, bytes, counted} from "./format.js";
import {here} from "./actions.js";
import * as store from "./store.js";

let draft = null; // kept while other views are looked at

const example = () => JSON.stringify({name: "hello", command: ["sh", "-c", "echo hello from traind"], directory: here.directory}, null, 2);

/** Line and column where a key of the specification stands, to put the cursor there; null: not found. */
export function placeOf(text, path) {
    let at = 0;
    for (const key of (path ?? "").replace(/\[\d+\]/g, "").split(".").filter(Boolean)) {
        const found = text.indexOf(JSON.stringify(key), at);
        if (found < 0) return at ? at : null;
        at = found;
    }
    return at;
}

class Submit {
    constructor(host, parameters) {
        this.spec = el("textarea", {rows: 18, spellcheck: "false", "aria-label": "Specification", value: draft?.spec ?? example(),
            oninput: () => this.changed()});
        this.sweep = el("textarea", {rows: 4, spellcheck: "false", "aria-label": "Sweep", value: draft?.sweep ?? "",
            placeholder: '{"train.optimizer.lr": [0.1, 0.01], "train.seed": [1, 2, 3]}', oninput: () => this.changed()});
        this.message = el("div", {class: "message", role: "alert"});
        this.result = el("div", {});
        this.file = el("input", {type: "file", class: "unseen", accept: ".json,application/json", "aria-label": "File",
            onchange: () => this.readFile()});
        this.submitButton = el("button", {type: "submit", class: "primary"}, "Submit");
        fill(host, el("form", {class: "view submit", onsubmit: (event) => { event.preventDefault(); this.submit(); }},
            el("div", {class: "view-head"}, el("h1", {}, "Submit"), el("label", {class: "button"}, "Open a file…", this.file)),
            el("label", {class: "field"}, el("span", {}, "Specification (JSON)"), this.spec),
            el("label", {class: "field"}, el("span", {}, "Sweep, if it shall be many jobs"), this.sweep,
                el("small", {}, "Keys and the values that they take; {\"random\": …} and {\"search\": …} as for trainctl")),
            this.message,
            el("div", {class: "actions start"}, this.submitButton,
                el("button", {type: "button", onclick: () => this.predict()}, "Where would it run?")),
            this.result));
        if (parameters.from) this.copy(Number(parameters.from));
    }

    /** The specification of an earlier job. */
    async copy(id) {
        try {
            const {spec} = await call("Show", {id});
            for (const key of ["after", "at", "put_first", "hold"]) delete spec[key]; // meant for that job
            this.spec.value = textExact(spec, 2);
            this.changed();
        } catch (error) {
            this.fail(error);
        }
    }

    async readFile() {
        const file = this.file.files[0];
        if (!file) return;
        this.spec.value = await file.text();
        this.file.value = ""; // so that the same file can be read again
        this.changed();
    }

    changed() {
        draft = {spec: this.spec.value, sweep: this.sweep.value};
        fill(this.message);
    }

    /** Parses a field; a mistake is told with its place. */
    parse(field, name) {
        try {
            JSON.parse(field.value); // whose message tells the place
            return parseExact(field.value);
        } catch (error) {
            const at = error.message.match(/position (\d+)/);
            if (at) { field.focus(); field.setSelectionRange(Number(at[1]), Number(at[1]) + 1); }
            throw new Error(`The ${name} is not JSON: ${error.message}`);
        }
    }

    fail(error) {
        const {path, nearest} = error.parameters ?? {};
        fill(this.message, el("p", {class: "error"}, error.message,
            nearest && !error.message.includes(nearest) ? ` Did you mean "${nearest}"?` : ""));
        const at = path ? placeOf(this.spec.value, path) : null;
        if (at !== null) { this.spec.focus(); this.spec.setSelectionRange(at, at + path.split(".").pop().length + 2); }
    }

    async submit() {
        fill(this.message);
        this.submitButton.disabled = true;
        try {
            const spec = this.parse(this.spec, "specification");
            if (this.sweep.value.trim()) {
                const reply = await call("SubmitSweep", {spec, sweep: this.parse(this.sweep, "sweep")});
                note(`Sweep ${reply.sweep}: ${counted(reply.count, "job")} submitted`);
                location.hash = `#/sweeps/${reply.sweep}`;
            } else {
                const reply = await call("Submit", {spec});
                note(`Job ${reply.id} is ${reply.state}${reply.note ? `; ${reply.note}` : ""}`);
                location.hash = `#/jobs/${reply.id}`;
            }
            draft = null;
            store.poke();
        } catch (error) {
            this.fail(error);
        }
        this.submitButton.disabled = false;
    }

    async predict() {
        fill(this.message);
        try {
            const reply = await call("Predict", {spec: this.parse(this.spec, "specification")});
            fill(this.result, el("p", {}, el("b", {}, reply.verdict), reply.reason ? `: ${reply.reason}` : "",
                reply.needs ? ` (${reply.needs})` : ""),
                 reply.note ? el("p", {class: "dim"}, reply.note) : "",
                 table(["Device", "Verdict", {text: "Ends in", class: "num"}, {text: "Needs", class: "num"}, {text: "Why", class: "wide"}],
                       reply.candidates.map((one) => [one.device, one.verdict, duration(one.seconds), bytes(one.memory),
                           one.reason ?? ""]), "What each device offers"));
        } catch (error) {
            this.fail(error);
        }
    }

    close() {}
}

export const open = (host, parameters) => new Submit(host, parameters);
