// Parts of turns: folds, the line of numbers, notices, the field an earlier message is edited in.
import {counted, el, icon, iconButton, measured} from "./dom.js";
import {isObjectText} from "./tree.js";

// Something that starts folded: a line, and what is behind it.
export class Fold {
  constructor(kind, iconName) {
    this.label = el("span", {class: "fold-label"});
    this.hint = el("span", {class: "fold-hint"});
    this.body = el("div", {class: "fold-body"});
    this.element = el("details", {class: "fold " + kind},
                      el("summary", {}, icon("turn"), icon(iconName), this.label, this.hint), this.body);
  }
}

export class ThinkingView {
  constructor() {
    this.fold = new Fold("thinking", "thought");
    this.element = this.fold.element;
  }

  update(node, running) {
    const busy = running && !node.text && node.calls.length === 0;
    this.element.classList.toggle("busy", busy);
    this.fold.label.textContent = busy ? "Thinking" : "Thought" +
        (node.thoughtSeconds >= 0.05 ? ` for ${measured(node.thoughtSeconds)} s` : "");
    this.fold.hint.textContent = node.usage?.reasoning ? `${counted(node.usage.reasoning)} tokens` : "";
    if (this.fold.body.textContent !== node.thinking) this.fold.body.textContent = node.thinking;
  }
}

function indented(text) {
  return isObjectText(text) ? JSON.stringify(JSON.parse(text), null, 2) : text;
}

export class ToolCallView {
  constructor() {
    this.fold = new Fold("tool", "tool");
    this.code = el("code");
    this.fold.body.append(el("pre", {tabindex: "0"}, this.code));
    this.element = this.fold.element;
  }

  update(call, running) {
    this.fold.label.textContent = call.name || "tool";
    const whole = isObjectText(call.arguments);
    this.fold.hint.textContent = whole || running ? call.arguments : "cut off";
    this.element.classList.toggle("busy", running && !whole);
    this.code.textContent = indented(call.arguments);
  }
}

export function notice(kind, text, ...buttons) {
  return el("div", {class: "notice " + kind, role: kind === "error" ? "alert" : undefined},
            el("p", {}, text), buttons.length > 0 ? el("div", {class: "buttons"}, buttons) : null);
}

const kShortest = 0.02;  // seconds: a shorter time says more about the browser than about the server

// "212 tokens/s", "40 tokens", and the like.
export function numbersOf(node, running) {
  const {reading} = node;
  if (reading) return [`reading the prompt: ${counted(reading.done)} of ${counted(reading.all)} tokens`];
  if (running) return [];
  const parts = [];
  const usage = node.usage;
  const time = node.trace ? node.seconds : node.seconds - node.firstSeconds;
  const tokens = node.trace ? usage?.completion : usage?.completion - 1;
  if (usage && time > kShortest && tokens > 0) parts.push(`${measured(tokens / time)} tokens/s`);
  if (usage) parts.push(`${counted(usage.completion)} tokens`);
  if (node.firstSeconds !== undefined) parts.push(`first ${node.trace ? "step" : "token"} after ${measured(node.firstSeconds)} s`);
  if (usage) parts.push(`${counted(usage.cached)} of ${counted(usage.prompt)} prompt tokens reused`);
  return parts;
}

export class Alternatives {
  constructor(onswitch) {
    this.back = iconButton("back", "Earlier alternative", () => onswitch(-1));
    this.forward = iconButton("forward", "Later alternative", () => onswitch(1));
    this.where = el("span", {class: "where"});
    this.element = el("span", {class: "alternatives", role: "group", "aria-label": "Alternatives"},
                      this.back, this.where, this.forward);
  }

  update({index, count}) {
    this.element.hidden = count < 2;
    this.where.textContent = `${index + 1}/${count}`;
    this.back.disabled = index === 0;
    this.forward.disabled = index === count - 1;
  }
}

// A text field that grows with its text.
export function growingField(attributes) {
  const field = el("textarea", {rows: "1", ...attributes});
  field.addEventListener("input", () => grow(field));
  return field;
}

export function grow(field) {
  field.style.setProperty("height", "auto");
  field.style.setProperty("height", `${field.scrollHeight}px`);
}

// Enter while a word is being composed belongs to the input method.
export function isPlainEnter(event) {
  return event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229;
}

// Replaces a turn's text while it is changed. `done` gets the new text; with nothing, it was given up.
export function editForm(text, label, done) {
  const field = growingField({class: "edit-field", "aria-label": "Message"});
  field.value = text;
  const send = () => field.value.trim() !== "" && done(field.value);
  field.addEventListener("keydown", (event) => {
    if (isPlainEnter(event)) {
      event.preventDefault();
      send();
    } else if (event.key === "Escape") {
      event.stopPropagation();
      done();
    }
  });
  return el("form", {class: "edit", onsubmit: (event) => (event.preventDefault(), send())}, field,
            el("div", {class: "buttons"}, el("button", {type: "button", class: "quiet", onclick: () => done()}, "Cancel"),
               el("button", {type: "submit", class: "primary"}, label)));
}
