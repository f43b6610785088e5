// live.js: what the page follows. All of it goes through one connection, because a browser has six for a server, and each tab
// needs some for its calls. A hidden tab follows nothing.
import {request, replyOf, CallError} from "./api.js";

const followed = new Set();
let abort = null, restart = null, pause = 250;
let tellStatus = () => {};

/** `tell` is called with null when the daemon answers, and with the error when it does not. */
export const onStatus = (tell) => { tellStatus = tell; };

/**
 * Follows a method of the daemon. `parameters()` is asked anew each time that the connection is made, so that it goes on where it
 * stopped; null: it has ended. `take(parameters)` gets each reply, `fail(error)` what the daemon refused. Returns what ends it.
 */
export function follow(method, parameters, take, fail = () => {}) {
    const one = {method, parameters, take, fail, ended: false};
    followed.add(one);
    schedule(0);
    return () => {
        if (followed.delete(one)) schedule(50);
    };
}

function schedule(milliseconds) {
    clearTimeout(restart);
    restart = setTimeout(run, milliseconds);
}

async function* lines(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const {value, done} = await reader.read();
        if (done) return;
        const parts = (rest + value).split("\n");
        rest = parts.pop();
        for (const part of parts) if (part) yield part;
    }
}

/** Hands a reply on, unless nobody follows it any more. False: the daemon is away. */
function take(one, reply) {
    if (!followed.has(one)) return true;
    let parameters;
    try {
        parameters = replyOf(reply);
    } catch (error) {
        if (error.name === "Unreachable") {
            tellStatus(error);
            return false;
        }
        one.ended = true;
        one.fail(error);
        return true;
    }
    if (!reply.continues) one.ended = true;
    pause = 250;
    tellStatus(null);
    one.take(parameters, one.ended);
    return true;
}

async function run() {
    abort?.abort();
    if (document.hidden) return;
    const calls = [...followed].filter((one) => !one.ended)
        .map((one) => ({one, parameters: one.parameters()})).filter((each) => each.parameters);
    if (calls.length === 0) return;
    const mine = abort = new AbortController();
    let refused = false;
    try {
        const response = await request("/api/stream", {calls: calls.map(({one, parameters}) => ({method: one.method, parameters}))},
                                       mine.signal);
        if (!response.ok) throw new CallError(`HTTP ${response.status}`, await response.text());
        for await (const line of lines(response.body)) {
            if (mine.signal.aborted) return;
            const {call, reply} = JSON.parse(line);
            if (!take(calls[call].one, reply)) break;
        }
    } catch (error) {
        if (mine.signal.aborted) return;
        const told = error instanceof CallError ? error : new CallError("Unreachable", "traind-web does not answer; it may have ended");
        refused = told.name === "HTTP 401"; // the same token would be refused again
        tellStatus(told);
    }
    if (mine.signal.aborted || refused) return;
    mine.abort();
    pause = Math.min(pause * 2, 5000);
    schedule(pause);
}

document.addEventListener("visibilitychange", () => document.hidden ? abort?.abort() : schedule(0));
