#include "kernels/cpu/pack.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/cpu/shares.h"

namespace weir::cpu {
namespace {

constexpr int64_t kLineBytes = 64;

int64_t line_cols(Container container) {
  return container == Container::kNibbles ? 8 : 4;
}

int64_t scale_bytes(const PackedMatrix& w) {
  return w.wide_scales ? 4 : 2;
}

int64_t group_bytes(const PackedMatrix& w) {
  return w.group / line_cols(w.container) * kLineBytes + 2 * kBlockRows * scale_bytes(w);
}

// Eight 4-bit values as a row of the checkpoint holds them, value i at bit 4 i, to the four bytes of a line:
// byte j is value j below value 4 + j.
uint32_t pair_nibbles(uint32_t values) {
  const auto spread = [](uint32_t x) {  // four nibbles to the low halves of four bytes
    x = (x | x << 8) & 0x00ff00ffu;
    return (x | x << 4) & 0x0f0f0f0fu;
  };
  return spread(values & 0xffffu) | spread(values >> 16) << 4;
}

// The lines of one row from its unpacked values.
void place_row(const PackedMatrix& w, uint8_t* block, int64_t lane, const uint8_t* q) {
  const int64_t cols = line_cols(w.container);
  for (int64_t g = 0; g < w.cols / w.group; ++g) {
    uint8_t* line = block + g * group_bytes(w) + 4 * lane;
    for (int64_t k = 0; k < w.group; k += cols, q += cols, line += kLineBytes) {
      for (int j = 0; j < 4; ++j) {
        line[j] = w.container == Container::kBytes ? q[j] : static_cast<uint8_t>(q[j] | q[4 + j] << 4);
      }
    }
  }
}

// The same for rows of 4 bits, without unpacking them.
void place_nibble_row(const PackedMatrix& w, uint8_t* block, int64_t lane, const std::byte* row) {
  for (int64_t g = 0; g < w.cols / w.group; ++g) {
    uint8_t* line = block + g * group_bytes(w) + 4 * lane;
    for (int64_t k = 0; k < w.group; k += 8, row += 4, line += kLineBytes) {
      uint32_t values;
      std::memcpy(&values, row, sizeof(values));
      values = pair_nibbles(values);
      std::memcpy(line, &values, sizeof(values));
    }
  }
}

// Scales (or biases) of one row, [groups] in `source`; `first` is where group 0 has those of lane 0.
void place_scales(const PackedMatrix& w, uint8_t* first, int64_t lane, Dtype dtype, const std::byte* source) {
  for (int64_t g = 0; g < w.cols / w.group; ++g) {
    uint8_t* to = first + g * group_bytes(w) + lane * scale_bytes(w);
    if (dtype == Dtype::kBf16) {
      std::memcpy(to, source + 2 * g, 2);
    } else {
      const float value = load_float(dtype, source, g);
      std::memcpy(to, &value, 4);
    }
  }
}

void place_plain_row(const PackedMatrix& w, uint8_t* block, int64_t lane, const float* values) {
  for (int64_t c = 0; c < w.cols; ++c) {
    if (w.container == Container::kBf16) {
      const auto upper = static_cast<uint16_t>(std::bit_cast<uint32_t>(values[c]) >> 16);
      std::memcpy(block + 2 * (kBlockRows * c + lane), &upper, 2);
    } else {
      std::memcpy(block + 4 * (kBlockRows * c + lane), &values[c], 4);
    }
  }
}

// `q` and `values` are scratch of one row.
void pack_block(const PackJob& job, int64_t block, std::vector<uint8_t>& q, std::vector<float>& values) {
  const PackedMatrix& w = job.packed;
  uint8_t* to = w.block(block);
  for (int64_t lane = 0; lane < w.block_rows(block); ++lane) {
    const int64_t row = block * kBlockRows + lane;
    if (w.group == 0) {
      values.resize(static_cast<size_t>(w.cols));
      decode_row(job.source, row, values.data());
      place_plain_row(w, to, lane, values.data());
      continue;
    }
    if (job.source.encoding.bits == 4) {
      const size_t row_bytes = job.source.weight_row_bytes();
      place_nibble_row(w, to, lane, job.source.weight + static_cast<size_t>(row) * row_bytes);
    } else {
      q.resize(static_cast<size_t>(w.cols));
      unpack_row(job.source, row, q.data());
      place_row(w, to, lane, q.data());
    }
    uint8_t* scales = to + group_bytes(w) - 2 * kBlockRows * scale_bytes(w);
    const auto offset = static_cast<size_t>(row) * job.source.scale_row_bytes();
    const Dtype dtype = job.source.encoding.dtype;
    place_scales(w, scales, lane, dtype, job.source.scales + offset);
    place_scales(w, scales + kBlockRows * scale_bytes(w), lane, dtype, job.source.biases + offset);
  }
}

Product affine_product(const PackedMatrix& w, const CpuKernels& kernels) {
  if (w.container == Container::kNibbles) {
    return w.int8_activations ? kernels.int8.nibbles : kernels.floats.nibbles;
  }
  return w.int8_activations ? kernels.int8.bytes : kernels.floats.bytes;
}

}  // namespace

std::string PackedMatrix::kernel() const {
  switch (container) {
    case Container::kNibbles:
      return int8_activations ? "q4_i8" : "q4_f32";
    case Container::kBytes:
      return int8_activations ? "q8_i8" : "q8_f32";
    case Container::kBf16:
      return "bf16_f32";
    case Container::kF32:
      return "f32_f32";
  }
  return "";
}

Status check_packable(const Matrix& matrix) {
  const Encoding& e = matrix.encoding;
  const bool plain = e.bits == 0 && matrix.rows > 0 && matrix.cols > 0;
  const bool affine = e.bits >= 2 && e.bits <= 8 && (e.group == 32 || e.group == 64 || e.group == 128) &&
                      matrix.rows > 0 && matrix.cols > 0 && matrix.cols % e.group == 0;
  if (plain || affine) return {};
  return Error{Code::kUnsupported,
               "the CPU kernels have no product for a matrix of " + std::to_string(matrix.rows) + " x " +
                   std::to_string(matrix.cols) + " in " + e.text(),
               "quantise the model with 2 to 8 bits and groups of 32, 64 or 128"};
}

PackedMatrix plan_packing(const Matrix& matrix, Use use, const CpuKernels& kernels) {
  const Encoding& e = matrix.encoding;
  PackedMatrix w;
  w.rows = matrix.rows;
  w.cols = matrix.cols;
  if (e.affine()) {
    w.container = e.bits <= 4 ? Container::kNibbles : Container::kBytes;
    w.wide_scales = e.dtype != Dtype::kBf16;
    w.int8_activations = use == Use::kProjection;
    w.group = e.group;
    w.block_bytes = w.cols / w.group * group_bytes(w);
    w.product = affine_product(w, kernels);
  } else {
    w.container = e.dtype == Dtype::kBf16 ? Container::kBf16 : Container::kF32;
    w.int8_activations = false;
    w.block_bytes = w.cols * kBlockRows * (w.container == Container::kBf16 ? 2 : 4);
    w.product = w.container == Container::kBf16 ? kernels.floats.bf16 : kernels.floats.f32;
  }
  w.stride = w.block_bytes;
  return w;
}

void pack_all(const std::vector<PackJob>& jobs, ThreadPool& pool) {
  int64_t total = 0;
  for (const PackJob& job : jobs) total += job.packed.bytes();
  pool.run([&](int thread) {
    Shares shares(part_of(total, thread, pool.threads()));
    std::vector<uint8_t> q;
    std::vector<float> values;
    for (const PackJob& job : jobs) {
      const Range mine = shares.next(job.packed.blocks(), job.packed.block_bytes);
      for (int64_t b = mine.begin; b < mine.end; ++b) pack_block(job, b, q, values);
    }
  });
}

}  // namespace weir::cpu
