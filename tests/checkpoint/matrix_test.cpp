#include "checkpoint/matrix.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>

#include "checkpoint/affine.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_fields.h"
#include "model_folder.h"

namespace weir {
namespace {

uint64_t fnv1a(std::span<const std::byte> bytes, uint64_t hash) {
  for (const std::byte b : bytes) hash = (hash ^ std::to_integer<uint64_t>(b)) * 0x100000001b3u;
  return hash;
}

// decoded.json was computed bit by bit in Python; mlx-mixed has every width, and its data start at odd
// addresses.
TEST(Matrix, DecodesEveryMatrixOfTheTinyCheckpointsBitForBit) {
  const auto expected = parse_json(testing::read_file("tests/data/checkpoint/decoded.json"), "decoded.json");
  ASSERT_TRUE(expected.ok());
  ASSERT_EQ(expected->size(), 104u);
  for (const char* model : {"mlx-4bit", "mlx-mixed"}) {
    auto checkpoint = Checkpoint::open(std::string("tests/data/qwen-tiny/") + model);
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message;
    for (const auto& item : *expected) {
      if (item["model"] != model) continue;
      SCOPED_TRACE(item.dump());
      const int64_t cols = item["cols"];
      const auto matrix = checkpoint->matrix(item["module"].get<std::string>(), item["rows"], cols);
      ASSERT_TRUE(matrix.ok()) << matrix.error().message;
      EXPECT_EQ(matrix->encoding, (Encoding{Dtype::kBf16, item["bits"], item["group"]}));
      std::vector<float> row(static_cast<size_t>(cols));
      uint64_t hash = 0xcbf29ce484222325u;
      for (int64_t r = 0; r < matrix->rows; ++r) {
        decode_row(*matrix, r, row.data());
        hash = fnv1a(std::as_bytes(std::span(row)), hash);
      }
      EXPECT_EQ(hash, std::stoull(item["fnv1a"].get<std::string>(), nullptr, 16));
    }
  }
}

TEST(Matrix, UnpackedValuesScalesAndBiasesGiveTheDecodedRow) {
  for (const int bits : {2, 3, 4, 5, 6, 8}) {
    for (const Dtype dtype : {Dtype::kBf16, Dtype::kF32}) {
      std::vector<float> values(3 * 128);
      for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<float>(i));
      const auto owned = encode_matrix(values, 3, 128, {dtype, bits, 64});
      const Matrix matrix = owned.view();
      EXPECT_EQ(matrix.bytes(), owned.weight.size() + owned.scales.size() + owned.biases.size());
      for (int64_t r = 0; r < 3; ++r) {
        std::vector<uint8_t> q(128);
        std::vector<float> decoded(128);
        unpack_row(matrix, r, q.data());
        decode_row(matrix, r, decoded.data());
        for (int64_t i = 0; i < 128; ++i) {
          const auto at = static_cast<size_t>(i);
          const float product = matrix_scale(matrix, r, i / 64) * static_cast<float>(q[at]);
          EXPECT_EQ(decoded[at], product + matrix_bias(matrix, r, i / 64));
        }
      }
    }
  }
}

TEST(Matrix, SliceOfRowsDecodesLikeTheWhole) {
  std::vector<float> values(6 * 64);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 37) - 11;
  for (const Encoding& encoding : {Encoding{Dtype::kBf16, 0, 0}, Encoding{Dtype::kF32, 0, 0},
                                   Encoding{Dtype::kBf16, 5, 32}, Encoding{Dtype::kF32, 3, 64}}) {
    const auto owned = encode_matrix(values, 6, 64, encoding);
    const Matrix part = owned.view().slice(2, 3);
    EXPECT_EQ(part.rows, 3);
    for (int64_t r = 0; r < 3; ++r) {
      std::vector<float> whole(64);
      std::vector<float> sliced(64);
      decode_row(owned.view(), r + 2, whole.data());
      decode_row(part, r, sliced.data());
      EXPECT_EQ(whole, sliced) << encoding.text();
    }
  }
}

TEST(Matrix, EncodingIsDescribedInWords) {
  EXPECT_EQ((Encoding{Dtype::kBf16, 0, 0}).text(), "bf16");
  EXPECT_EQ((Encoding{Dtype::kF32, 0, 0}).text(), "f32");
  EXPECT_EQ((Encoding{Dtype::kBf16, 4, 64}).text(), "affine 4-bit, groups of 64");
}

TEST(Tensor, LoadsFloatsFromOddAddresses) {
  const float value = -1.7182818f;
  std::vector<std::byte> bytes(1 + 2 * sizeof value);
  std::memcpy(bytes.data() + 1 + sizeof value, &value, sizeof value);
  EXPECT_EQ(load_float(Dtype::kF32, bytes.data() + 1, 1), value);
  const uint16_t bits = 0xc049;  // -3.140625
  std::memcpy(bytes.data() + 1, &bits, sizeof bits);
  EXPECT_EQ(load_float(Dtype::kBf16, bytes.data() + 1, 0), -3.140625f);
}

// Every binary16 value, against its definition in double.
TEST(Tensor, WidensEveryHalfExactly) {
  for (uint32_t half = 0; half <= 0xffff; ++half) {
    const auto stored = static_cast<uint16_t>(half);
    std::byte bytes[2];
    std::memcpy(bytes, &stored, sizeof stored);
    const float got = load_float(Dtype::kF16, bytes, 0);
    const int exponent = static_cast<int>((half >> 10) & 31);
    const double fraction = (half & 1023) / 1024.0;
    const double sign = half & 0x8000 ? -1.0 : 1.0;
    if (exponent == 31) {
      EXPECT_EQ(std::isnan(got), fraction != 0);
      EXPECT_FALSE(std::isfinite(got));
      continue;
    }
    const double magnitude =
        exponent == 0 ? std::ldexp(fraction, -14) : std::ldexp(1 + fraction, exponent - 15);
    ASSERT_EQ(static_cast<double>(got), sign * magnitude) << half;
    ASSERT_EQ(std::signbit(got), sign < 0) << half;
  }
}

TEST(Tensor, ShapesReadLikeLists) {
  EXPECT_EQ(shape_text(std::vector<int64_t>{32, 256, 8}), "[32, 256, 8]");
  EXPECT_EQ(shape_text(std::vector<int64_t>{}), "[]");
}

}  // namespace
}  // namespace weir
