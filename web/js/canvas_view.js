// A canvas of a diffusion model: live while it settles, afterwards a replay over its steps. The less sure the model
// is of a word, the fainter it stands.
import {el, icon, iconButton, measured, setIcon} from "./dom.js";
import {canvasAt, canvasCount} from "./trace.js";

const kStepTime = 140;  // ms of a step in the replay
const kBehindAnswer = "\u00b7";

class CanvasField {
  constructor() {
    this.element = el("div", {class: "canvas-field", "aria-hidden": "true"});
  }

  show({cells, answer}) {
    while (this.element.childElementCount > cells.length) this.element.lastElementChild.remove();
    while (this.element.childElementCount < cells.length) this.element.append(el("span"));
    cells.forEach((cell, position) => {
      const span = this.element.children[position];
      const behind = position >= answer;
      const text = behind ? kBehindAnswer : cell.text;
      if (span.textContent !== text) span.textContent = text;
      span.className = behind ? "behind" : cell.kept ? "kept" : "open";
      span.style.setProperty("--sure", cell.confidence.toFixed(2));
    });
  }
}

export class CanvasView {
  constructor() {
    this.field = new CanvasField();
    this.slider = el("input", {type: "range", min: "1", max: "1", step: "1", "aria-label": "Step",
                               oninput: () => this.scrub()});
    this.play = iconButton("play", "Play the steps", () => (this.timer ? this.pause() : this.start()));
    this.where = el("span", {class: "canvas-where"});
    this.controls = el("div", {class: "canvas-controls"}, this.play, this.slider, this.where);
    this.summary = el("summary", {}, icon("turn"), icon("canvas"), el("span", {class: "fold-label"}));
    this.element = el("details", {class: "fold canvas"}, this.summary, this.field.element, this.controls);
    this.element.addEventListener("toggle", () => !this.element.open && this.pause());
    this.steps = 0;
  }

  update(trace, running) {
    this.trace = trace;
    const steps = trace.steps.length;
    if (steps === this.steps && running === this.running) return;
    if (running !== this.running) this.element.open = running;  // open while it settles, folded afterwards
    this.running = running;
    this.steps = steps;
    this.controls.hidden = running;
    this.slider.max = String(steps);
    this.summary.lastElementChild.textContent = running ? "Settling" : this.title();
    this.show(steps - 1);
  }

  title() {
    const canvases = canvasCount(this.trace);
    const seconds = this.trace.steps.reduce((sum, step) => sum + step.seconds, 0);
    return `Settled in ${this.steps} steps` + (canvases > 1 ? ` on ${canvases} canvases` : "") + `, ${measured(seconds)} s`;
  }

  show(index) {
    const step = this.trace.steps[index];
    this.field.show(canvasAt(this.trace, index));
    const canvases = canvasCount(this.trace);
    const canvas = canvases > 1 ? `canvas ${step.canvas + 1}, ` : "";
    const where = `${canvas}step ${index + 1} of ${this.steps}`;
    this.where.textContent = where;
    this.slider.value = String(index + 1);
    this.slider.setAttribute("aria-valuetext", where);
  }

  scrub() {
    this.pause();
    this.show(Number(this.slider.value) - 1);
  }

  start() {
    const from = Number(this.slider.value) >= this.steps ? 0 : Number(this.slider.value);
    this.show(from);
    setIcon(this.play, "pause", "Pause");
    this.timer = setInterval(() => {
      const next = Number(this.slider.value);
      if (next >= this.steps || !this.element.isConnected) return this.pause();
      this.show(next);
    }, kStepTime);
  }

  pause() {
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = null;
    setIcon(this.play, "play", "Play the steps");
  }
}
