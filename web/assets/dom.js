// dom.js: makes elements. Text of jobs becomes text nodes alone, never markup: nothing here or elsewhere parses HTML.

/** An element. `properties`: "class", "onclick" and the like, everything else an attribute (false and null: none). */
export function el(tag, properties, ...children) {
    const element = tag.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", tag.slice(4))
                                           : document.createElement(tag);
    for (const [name, value] of Object.entries(properties ?? {})) {
        if (value === null || value === undefined || value === false) continue;
        if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
        else if (name === "value") element.value = value;
        else element.setAttribute(name, value === true ? "" : String(value));
    }
    add(element, children);
    return element;
}

function add(element, children) {
    for (const child of children.flat(Infinity)) {
        if (child === null || child === undefined || child === false) continue;
        element.append(child instanceof Node ? child : document.createTextNode(String(child)));
    }
}

const NAMES = ["href", "data-job", "data-sort", "data-action"];

/** Finds a link or a button again in what replaces it; null: the element is none that can be told from others. */
function selectorOf(element) {
    const name = NAMES.find((one) => element.hasAttribute(one));
    return name ? `${element.tagName}[${name}="${CSS.escape(element.getAttribute(name))}"]` : null;
}

let pressed = null;           // what the pointer went down on, until it goes up again
const delayed = new Map();    // element: what it shall hold then

/** A click is one on an element that is there from the press to the release, so until then nothing around it is replaced. */
function release() {
    pressed = null;
    const waiting = [...delayed];
    delayed.clear();
    for (const [element, children] of waiting) fill(element, ...children);
}

addEventListener("pointerdown", (event) => { pressed = event.target; }, true);
for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => setTimeout(release, 0), true); // behind the click
addEventListener("click", () => { pressed = null; }, true); // what the click itself changes is shown at once
addEventListener("pointermove", (event) => { if (pressed && event.buttons === 0) release(); }, true); // it went up elsewhere

/** Replaces what the element holds. A link or a button that has the focus keeps it, if it is there again. */
export function fill(element, ...children) {
    if (pressed && pressed !== element && element.contains(pressed)) {
        delayed.set(element, children);
        return element;
    }
    delayed.delete(element);
    const active = document.activeElement;
    const selector = active !== element && element.contains(active) ? selectorOf(active) : null;
    element.replaceChildren();
    add(element, children);
    if (selector) element.querySelector(selector)?.focus({preventScroll: true});
    return element;
}

/** Whether the user is selecting text in the element: then it is not replaced. */
export function selecting(element) {
    const selection = getSelection();
    return !selection.isCollapsed && element.contains(selection.anchorNode);
}

/** Sets text only where it has changed, so that a selection or a screen reader is not disturbed. */
export function setText(element, text) {
    if (element.textContent !== text) element.textContent = text;
}

export const stateChip = (state) => el("span", {class: `state ${state}`}, state);

/** A labelled list of facts: [[label, value], …]; empty values are left out. */
export function facts(pairs) {
    return el("dl", {class: "facts"}, pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
        .map(([label, value]) => el("div", {}, el("dt", {}, label), el("dd", {}, value))));
}

export const empty = (...text) => el("p", {class: "empty"}, ...text);

/** A table: headings and rows of cells; a heading {text, class} gives its column that class. */
export function table(headings, rows, caption) {
    const columns = headings.map((heading) => typeof heading === "string" ? {text: heading} : heading);
    return el("div", {class: "table-frame", tabindex: "0", role: "region", "aria-label": caption ?? "table"}, el("table", {},
        el("thead", {}, el("tr", {}, columns.map((column) => el("th", {scope: "col", class: column.class}, column.text)))),
        el("tbody", {}, rows.map((row) => el("tr", {class: row.class}, (row.cells ?? row).map((cell, index) =>
            el("td", {class: columns[index].class}, cell)))))));
}

/** A line in the corner that goes away by itself; failures stay longer. */
export function note(text, failed = false) {
    const line = el("div", {class: failed ? "note failed" : "note"}, text);
    document.getElementById("notes").append(line);
    setTimeout(() => line.remove(), failed ? 12000 : 5000);
}
