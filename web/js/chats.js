// The list of conversations: open, rename, delete (which can be undone), export, import.
import {byId, el, iconButton} from "./dom.js";
import {titleOf} from "./tree.js";

const kDay = 24 * 60 * 60 * 1000;

function groupOf(time) {
  const midnight = new Date().setHours(0, 0, 0, 0);
  if (time >= midnight) return "Today";
  if (time >= midnight - kDay) return "Yesterday";
  return time >= midnight - 7 * kDay ? "Last seven days" : "Earlier";
}

export function saveFile(name, text) {
  const url = URL.createObjectURL(new Blob([text], {type: "application/json"}));
  el("a", {href: url, download: name}).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

export class ChatList {
  // `actions`: open(id), rename(id, title), remove(id), save(id).
  constructor(actions) {
    this.actions = actions;
    this.list = byId("chat-list");
  }

  show(conversations, open, running) {
    if (this.list.querySelector("input")) return;  // a title is being written
    const focused = this.list.contains(document.activeElement) ? document.activeElement.dataset.focus : undefined;
    let group = null;
    const entries = [];
    for (const conversation of conversations) {
      if (groupOf(conversation.updated) !== group) {
        group = groupOf(conversation.updated);
        entries.push(el("li", {class: "group"}, group));
      }
      entries.push(this.entry(conversation, conversation.id === open, running.has(conversation.id)));
    }
    this.list.replaceChildren(...entries);
    if (focused) this.list.querySelector(`[data-focus="${CSS.escape(focused)}"]`)?.focus();
  }

  entry(conversation, open, running) {
    const {id} = conversation;
    const title = titleOf(conversation);
    const button = el("button", {type: "button", class: "chat", "aria-current": open ? "page" : undefined,
                                 "data-focus": id, onclick: () => this.actions.open(id)},
                      el("span", {}, title), running ? el("span", {class: "pulse", title: "Answering"}) : null);
    return el("li", {class: open ? "entry open" : "entry"}, button,
              el("span", {class: "entry-buttons"},
                 iconButton("edit", `Rename ${title}`, () => this.rename(button, conversation), {"data-focus": id + "e"}),
                 iconButton("download", `Export ${title}`, () => this.actions.save(id), {"data-focus": id + "s"}),
                 iconButton("trash", `Delete ${title}`, () => this.actions.remove(id), {"data-focus": id + "d"})));
  }

  rename(button, conversation) {
    const input = el("input", {class: "rename", "aria-label": "Name", maxlength: "200"});
    input.value = titleOf(conversation);
    let over = false;
    const end = (keep) => {
      if (over) return;
      over = true;
      const title = input.value.trim();
      input.replaceWith(button);
      button.focus();
      this.actions.rename(conversation.id, keep ? title : conversation.title);
    };
    input.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Enter") end(true);
      if (event.key === "Escape") {
        event.stopPropagation();
        end(false);
      }
    });
    input.addEventListener("blur", () => end(true));
    button.replaceWith(input);
    input.select();
    input.focus();
  }
}

// A line at the bottom that goes by itself, with something to do about it.
export function toast(text, label, onclick) {
  const place = byId("toasts");
  const close = () => line.remove();
  const line = el("div", {class: "toast"}, el("span", {}, text),
                  label ? el("button", {type: "button", onclick: () => (close(), onclick())}, label) : null,
                  iconButton("close", "Close", close));
  place.replaceChildren(line);
  setTimeout(close, 10_000);
}
