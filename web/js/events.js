// Server-sent events of a response, as an async iterator of {event, data} and {comment}.

function eventOf(block) {
  const found = {event: "message", data: ""};
  let comment = null;
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon < 0) continue;
    const name = line.slice(0, colon);
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (name === "") comment = value;
    else if (name === "event") found.event = value;
    else if (name === "data") found.data += (found.data ? "\n" : "") + value;
  }
  if (found.data) return found;
  return comment === null ? null : {comment};
}

export async function* readEvents(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  try {
    for (;;) {
      const {value, done} = await reader.read();
      if (done) return;
      text = (text + value).replaceAll("\r\n", "\n");
      for (let end = text.indexOf("\n\n"); end >= 0; end = text.indexOf("\n\n")) {
        const event = eventOf(text.slice(0, end));
        text = text.slice(end + 2);
        if (event) yield event;
      }
    }
  } finally {  // whoever stops listening lets the server stop too
    reader.cancel().catch(() => {});
  }
}
