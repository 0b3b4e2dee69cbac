// What is kept in the browser: settings, conversations, and a list of them. Where storage is full or off,
// everything goes on in memory and the page says so.
import {cleanConversation} from "./tree_import.js";
import {titleOf} from "./tree.js";

const kPrefix = "weir.chat.";
const kSettings = "weir.settings";
const kKey = "weir.key";
const kDraft = "weir.draft";  // of a conversation that has not begun

export class Store {
  // `changed` is told of "ok", "full" and "off".
  constructor(changed) {
    this.changed = changed;
    this.state = "ok";
    this.memory = new Map();  // what storage did not take
    try {
      localStorage.setItem("weir.probe", "");
      localStorage.removeItem("weir.probe");
    } catch (error) {
      this.state = error.name === "QuotaExceededError" ? "full" : "off";
    }
  }

  tell(state) {
    if (state === this.state) return;
    this.state = state;
    this.changed(state);
  }

  get(name) {
    if (this.memory.has(name)) return this.memory.get(name);
    try {
      return localStorage.getItem(name);
    } catch {
      return null;
    }
  }

  // False when only memory has it.
  set(name, text) {
    try {
      localStorage.setItem(name, text);
      this.memory.delete(name);
      return true;
    } catch (error) {
      this.memory.set(name, text);
      this.tell(error.name === "QuotaExceededError" ? "full" : "off");
      return false;
    }
  }

  remove(name) {
    this.memory.delete(name);
    try {
      localStorage.removeItem(name);
    } catch {
      return;
    }
    if (this.state === "full") this.retry();
  }

  // There may be room again.
  retry() {
    for (const [name, text] of [...this.memory]) {
      if (!this.set(name, text)) return;
    }
    this.tell("ok");
  }

  parsed(name) {
    try {
      return JSON.parse(this.get(name));
    } catch {
      return null;
    }
  }

  settings() {
    return this.parsed(kSettings);
  }

  saveSettings(settings) {
    this.set(kSettings, JSON.stringify(settings));
  }

  draft() {
    return this.get(kDraft) ?? "";
  }

  saveDraft(text) {
    if (text === "") this.remove(kDraft);
    else this.set(kDraft, text);
  }

  // The key stays with the tab unless it is to be remembered; it is never part of an export.
  key() {
    try {
      return sessionStorage.getItem(kKey) ?? this.get(kKey) ?? "";
    } catch {
      return this.get(kKey) ?? "";
    }
  }

  saveKey(key, remember) {
    this.remove(kKey);
    try {
      sessionStorage.setItem(kKey, key);
    } catch {
      this.memory.set(kKey, key);
    }
    if (remember && key) this.set(kKey, key);
  }

  remembersKey() {
    return this.get(kKey) !== null;
  }

  names() {
    const names = new Set(this.memory.keys());
    try {
      for (let i = 0; i < localStorage.length; ++i) names.add(localStorage.key(i));
    } catch {
      // what memory has is all there is
    }
    return [...names].filter((name) => name.startsWith(kPrefix));
  }

  // All conversations, the latest first.
  conversations() {
    return this.names().map((name) => cleanConversation(this.parsed(name))).filter(Boolean)
        .sort((a, b) => b.updated - a.updated);
  }

  conversation(id) {
    return cleanConversation(this.parsed(kPrefix + id));
  }

  // Traces of canvases are long: without room for them the conversation is stored without.
  saveConversation(conversation) {
    const name = kPrefix + conversation.id;
    if (this.set(name, JSON.stringify(conversation))) return;
    const lean = JSON.stringify(conversation, (key, value) => (key === "trace" ? undefined : value));
    try {
      localStorage.setItem(name, lean);
    } catch {
      // memory has all of it
    }
  }

  removeConversation(id) {
    this.remove(kPrefix + id);
  }

  isConversation(name) {
    return name?.startsWith(kPrefix) ?? false;
  }

  exportText(conversations) {
    const entries = conversations.map((conversation) => ({...conversation, title: titleOf(conversation)}));
    return JSON.stringify({format: "weir-conversations", version: 1, conversations: entries}, null, 1);
  }
}

// The conversations of an exported file. Throws an Error with a sentence.
export function conversationsOf(fileText) {
  let given;
  try {
    given = JSON.parse(fileText);
  } catch {
    throw new Error("The file is not JSON.");
  }
  if (given?.format !== "weir-conversations" || !Array.isArray(given.conversations)) {
    throw new Error("The file holds no conversations of weir.");
  }
  return given.conversations.map(cleanConversation).filter(Boolean);
}
