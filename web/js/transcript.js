// The turns of the conversation that is open, and the place in it that is looked at.
import {byId, el} from "./dom.js";
import {alternativesOf, shownPath, wholeCalls} from "./tree.js";
import {AnswerTurn, ToolTurn, UserTurn} from "./turns.js";

const kNear = 64;  // pixels from the end that count as the end

export class Transcript {
  constructor(actions) {
    this.actions = actions;
    this.scroller = byId("scroller");
    this.list = byId("turns");
    this.latest = byId("to-latest");
    this.turns = new Map();
    this.following = true;
    this.scroller.addEventListener("scroll", () => this.look(), {passive: true});
    this.latest.addEventListener("click", () => this.toEnd());
    new ResizeObserver(() => this.follow()).observe(this.scroller);
  }

  // All of it; `running` is the id of the turn that is being written, if one is.
  show(conversation, running) {
    if (conversation !== this.conversation) {
      this.turns.clear();
      this.following = true;
    }
    this.conversation = conversation;
    const path = shownPath(conversation);
    const elements = path.map((node, i) => this.turnOf(node, path[i - 1], i === path.length - 1, running).element);
    // Those that stay are not touched, so that focus and selection stay too.
    for (const old of [...this.list.children]) {
      if (!elements.includes(old)) old.remove();
    }
    elements.forEach((element, i) => {
      if (this.list.children[i] !== element) this.list.insertBefore(element, this.list.children[i] ?? null);
    });
    this.follow();
  }

  turnOf(node, above, last, running) {
    if (!this.turns.has(node.id)) this.turns.set(node.id, this.newTurn(node, above));
    const turn = this.turns.get(node.id);
    turn.update({alternatives: alternativesOf(this.conversation, node), last, running: node.id === running});
    return turn;
  }

  newTurn(node, above) {
    if (node.role === "user") return new UserTurn(node, this.actions);
    if (node.role === "assistant") return new AnswerTurn(node, this.actions);
    return new ToolTurn(node, this.actions, above ? wholeCalls(above).map((call) => call.name) : []);
  }

  update(node, running) {
    const turn = this.turns.get(node.id);
    if (!turn?.element.isConnected) return;
    turn.update({alternatives: alternativesOf(this.conversation, node), last: node.children.length === 0, running});
    this.follow();
  }

  turn(node) {
    return this.turns.get(node.id);
  }

  look() {
    const {scrollHeight, scrollTop, clientHeight} = this.scroller;
    this.following = scrollHeight - scrollTop - clientHeight < kNear;
    this.latest.hidden = this.following;
  }

  follow() {
    if (this.following) this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  toEnd() {
    this.following = true;
    this.latest.hidden = true;
    this.follow();
  }
}

// What an empty conversation shows.
export function greeting(model, ask) {
  const pocket = model?.id.startsWith("pocket-");
  const examples = pocket ? [
    "Mia has 12 apples. Mia finds 5 more apples. Then Mia doubles the number of apples. How many apples does Mia have now?",
    "Felix has 59 tickets. After that Felix uses 32 tickets. How many tickets does Felix have now?",
    "What is 257 + 1?",
  ] : [];
  return [
    el("h2", {}, model ? model.id : "weir"),
    el("p", {}, pocket ? "A pocket model: it was trained on word problems about whole numbers and knows nothing else." :
       "What you write goes to this server only, and is kept in this browser."),
    el("div", {class: "examples"}, examples.map(
        (text) => el("button", {type: "button", class: "example", onclick: () => ask(text)}, text))),
  ];
}
