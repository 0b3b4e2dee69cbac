// The conversations and the answers being written in them. What happens is told to `views`; nothing here draws.
import {emptyAnswer, writeAnswer} from "./answer.js";
import {requestOptions} from "./settings.js";
import {addNode, lastShown, messagesTo, newConversation, newId, switchAlternative} from "./tree.js";

const kSaveTime = 800;  // ms between two times that a growing answer is stored

export class ChatSession {
  // `views`: changed() when turns come or go, grown(conversation, node) when an answer does, ended(conversation,
  // node), failed(text) when nothing could be asked.
  constructor(store, server, settings, views) {
    this.store = store;
    this.server = server;
    this.settings = settings;
    this.views = views;
    this.conversations = new Map(store.conversations().map((chat) => [chat.id, chat]));
    this.running = new Map();  // id of a conversation to {node, stop}
    this.saveTimers = new Map();
    this.left = false;
    this.open = this.fresh();
  }

  fresh() {
    return {...newConversation(), draft: this.store.draft()};
  }

  listed() {
    return [...this.conversations.values()].sort((a, b) => b.updated - a.updated);
  }

  runningNode() {
    return this.running.get(this.open.id)?.node.id;
  }

  save(conversation) {
    clearTimeout(this.saveTimers.get(conversation.id));
    this.saveTimers.delete(conversation.id);
    if (conversation.nodes.root.children.length === 0) return;  // it has not begun
    this.conversations.set(conversation.id, conversation);
    this.store.saveConversation(conversation);
  }

  saveLater(conversation) {
    if (this.saveTimers.has(conversation.id)) return;
    this.saveTimers.set(conversation.id, setTimeout(() => this.save(conversation), kSaveTime));
  }

  saveAll() {
    const unsaved = [...this.saveTimers.keys()].map((id) => this.conversations.get(id) ?? this.open);
    for (const conversation of unsaved) this.save(conversation);
  }

  // The browser ends requests when the page goes: what is stored before that is how far they came.
  leave() {
    this.saveAll();
    this.left = true;
  }

  startNew() {
    this.open = this.fresh();
    this.views.changed();
  }

  openById(id) {
    const found = this.conversations.get(id);
    if (!found) return;
    this.open = found;
    this.views.changed();
  }

  // Another tab stored it. What is being written here stays as it is here.
  reload(id) {
    if (this.running.has(id)) return;
    const stored = this.store.conversation(id);
    if (!stored) this.conversations.delete(id);
    else if (this.open.id === id) this.conversations.set(id, this.open = {...stored, draft: this.open.draft});
    else this.conversations.set(id, stored);
    this.views.changed();
  }

  rename(id, title) {
    const conversation = this.conversations.get(id);
    if (!conversation) return;
    conversation.title = title;
    this.save(conversation);
    this.views.changed();
  }

  // Returns what brings it back.
  remove(id) {
    const conversation = this.conversations.get(id);
    this.stop(id);
    this.conversations.delete(id);
    this.store.removeConversation(id);
    if (this.open.id === id) this.open = this.fresh();
    this.views.changed();
    return () => {
      this.save(conversation);
      this.openById(id);
    };
  }

  add(conversations) {
    for (const conversation of conversations) this.save({...conversation, id: newId()});
    this.views.changed();
  }

  ask(parent, text) {
    if (!this.mayAsk()) return false;
    const node = addNode(this.open, parent, {role: "user", text});
    this.answer(node.id);
    return true;
  }

  askAtEnd(text) {
    return this.ask(lastShown(this.open).id, text);
  }

  giveResults(node, results) {
    if (!this.mayAsk()) return;
    this.answer(addNode(this.open, node.id, {role: "tool", results}).id);
  }

  regenerate(node) {
    if (this.mayAsk()) this.answer(node.parent);
  }

  rewrite(node, text) {
    const {thinking, model} = node;
    addNode(this.open, node.parent, {...emptyAnswer(model), thinking, text, finish: "stop", edited: true});
    this.save(this.open);
    this.views.changed();
  }

  switchTo(node, step) {
    const other = switchAlternative(this.open, node, step);
    if (!other) return null;
    this.save(this.open);
    this.views.changed();
    return other;
  }

  // One answer at a time in a conversation.
  mayAsk() {
    if (this.running.has(this.open.id)) return false;
    if (this.server.model) return true;
    this.views.failed();
    return false;
  }

  stop(id = this.open.id) {
    this.running.get(id)?.stop();
    return this.running.has(id);
  }

  async answer(parent) {
    const conversation = this.open;
    const {model} = this.server;
    const node = addNode(conversation, parent, emptyAnswer(model.id));
    const controller = new AbortController();
    this.running.set(conversation.id, {node, stop: () => controller.abort()});
    this.save(conversation);
    this.views.changed();
    const settings = this.settings();
    try {
      const body = {model: model.id, messages: messagesTo(conversation, parent, settings.system),
                    stream: true, stream_options: {include_usage: true}, ...requestOptions(settings, model)};
      const path = model.block_diffusion ? "/v1/canvas" : "/v1/chat/completions";
      await writeAnswer(this.server, path, body, node, controller.signal, () => {
        this.views.grown(conversation, node);
        this.saveLater(conversation);
      });
    } catch (error) {  // the settings cannot be sent
      node.finish = "failed";
      node.error = {message: error.message, status: 0};
    }
    if (this.left) return;
    this.running.delete(conversation.id);
    conversation.updated = Date.now();
    if (this.conversations.has(conversation.id)) this.save(conversation);
    this.views.ended(conversation, node);
  }
}
