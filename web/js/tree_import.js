// Conversations from a file or from storage: rebuilt from the fields that are known, so that nothing else gets in.
import {newId} from "./tree.js";

const kLongestCanvas = 4096;

const kRoles = ["user", "assistant", "tool"];

function text(value) {
  return typeof value === "string" ? value : "";
}

function number(value) {
  return Number.isFinite(value) ? value : undefined;
}

function list(value) {
  return Array.isArray(value) ? value.filter((entry) => typeof entry === "object" && entry !== null) : [];
}

function cleanUsage(usage) {
  if (typeof usage !== "object" || usage === null) return undefined;
  const count = (name) => number(usage[name]) ?? 0;
  return {prompt: count("prompt"), cached: count("cached"), completion: count("completion"),
          reasoning: count("reasoning")};
}

function cleanTrace(trace) {
  if (!Array.isArray(trace?.words) || !Array.isArray(trace.steps)) return undefined;
  const step = (given) => ({canvas: number(given.canvas) ?? 0, length: Math.min(number(given.length) ?? 0, kLongestCanvas),
                            answer: number(given.answer) ?? 0, last: given.last === true,
                            seconds: number(given.seconds) ?? 0, rows: number(given.rows) ?? 0,
                            changes: Array.isArray(given.changes) ? given.changes.filter(Number.isInteger) : []});
  return {words: trace.words.map(text), steps: list(trace.steps).map(step)};
}

function cleanAssistant(node) {
  const clean = {
    text: text(node.text), thinking: text(node.thinking), model: text(node.model), finish: text(node.finish),
    calls: list(node.calls).map((call) => (
        {id: text(call.id), name: text(call.name), arguments: text(call.arguments)})),
    usage: cleanUsage(node.usage), trace: cleanTrace(node.trace), edited: node.edited === true,
    seconds: number(node.seconds), thoughtSeconds: number(node.thoughtSeconds), firstSeconds: number(node.firstSeconds),
    warning: text(node.warning) || undefined,
  };
  if (!clean.finish) clean.finish = "interrupted";  // the page was closed while it was written
  if (node.error) clean.error = {message: text(node.error.message), status: number(node.error.status) ?? 0};
  return clean;
}

function cleanFields(node) {
  if (node.role === "user") return {text: text(node.text)};
  if (node.role === "assistant") return cleanAssistant(node);
  return {results: list(node.results).map((result) => ({id: text(result.id), text: text(result.text)}))};
}

// Follows the children from the root, each node once; whatever cannot be reached is left behind.
function cleanNodes(given) {
  const own = (id) => typeof id === "string" && Object.hasOwn(given, id);
  const nodes = {};
  const waiting = [["root", null]];
  while (waiting.length > 0) {
    const [id, parent] = waiting.shift();
    const node = given[id];
    const fits = (child) => own(child) && child !== "root" && kRoles.includes(given[child]?.role) &&
        !Object.hasOwn(nodes, child) && !["__proto__", "constructor"].includes(child);
    const children = [...new Set(Array.isArray(node.children) ? node.children.filter(fits) : [])];
    const active = Number.isInteger(node.active) ? node.active : 0;
    nodes[id] = {id, parent, children, active: Math.min(Math.max(active, 0), Math.max(children.length - 1, 0)),
                 ...(parent === null ? {role: "root"} : {role: node.role, time: number(node.time) ?? 0,
                                                          ...cleanFields(node)})};
    waiting.push(...children.map((child) => [child, id]));
  }
  return nodes;
}

// Null for what is no conversation.
export function cleanConversation(given) {
  if (typeof given?.nodes !== "object" || given.nodes === null || !Object.hasOwn(given.nodes, "root")) return null;
  const now = Date.now();
  return {id: text(given.id) || newId(), title: text(given.title), draft: text(given.draft),
          created: number(given.created) ?? now, updated: number(given.updated) ?? now, nodes: cleanNodes(given.nodes)};
}
