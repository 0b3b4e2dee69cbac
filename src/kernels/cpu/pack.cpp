#include "kernels/cpu/pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "kernels/cpu/shares.h"

namespace weir::cpu {
namespace {

constexpr int64_t kLineBytes = 64;

// Of an affine container.
int64_t value_bits(Container container) {
  constexpr int64_t kBits[kAffineContainers] = {2, 3, 4, 8};
  return kBits[static_cast<int>(container)];
}

int64_t scale_bytes(const PackedMatrix& w) {
  return w.wide_scales ? 4 : 2;
}

int64_t group_bytes(const PackedMatrix& w) {
  return w.group * kBlockRows * value_bits(w.container) / 8 + 2 * kBlockRows * scale_bytes(w);
}

uint32_t load_u32(const void* p) {
  uint32_t value;
  std::memcpy(&value, p, sizeof(value));
  return value;
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

// Sixteen 2-bit values, value i at bit 2 i, to the four bytes of a line: value 4 f + j goes to place f of
// byte j. A matrix of 4 x 4 is transposed, first in its quarters, then they are.
uint32_t transpose_pairs(uint32_t values) {
  const uint32_t inner = (values ^ values >> 6) & 0x00cc00ccu;
  values ^= inner ^ inner << 6;
  const uint32_t outer = (values ^ values >> 12) & 0x0000f0f0u;
  return values ^ outer ^ outer << 12;
}

// Thirty-two 3-bit values, value i at bit 3 i, to the four bytes of each line of kBits3.
std::array<uint32_t, 3> join_threes(const std::byte* values) {
  const auto spread = [](uint32_t x) {  // four values to four bytes
    x = (x | x << 10) & 0x003f003fu;
    return (x | x << 5) & 0x07070707u;
  };
  uint32_t c[8];  // columns 4 i ... 4 i + 3
  for (int i = 0; i < 4; ++i, values += 3) {
    uint32_t eight = 0;
    std::memcpy(&eight, values, 3);
    c[2 * i] = spread(eight & 0xfffu);
    c[2 * i + 1] = spread(eight >> 12);
  }
  constexpr uint32_t kLower = 0x03030303u, kUpper = 0x04040404u;
  return {c[0] | c[1] << 3 | (c[6] & kLower) << 6, c[2] | c[3] << 3 | (c[7] & kLower) << 6,
          c[4] | c[5] << 3 | (c[6] & kUpper) << 4 | (c[7] & kUpper) << 5};
}

// The lines of one row: bytes_of(p) are its bytes in those of `cols` columns, made from `step` bytes of
// `row`.
template <int64_t cols, int64_t step, class T, class BytesOf>
void place_lines(const PackedMatrix& w, uint8_t* block, int64_t lane, const T* row, BytesOf bytes_of) {
  for (int64_t g = 0; g < w.cols / w.group; ++g) {
    uint8_t* line = block + g * group_bytes(w) + 4 * lane;
    for (int64_t k = 0; k < w.group; k += cols, row += step) {
      for (const uint32_t bytes : bytes_of(row)) {
        std::memcpy(line, &bytes, sizeof(bytes));
        line += kLineBytes;
      }
    }
  }
}

// The same from the checkpoint's row, by way of `q` for values of 5 and 6 bits, which grow to 8.
void place_row(const PackJob& job, uint8_t* block, int64_t lane, int64_t row, std::vector<uint8_t>& q) {
  using One = std::array<uint32_t, 1>;
  const PackedMatrix& w = job.packed;
  const std::byte* packed = job.source.weight + static_cast<size_t>(row) * job.source.weight_row_bytes();
  switch (w.container) {
    case Container::kBits2:
      return place_lines<16, 4>(w, block, lane, packed,
                                [](const auto* p) { return One{transpose_pairs(load_u32(p))}; });
    case Container::kBits3:
      return place_lines<32, 12>(w, block, lane, packed, join_threes);
    case Container::kBits4:
      return place_lines<8, 4>(w, block, lane, packed,
                               [](const auto* p) { return One{pair_nibbles(load_u32(p))}; });
    default:
      q.resize(static_cast<size_t>(w.cols));
      unpack_row(job.source, row, q.data());
      place_lines<4, 4>(w, block, lane, q.data(), [](const auto* p) { return One{load_u32(p)}; });
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
    place_row(job, to, lane, row, q);
    uint8_t* scales = to + group_bytes(w) - 2 * kBlockRows * scale_bytes(w);
    const auto offset = static_cast<size_t>(row) * job.source.scale_row_bytes();
    const Dtype dtype = job.source.encoding.dtype;
    place_scales(w, scales, lane, dtype, job.source.scales + offset);
    place_scales(w, scales + kBlockRows * scale_bytes(w), lane, dtype, job.source.biases + offset);
  }
}

Container affine_container(int bits) {
  return bits == 2   ? Container::kBits2
         : bits == 3 ? Container::kBits3
         : bits == 4 ? Container::kBits4
                     : Container::kBits8;
}

}  // namespace

std::string PackedMatrix::kernel() const {
  if (group == 0) return container == Container::kBf16 ? "bf16_f32" : "f32_f32";
  return std::string{"q"} + std::to_string(value_bits(container)) + (int8_activations ? "_i8" : "_f32");
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
    w.container = affine_container(e.bits);
    w.wide_scales = e.dtype != Dtype::kBf16;
    w.int8_activations = use == Use::kProjection;
    w.group = e.group;
    w.block_bytes = w.cols / w.group * group_bytes(w);
  } else {
    w.container = e.dtype == Dtype::kBf16 ? Container::kBf16 : Container::kF32;
    w.int8_activations = false;
    w.block_bytes = w.cols * kBlockRows * (w.container == Container::kBf16 ? 2 : 4);
  }
  const auto product = static_cast<size_t>(w.container);
  w.product = w.int8_activations ? kernels.int8.products[product] : kernels.floats.products[product];
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
