// devices.js: a card for each device, with its use since the page was opened; device.js has what the daemon sampled before.
import {call} from "./api.js";
import {el, fill, empty, facts, selecting} from "./dom.js";
import {bytes, percent, value} from "./format.js";
import {sparkline} from "./sparkline.js";
import * as store from "./store.js";

const SECONDS = 2, READINGS = 900; // half an hour
const history = new Map(); // name: [{time, utilisation, memory}]
let timer = null, known = null;
const listeners = new Set();

/** The devices as last read; null: not yet. */
export const latest = () => known;

/** `tell()` is called when they have been read. Returns what ends that. */
export function follow(tell) {
    listeners.add(tell);
    const stop = store.onChange(read), stopJobs = store.onJobs(tell);
    collect();
    return () => { listeners.delete(tell); stop(); stopJobs(); };
}

/** How busy it is: utilisation where it is measured; else, of the CPU, how much of the time some process waits for a core. */
const busy = (device) => (device.utilisation ?? device.cores_busy ?? null) !== null ? ["Utilisation", device.utilisation ?? device.cores_busy] :
    ["Time in which some process waits for a core", device.cpu_pressure ?? null];

async function read() {
    if (document.hidden) return;
    try {
        known = (await call("Devices")).devices;
    } catch { return; /* the banner tells it */ }
    for (const device of known) {
        const readings = history.get(device.name) ?? history.set(device.name, []).get(device.name);
        readings.push({time: Date.now() / 1000, busy: busy(device)[1],
                       memory: device.memory_total ? device.memory_used / device.memory_total : null});
        if (readings.length > READINGS) readings.shift();
    }
    for (const tell of listeners) tell();
}

/** Begins to collect the history, if that has not begun. */
function collect() {
    if (timer) return;
    timer = setInterval(read, SECONDS * 1000);
    read();
}

function meter(label, part, text, style) {
    return el("div", {class: "meter"}, el("span", {}, label), el("span", {class: "num"}, text),
        el("div", {class: "track", role: "meter", "aria-label": label, "aria-valuemin": 0, "aria-valuemax": 100,
                   "aria-valuenow": Math.round((part ?? 0) * 100)}, bar(part, style)));
}

function bar(part, style) {
    const inner = el("i", {class: style});
    inner.style.width = `${Math.min(1, part ?? 0) * 100}%`;
    return inner;
}

export function card(device, linked = true) {
    const readings = history.get(device.name) ?? [];
    const [label, part] = busy(device);
    const used = device.memory_total ? device.memory_used / device.memory_total : null;
    return el("article", {class: "card device", "data-device": device.name},
        el("header", {}, el("h2", {}, device.name), el("span", {class: `health ${device.health}`}, device.health)),
        el("p", {class: "dim"}, device.model, device.cores ? ` · ${device.cores} cores` : ""),
        device.health_reason && el("p", {class: "error"}, device.health_reason),
        part !== null && [meter(label, part, percent(part), "accent"),
            sparkline(readings.map((reading) => reading.busy), `${label}, ${device.name}, since this page was opened`, "accent")],
        meter("Memory", used, `${bytes(device.memory_used)} of ${bytes(device.memory_total)}`, "memory"),
        sparkline(readings.map((reading) => reading.memory), `Memory of ${device.name} since this page was opened`, "memory"),
        facts([["Booked by jobs", bytes(device.memory_booked)],
            ["Held by others", device.memory_outside ? bytes(device.memory_outside) : null],
               ["Temperature", device.temperature ? `${Math.round(device.temperature)} °C` : null],
               ["Power", device.power_watts ? `${Math.round(device.power_watts)} W` : null],
               ["Uncorrectable errors", device.ecc_errors ? value(device.ecc_errors) : null], ["Driver", device.driver]]),
        el("ul", {class: "plain"}, device.jobs.map((id) => {
            const job = store.byId(id), booking = device.bookings?.find((one) => one.job === id);
            return el("li", {}, el("a", {href: `#/jobs/${id}`}, `${id} ${job?.name ?? ""}`),
                      booking ? el("span", {class: "dim num"}, ` ${bytes(booking.bytes)}`) : "");
        })),
        device.jobs.length === 0 && el("p", {class: "dim"}, "No job runs here."),
        linked && el("a", {class: "dim", href: `#/devices/${device.name}`}, `History of ${device.name}`));
}

class Devices {
    constructor(host) {
        this.body = el("div", {class: "cards"});
        fill(host, el("div", {class: "view"}, el("div", {class: "view-head"}, el("h1", {}, "Devices")), this.body));
        this.end = follow(() => this.draw());
        this.draw();
    }

    draw() {
        if (selecting(this.body)) return;
        if (!known) fill(this.body, empty("Loading…"));
        else fill(this.body, known.length ? known.map((device) => card(device)) : empty("The daemon has no device."));
    }

    redraw() { this.draw(); }

    close() {
        this.end();
    }
}

export const open = (host) => new Devices(host);
