// app.js: the frame around the views: addresses, keys, theme, and what is told when the daemon is away.
import {takeToken, keepToken, about} from "./api.js";
import {el, fill, empty} from "./dom.js";
import {ask} from "./dialog.js";
import {here} from "./actions.js";
import {onStatus} from "./live.js";
import * as store from "./store.js";
import * as jobs from "./jobs.js";
import * as job from "./job.js";
import * as queue from "./queue.js";
import * as devices from "./devices.js";
import * as device from "./device.js";
import * as compare from "./compare.js";
import * as sweeps from "./sweeps.js";
import * as sweep from "./sweep.js";
import * as submit from "./submit.js";

const VIEWS = {__proto__: null, jobs: [jobs, job], queue: [queue], devices: [devices, device], compare: [compare],
    sweeps: [sweeps, sweep], submit: [submit]};
const main = document.getElementById("main"), banner = document.getElementById("banner");
let view = null;
let depth = -1;     // how many views of this page lie behind the present one
let asking = false; // for a token: nothing else is shown

/** #/jobs/12?tab=log → the view of one job, "12", {tab: "log"}. */
function show() {
    if (takeToken()) { location.reload(); return; }
    if (asking) return;
    depth = history.state?.depth ?? depth + 1;
    history.replaceState({depth}, "");
    const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
    const [name, id] = path.split("/");
    const [all, one] = VIEWS[name] ?? VIEWS.jobs;
    view?.close();
    view = null;
    for (const link of document.querySelectorAll("nav a"))
        if (link.dataset.view === (name in VIEWS ? name : "jobs")) link.setAttribute("aria-current", "page");
        else link.removeAttribute("aria-current");
    document.title = `${name && name !== "jobs" ? `${name} ` : ""}${id ? `${id} ` : ""}· traind`.replace(/^·/, "jobs ·");
    const parameters = Object.fromEntries(new URLSearchParams(query ?? ""));
    const key = one === device ? id : /^\d+$/.test(id) ? Number(id) : null;
    view = key && one ? one.open(main, key, parameters) : all.open(main, parameters);
    main.scrollTop = 0;
}

const KEYS = [["j k", "next and previous job"], ["Enter", "open the job"], ["x", "mark the job"], ["c", "compare marked jobs"],
    ["Del", "cancel marked jobs"], ["/", "filter"], ["g then j q d c s", "jobs, queue, devices, compare, sweeps"], ["n", "submit"],
    ["1 … 6", "parts of a job"], ["Esc", "back"], ["t", "light or dark"], ["?", "this list"]];

const help = () => ask("Keyboard", el("dl", {class: "keys"}, KEYS.map(([keys, what]) =>
    el("div", {}, el("dt", {}, keys.split(" ").map((key) => key === "then" || key === "…" ? ` ${key} ` : el("kbd", {}, key))),
       el("dd", {}, what)))), [["Close", true, "primary"]]);

function toggleTheme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("theme", root.dataset.theme);
    view?.redraw?.();
}

let waitsForView = false;

function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.closest?.("input:not([type=checkbox]),textarea,select")) {
        if (event.key === "Escape") event.target.blur();
        return;
    }
    const views = {j: "jobs", q: "queue", d: "devices", c: "compare", s: "sweeps"};
    if (waitsForView && event.key in views) location.hash = `#/${views[event.key]}`;
    else if (event.key === "g") { waitsForView = true; event.preventDefault(); return; }
    else if (event.key === "?") help();
    else if (event.key === "t") toggleTheme();
    else if (event.key === "n" && !here.readOnly) location.hash = "#/submit";
    else if (!view?.key?.(event)) {
        if (event.key !== "Escape") { waitsForView = false; return; }
        if (depth > 0) history.back(); // the page before the first view is another site's
    }
    waitsForView = false;
    event.preventDefault();
}

/** Without a token nothing is answered: says so, and takes one that is pasted. */
function askForToken() {
    if (asking) return;
    asking = true;
    view?.close();
    view = null;
    addEventListener("storage", (event) => { if (event.key === "token") location.reload(); }); // another tab was opened with one
    const input = el("input", {"aria-label": "Token", placeholder: "the token, or the whole address", spellcheck: "false",
        autocomplete: "off"}), message = el("p", {class: "error", role: "alert"});
    fill(main, el("form", {class: "view narrow", onsubmit: (event) => {
        event.preventDefault();
        if (!keepToken(input.value)) { fill(message, "This is no token: one has 64 digits and letters from a to f."); return; }
        location.hash = "#/jobs";
        location.reload();
    }}, el("h1", {}, "Who are you?"),
    el("p", {}, "Open the address that traind-web printed when it started, with the token at its end. Or paste it here:"),
    el("div", {class: "row token"}, input, el("button", {class: "primary"}, "Open")), message));
}

function tellStatus(error) {
    banner.hidden = !error;
    if (!error) return;
    if (error.name === "HTTP 401") { banner.hidden = true; askForToken(); return; }
    fill(banner, el("b", {}, "No live data: "), error.message, ". Trying again…");
}

async function start() {
    takeToken();
    onStatus(tellStatus);
    addEventListener("hashchange", show);
    document.addEventListener("keydown", onKey);
    document.getElementById("help").addEventListener("click", help);
    document.getElementById("theme").addEventListener("click", toggleTheme);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => view?.redraw?.());
    try {
        const found = await about();
        Object.assign(here, {user: found.user, directory: found.directory, readOnly: found.read_only});
        document.getElementById("who").textContent = found.user ?? "";
        document.getElementById("who").title = `traind-web ${found.version} acts as ${found.user}`;
    } catch (error) {
        if (error.name === "HTTP 401") { askForToken(); return; }
        fill(main, empty(error.message));
    }
    if (here.readOnly) document.querySelector("nav a[data-view=submit]").hidden = true;
    show();
    store.start();
}

start();
