import {fill, empty} from "./dom.js"; export function open(host) { fill(host, empty("soon")); return {close() {}}; }
