// Where messages are written: Enter sends, Shift+Enter breaks the line, Up changes the last message.
import {byId, setIcon} from "./dom.js";
import {grow, isPlainEnter} from "./turn_parts.js";

export class Composer {
  // `actions`: send(text), stop(), editLast(), draft(text), think().
  constructor(actions) {
    this.actions = actions;
    this.field = byId("draft");
    this.button = byId("send");
    this.think = byId("think");
    this.running = false;
    byId("composer").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.running) actions.stop();
      else this.send();
    });
    this.field.addEventListener("input", () => this.changed());
    this.field.addEventListener("keydown", (event) => this.key(event));
    this.think.addEventListener("click", () => actions.think());
  }

  key(event) {
    if (isPlainEnter(event)) {
      event.preventDefault();
      if (!this.running) this.send();
    } else if (event.key === "ArrowUp" && this.field.value === "" && !event.isComposing) {
      if (this.actions.editLast()) event.preventDefault();
    }
  }

  send() {
    const text = this.field.value;
    if (text.trim() === "") return;
    if (this.actions.send(text)) this.set("");
  }

  changed() {
    grow(this.field);
    this.look();
    this.actions.draft(this.field.value);
  }

  set(text) {
    if (this.field.value === text) return;
    this.field.value = text;
    grow(this.field);
    this.look();
  }

  show({running, thinks}) {
    this.running = running;
    setIcon(this.button, running ? "stop" : "arrowUp", running ? "Stop" : "Send");
    this.button.classList.toggle("stops", running);
    this.think.setAttribute("aria-pressed", String(thinks));
    this.look();
  }

  look() {
    this.button.disabled = !this.running && this.field.value.trim() === "";
  }

  focus() {
    this.field.focus();
  }
}
