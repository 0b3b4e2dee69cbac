#include "kernels/cpu/experts.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/memory.h"

namespace weir::cpu {
namespace {

// Lays one expert out from `next` on and returns where it ends.
uint8_t* place_expert(PackedExperts::Expert& e, uint8_t* next) {
  e.gate.stride = e.up.stride = e.up_block_bytes();
  e.gate.data = next;
  e.up.data = next + e.gate.block_bytes;
  e.down.data = next + e.gate.blocks() * e.gate.stride;
  return e.down.data + e.down.bytes();
}

Status check_expert(const ExpertSource& source, const ExpertSource& first) {
  for (const Matrix* m : {&source.gate, &source.up, &source.down}) {
    WEIR_RETURN_IF_ERROR(check_packable(*m));
  }
  const int64_t hidden = first.gate.cols;
  const int64_t width = first.gate.rows;
  const auto is = [](const Matrix& m, int64_t rows, int64_t cols) {
    return m.rows == rows && m.cols == cols;
  };
  if (source.gate.encoding.affine() != source.up.encoding.affine()) {
    return Error{Code::kUnsupported,
                 "of an expert's gate and up projections one is quantised and one is not: " +
                     source.gate.encoding.text() + " and " + source.up.encoding.text(),
                 "quantise both or neither"};
  }
  if (is(source.gate, width, hidden) && is(source.up, width, hidden) && is(source.down, hidden, width)) {
    return {};
  }
  return Error{Code::kUnsupported,
               "the experts of a layer differ in shape, the first being " + std::to_string(width) + " x " +
                   std::to_string(hidden),
               "the shared expert must be as wide as the others"};
}

}  // namespace

Result<std::unique_ptr<Experts>> PackedExperts::pack(std::span<const ExpertSource> sources,
                                                     const CpuKernels& kernels, std::string isa,
                                                     ThreadPool& pool) {
  WEIR_CHECK(!sources.empty());
  auto packed = std::unique_ptr<PackedExperts>(new PackedExperts);
  packed->isa_ = std::move(isa);
  int64_t bytes = 0;
  for (const ExpertSource& source : sources) {
    WEIR_RETURN_IF_ERROR(check_expert(source, sources.front()));
    packed->experts_.push_back({plan_packing(source.gate, Use::kProjection, kernels),
                                plan_packing(source.up, Use::kProjection, kernels),
                                plan_packing(source.down, Use::kProjection, kernels)});
    bytes += up_size(packed->experts_.back()) + packed->experts_.back().down.bytes();
  }
  WEIR_TRY(packed->memory_, allocate_pages(static_cast<size_t>(bytes)));
  auto* next = static_cast<uint8_t*>(packed->memory_.data());
  std::vector<PackJob> jobs;
  for (size_t i = 0; i < sources.size(); ++i) {
    Expert& e = packed->experts_[i];
    next = place_expert(e, next);
    jobs.push_back({e.gate, sources[i].gate});
    jobs.push_back({e.up, sources[i].up});
    jobs.push_back({e.down, sources[i].down});
    packed->up_kinds_ |= kind_mask(e.gate) | kind_mask(e.up);
    packed->down_kinds_ |= kind_mask(e.down);
  }
  pack_all(jobs, pool);
  return std::unique_ptr<Experts>(std::move(packed));
}

std::string PackedExperts::kernel() const {
  std::vector<PackedMatrix> all;
  for (const Expert& e : experts_) all.insert(all.end(), {e.gate, e.up, e.down});
  return kernel_names(isa_, all);
}

size_t ExpertLists::scratch_bytes(int64_t pairs, int64_t experts) {
  return carved_bytes(experts, sizeof(List)) + carved_bytes(experts + 1, sizeof(int32_t)) +
         2 * carved_bytes(pairs, sizeof(int32_t));
}

void ExpertLists::place(Carver& scratch, int64_t pairs, int64_t experts) {
  lists_ = scratch.take<List>(experts);
  begins_ = scratch.take<int32_t>(experts + 1);
  pairs_ = scratch.take<int32_t>(pairs);
  rows_ = scratch.take<int32_t>(pairs);
}

void ExpertLists::build(const Routing& routing, int64_t experts) {
  const auto pairs = static_cast<int32_t>(routing.rows * routing.slots);
  std::fill_n(begins_, experts + 1, 0);
  for (int32_t p = 0; p < pairs; ++p) ++begins_[routing.experts[p] + 1];
  list_count_ = 0;
  for (int64_t e = 0; e < experts; ++e) {
    const int32_t begin = begins_[e];
    begins_[e + 1] += begin;
    if (begins_[e + 1] > begin) lists_[list_count_++] = {static_cast<int32_t>(e), begin, begins_[e + 1]};
  }
  const auto slots = static_cast<int32_t>(routing.slots);
  for (int32_t p = 0; p < pairs; ++p) {
    const int32_t position = begins_[routing.experts[p]]++;
    pairs_[position] = p;
    rows_[position] = p / slots;
  }
}

}  // namespace weir::cpu
