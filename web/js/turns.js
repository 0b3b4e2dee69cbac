// One turn of the conversation on the page. `actions` are what its buttons do; all take the node.
import {CanvasView} from "./canvas_view.js";
import {copyText, el, iconButton} from "./dom.js";
import {MarkdownView} from "./markdown.js";
import {Alternatives, Fold, ThinkingView, ToolCallView, editForm, grow, growingField, isPlainEnter, notice,
        numbersOf} from "./turn_parts.js";
import {wholeCalls} from "./tree.js";

// What every turn has: a body, numbers, alternatives and buttons.
class Turn {
  constructor(node, kind, label, actions) {
    this.node = node;
    this.actions = actions;
    this.body = el("div", {class: "body"});
    this.numbers = el("p", {class: "numbers"});
    this.alternatives = new Alternatives((step) => actions.switchTo(this.node, step));
    this.buttons = el("div", {class: "turn-buttons"});
    this.foot = el("footer", {}, this.alternatives.element, this.numbers, this.buttons);
    this.element = el("article", {class: "turn " + kind, "aria-label": label, tabindex: "-1"}, this.body, this.foot);
  }

  copyButton(text) {
    const button = iconButton("copy", "Copy", () => copyText(text(), button));
    return button;
  }

  // Shows a form in place of the body until it is done.
  edit(label, done) {
    if (this.form) return;
    this.form = editForm(this.node.text, label, (text) => {
      this.form.replaceWith(this.body);
      this.form = null;
      this.foot.hidden = false;
      if (text === undefined) this.element.focus();
      else done(text);
    });
    this.body.replaceWith(this.form);
    this.foot.hidden = true;
    const field = this.form.querySelector("textarea");
    grow(field);
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
  }
}

export class UserTurn extends Turn {
  constructor(node, actions) {
    super(node, "user", "Your message", actions);
    this.body.textContent = node.text;
    this.buttons.append(this.copyButton(() => node.text),
                        iconButton("edit", "Edit and ask again", () => this.startEdit()));
  }

  startEdit() {
    this.edit("Send", (text) => this.actions.ask(this.node, text));
  }

  update(state) {
    this.alternatives.update(state.alternatives);
  }
}

export class ToolTurn extends Turn {
  constructor(node, actions, names) {
    super(node, "results", "Tool results", actions);
    this.body.append(...node.results.map((result, i) => {
      const fold = new Fold("tool", "check");
      fold.label.textContent = `Result of ${names[i] ?? "the tool"}`;
      fold.hint.textContent = result.text;
      fold.body.append(el("pre", {tabindex: "0"}, el("code", {}, result.text)));
      return fold.element;
    }));
    this.buttons.append(iconButton("edit", "Give another result", () => actions.otherResult(node)));
  }

  update(state) {
    this.alternatives.update(state.alternatives);
  }
}

export class AnswerTurn extends Turn {
  constructor(node, actions) {
    super(node, "answer", "Answer", actions);
    this.thinking = new ThinkingView();
    this.canvas = new CanvasView();
    this.text = new MarkdownView();
    this.waiting = el("p", {class: "waiting"}, el("span", {class: "pulse"}));
    this.calls = el("div", {class: "calls"});
    this.callViews = [];
    this.notices = el("div");
    this.results = el("div");
    this.body.append(this.thinking.element, this.text.element, this.canvas.element, this.calls, this.waiting,
                     this.notices, this.results);
    this.retry = iconButton("retry", "Answer again", () => actions.regenerate(this.node));
    this.change = iconButton("edit", "Edit the answer", () => this.startEdit());
    this.copy = this.copyButton(() => node.text);
    this.buttons.append(this.copy, this.change, this.retry);
    this.noticesFor = null;
  }

  startEdit() {
    this.edit("Keep as an alternative", (text) => this.actions.rewrite(this.node, text));
  }

  update(state) {
    const {node} = this;
    const {running, last} = state;
    this.element.classList.toggle("running", running);
    this.element.setAttribute("aria-busy", String(running));
    this.thinking.element.hidden = !node.thinking;
    if (node.thinking) this.thinking.update(node, running);
    this.canvas.element.hidden = !node.trace;
    if (node.trace) this.canvas.update(node.trace, running);
    this.text.update(node.text);
    this.updateCalls(running);
    this.waiting.hidden = !running || node.text !== "" || node.thinking !== "" || Boolean(node.trace) ||
        node.calls.length > 0;
    this.updateNotices(running);
    this.updateResults(!running && last && node.finish === "tool_calls");
    this.numbers.replaceChildren(...numbersOf(node, running).map((part) => el("span", {}, part)));
    this.buttons.hidden = running;
    this.copy.hidden = this.change.hidden = node.text === "";
    this.alternatives.update(state.alternatives);
  }

  updateCalls(running) {
    const {calls} = this.node;
    while (this.callViews.length < calls.length) {
      const view = new ToolCallView();
      this.callViews.push(view);
      this.calls.append(view.element);
    }
    calls.forEach((call, i) => this.callViews[i].update(call, running));
  }

  updateNotices(running) {
    const {node} = this;
    const state = running ? "running" : node.finish + (node.error?.message ?? "") + (node.warning ?? "");
    if (state === this.noticesFor) return;
    this.noticesFor = state;
    const again = (words) => el("button", {type: "button", onclick: () => this.actions.regenerate(node)}, words);
    const notices = [];
    if (node.warning) notices.push(notice("hint", node.warning));
    if (!running) {
      if (node.finish === "failed") notices.push(notice("error", node.error.message, again("Try again")));
      if (node.finish === "interrupted") notices.push(notice("hint", "Not ended: its page was closed, or another tab is still writing it.", again("Answer again")));
      if (node.finish === "stopped") notices.push(notice("hint", "Stopped."));
      if (node.finish === "length") notices.push(notice("hint", "Cut off: the limit of tokens was reached."));
      if (node.edited) notices.push(notice("hint", "Edited by you."));
    }
    this.notices.replaceChildren(...notices);
  }

  // Fields for what the called tools returned; the answer goes on from there.
  updateResults(wanted) {
    if (!wanted) return this.results.replaceChildren();
    if (this.results.childElementCount > 0) return;
    const calls = wholeCalls(this.node);
    const fields = calls.map(() => growingField({name: "result"}));
    const send = () => this.actions.giveResults(
        this.node, calls.map((call, i) => ({id: call.id, text: fields[i].value})));
    const form = el("form", {class: "result-form", onsubmit: (event) => (event.preventDefault(), send())},
                    calls.map((call, i) => el("label", {}, `What ${call.name} returns`, fields[i])),
                    el("div", {class: "buttons"}, el("button", {type: "submit", class: "primary"},
                                                     calls.length > 1 ? "Send the results" : "Send the result")));
    form.addEventListener("keydown", (event) => {
      if (!isPlainEnter(event) || event.target.tagName !== "TEXTAREA") return;
      event.preventDefault();
      form.requestSubmit();
    });
    this.results.replaceChildren(form);
  }
}
