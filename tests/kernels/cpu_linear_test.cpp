// Products of the CPU backend against float64, and against themselves: the same bits for every instruction
// set, number of threads and cut of the rows.
#include <numeric>

#include "kernels/cpu_matrix_support.h"

namespace weir::test {
namespace {

constexpr Limits kLimits{64, 512, 512, 512, 4, 9, 128};
constexpr float kGuard = 12345.0f;

struct Case {
  Encoding encoding;
  int64_t rows;
  int64_t cols;
};

std::vector<Case> cases() {
  std::vector<Case> all;
  const int64_t rows[] = {1, 4, 15, 16, 17, 33, 50};
  size_t i = 0;
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const int group : {32, 64, 128}) {
      const Dtype dtype = i % 4 == 3 ? Dtype::kF32 : Dtype::kBf16;
      all.push_back(
          {{dtype, bits, group}, rows[i % std::size(rows)], group * (1 + static_cast<int64_t>(i % 3))});
      ++i;
    }
  }
  for (const int64_t r : rows) all.push_back({{Dtype::kBf16, 4, 64}, r, 256});
  for (const Dtype dtype : {Dtype::kBf16, Dtype::kF32}) all.push_back({{dtype, 0, 0}, 33, 100});
  return all;
}

std::string text(const Case& c) {
  return c.encoding.text() + " " + std::to_string(c.rows) + " x " + std::to_string(c.cols);
}

std::unique_ptr<Linear> packed(const CpuBackend& cpu, std::span<const Matrix> parts, Use use) {
  auto linear = cpu->pack(parts, use);
  EXPECT_TRUE(linear.ok()) << linear.error().message;
  return std::move(*linear);
}

// y = x W^T by project_add into zeros, rows in calls of `cut`.
std::vector<float> product(const CpuBackend& cpu, const Linear& w, std::vector<float>& x, int64_t cut) {
  const int64_t total = static_cast<int64_t>(x.size()) / w.cols();
  std::vector<float> y(static_cast<size_t>(total * w.rows()) + 16, 0.0f);
  std::fill(y.end() - 16, y.end(), kGuard);
  for (int64_t t = 0; t < total; t += cut) {
    const int64_t n = std::min(cut, total - t);
    cpu->project_add({y.data() + t * w.rows(), n, w.rows()}, {x.data() + t * w.cols(), n, w.cols()}, w);
  }
  for (size_t i = y.size() - 16; i < y.size(); ++i) EXPECT_EQ(y[i], kGuard);
  y.resize(y.size() - 16);
  return y;
}

TEST(CpuLinear, EveryEncodingMultipliesWithinTheBoundOfItsArithmetic) {
  const CpuBackend cpu(cpu_features().best_isa(), 2, kLimits);
  Random random(1);
  for (const Case& c : cases()) {
    SCOPED_TRACE(text(c));
    const OwnedMatrix owned = random_matrix(random, c.rows, c.cols, c.encoding);
    const Matrix m = owned.view();
    for (const Use use : {Use::kProjection, Use::kRouter}) {
      const auto w = packed(cpu, {&m, 1}, use);
      ASSERT_EQ(w->rows(), c.rows);
      const int64_t t_count = 9;
      std::vector<float> x = random.floats(t_count * c.cols, -3, 3);
      const std::vector<float> y = product(cpu, *w, x, t_count);
      for (int64_t t = 0; t < t_count; ++t) {
        const std::span<const float> row(x.data() + t * c.cols, static_cast<size_t>(c.cols));
        for (int64_t r = 0; r < c.rows; ++r) {
          const Bounded want = exact_product(m, r, row, 0, use);
          ASSERT_NEAR(y[static_cast<size_t>(t * c.rows + r)], want.value, want.error)
              << "row " << r << " of " << t;
        }
      }
    }
  }
}

TEST(CpuLinear, LargestWeightsTimesLargestActivationsDoNotSaturate) {
  constexpr int64_t kRows = 16, kCols = 128;
  const std::vector<std::byte> weight(kRows * kCols, std::byte{255});
  const std::vector<float> scales(kRows, 1.0f), biases(kRows, 0.0f);
  for (const int bits : {2, 3, 4, 8}) {
    const Matrix m{{Dtype::kF32, bits, 128},
                   kRows,
                   kCols,
                   weight.data(),
                   reinterpret_cast<const std::byte*>(scales.data()),
                   reinterpret_cast<const std::byte*>(biases.data())};
    const int largest = (1 << bits) - 1;
    for (const Isa isa : supported_isas()) {
      const CpuBackend cpu(isa, 1, kLimits);
      const auto w = packed(cpu, {&m, 1}, Use::kProjection);
      for (const float sign : {1.0f, -1.0f}) {
        for (const int64_t rows : {1, 16}) {
          std::vector<float> x(static_cast<size_t>(rows * kCols), sign * 127.0f);
          for (const float y : product(cpu, *w, x, rows)) {
            EXPECT_EQ(y, sign * static_cast<float>(largest * 127 * kCols)) << isa_name(isa) << ", " << bits;
          }
        }
      }
    }
  }
}

TEST(CpuLinear, BitsAreTheSameForEveryInstructionSetThreadCountAndCut) {
  Random random(2);
  for (const Case& c : cases()) {
    SCOPED_TRACE(text(c));
    const OwnedMatrix owned = random_matrix(random, c.rows, c.cols, c.encoding);
    const Matrix m = owned.view();
    std::vector<float> x = random.floats(64 * c.cols, -3, 3);
    for (const Use use : {Use::kProjection, Use::kRouter}) {
      std::vector<float> first;
      for (const Isa isa : supported_isas()) {
        for (const int threads : {1, 2, 3, 4}) {
          const CpuBackend cpu(isa, threads, kLimits);
          const auto w = packed(cpu, {&m, 1}, use);
          for (const int64_t cut : {1, 2, 3, 7, 8, 9, 16, 31, 64}) {
            if (threads > 1 && cut % (2 * threads) != 1) continue;  // each thread count with some of the cuts
            const std::vector<float> y = product(cpu, *w, x, cut);
            if (first.empty()) first = y;
            ASSERT_EQ(std::memcmp(y.data(), first.data(), y.size() * sizeof(float)), 0)
                << isa_name(isa) << ", " << threads << " threads, rows by " << cut;
          }
        }
      }
    }
  }
}

TEST(CpuLinear, MatrixTilesGiveTheBitsOfVnniForAnyShape) {
  if (!cpu_features().supports(Isa::kAvx512Amx)) {
    GTEST_SKIP() << "this CPU has no AMX, or the system does not let this process use it";
  }
  Random random(9);
  for (int i = 0; i < 120; ++i) {
    const int64_t bits = 2 + random.below(7), group = int64_t{32} << random.below(3);
    const Dtype dtype = random.below(4) == 0 ? Dtype::kF32 : Dtype::kBf16;
    const Case c{{dtype, static_cast<int>(bits == 7 ? 8 : bits), static_cast<int>(group)},
                 1 + random.below(80),
                 group * (1 + random.below(512 / group))};
    const int64_t count = 1 + random.below(64);
    SCOPED_TRACE(text(c) + " by " + std::to_string(count));
    const OwnedMatrix owned = random_matrix(random, c.rows, c.cols, c.encoding);
    const Matrix m = owned.view();
    std::vector<float> x = random.floats(count * c.cols, -3, 3);
    const CpuBackend vnni(Isa::kAvx512Vnni, 1, kLimits),
        amx(Isa::kAvx512Amx, 1 + static_cast<int>(i % 3), kLimits);
    const auto w = packed(vnni, {&m, 1}, Use::kProjection), tiles = packed(amx, {&m, 1}, Use::kProjection);
    expect_same_bits(product(amx, *tiles, x, count), product(vnni, *w, x, count), "products");
  }
}

// The same values, scales and biases with more bits.
OwnedMatrix widened(const OwnedMatrix& narrow, int bits) {
  OwnedMatrix wide = narrow;
  wide.encoding.bits = bits;
  std::vector<uint8_t> q(static_cast<size_t>(narrow.cols));
  const size_t row_bytes = q.size() * static_cast<size_t>(bits) / 8;
  wide.weight.resize(static_cast<size_t>(narrow.rows) * row_bytes);
  for (int64_t row = 0; row < narrow.rows; ++row) {
    unpack_row(narrow.view(), row, q.data());
    pack_row(q, bits, wide.weight.data() + static_cast<size_t>(row) * row_bytes);
  }
  return wide;
}

TEST(CpuLinear, FewBitsTakeTheirOwnSizeAndGiveTheBitsOfFourAndEight) {
  Random random(10);
  for (const int bits : {2, 3}) {
    for (const int group : {32, 64, 128}) {
      const Encoding encoding{group == 32 ? Dtype::kF32 : Dtype::kBf16, bits, group};
      const Case c{encoding, 33, 384};
      SCOPED_TRACE(text(c));
      const OwnedMatrix narrow = random_matrix(random, c.rows, c.cols, encoding);
      const OwnedMatrix wide[] = {widened(narrow, 4), widened(narrow, 8)};
      std::vector<float> x = random.floats(40 * c.cols, -3, 3);
      for (const Isa isa : supported_isas()) {
        const CpuBackend cpu(isa, 1, kLimits);
        for (const Use use : {Use::kProjection, Use::kRouter}) {
          const Matrix m = narrow.view();
          const auto w = packed(cpu, {&m, 1}, use);
          EXPECT_EQ(w->bytes(), m.bytes() / 33 * 48);  // three blocks of 16 rows
          for (const OwnedMatrix& other : wide) {
            const Matrix same = other.view();
            const auto v = packed(cpu, {&same, 1}, use);
            for (const int64_t cut : {1, 3, 12, 40}) {
              expect_same_bits(product(cpu, *w, x, cut), product(cpu, *v, x, cut),
                               std::string(isa_name(isa)));
            }
          }
        }
      }
    }
  }
}

TEST(CpuLinear, StackedPartsOfDifferentEncodingsKeepTheirRows) {
  Random random(3);
  const OwnedMatrix owned[] = {random_matrix(random, 18, 256, {Dtype::kBf16, 4, 64}),
                               random_matrix(random, 1, 256, {Dtype::kBf16, 8, 32}),
                               random_matrix(random, 31, 256, {Dtype::kBf16, 0, 0}),
                               random_matrix(random, 5, 256, {Dtype::kF32, 3, 128})};
  std::vector<Matrix> parts;
  for (const OwnedMatrix& m : owned) parts.push_back(m.view());
  const CpuBackend cpu(cpu_features().best_isa(), 3, kLimits);
  const auto stacked = packed(cpu, parts, Use::kProjection);
  ASSERT_EQ(stacked->rows(), 55);
  EXPECT_EQ(stacked->kernel(),
            std::string(isa_name(cpu_features().best_isa())) + "/q4_i8 q8_i8 bf16_f32 q3_i8");
  std::vector<float> x = random.floats(5 * 256, -1, 1);
  const std::vector<float> y = product(cpu, *stacked, x, 5);
  int64_t first = 0;
  for (const Matrix& part : parts) {
    const std::vector<float> alone = product(cpu, *packed(cpu, {&part, 1}, Use::kProjection), x, 5);
    for (int64_t t = 0; t < 5; ++t) {
      for (int64_t r = 0; r < part.rows; ++r) {
        ASSERT_EQ(y[static_cast<size_t>(t * 55 + first + r)], alone[static_cast<size_t>(t * part.rows + r)]);
      }
    }
    first += part.rows;
  }
}

// RMSNorm in float64. The float result is off by the norm's relative error (row_kernels.h) and two roundings.
std::vector<float> exact_norm(std::span<const float> x, const Vector& gain, float epsilon) {
  double squares = 0;
  for (const float v : x) squares += static_cast<double>(v) * v;
  const double scale = 1 / std::sqrt(squares / static_cast<double>(x.size()) + epsilon);
  std::vector<float> y(x.size());
  for (size_t i = 0; i < x.size(); ++i) y[i] = static_cast<float>(x[i] * scale * gain.floats()[i]);
  return y;
}

TEST(CpuLinear, NormProjectWritesEveryElementAndNothingElse) {
  constexpr int64_t kT = 7, kRows = 17, kCols = 256;
  const CpuBackend cpu(cpu_features().best_isa(), 2, kLimits);
  Random random(4);
  const OwnedMatrix owned = random_matrix(random, kRows, kCols, {Dtype::kBf16, 4, 64});
  const Matrix m = owned.view();
  const auto w = packed(cpu, {&m, 1}, Use::kProjection);
  const Vector gain = random.vector(kCols, 0.5, 1.5);
  std::vector<float> x = random.floats(kT * kCols, -100, 100);
  std::vector<float> y(kT * kRows + 16, std::nanf(""));
  cpu->norm_project({y.data(), kT, kRows}, {x.data(), kT, kCols}, gain, 1e-6f, *w);
  for (int64_t t = 0; t < kT; ++t) {
    const std::vector<float> normed = exact_norm({x.data() + t * kCols, kCols}, gain, 1e-6f);
    double largest = 0;
    for (const float v : normed) largest = std::max(largest, std::fabs(v * 1.0));
    for (int64_t r = 0; r < kRows; ++r) {
      const double relative = (kCols / 16 + 8) * kU / 2 + 3 * kU;
      const Bounded want = exact_product(m, r, normed, largest * relative, Use::kProjection);
      ASSERT_NEAR(y[static_cast<size_t>(t * kRows + r)], want.value, want.error);
    }
  }
  for (size_t i = kT * kRows; i < y.size(); ++i) EXPECT_TRUE(std::isnan(y[i]));
}

TEST(CpuLinear, TheHeadSeesTheWantedRowsOnly) {
  constexpr int64_t kCols = 128, kRows = 40;
  const CpuBackend cpu(cpu_features().best_isa(), 2, kLimits);
  Random random(5);
  const OwnedMatrix owned = random_matrix(random, kRows, kCols, {Dtype::kBf16, 6, 64});
  const Matrix m = owned.view();
  const auto w = packed(cpu, {&m, 1}, Use::kProjection);
  const Vector gain = random.vector(kCols, 0.5, 1.5);
  std::vector<float> x = random.floats(6 * kCols, -1, 1);
  const std::vector<int32_t> wanted{1, 4, 5};
  Batch batch;
  batch.wanted = wanted;
  std::vector<float> all(6 * kRows), some(3 * kRows);
  cpu->norm_project({all.data(), 6, kRows}, {x.data(), 6, kCols}, gain, 1e-6f, *w);
  cpu->norm_head({some.data(), 3, kRows}, {x.data(), 6, kCols}, gain, 1e-6f, *w, batch);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(std::memcmp(&some[i * kRows], &all[static_cast<size_t>(wanted[i]) * kRows], kRows * 4), 0);
  }
}

TEST(CpuLinear, ActivationsThatAreNotFiniteShowInTheProduct) {
  const CpuBackend cpu(cpu_features().best_isa(), 1, kLimits);
  Random random(6);
  const OwnedMatrix owned = random_matrix(random, 16, 128, {Dtype::kBf16, 4, 64});
  const Matrix m = owned.view();
  const auto w = packed(cpu, {&m, 1}, Use::kProjection);
  for (const float bad : {std::nanf(""), INFINITY, -INFINITY}) {
    std::vector<float> x = random.floats(2 * 128, -1, 1);
    x[70] = bad;
    const std::vector<float> y = product(cpu, *w, x, 2);
    for (size_t r = 0; r < 16; ++r) {
      EXPECT_TRUE(std::isnan(y[r]));
      EXPECT_TRUE(std::isfinite(y[16 + r]));
    }
  }
}

TEST(CpuLinear, TinyAndZeroActivationsGiveZero) {
  const CpuBackend cpu(cpu_features().best_isa(), 1, kLimits);
  Random random(7);
  const OwnedMatrix owned = random_matrix(random, 16, 64, {Dtype::kBf16, 4, 64});
  const Matrix m = owned.view();
  const auto w = packed(cpu, {&m, 1}, Use::kProjection);
  std::vector<float> x(2 * 64, 0.0f);
  std::fill(x.begin() + 64, x.end(), 1e-40f);
  for (const float y : product(cpu, *w, x, 2)) EXPECT_EQ(y, 0.0f);
}

TEST(CpuLinear, EmbeddingRowsAreThoseOfTheCheckpoint) {
  const CpuBackend cpu(cpu_features().best_isa(), 2, kLimits);
  Random random(8);
  for (const Encoding& encoding : {Encoding{Dtype::kBf16, 4, 64}, Encoding{Dtype::kBf16, 0, 0}}) {
    auto owned = std::make_unique<OwnedMatrix>(random_matrix(random, 50, 64, encoding));
    const std::vector<int32_t> tokens{49, 0, 7, 7};
    std::vector<float> want(4 * 64), x(4 * 64);
    for (size_t t = 0; t < 4; ++t) decode_row(owned->view(), tokens[t], &want[t * 64]);
    auto table = cpu->pack_embedding(owned->view());
    ASSERT_TRUE(table.ok());
    owned.reset();  // the table must not need the checkpoint
    Batch batch;
    batch.tokens = tokens;
    cpu->embed({x.data(), 4, 64}, batch, **table);
    EXPECT_EQ(x, want);
  }
}

TEST(CpuLinear, WhatCannotBePackedIsRefused) {
  const CpuBackend cpu(Isa::kPortable, 1, kLimits);
  const Matrix m{{Dtype::kBf16, 4, 48}, 16, 96, nullptr, nullptr, nullptr};
  const auto w = cpu->pack({&m, 1}, Use::kProjection);
  ASSERT_FALSE(w.ok());
  EXPECT_EQ(w.error().code, Code::kUnsupported);
}

}  // namespace
}  // namespace weir::test
