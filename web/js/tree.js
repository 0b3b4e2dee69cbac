// A conversation as a tree: each turn has alternatives beside it, and one path is shown.
//
// A node has id, parent, children (ids, oldest first), active (which child is shown), role and time. Further:
// user: text. assistant: text, thinking, calls [{id, name, arguments}], finish, model, and where known trace,
// usage, seconds, thoughtSeconds, firstSeconds, warning, error {message, status}.
// tool: results [{id, text}], one for each call of its parent.

export function newId() {
  const bytes = crypto.getRandomValues(new Uint8Array(9));
  return Array.from(bytes, (byte) => byte.toString(36).padStart(2, "0")).join("");
}

export function newConversation() {
  const now = Date.now();
  const root = {id: "root", parent: null, children: [], active: 0, role: "root"};
  return {id: newId(), title: "", created: now, updated: now, draft: "", nodes: {root}};
}

// The new turn becomes the one that is shown.
export function addNode(conversation, parent, fields) {
  const node = {id: newId(), parent, children: [], active: 0, time: Date.now(), ...fields};
  conversation.nodes[node.id] = node;
  const above = conversation.nodes[parent];
  above.active = above.children.push(node.id) - 1;
  conversation.updated = node.time;
  return node;
}

export function shownPath(conversation) {
  const path = [];
  let node = conversation.nodes.root;
  while (node.children.length > 0) {
    node = conversation.nodes[node.children[node.active]];
    path.push(node);
  }
  return path;
}

export function lastShown(conversation) {
  return shownPath(conversation).at(-1) ?? conversation.nodes.root;
}

export function alternativesOf(conversation, node) {
  const siblings = conversation.nodes[node.parent].children;
  return {index: siblings.indexOf(node.id), count: siblings.length};
}

// Shows the alternative `step` further; returns it, or null at either end.
export function switchAlternative(conversation, node, step) {
  const above = conversation.nodes[node.parent];
  const index = above.children.indexOf(node.id) + step;
  if (index < 0 || index >= above.children.length) return null;
  above.active = index;
  return conversation.nodes[above.children[index]];
}

export function isObjectText(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}

// Calls that were cut off cannot go back to the server.
export function wholeCalls(node) {
  return (node.calls ?? []).filter((call) => isObjectText(call.arguments));
}

function messagesOfNode(node) {
  if (node.role === "user") return [{role: "user", content: node.text}];
  if (node.role === "tool") {
    return node.results.map((result) => ({role: "tool", tool_call_id: result.id, content: result.text}));
  }
  const calls = wholeCalls(node);
  if (!node.text && calls.length === 0) return [];  // it failed, or was stopped before it said anything
  const message = {role: "assistant", content: node.text || null};
  if (node.thinking) message.reasoning_content = node.thinking;
  if (calls.length > 0) {
    message.tool_calls = calls.map((call) => (
        {id: call.id, type: "function", function: {name: call.name, arguments: call.arguments}}));
  }
  return [message];
}

// What the server is asked: from the first turn to the one with this id.
export function messagesTo(conversation, id, system) {
  const messages = [];
  for (let node = conversation.nodes[id]; node.role !== "root"; node = conversation.nodes[node.parent]) {
    messages.unshift(...messagesOfNode(node));
  }
  if (system) messages.unshift({role: "system", content: system});
  return messages;
}

export function titleOf(conversation) {
  if (conversation.title) return conversation.title;
  const first = conversation.nodes[conversation.nodes.root.children[0]];
  const line = (first?.text ?? "").trim().split("\n")[0];
  return line.length > 60 ? line.slice(0, 59).trimEnd() + "\u2026" : line || "New conversation";
}
