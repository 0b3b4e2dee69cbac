#include "checkpoint/affine.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "base/bf16.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/json_fields.h"
#include "model_folder.h"

namespace weir {
namespace {

float float_from_hex(const std::string& digits) {
  return std::bit_cast<float>(static_cast<uint32_t>(std::stoul(digits, nullptr, 16)));
}

std::string hex(std::span<const std::byte> bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[std::to_integer<int>(b) >> 4];
    text += kDigits[std::to_integer<int>(b) & 15];
  }
  return text;
}

nlohmann::json load_vectors() {
  auto vectors = parse_json(testing::read_file("tests/data/checkpoint/vectors.json"), "vectors.json");
  if (!vectors.ok()) ADD_FAILURE() << vectors.error().message;
  return vectors.ok() ? *vectors : nlohmann::json();
}

std::vector<float> floats_of(const nlohmann::json& digits) {
  std::vector<float> values;
  for (const auto& item : digits) values.push_back(float_from_hex(item.get<std::string>()));
  return values;
}

struct Quantised {
  std::vector<uint8_t> q;
  std::vector<float> scales;
  std::vector<float> biases;
};

Quantised quantise(const std::vector<float>& row, int bits, int group) {
  const size_t groups = row.size() / static_cast<size_t>(group);
  Quantised result{std::vector<uint8_t>(row.size()), std::vector<float>(groups), std::vector<float>(groups)};
  quantize_row(row, bits, group, result.q, result.scales, result.biases);
  return result;
}

TEST(Affine, QuantisesEveryVectorBitForBit) {
  const auto vectors = load_vectors();
  ASSERT_EQ(vectors.size(), 198u);
  for (const auto& vector : vectors) {
    SCOPED_TRACE(vector["kind"].dump() + vector["bits"].dump() + "/" + vector["group"].dump());
    const int bits = vector["bits"];
    const auto got = quantise(floats_of(vector["w"]), bits, vector["group"]);
    EXPECT_EQ(got.q, vector["q"].get<std::vector<uint8_t>>());
    EXPECT_EQ(got.scales[0], float_from_hex(vector["scale"]));
    EXPECT_EQ(got.biases[0], float_from_hex(vector["bias"]));
    std::vector<std::byte> packed(got.q.size() * static_cast<size_t>(bits) / 8);
    pack_row(got.q, bits, packed.data());
    EXPECT_EQ(hex(packed), vector["packed"].get<std::string>());
  }
}

TEST(Affine, EncodedMatrixDecodesToTheVectorsInBfloat16) {
  for (const auto& vector : load_vectors()) {
    SCOPED_TRACE(vector["kind"].dump() + vector["bits"].dump() + "/" + vector["group"].dump());
    const auto w = floats_of(vector["w"]);
    const auto cols = static_cast<int64_t>(w.size());
    const auto owned = encode_matrix(w, 1, cols, {Dtype::kBf16, vector["bits"], vector["group"]});
    const Matrix matrix = owned.view();
    EXPECT_EQ(
        matrix_scale(matrix, 0, 0),
        std::bit_cast<float>(
            static_cast<uint32_t>(std::stoul(vector["scale_bf16"].get<std::string>(), nullptr, 16)) << 16));
    std::vector<float> decoded(w.size());
    decode_row(matrix, 0, decoded.data());
    const std::string expected = vector["decoded"];
    for (size_t i = 0; i < decoded.size(); ++i) {
      EXPECT_EQ(std::bit_cast<uint32_t>(decoded[i]),
                std::bit_cast<uint32_t>(float_from_hex(expected.substr(8 * i, 8))));
    }
  }
}

TEST(Affine, ReproducesTheToyGroupsOfTheFormatDescription) {
  const auto low_edge = quantise({-1.0f, 0.4f, 0.25f, 0.75f}, 4, 4);
  EXPECT_NEAR(low_edge.scales[0], 0.111111f, 1e-6);
  EXPECT_EQ(low_edge.biases[0], -1.0f);
  EXPECT_EQ(low_edge.q, (std::vector<uint8_t>{0, 13, 11, 15}));

  const auto high_edge = quantise({1.0f, -0.4f, 0.25f, 0.75f}, 4, 4);
  EXPECT_NEAR(high_edge.scales[0], -0.0909091f, 1e-7);
  EXPECT_EQ(high_edge.biases[0], 1.0f);
  EXPECT_EQ(high_edge.q, (std::vector<uint8_t>{0, 15, 8, 3}));
}

TEST(Affine, DecodingIsWithinHalfAStepOfTheInput) {
  for (const auto& vector : load_vectors()) {
    const auto w = floats_of(vector["w"]);
    const int bits = vector["bits"];
    const auto got = quantise(w, bits, vector["group"]);
    const double step = std::fabs(static_cast<double>(got.scales[0]));
    // Moving the scale so that zero is exact can push the far end of the group off the last level by up to
    // half a step at q0 levels from the edge, which is one old step at most.
    const double largest = std::fabs(static_cast<double>(got.biases[0]));
    for (size_t i = 0; i < w.size(); ++i) {
      const double back = static_cast<double>(got.scales[0]) * got.q[i] + static_cast<double>(got.biases[0]);
      const bool clamped = got.q[i] == 0 || got.q[i] == (1 << bits) - 1;
      EXPECT_LE(std::fabs(back - static_cast<double>(w[i])), (clamped ? 1.0 : 0.5) * step + 1e-6 * largest);
    }
  }
}

TEST(Affine, GroupsWithoutFiniteValuesGiveAScaleOrBiasThatReadersRefuse) {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const size_t place : {size_t{0}, size_t{17}, size_t{31}}) {
      std::vector<float> w(32, 0.25f);
      w[3] = -1.0f;
      w[place] = bad;
      const auto got = quantise(w, 4, 32);
      EXPECT_FALSE(std::isfinite(got.scales[0]) && std::isfinite(got.biases[0])) << bad << " at " << place;
    }
  }
}

// The 4-bit checkpoint was written from the bfloat16 one by another implementation, which rounds scales and
// biases before it chooses q: scales and biases must be the same, and q the same or, where the rounding tips
// it, beside it.
TEST(Affine, QuantisingTheBfloat16CheckpointGivesTheFourBitCheckpoint) {
  auto source = Checkpoint::open("tests/data/qwen-tiny/hf");
  auto target = Checkpoint::open("tests/data/qwen-tiny/mlx-4bit");
  ASSERT_TRUE(source.ok() && target.ok());
  for (const auto& [module, rows, cols] : std::vector<std::tuple<std::string, int64_t, int64_t>>{
           {"model.embed_tokens", 512, 64},
           {"model.layers.0.linear_attn.in_proj_qkv", 1024, 64},
           {"model.layers.2.linear_attn.out_proj", 64, 512},
           {"model.layers.3.self_attn.o_proj", 64, 1024},
           {"model.layers.1.mlp.gate", 16, 64}}) {
    SCOPED_TRACE(module);
    const auto plain = source->matrix(module, rows, cols);
    const auto packed = target->matrix(module, rows, cols);
    ASSERT_TRUE(plain.ok() && packed.ok());
    std::vector<float> values(static_cast<size_t>(rows * cols));
    for (int64_t row = 0; row < rows; ++row) decode_row(*plain, row, values.data() + row * cols);
    const auto owned = encode_matrix(values, rows, cols, packed->encoding);
    EXPECT_EQ(std::memcmp(owned.scales.data(), packed->scales, owned.scales.size()), 0);
    EXPECT_EQ(std::memcmp(owned.biases.data(), packed->biases, owned.biases.size()), 0);
    int64_t tipped = 0;
    std::vector<uint8_t> ours(static_cast<size_t>(cols));
    std::vector<uint8_t> theirs(static_cast<size_t>(cols));
    for (int64_t row = 0; row < rows; ++row) {
      unpack_row(owned.view(), row, ours.data());
      unpack_row(*packed, row, theirs.data());
      for (size_t i = 0; i < ours.size(); ++i) {
        ASSERT_LE(std::abs(ours[i] - theirs[i]), 1);
        tipped += ours[i] != theirs[i];
      }
    }
    EXPECT_LE(tipped, rows * cols * (packed->encoding.bits == 8 ? 30 : 2) / 100);
  }
}

}  // namespace
}  // namespace weir
