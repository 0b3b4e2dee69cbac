// The page: makes the parts, and tells each what the others do.
import {ChatList, saveFile, toast} from "./chats.js";
import {ChatSession} from "./chat_session.js";
import {Composer} from "./composer.js";
import {announce, byId, setIcon} from "./dom.js";
import {ServerLink} from "./server.js";
import {SettingsDialog, applyTheme, cleanSettings, nextTheme, thinks} from "./settings.js";
import {listenToKeys} from "./shortcuts.js";
import {Store, conversationsOf} from "./store.js";
import {Transcript, greeting} from "./transcript.js";
import {lastShown, shownPath, titleOf} from "./tree.js";

const kStorageWords = {
  full: "This browser's storage is full. What follows is kept until the page is closed: export or delete conversations.",
  off: "This browser keeps nothing for this page. Conversations end with it: export what should stay.",
};

class App {
  constructor() {
    this.store = new Store((state) => this.showStorage(state));
    this.settings = cleanSettings(this.store.settings());
    this.server = new ServerLink(() => this.store.key(), () => this.serverChanged());
    this.session = new ChatSession(this.store, this.server, () => this.settings, {
      changed: () => this.show(),
      grown: (conversation, node) => this.grown(conversation, node),
      ended: (conversation, node) => this.ended(conversation, node),
      failed: () => this.connect(),
    });
    this.settingsDialog = new SettingsDialog((settings, key) => this.changeSettings(settings, key));
    this.transcript = new Transcript(this.turnActions());
    this.chats = new ChatList(this.chatActions());
    this.composer = new Composer({
      send: (text) => this.send(text),
      stop: () => this.session.stop(),
      editLast: () => this.editLast(),
      draft: (text) => this.keepDraft(text),
      think: () => this.toggleThinking(),
    });
    this.grownNode = null;
  }

  start() {
    applyTheme(this.settings.theme);
    this.listen();
    listenToKeys(this.keys());
    const [latest] = this.session.listed();
    const wanted = location.hash.slice(1);
    if (wanted) this.session.openById(wanted);
    else if (latest) this.session.openById(latest.id);
    this.showStorage(this.store.state);
    this.showTheme();
    this.show();
    this.connect();
    if (matchMedia("(hover: hover)").matches) this.composer.focus();
  }

  listen() {
    const click = (id, does) => byId(id).addEventListener("click", does);
    click("new-chat", () => this.startNew());
    click("open-chats", () => this.showChats(true));
    click("close-chats", () => this.showChats(false));
    click("shade", () => this.showChats(false));
    click("open-settings", () => this.openSettings());
    click("open-shortcuts", () => byId("shortcuts").showModal());
    click("theme", () => this.switchTheme());
    click("export", () => this.export(this.session.listed(), "weir-conversations"));
    click("import", () => byId("import-file").click());
    byId("import-file").addEventListener("change", (event) => this.import(event.target));
    for (const button of document.querySelectorAll("dialog .close")) {
      button.addEventListener("click", () => button.closest("dialog").close());
    }
    byId("key-form").addEventListener("submit", (event) => this.takeKey(event));
    addEventListener("pagehide", () => this.session.leave());
    addEventListener("pageshow", (event) => event.persisted && location.reload());
    document.addEventListener("visibilitychange", () => document.hidden && this.session.saveAll());
    addEventListener("storage", (event) => {
      if (this.store.isConversation(event.key)) this.session.reload(event.key.slice("weir.chat.".length));
    });
  }

  turnActions() {
    return {
      ask: (node, text) => {
        this.session.ask(node.parent, text);
        this.composer.focus();
      },
      rewrite: (node, text) => this.session.rewrite(node, text),
      regenerate: (node) => {
        this.session.regenerate(node);
        this.composer.focus();
      },
      giveResults: (node, results) => {
        this.session.giveResults(node, results);
        this.composer.focus();
      },
      otherResult: (node) => this.giveOtherResult(node),
      switchTo: (node, step) => this.switchTo(node, step),
    };
  }

  chatActions() {
    return {
      open: (id) => {
        this.session.openById(id);
        this.showChats(false);
        this.composer.focus();
      },
      rename: (id, title) => this.session.rename(id, title),
      remove: (id) => toast("The conversation was deleted.", "Undo", this.session.remove(id)),
      save: (id) => this.export(this.session.listed().filter((chat) => chat.id === id), "weir-conversation"),
    };
  }

  keys() {
    return {
      escape: (event) => this.escape(event),
      "/": () => this.composer.focus(),
      "?": () => byId("shortcuts").showModal(),
      n: () => this.startNew(),
      c: () => this.focusChats(),
      r: () => this.regenerateLast(),
      s: () => this.openSettings(),
      t: () => this.switchTheme(),
      "[": () => this.switchLast(-1),
      "]": () => this.switchLast(1),
    };
  }

  escape(event) {
    if (document.body.classList.contains("chats-open")) return this.showChats(false);
    if (this.session.stop()) return event.preventDefault();
    if (event.target === this.composer.field) this.composer.field.blur();
    else this.composer.focus();
  }

  // Everything on the page that depends on the conversations.
  show() {
    const {open} = this.session;
    const empty = open.nodes.root.children.length === 0;
    this.transcript.show(open, this.session.runningNode());
    const welcome = byId("greeting");
    welcome.hidden = !empty;
    if (empty) welcome.replaceChildren(...greeting(this.server.model, (text) => this.send(text)));
    this.chats.show(this.session.listed(), open.id, this.session.running);
    byId("title").textContent = empty ? "New conversation" : titleOf(open);
    document.title = empty ? "weir" : `${titleOf(open)} \u2013 weir`;
    if (!empty && location.hash.slice(1) !== open.id) history.replaceState(null, "", "#" + open.id);
    if (empty && location.hash) history.replaceState(null, "", location.pathname);
    this.composer.set(open.draft);
    this.showComposer();
  }

  showComposer() {
    this.composer.show({running: this.session.running.has(this.session.open.id),
                        thinks: thinks(this.settings, this.server.model)});
  }

  // Answers grow faster than the page is drawn.
  grown(conversation, node) {
    if (conversation !== this.session.open || this.grownNode) return;
    this.grownNode = node;
    requestAnimationFrame(() => {
      const grown = this.grownNode;
      this.grownNode = null;
      this.transcript.update(grown, this.session.runningNode() === grown.id);
    });
  }

  ended(conversation, node) {
    this.chats.show(this.session.listed(), this.session.open.id, this.session.running);
    if (node.error?.status === 401) this.askForKey();
    if (conversation !== this.session.open) return;
    this.transcript.show(conversation, undefined);
    this.showComposer();
    if (node.error) return;  // the notice is an alert
    const called = node.calls.map((call) => `The model calls ${call.name}. `).join("");
    announce(node.finish === "stopped" ? "Stopped." : called + node.text);
  }

  send(text) {
    if (!this.session.askAtEnd(text)) return false;
    this.session.open.draft = "";
    this.store.saveDraft("");
    this.transcript.toEnd();
    announce("Answering");
    return true;
  }

  keepDraft(text) {
    const {open} = this.session;
    open.draft = text;
    if (open.nodes.root.children.length > 0) this.session.saveLater(open);
    else this.store.saveDraft(text);
  }

  startNew() {
    this.session.startNew();
    this.showChats(false);
    this.composer.focus();
  }

  editLast() {
    const last = shownPath(this.session.open).findLast((node) => node.role === "user");
    if (!last || this.session.runningNode()) return false;
    this.transcript.turn(last).startEdit();
    return true;
  }

  regenerateLast() {
    const last = lastShown(this.session.open);
    if (last.role === "assistant") this.session.regenerate(last);
  }

  // Tool results are another branch below the call.
  giveOtherResult(node) {
    const above = this.session.open.nodes[node.parent];
    this.transcript.turn(above).updateResults(true);
    this.transcript.turn(above).results.querySelector("textarea")?.focus();
  }

  switchLast(step) {
    const path = shownPath(this.session.open);
    const node = path.findLast((turn) => this.session.open.nodes[turn.parent].children.length > 1);
    if (node) this.switchTo(node, step);
  }

  switchTo(node, step) {
    if (this.session.runningNode()) return;
    const other = this.session.switchTo(node, step);
    if (!other) return;
    const {back, forward} = this.transcript.turn(other).alternatives;
    const wanted = step < 0 ? back : forward;
    (wanted.disabled ? (step < 0 ? forward : back) : wanted).focus();
    announce(`Alternative ${this.transcript.turn(other).alternatives.where.textContent}`);
  }

  showChats(open) {
    document.body.classList.toggle("chats-open", open);
    byId("main").inert = open && matchMedia("(max-width: 760px)").matches;
    if (open) byId("new-chat").focus();
  }

  focusChats() {
    this.showChats(true);
    (byId("chat-list").querySelector("[aria-current]") ?? byId("new-chat")).focus();
  }

  export(conversations, name) {
    saveFile(`${name}-${new Date().toISOString().slice(0, 10)}.json`, this.store.exportText(conversations));
  }

  async import(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    try {
      const found = conversationsOf(await file.text());
      this.session.add(found);
      toast(found.length === 1 ? "One conversation was added." : `${found.length} conversations were added.`);
    } catch (error) {
      toast(error.message);
    }
  }

  openSettings() {
    this.settingsDialog.open(this.settings, this.server.model, this.store.key(), this.store.remembersKey());
  }

  changeSettings(settings, {key, remember}) {
    this.settings = settings;
    this.store.saveSettings(settings);
    applyTheme(settings.theme);
    this.showTheme();
    this.showComposer();
    if (key === this.store.key() && remember === this.store.remembersKey()) return;
    this.store.saveKey(key, remember);
    this.connect();
  }

  toggleThinking() {
    const think = thinks(this.settings, this.server.model) ? "off" : "on";
    this.settings = {...this.settings, think};
    this.store.saveSettings(this.settings);
    this.showComposer();
  }

  switchTheme() {
    this.settings = {...this.settings, theme: nextTheme(this.settings.theme)};
    this.store.saveSettings(this.settings);
    applyTheme(this.settings.theme);
    this.showTheme();
  }

  showTheme() {
    const {theme} = this.settings;
    const [icon, label] = {"": ["system", "Colours: as the system"], light: ["sun", "Colours: light"],
                           dark: ["moon", "Colours: dark"]}[theme];
    setIcon(byId("theme"), icon, label);
  }

  showStorage(state) {
    byId("storage-notice").textContent = kStorageWords[state] ?? "";
    byId("storage-notice").hidden = !(state in kStorageWords);
  }

  // Learns what the server offers; asks for the key where one is missing.
  async connect() {
    try {
      const model = await this.server.loadModel();
      byId("model").textContent = model.id;
      byId("model").title = `${model.id}, ${model.max_model_len.toLocaleString("en")} tokens of context`;
      this.show();
    } catch (error) {
      if (error.status === 401) this.askForKey();
      else if (error.status !== 0) toast(error.message, "Try again", () => this.connect());
    }
  }

  serverChanged() {
    byId("lost").hidden = this.server.reachable;
    if (this.server.reachable && !this.server.model) this.connect();
    announce(this.server.reachable ? "The server is back." : "The server cannot be reached.");
  }

  askForKey() {
    const dialog = byId("key-dialog");
    byId("key-wrong").hidden = this.store.key() === "";
    if (!dialog.open) dialog.showModal();
  }

  takeKey(event) {
    event.preventDefault();
    const fields = event.target.elements;
    this.store.saveKey(fields.key.value.trim(), fields.remember.checked);
    byId("key-dialog").close();
    this.connect();
  }
}

new App().start();
