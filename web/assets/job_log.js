// job_log.js: the output of a job, as it comes.
import {el, fill} from "./dom.js";
import {follow} from "./live.js";
import {count} from "./format.js";

const TAIL = 256 * 1024, KEPT = 1024 * 1024; // bytes to begin with, characters on the page
const LINE = 64 * 1024; // characters of a line that is not complete, which a carriage return may still replace

/** What is left of a line: what follows a carriage return replaces it. */
const lineLeft = (line) => line.slice(line.lastIndexOf("\r", line.length - 2) + 1);

/** Output as a terminal would show it, but for its colours. */
export const plain = (text) => text.replace(/\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)/g, "").replace(/\r\n/g, "\n")
    .split("\n").map(lineLeft).join("\n");

export class Log {
    constructor(host, shown) {
        this.job = shown.job;
        this.attempt = null;
        this.seen = shown.job.attempt;
        this.state = shown.job.state;
        this.text = el("pre", {class: "log", tabindex: "0", role: "log", "aria-label": "Output", onscroll: () => this.scrolled()});
        this.status = el("span", {class: "dim num"});
        this.following = el("input", {type: "checkbox", checked: true, onchange: () => this.toEnd()});
        this.attempts = el("select", {"aria-label": "Attempt",
            onchange: () => { this.attempt = this.attempts.value === "" ? null : Number(this.attempts.value); this.begin(); }});
        fill(host, el("div", {class: "tools"}, this.attempts, el("label", {}, this.following, "follow"), this.status), this.text);
        this.fillAttempts(shown);
        this.begin();
    }

    fillAttempts(shown) {
        const numbers = shown.attempts?.map((one) => one.number) ?? [];
        if (this.known === numbers.length) return;
        this.known = numbers.length;
        fill(this.attempts, el("option", {value: ""}, "latest attempt"), el("option", {value: "0"}, "planning"),
             numbers.map((number) => el("option", {value: number, selected: number === this.attempt}, `attempt ${number}`)));
    }

    begin() {
        this.end?.();
        clearTimeout(this.timer);
        this.failed = null;
        this.next = null;
        this.characters = 0;
        this.partial = "";
        fill(this.text);
        this.status.textContent = "no output yet";
        this.end = follow("Logs", () => ({id: this.job.id,
                                          ...(this.next === null ? {tail: TAIL} : {offset: this.next, attempt: this.shownAttempt}),
                                          ...(this.attempt === null ? {} : {attempt: this.attempt})}),
                          (reply) => this.take(reply), (error) => this.fail(error));
    }

    /** An attempt that only just starts has no output that could be followed: it is asked for again. */
    fail(error) {
        this.status.textContent = error.message;
        this.failed = this.state;
        if (this.attempt !== null || this.state === "queued" || this.tries > 5) return;
        this.tries = (this.tries ?? 0) + 1;
        this.timer = setTimeout(() => this.begin(), 500);
    }

    take(reply) {
        this.shownAttempt = reply.attempt;
        this.next = reply.next;
        this.status.textContent = `${count(reply.next)} bytes`;
        if (!reply.text) return;
        const text = this.partial + reply.text, end = text.lastIndexOf("\n") + 1, cut = text.length - end > LINE ? text.length : end;
        this.last?.remove();
        if (cut) {
            const complete = document.createTextNode(plain(text.slice(0, cut)));
            this.text.append(complete);
            this.characters += complete.length;
        }
        this.partial = lineLeft(text.slice(cut));
        this.last = el("span", {}, plain(this.partial));
        this.text.append(this.last);
        while (this.characters > KEPT && this.text.firstChild !== this.last) {
            this.characters -= this.text.firstChild.textContent.length;
            this.text.firstChild.remove();
        }
        this.toEnd();
    }

    toEnd() {
        if (this.following.checked) this.text.scrollTop = this.text.scrollHeight;
    }

    scrolled() {
        const end = this.text.scrollTop + this.text.clientHeight >= this.text.scrollHeight - 24;
        if (end !== this.following.checked) this.following.checked = end;
    }

    update(shown) {
        this.fillAttempts(shown);
        const again = shown.job.attempt !== this.seen || (this.failed && this.failed !== shown.job.state);
        this.seen = shown.job.attempt;
        this.state = shown.job.state;
        if (again && this.attempt === null) this.begin();
    }

    close() {
        clearTimeout(this.timer);
        this.end?.();
    }
}
