// device.js: one device: what it is, what runs there, and how it was used.
import {el, fill, empty} from "./dom.js";
import {card, follow, latest} from "./devices.js";
import {History} from "./history.js";

class Device {
    constructor(host, name) {
        this.name = name;
        this.facts = el("div", {class: "cards"}, empty("Loading…"));
        this.past = el("section", {class: "stack", "aria-label": "History"});
        fill(host, el("div", {class: "view"}, el("div", {class: "view-head"}, el("h1", {}, name),
            el("a", {href: "#/devices"}, "All devices")), this.facts, this.past));
        this.end = follow(() => this.draw());
        this.draw();
    }

    draw() {
        const devices = latest(), device = devices?.find((one) => one.name === this.name);
        if (!devices) return;
        fill(this.facts, device ? card(device, false) : empty(`There is no device ${this.name}.`));
        if (device) this.history ??= new History(this.past, device);
    }

    redraw() {
        this.draw();
        this.history?.redraw();
    }

    close() {
        this.end();
        this.history?.close();
    }
}

export const open = (host, name) => new Device(host, name);
