#include "kernels/cpu/linear.h"

#include <algorithm>

#include "base/check.h"
#include "kernels/cpu/memory.h"

namespace weir::cpu {

Result<std::unique_ptr<Linear>> PackedLinear::pack(std::span<const Matrix> parts, Use use,
                                                   const CpuKernels& kernels, std::string isa,
                                                   ThreadPool& pool) {
  WEIR_CHECK(!parts.empty());
  auto linear = std::unique_ptr<PackedLinear>(new PackedLinear);
  linear->isa_ = std::move(isa);
  int64_t bytes = 0;
  for (const Matrix& part : parts) {
    WEIR_RETURN_IF_ERROR(check_packable(part));
    if (part.cols != parts.front().cols) {
      return Error{Code::kUnsupported,
                   "stacked matrices have " + std::to_string(part.cols) + " and " +
                       std::to_string(parts.front().cols) + " columns",
                   ""};
    }
    linear->parts_.push_back(plan_packing(part, use, kernels));
    bytes += linear->parts_.back().bytes();
  }
  WEIR_TRY(linear->memory_, allocate_pages(static_cast<size_t>(bytes)));
  auto* next = static_cast<uint8_t*>(linear->memory_.data());
  std::vector<PackJob> jobs;
  for (size_t i = 0; i < parts.size(); ++i) {
    linear->parts_[i].data = next;
    next += linear->parts_[i].bytes();
    jobs.push_back({linear->parts_[i], parts[i]});
  }
  pack_all(jobs, pool);
  return std::unique_ptr<Linear>(std::move(linear));
}

int64_t PackedLinear::rows() const {
  int64_t total = 0;
  for (const PackedMatrix& part : parts_) total += part.rows;
  return total;
}

uint64_t PackedLinear::bytes() const {
  int64_t total = 0;
  for (const PackedMatrix& part : parts_) total += part.bytes();
  return static_cast<uint64_t>(total);
}

unsigned PackedLinear::kinds() const {
  unsigned kinds = 0;
  for (const PackedMatrix& part : parts_) kinds |= kind_mask(part);
  return kinds;
}

std::string PackedLinear::kernel() const {
  return kernel_names(isa_, parts_);
}

std::string kernel_names(const std::string& isa, std::span<const PackedMatrix> matrices) {
  std::vector<std::string> names;
  for (const PackedMatrix& w : matrices) {
    if (std::find(names.begin(), names.end(), w.kernel()) == names.end()) names.push_back(w.kernel());
  }
  std::string text = isa + "/";
  for (size_t i = 0; i < names.size(); ++i) text += (i == 0 ? "" : " ") + names[i];
  return text;
}

}  // namespace weir::cpu
