// How a canvas settled, step by step, in little space: words are numbered, and a step holds what changed.
//
// A trace is {words, steps}; a step is {canvas, length, answer, last, seconds, rows, changes}, with `changes` a flat
// list of position, word and state. A state is the confidence in tenths, plus kKept where the step kept the token.

const kKept = 16;
const kTenths = 10;

export function newTrace() {
  return {words: [], steps: []};
}

export class TraceWriter {
  constructor(trace) {
    this.trace = trace;
    this.numbers = new Map(trace.words.map((word, number) => [word, number]));
    this.cells = [];
  }

  number(word) {
    if (!this.numbers.has(word)) this.numbers.set(word, this.trace.words.push(word) - 1);
    return this.numbers.get(word);
  }

  add(frame) {
    const previous = this.trace.steps.at(-1);
    if (!previous || previous.canvas !== frame.canvas) this.cells = [];
    const changes = [];
    frame.tokens.forEach((token, position) => {
      const word = this.number(token);
      const state = Math.round(frame.confidence[position] * kTenths) + (frame.accepted[position] ? kKept : 0);
      const cell = this.cells[position];
      if (cell && cell.word === word && cell.state === state) return;
      this.cells[position] = {word, state};
      changes.push(position, word, state);
    });
    this.trace.steps.push({canvas: frame.canvas, length: frame.tokens.length, answer: frame.answer_length,
                           last: frame.last, seconds: frame.seconds, rows: frame.rows, changes});
  }
}

// The canvas after step `index`: [{text, confidence, kept}], and the positions up to the end of the answer.
export function canvasAt(trace, index) {
  const step = trace.steps[index];
  let first = index;
  while (first > 0 && trace.steps[first - 1].canvas === step.canvas) --first;
  const cells = Array.from({length: step.length}, () => ({text: "", confidence: 0, kept: false}));
  for (const {changes} of trace.steps.slice(first, index + 1)) {
    for (let i = 0; i + 2 < changes.length; i += 3) {
      const state = changes[i + 2];
      if (!cells[changes[i]]) continue;
      cells[changes[i]] = {text: trace.words[changes[i + 1]] ?? "", kept: state >= kKept,
                           confidence: Math.min(1, (state % kKept) / kTenths)};
    }
  }
  return {cells, answer: step.answer};
}

export function canvasCount(trace) {
  return new Set(trace.steps.map((step) => step.canvas)).size;
}
