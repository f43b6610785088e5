// store.js: all jobs that the user may see, kept up to date. The daemon says that something changed; what is small is asked for at
// once (the newest jobs, those that run), the long rest at longer intervals the longer it takes.
import {call, CallError, ACTIVE, FINAL} from "./api.js";
import {follow} from "./live.js";

const PAGE = 500;
const jobs = new Map();
const listeners = new Set();
let order = [];        // numbers, the newest first
let all = false;       // every page has been read once
let walkEnd = 0, walkSeconds = 0, walking = null, refreshing = false, again = false, timer = null;

export const byId = (id) => jobs.get(id);
export const list = () => order.map((id) => jobs.get(id));
export const complete = () => all;

/** `tell()` is called when jobs have changed. Returns what ends that. */
export function onJobs(tell) {
    listeners.add(tell);
    return () => listeners.delete(tell);
}

function tellAll() {
    order = [...jobs.keys()].sort((a, b) => b - a);
    for (const tell of listeners) tell();
}

const take = (page) => { for (const job of page) jobs.set(job.id, job); };

/** Jobs between two pages' ends that the daemon did not list have been removed. */
function forget(page, below, last) {
    const there = new Set(page.map((job) => job.id));
    const lowest = last ? 0 : page[page.length - 1].id;
    for (const id of jobs.keys()) if (id < below && id >= lowest && !there.has(id)) jobs.delete(id);
}

async function page(before) {
    const reply = await call("List", {limit: PAGE, ...(before ? {before} : {})});
    take(reply.jobs);
    if (reply.jobs.length || !reply.next) forget(reply.jobs, before ?? Infinity, !reply.next);
    return reply.next;
}

let urgent = Promise.resolve();

/** The long list waits for what the user looks at. */
export const first = (work) => { urgent = Promise.allSettled([urgent, work]); return work; };

async function walk() {
    const begun = performance.now();
    let before = null, begins = true;
    do {
        before = await page(before);
        if (begins || !all) tellAll();
        begins = false;
        await urgent;
    } while (before);
    all = true;
    walkEnd = performance.now();
    walkSeconds = (walkEnd - begun) / 1000;
    tellAll();
}

const walkAll = () => walking ??= walk().finally(() => { walking = null; });

/** The newest page, the jobs that run, and those that ran a moment ago. */
async function refresh() {
    const more = await page(null);
    const listed = new Set();
    for (let before = null, next = 1; more && next; before = next) {
        const reply = await call("List", {states: [...ACTIVE, "paused"], limit: PAGE, ...(before ? {before} : {})});
        take(reply.jobs);
        for (const job of reply.jobs) listed.add(job.id);
        next = reply.next;
    }
    const gone = more ? [...jobs.values()].filter((job) => job.id < more && ACTIVE.includes(job.state) && !listed.has(job.id)) : [];
    for (const job of gone.slice(0, 50)) {
        const reply = await call("List", {before: job.id + 1, limit: 1});
        if (reply.jobs[0]?.id === job.id) take(reply.jobs);
        else jobs.delete(job.id);
    }
    tellAll();
    return Boolean(more);
}

async function update() {
    if (refreshing) { again = true; return; }
    refreshing = true;
    try {
        do {
            again = false;
            if (!all) await walkAll();
            else if (await refresh()) later();
        } while (again);
    } catch (error) {
        if (!(error instanceof CallError)) throw error; // live.js tells that the daemon is away, and asks again
    } finally {
        refreshing = false;
    }
}

function later() {
    const due = walkEnd + Math.max(5, 20 * walkSeconds) * 1000 - performance.now();
    timer ??= setTimeout(() => { timer = null; walkAll().catch(() => {}); }, Math.max(0, due));
}

/** One job as a call has just answered it. */
export function put(job) {
    jobs.set(job.id, job);
    tellAll();
}

/** Asks now, without waiting for news. */
export const poke = () => update();

const changeListeners = new Set();
/** `tell()` is called when anything of the daemon has changed: jobs, devices. */
export function onChange(tell) {
    changeListeners.add(tell);
    return () => changeListeners.delete(tell);
}

export function start() {
    follow("Changes", () => ({}), () => {
        update();
        for (const tell of changeListeners) tell();
    });
}

/** How many jobs each state has. */
export function states() {
    const found = {};
    for (const job of jobs.values()) found[job.state] = (found[job.state] ?? 0) + 1;
    return found;
}

export const isFinal = (job) => FINAL.has(job.state);
