// The next token of one row of logits (kernels/token_chooser.h).
//
// One cluster of eight blocks holds the row in shared memory, so that it is read from L2 once. Probabilities
// are whole numbers, exp((logit - largest) / temperature) * 2^32, rounded: their sums are exact whatever
// their order, so a choice repeats. What truncation keeps is the head of the logits in descending order,
// described by its sum alone; the logit at which a head reaches a number of tokens, or a sum, is found by
// histograms of ever narrower ranges, ending at one value. Equal logits count in order of their ids. Where
// nothing is cut off, tokens go in order of id instead, as on the host. Bytes: the logits once (1 MB, from
// L2). Ceiling: latency, about three passes over shared memory for each bound.
#include "kernels/cuda/choice_row.cuh"
#include "kernels/cuda/philox.cuh"

namespace weir::cuda {
namespace {

using namespace choice;

struct Launched {
  const float* logits;
  const ChoiceState* state;
  NextRow next;
};

// The smallest key whose weight is at least min_p.
__device__ uint32_t key_of_min_p(const ChoiceState& s, float largest) {
  const double top = largest, t = s.temperature;
  float logit = static_cast<float>(top + t * log(static_cast<double>(s.min_p)));
  while (exp((logit - top) / t) >= s.min_p) logit = nextafterf(logit, -INFINITY);
  while (exp((logit - top) / t) < s.min_p) logit = nextafterf(logit, INFINITY);
  return ordered(logit);
}

// The sum of the weights that truncation leaves; they are the largest ones.
__device__ Sum kept_weight(Row& row, const ChoiceState& s) {
  Sum kept;
  if (s.top_k > 0) {
    const Sum k = min(s.top_k, s.vocabulary);
    const Found last = row.find_count(k);
    kept = row.weight_from(last.key + 1) + (k - last.above) * row.weight(unordered(last.key));
  } else {
    kept = row.weight_from(0);
  }
  if (s.top_p < 1) {
    const Sum goal =
        max(1ull, static_cast<Sum>(ceil(static_cast<double>(s.top_p) * static_cast<double>(kept))));
    const Found last = row.find_weight(goal);
    const Sum each = row.weight(unordered(last.key));
    kept = last.above + (goal - last.above + each - 1) / each * each;
  }
  if (s.min_p > 0) kept = min(kept, row.weight_from(key_of_min_p(s, row.largest().value)));
  return kept;
}

// Where the draw falls in `whole`, counted from 1.
__device__ Sum drawn(const ChoiceState& s, Sum whole) {
  const Sum point = random_word(s.seed, s.sequence, s.progress->step) >> 8;  // of 2^24
  return (__umul64hi(whole, point) << 40 | whole * point >> 24) + 1;
}

// One thread: the choice is made.
__device__ void finish(const ChoiceState& s, const NextRow& next, int32_t token) {
  ChoiceProgress& progress = *s.progress;
  s.ring[progress.choices % kChoiceRing] = token;
  token = max(token, 0);
  progress.token = token;
  ++progress.choices;
  ++progress.step;
  if (s.history != nullptr) s.history[token] = max(s.history[token], 1) + 1;
  if (next.token == nullptr) return;
  *next.token = token;
  ++*next.position;
  ++next.segment->position;
}

__global__ void __launch_bounds__(kThreads, 1) choose_kernel(const Launched p) {
  extern __shared__ float logits[];
  __shared__ Memory memory;
  const ChoiceState s = *p.state;
  wait_for_previous();
  let_next_start();
  Row row(logits, memory, s, p.logits);
  const auto done = [&](int32_t token) { finish(s, p.next, token); };
  const Largest& largest = row.largest();
  const bool first = blockIdx.x == 0 && threadIdx.x == 0;
  if (largest.bad != 0 || largest.value == -INFINITY) {
    if (first) done(largest.bad != 0 ? kBadLogits : kNothingToChoose);
  } else if (s.temperature == 0) {
    if (first) done(largest.id);
  } else if (s.top_k <= 0 && s.top_p >= 1 && s.min_p <= 0) {
    row.find_id(
        drawn(s, row.weight_from(0)), [&](float logit) { return row.weight(logit); }, done);
  } else {
    const Sum goal = drawn(s, kept_weight(row, s));
    const Found at = row.find_weight(goal);
    const Sum place = (goal - at.above - 1) / row.weight(unordered(at.key)) + 1;
    row.find_id(
        place, [&](float logit) { return Sum{ordered(logit) == at.key ? 1u : 0u}; }, done);
  }
  cooperative_groups::this_cluster().sync();  // nobody reads this block's memory any more
}

}  // namespace

int64_t largest_choice() {
  return kBlocks * ((int64_t{227 << 10} - static_cast<int64_t>(sizeof(Memory)) - 1024) / 4);
}

void choose_token(LaunchQueue& queue, const float* logits, const ChoiceState* state, int64_t vocabulary,
                  const NextRow& next) {
  Shape shape;
  shape.blocks = dim3(kBlocks);
  shape.threads = kThreads;
  shape.cluster = kBlocks;
  shape.shared = static_cast<size_t>(share_of(vocabulary)) * sizeof(float);
  queue.launch(choose_kernel, shape, Launched{logits, state, next});
}

}  // namespace weir::cuda
