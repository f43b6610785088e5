// actions.js: what can be done with jobs. The daemon decides whether it may be; its sentence is shown.
import {call, parseExact, FINAL} from "./api.js";
import {el, note} from "./dom.js";
import {confirm, form} from "./dialog.js";
import * as store from "./store.js";

export const here = {readOnly: false, user: null, directory: "/"};

const runs = (job) => ["starting", "running"].includes(job.state);

/** Name, label, key, and for which jobs it has a meaning. */
export const ACTIONS = [
    {name: "Pause", label: "Pause", fits: (job) => runs(job) || job.state === "queued"},
    {name: "Resume", label: "Resume", fits: (job) => job.state === "paused"},
    {name: "Hold", label: "Hold", fits: (job) => job.state === "queued" && !job.held},
    {name: "Release", label: "Release", fits: (job) => job.state === "queued" && job.held},
    {name: "Requeue", label: "Requeue", fits: runs},
    {name: "Cancel", label: "Cancel", danger: true, fits: (job) => !FINAL.has(job.state)},
];

const nameOf = (job) => `${job.name || "job"} (${job.id})`;

/** Makes the call for each of the jobs that it fits, after a question where work is lost. */
export async function act(action, jobs) {
    const fitting = jobs.filter(action.fits);
    if (fitting.length === 0) {
        note(`${action.label}: none of the jobs is in a state for it`, true);
        return;
    }
    if (action.danger) {
        const subject = fitting.length === 1 ? nameOf(fitting[0]) : `${fitting.length} jobs`;
        if (!await confirm(`${action.label} ${subject}?`, "It ends for good; its metrics, checkpoints and output stay.",
                           `${action.label} ${fitting.length === 1 ? "job" : "jobs"}`)) return;
    }
    let done = 0;
    for (const job of fitting) {
        try {
            store.put((await call(action.name, {id: job.id})).job);
            done++;
        } catch (error) {
            note(`${nameOf(job)}: ${error.message}`, true);
        }
    }
    if (done) note(done === 1 ? `${action.label}: ${nameOf(fitting[0])}` : `${action.label}: ${done} jobs`);
    store.poke();
}

/** Asks what to change of a job, and changes it. */
function edit(job) {
    const fields = [
        {name: "name", label: "Name", input: el("input", {value: job.name, spellcheck: "false"})},
        {name: "priority", label: "Priority", input: el("input", {type: "number", value: job.priority})},
        {name: "group", label: "Group", input: el("input", {value: job.group ?? "", spellcheck: "false"})},
        {name: "more", label: "Further changes", hint: "JSON; null takes a key's default",
         input: el("textarea", {rows: 4, spellcheck: "false", placeholder: '{"time_limit": "2 h"}'})},
    ];
    return form(`Edit ${nameOf(job)}`, fields, "Change", async (values) => {
        const changes = values.more.trim() ? parseExact(values.more) : {};
        if (values.name !== job.name) changes.name = values.name;
        if (Number(values.priority) !== job.priority) changes.priority = Number(values.priority);
        if (values.group !== (job.group ?? "")) changes.group = values.group || null;
        const reply = await call("Edit", {ids: [job.id], changes});
        note(reply.edited[0]?.change ?? "nothing was changed");
        store.poke();
    });
}

/** Asks for a device, and binds the job to it. */
async function move(job) {
    const {devices} = await call("Devices").catch((error) => { note(error.message, true); return {devices: []}; });
    if (devices.length === 0) return;
    const names = [...devices.map((device) => device.name), "auto"];
    const field = {name: "device", label: "Device", hint: "the job then runs on no other; auto ends that",
                   input: el("select", {}, names.map((name) => el("option", {selected: name === job.device}, name)))};
    await form(`Move ${nameOf(job)}`, [field], "Move", async ({device}) => {
        store.put((await call("Move", {id: job.id, device})).job);
        note(`Move: ${nameOf(job)} to ${device}`);
        store.poke();
    });
}

/** The buttons for one job. `latest()` is the job as it is when one of them is pressed. */
export function buttons(job, latest) {
    if (here.readOnly) return [];
    const found = ACTIONS.filter((action) => action.fits(job)).map((action) => el("button", {
        type: "button", class: action.danger ? "danger-quiet" : "", "data-action": action.name,
        onclick: () => act(action, [latest()])}, action.label));
    if (!FINAL.has(job.state))
        found.splice(-1, 0, el("button", {type: "button", "data-action": "Move", onclick: () => move(latest())}, "Move"),
                     el("button", {type: "button", "data-action": "Edit", onclick: () => edit(latest())}, "Edit"));
    return found;
}
