// Keys that work wherever nothing is being written, and their list.
import {byId, el} from "./dom.js";

const kListed = [
  ["Enter", "send"],
  ["Shift + Enter", "break the line"],
  ["\u2191", "in an empty field: change your last message"],
  ["Esc", "stop the answer, or leave what is open; else the message field"],
  ["/", "write a message"],
  ["N", "new conversation"],
  ["C", "go to the conversations"],
  ["R", "answer again"],
  ["[  and  ]", "earlier and later alternative of the last turn"],
  ["S", "settings"],
  ["T", "light, dark, as the system"],
  ["?", "this list"],
];

function isWriting(target) {
  return target instanceof HTMLElement &&
      (target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName));
}

// `actions` by key, and escape().
export function listenToKeys(actions) {
  byId("shortcut-list").append(...kListed.flatMap(([keys, does]) => [el("dt", {}, keys), el("dd", {}, does)]));
  document.addEventListener("keydown", (event) => {
    if (event.isComposing || document.querySelector("dialog[open]")) return;
    if (event.key === "Escape") return actions.escape(event);
    if (event.ctrlKey || event.metaKey || event.altKey || isWriting(event.target)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : "";
    if (!Object.hasOwn(actions, key)) return;
    event.preventDefault();
    actions[key]();
  });
}
