// dialog.js: questions to the user. The browser's own dialog element keeps the focus inside, and Escape closes it.
import {el, fill} from "./dom.js";

/** Shows a dialog and resolves with what the pressed button stands for; null: it was closed. `actions`: [[label, result, class], …] */
export function ask(title, content, actions) {
    return new Promise((resolve) => {
        let result = null;
        const dialog = el("dialog", {"aria-label": title},
            el("form", {method: "dialog", onsubmit: (event) => event.preventDefault()},
                el("h2", {}, title), content,
                el("div", {class: "actions"}, actions.map(([label, value, style]) => el("button", {
                    type: "button", class: style, autofocus: style?.includes("primary") || style?.includes("danger"),
                    onclick: () => { result = value; dialog.close(); }}, label)))));
        dialog.addEventListener("close", () => { dialog.remove(); resolve(result); });
        dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
        document.body.append(dialog);
        dialog.showModal();
    });
}

export const confirm = (title, text, label) =>
    ask(title, el("p", {}, text), [["Keep", null, "quiet"], [label, true, "danger"]]);

/** A form that stays open until `send(values)` succeeds; what it throws is shown. Resolves true if it did. */
export function form(title, fields, label, send) {
    return new Promise((resolve) => {
        let done = false;
        const message = el("p", {class: "error", role: "alert"});
        const button = el("button", {type: "submit", class: "primary"}, label);
        const body = el("form", {onsubmit: async (event) => {
            event.preventDefault();
            button.disabled = true;
            fill(message);
            try {
                await send(Object.fromEntries(fields.map((field) => [field.name, field.input.value])));
                done = true;
                dialog.close();
            } catch (error) {
                fill(message, error.message);
            }
            button.disabled = false;
        }}, el("h2", {}, title), fields.map((field) => el("label", {class: "field"}, el("span", {}, field.label), field.input,
            field.hint && el("small", {}, field.hint))), message,
        el("div", {class: "actions"}, el("button", {type: "button", class: "quiet", onclick: () => dialog.close()}, "Close"), button));
        const dialog = el("dialog", {"aria-label": title}, body);
        dialog.addEventListener("close", () => { dialog.remove(); resolve(done); });
        document.body.append(dialog);
        dialog.showModal();
    });
}
