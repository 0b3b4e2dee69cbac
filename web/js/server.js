// The server as the page sees it: what it offers, whether it is there, and one streamed answer.
import {readEvents} from "./events.js";

const kLongestPause = 8000;  // ms between attempts to reach it

// What the server, or the way to it, said instead of an answer.
export class ServerError extends Error {
  constructor(message, status = 0) {
    super(message);
    this.status = status;  // 0: there was no response
  }
}

const kConnectionLost = "The connection to the server was lost.";

async function refusalOf(response) {
  const text = await response.text().catch(() => "");
  try {
    return new ServerError(JSON.parse(text).error.message, response.status);
  } catch {  // something between the page and the server answered
    return new ServerError(`${response.status} ${response.statusText || "without a reason"}`, response.status);
  }
}

export class ServerLink {
  // `changed` is told when the server comes or goes.
  constructor(key, changed) {
    this.key = key;
    this.changed = changed;
    this.model = null;  // of /v1/models
    this.reachable = true;
    this.asking = false;
  }

  headers() {
    const key = this.key();
    return key ? {authorization: `Bearer ${key}`} : {};
  }

  async fetch(path, options = {}) {
    let response;
    try {
      response = await fetch(path, {...options, headers: {...this.headers(), ...options.headers}, cache: "no-store"});
    } catch (error) {
      if (error.name === "AbortError") throw error;
      this.lost();
      throw new ServerError(kConnectionLost);
    }
    this.found();
    if (!response.ok) throw await refusalOf(response);
    return response;
  }

  async loadModel() {
    const {data} = await (await this.fetch("/v1/models")).json();
    this.model = data[0];
    return this.model;
  }

  found() {
    if (this.reachable) return;
    this.reachable = true;
    this.changed();
  }

  lost() {
    if (this.reachable) {
      this.reachable = false;
      this.changed();
    }
    if (!this.asking) this.askUntilFound();
  }

  async askUntilFound() {
    this.asking = true;
    for (let pause = 1000; !this.reachable; pause = Math.min(2 * pause, kLongestPause)) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      if (await this.isThere()) this.found();
    }
    this.asking = false;
  }

  isThere() {
    return fetch("/health/live", {cache: "no-store"}).then((response) => response.ok, () => false);
  }

  // Events of an answer; `onOpen` gets the response first. Throws ServerError, or AbortError when it was stopped.
  async* answer(path, body, signal, onOpen) {
    const response = await this.fetch(path, {method: "POST", body: JSON.stringify(body), signal,
                                             headers: {"content-type": "application/json"}});
    onOpen(response);
    try {
      for await (const event of readEvents(response)) {
        if (event.data === "[DONE]") return;
        yield event;
      }
    } catch (error) {
      if (error.name === "AbortError" || error instanceof ServerError) throw error;
      this.lost();
      throw new ServerError(kConnectionLost);
    }
    if (!await this.isThere()) this.lost();
    throw new ServerError("The connection ended before the answer did.");
  }
}
