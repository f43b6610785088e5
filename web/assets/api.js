// api.js: calls to the daemon through traind-web. The token came in the address that traind-web printed; it is kept for this
// origin alone, and goes into a header, which no other page can send.

export const FINAL = new Set(["done", "failed", "cancelled"]);
export const ACTIVE = ["starting", "running", "preempting"];

const INTEGER = "\0integer:"; // before the digits of an integer that JavaScript has no number for

/** Parses a specification: integers beyond 2^53, such as a seed, become texts that textExact() writes as they were. */
export const parseExact = (text) => JSON.parse(text.replace(/"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g, (one) =>
    /^-?\d+$/.test(one) && !Number.isSafeInteger(Number(one)) ? JSON.stringify(INTEGER + one) : one));

export const textExact = (content, indent) => JSON.stringify(content, null, indent).replace(/"\\u0000integer:(-?\d+)"/g, "$1");

export class CallError extends Error {
    /** `name`: the error of io.traind, "Unreachable", "Refused" or "HTTP 401". */
    constructor(name, message, parameters) {
        super(message);
        this.name = name;
        this.parameters = parameters ?? {};
    }
}

/** Keeps the token that a text ends with, such as the address that traind-web printed. False: there is none. */
export function keepToken(text) {
    const match = text.trim().match(/(?:^|token=)([0-9a-f]{64})$/i);
    if (match) localStorage.setItem("token", match[1]);
    return Boolean(match);
}

/** Takes the token out of the address, so that it is neither shown nor bookmarked. False: there is none. */
export function takeToken() {
    if (!location.hash.startsWith("#token=") || !keepToken(location.hash)) return false;
    history.replaceState(history.state, "", location.pathname + "#/jobs");
    return true;
}

export function request(path, body, signal) {
    return fetch(path, {
        method: "POST", signal, cache: "no-store", credentials: "omit", redirect: "error",
        headers: {"Content-Type": "application/json", "Authorization": `Bearer ${localStorage.getItem("token") ?? ""}`},
        body: textExact(body),
    });
}

function errorOf(reply) {
    const name = reply.error.split(".").pop(), parameters = reply.parameters ?? {};
    return new CallError(name, parameters.message ?? `the daemon answered ${name} ${JSON.stringify(parameters)}`, parameters);
}

/** The metrics of a job or a checkpoint whose last value is not finite are NaN here; JSON has no such number. */
function completeMetrics(one) {
    for (const name of one.nonfinite ?? []) one.metrics[name] = NaN;
}

/** The parameters of a reply; throws a CallError. */
export function replyOf(reply) {
    if (reply.error) throw errorOf(reply);
    const parameters = reply.parameters ?? {}, {job, jobs, checkpoints} = parameters;
    for (const one of [job, ...jobs ?? [], ...checkpoints ?? []]) if (one) completeMetrics(one);
    return parameters;
}

async function answer(path, body) {
    let response, content;
    try {
        response = await request(path, body);
        const text = await response.text();
        content = response.ok ? JSON.parse(text) : text;
        if (content.parameters?.spec) content.parameters.spec = parseExact(text).parameters.spec;
    } catch { // no answer, or half of one
        throw new CallError("Unreachable", "traind-web does not answer; it may have ended");
    }
    if (!response.ok) throw new CallError(`HTTP ${response.status}`, content);
    return replyOf(content);
}

export const call = (method, parameters = {}) => answer("/api/call", {method, parameters});
export const about = () => answer("/api/about", {});
