#include "kernels/cpu/head.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "kernels/cpu/linear.h"
#include "kernels/cpu/memory.h"
#include "kernels/cpu/products.h"

namespace weir::cpu {
namespace {

constexpr int64_t kPanelBlocks = kHeadPanel / kBlockRows;

// Blocks of weights for each thread between two barriers, and their fewest panels.
constexpr int64_t kBlocksPerThread = 8;
constexpr int64_t kFewestPanels = 4;

// Where the canvas keeps the expected embedding of row `row` of the batch; null for a causal row.
float* soft_of(const CanvasBatch& batch, int64_t row, int64_t cols) {
  for (const CanvasSegment& canvas : batch.canvases) {
    const int64_t at = row - canvas.first_row;
    if (at < 0 || at >= static_cast<int64_t>(canvas.slots.size())) continue;
    return canvas.canvas->soft.floats() + canvas.slots[static_cast<size_t>(at)] * cols;
  }
  return nullptr;
}

}  // namespace

Head::Head(const CpuKernels& kernels, ThreadPool& pool)
    : kernels_(kernels),
      pool_(pool),
      panels_(std::max(kFewestPanels, pool.threads() * kBlocksPerThread / kPanelBlocks)) {}

Status Head::reserve(const Limits& limits) {
  const int64_t elements = limits.rows * limits.hidden;
  const int64_t panel_floats = limits.rows * panels_ * kHeadPanel;
  thread_stride_ = std::max(kHeadPanel, limits.hidden);
  const int threads = pool_.threads();
  const size_t bytes = carved_bytes(elements, sizeof(float)) + carved_bytes(panel_floats, sizeof(float)) +
                       carved_bytes(limits.rows, sizeof(int32_t)) +
                       carved_bytes(limits.rows * kMaxSoftTokens, sizeof(RankedToken)) +
                       carved_bytes(threads * thread_stride_, sizeof(float)) +
                       Activations::scratch_bytes(elements, elements) +
                       ExpectedEmbeddings::scratch_bytes(limits.rows, limits.hidden, panels_, threads);
  WEIR_TRY(scratch_, allocate_pages(bytes));
  Carver carver(scratch_.data());
  normed_ = carver.take<float>(elements);
  logits_ = carver.take<float>(panel_floats);
  identity_ = carver.take<int32_t>(limits.rows);
  top_ = carver.take<RankedToken>(limits.rows * kMaxSoftTokens);
  thread_floats_ = carver.take<float>(threads * thread_stride_);
  activations_.place(carver, elements, elements);
  expected_.place(carver, limits.rows, limits.hidden, panels_, threads);
  std::iota(identity_, identity_ + limits.rows, 0);
  rows_.reserve(static_cast<size_t>(limits.rows));
  return {};
}

void Head::begin_rows(float softcap, const CanvasBatch& batch, int64_t cols) {
  rows_.clear();
  expected_rows_ = 0;
  for (const Inquiry& inquiry : batch.inquiries) {
    Row row;
    row.draw = inquiry.draw;
    row.capping = {1 / softcap, softcap / inquiry.temperature};
    if (inquiry.soft_tokens != 0) row.soft = soft_of(batch, inquiry.row, cols);
    if (row.soft != nullptr && inquiry.soft_tokens == kAllTokens) {
      row.expected = expected_rows_++;
    } else if (row.soft != nullptr) {
      const auto first = static_cast<int64_t>(rows_.size()) * kMaxSoftTokens;
      row.top = TopTokens(top_ + first, inquiry.soft_tokens);
    }
    rows_.push_back(row);
  }
}

void Head::prepare(Rows x, int64_t first_row, const Vector& gain, float epsilon, const PackedMatrix& w,
                   std::span<const Inquiry> inquiries) {
  const auto count = static_cast<int64_t>(inquiries.size());
  activations_.begin(kernels_, normed_, w.cols, kind_mask(w));
  for_rows(pool_, count, [&](int64_t i) {
    const float* from = x.row(inquiries[static_cast<size_t>(i)].row - first_row);
    kernels_.rows.rms_norm(normed_ + i * w.cols, from, gain.floats(), epsilon, w.cols);
    activations_.round_row(i);
  });
  const int64_t parts = tile_count(count, kLargestTile);
  for_rows(pool_, parts, [&](int64_t part) { activations_.interleave(0, identity_, count, part, parts); });
}

// The logits of these panels for all rows.
void Head::multiply_panels(const PackedMatrix& w, Range panels) {
  const int64_t first_block = panels.begin * kPanelBlocks;
  const int64_t blocks = std::min(panels.end * kPanelBlocks, w.blocks()) - first_block;
  const auto rows = static_cast<int64_t>(rows_.size());
  pool_.run([&](int thread) {
    const Range mine = part_of(blocks, thread, pool_.threads());
    multiply(kernels_, w, {first_block + mine.begin, first_block + mine.end}, activations_, 0, rows,
             [&](int64_t b, int64_t first, int64_t count, const float* out) {
               float* to = logits_ + first * panels_ * kHeadPanel + (b - first_block) * kBlockRows;
               for (int64_t i = 0; i < count; ++i, out += kBlockRows, to += panels_ * kHeadPanel) {
                 std::memcpy(to, out, kBlockRows * sizeof(float));
               }
             });
  });
}

// `weights` is scratch of one panel.
void Head::weigh_row(int64_t i, Range panels, int64_t vocabulary, float* weights) {
  Row& row = rows_[static_cast<size_t>(i)];
  for (int64_t p = 0; p < panels.end - panels.begin; ++p) {
    float* y = logits_ + (i * panels_ + p) * kHeadPanel;
    float* w = row.expected >= 0 ? expected_.weights(row.expected, p) : weights;
    WeighedPanel panel;
    panel.index = panels.begin + p;
    panel.count = std::min(kHeadPanel, vocabulary - panel.index * kHeadPanel);
    panel.y = y;
    panel.w = w;
    panel.sums = kernels_.head.weigh_panel(y, w, panel.count, row.capping);
    row.top.offer(y, panel.count, panel.first_id(), panel.sums.max);
    const Rescale rescale = row.belief.add(panel, row.draw);
    if (row.expected >= 0) expected_.set_rescale(row.expected, p, rescale);
  }
}

// `embedding` is scratch of one row.
void Head::finish_row(Belief& belief, Row& row, const PackedVocabulary& vocabulary, float* embedding) const {
  belief = row.belief.finish();
  if (row.soft == nullptr) return;
  if (row.expected >= 0) {
    expected_.read(row.soft, row.expected, static_cast<float>(vocabulary.scale() / row.belief.sum()));
    return;
  }
  std::fill(row.soft, row.soft + vocabulary.cols(), 0.0f);
  for (const RankedToken& token : row.top.finish()) {
    const auto p = static_cast<float>(row.belief.probability(token.y));
    vocabulary.look_up(embedding, token.id);
    kernels_.rows.add_weighted(row.soft, &p, embedding, 0, 1, vocabulary.cols());
  }
}

void Head::run(Belief* beliefs, Rows x, int64_t first_row, const Vector& gain, float epsilon,
               const PackedVocabulary& vocabulary, float softcap, const CanvasBatch& batch) {
  const PackedMatrix& w = vocabulary.head();
  begin_rows(softcap, batch, w.cols);
  if (rows_.empty()) return;
  prepare(x, first_row, gain, epsilon, w, batch.inquiries);
  if (expected_rows_ > 0) expected_.begin(vocabulary, kernels_.head, expected_rows_, pool_);
  const auto rows = static_cast<int64_t>(rows_.size());
  const int64_t panels = (w.rows + kHeadPanel - 1) / kHeadPanel;
  const auto for_my_rows = [&](const auto& f) {  // f(row, the thread's scratch)
    pool_.run([&](int thread) {
      const Range mine = part_of(rows, thread, pool_.threads());
      for (int64_t i = mine.begin; i < mine.end; ++i) f(i, thread_floats(thread));
    });
  };
  for (int64_t first = 0; first < panels; first += panels_) {
    const Range part{first, std::min(first + panels_, panels)};
    multiply_panels(w, part);
    for_my_rows([&](int64_t i, float* weights) { weigh_row(i, part, w.rows, weights); });
    if (expected_rows_ > 0) expected_.add(part.begin, part.end - part.begin, pool_);
  }
  for_my_rows([&](int64_t i, float* embedding) {
    finish_row(beliefs[i], rows_[static_cast<size_t>(i)], vocabulary, embedding);
  });
}

}  // namespace weir::cpu
