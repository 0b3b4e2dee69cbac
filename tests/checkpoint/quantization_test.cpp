// What config.json says about a matrix against what its tensors say.
#include "checkpoint/quantization.h"

#include <gtest/gtest.h>

#include "checkpoint/checkpoint.h"
#include "expect_error.h"
#include "model_folder.h"

namespace weir {
namespace {

using nlohmann::json;
using testing::bf16_zeros;
using testing::expect_error;
using testing::safetensors;
using testing::StoredTensor;
using testing::TempFolder;

// A folder with one matrix 'm' of 4 rows and 128 columns.
class Quantization : public ::testing::Test {
 protected:
  static StoredTensor packed(std::vector<int64_t> shape) {
    size_t size = 4;
    for (const int64_t dimension : shape) size *= static_cast<size_t>(dimension);
    return {"language_model.m.weight", "U32", std::move(shape), std::string(size, '\x11')};
  }
  static StoredTensor scales(std::vector<int64_t> shape) {
    return bf16_zeros("language_model.m.scales", std::move(shape));
  }
  static StoredTensor biases(std::vector<int64_t> shape) {
    return bf16_zeros("language_model.m.biases", std::move(shape));
  }

  // bits 4 in groups of 64
  static std::vector<StoredTensor> four_bit() { return {packed({4, 16}), scales({4, 2}), biases({4, 2})}; }

  Result<Matrix> matrix(const std::vector<StoredTensor>& tensors, const json& quantization, int64_t rows = 4,
                        int64_t cols = 128) {
    const json config = quantization.is_null() ? json::object() : json{{"quantization", quantization}};
    folder_.write("config.json", config.dump());
    folder_.write("model.safetensors", safetensors(tensors));
    auto opened = Checkpoint::open(folder_.path());
    if (!opened.ok()) return opened.error();
    checkpoint_.emplace(std::move(*opened));
    return checkpoint_->matrix("m", rows, cols);
  }

  TempFolder folder_;
  std::optional<Checkpoint> checkpoint_;
};

const json kDefaults = {{"bits", 4}, {"group_size", 64}, {"mode", "affine"}};

json with_entry(const json& entry) {
  json section = kDefaults;
  section["language_model.m"] = entry;
  return section;
}

void expect_encoding(const Result<Matrix>& matrix, int bits, int group) {
  ASSERT_TRUE(matrix.ok()) << matrix.error().message;
  EXPECT_EQ(matrix->encoding, (Encoding{Dtype::kBf16, bits, group}));
}

TEST_F(Quantization, DefaultsGoWithTheShapes) {
  expect_encoding(matrix(four_bit(), kDefaults), 4, 64);
  EXPECT_TRUE(checkpoint_->notes().empty());
}

TEST_F(Quantization, OwnEntryGoesBeforeTheDefaults) {
  expect_encoding(matrix({packed({4, 32}), scales({4, 4}), biases({4, 4})},
                         with_entry({{"bits", 8}, {"group_size", 32}})),
                  8, 32);
  EXPECT_TRUE(checkpoint_->notes().empty());
}

TEST_F(Quantization, ModuleWithoutEntryFollowsItsShapesAndIsNoted) {
  expect_encoding(matrix({packed({4, 20}), scales({4, 1}), biases({4, 1})}, kDefaults), 5, 128);
  ASSERT_EQ(checkpoint_->notes().size(), 1u);
  EXPECT_NE(checkpoint_->notes()[0].find("'m' is stored affine 5-bit, groups of 128"), std::string::npos);
}

TEST_F(Quantization, ScalesWithoutASectionFollowTheirShapes) {
  expect_encoding(matrix(four_bit(), nullptr), 4, 64);
}

TEST_F(Quantization, EntryWithoutBitsOrGroupFollowsTheShapes) {
  expect_encoding(matrix(four_bit(), with_entry(json::object())), 4, 64);
}

TEST_F(Quantization, EntryTrueMeansTheDefaults) {
  expect_encoding(matrix(four_bit(), with_entry(true)), 4, 64);
  expect_error(matrix({packed({4, 32}), scales({4, 2}), biases({4, 2})}, with_entry(true)), Code::kCorrupt,
               {"8-bit", "4-bit"});
}

TEST_F(Quantization, SectionUnderTheHubsNameCounts) {
  folder_.write("config.json",
                json{{"quantization_config", with_entry({{"bits", 8}, {"group_size", 64}})}}.dump());
  folder_.write("model.safetensors", safetensors(four_bit()));
  auto checkpoint = Checkpoint::open(folder_.path());
  ASSERT_TRUE(checkpoint.ok());
  expect_error(checkpoint->matrix("m", 4, 128), Code::kCorrupt, {"4-bit", "8-bit"});
}

TEST_F(Quantization, EntryThatContradictsTheBitsIsCorrupt) {
  expect_error(matrix(four_bit(), with_entry({{"bits", 8}, {"group_size", 64}})), Code::kCorrupt,
               {"model.safetensors", "'m'", "affine 4-bit, groups of 64", "config.json",
                "affine 8-bit in groups of 64"});
}

TEST_F(Quantization, EntryThatContradictsTheGroupIsCorrupt) {
  expect_error(matrix(four_bit(), with_entry({{"bits", 4}, {"group_size", 32}})), Code::kCorrupt,
               {"'m'", "groups of 64", "groups of 32"});
}

TEST_F(Quantization, EntryFalseIsPlain) {
  const auto plain = matrix({bf16_zeros("language_model.m.weight", {4, 128})}, with_entry(false));
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_EQ(plain->encoding, (Encoding{Dtype::kBf16, 0, 0}));
}

TEST_F(Quantization, EntryFalseWithScalesIsCorrupt) {
  expect_error(matrix(four_bit(), with_entry(false)), Code::kCorrupt,
               {"'m'", "with scales", "not quantised"});
}

TEST_F(Quantization, EntryOfAPlainMatrixIsCorrupt) {
  expect_error(matrix({bf16_zeros("language_model.m.weight", {4, 128})},
                      with_entry({{"bits", 8}, {"group_size", 64}})),
               Code::kCorrupt, {"'m'", "plain", "affine 8-bit"});
}

TEST_F(Quantization, PlainMatrixWithoutEntryIsPlain) {
  const auto plain = matrix({bf16_zeros("m", {2, 2, 128})}, kDefaults);
  ASSERT_TRUE(plain.ok()) << plain.error().message;
  EXPECT_EQ(plain->encoding, (Encoding{Dtype::kBf16, 0, 0}));
  EXPECT_EQ(plain->rows, 4);
}

TEST_F(Quantization, OtherModesAreUnsupportedByName) {
  expect_error(matrix(four_bit(), with_entry({{"bits", 4}, {"group_size", 32}, {"mode", "mxfp4"}})),
               Code::kUnsupported, {"'m'", "'mxfp4'"});
  const StoredTensor byte_scales = {"language_model.m.scales", "U8", {4, 4}, std::string(16, '\x7f')};
  expect_error(matrix({packed({4, 16}), byte_scales}, {{"bits", 4}, {"group_size", 32}, {"mode", "mxfp4"}}),
               Code::kUnsupported, {"'m'", "'mxfp4'"});
}

TEST_F(Quantization, EntryWithoutModeIsAffineWhateverTheDefaults) {
  expect_encoding(
      matrix(four_bit(),
             {{"bits", 4}, {"group_size", 32}, {"mode", "mxfp4"}, {"m", {{"bits", 4}, {"group_size", 64}}}}),
      4, 64);
}

TEST_F(Quantization, SectionOfAnotherToolIsUnsupportedByName) {
  expect_error(matrix(four_bit(), {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}),
               Code::kUnsupported, {"config.json", "'fp8'"});
  expect_error(matrix(four_bit(), {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}}),
               Code::kUnsupported, {"config.json", "'gptq'"});
}

TEST_F(Quantization, SectionOfWrongKindsIsCorrupt) {
  expect_error(matrix(four_bit(), json(4)), Code::kCorrupt, {"config.json", "'quantization'"});
  expect_error(matrix(four_bit(), {{"bits", "four"}}), Code::kCorrupt, {"config.json", "'bits'"});
  expect_error(matrix(four_bit(), with_entry({{"bits", -4}})), Code::kCorrupt,
               {"config.json", "'language_model.m'", "'bits'"});
  expect_error(matrix(four_bit(), with_entry({{"mode", 1}})), Code::kCorrupt,
               {"'language_model.m'", "'mode'"});
}

TEST_F(Quantization, MissingMatrixIsNotFound) {
  expect_error(matrix({bf16_zeros("other", {2})}, nullptr), Code::kNotFound, {folder_.path(), "'m.weight'"});
}

TEST_F(Quantization, MissingBiasesAreCorrupt) {
  expect_error(matrix({packed({4, 16}), scales({4, 2})}, kDefaults), Code::kCorrupt, {"m.scales", "biases"});
}

TEST_F(Quantization, MissingScalesAreCorrupt) {
  expect_error(matrix({packed({4, 16})}, nullptr), Code::kCorrupt, {"m.weight", "U32", "scales"});
}

TEST_F(Quantization, BiasesOfAnotherShapeOrTypeAreCorrupt) {
  expect_error(matrix({packed({4, 16}), scales({4, 2}), biases({4, 4})}, kDefaults), Code::kCorrupt,
               {"m.biases", "[4, 4]", "[4, 2]"});
  const StoredTensor wide = {"language_model.m.biases", "F32", {4, 2}, std::string(32, '\0')};
  expect_error(matrix({packed({4, 16}), scales({4, 2}), wide}, kDefaults), Code::kCorrupt,
               {"m.biases", "F32"});
}

TEST_F(Quantization, WrongRowsAreCorrupt) {
  expect_error(matrix(four_bit(), kDefaults, 5), Code::kCorrupt, {"m.weight", "[4, 16]", "5 rows"});
  expect_error(matrix({bf16_zeros("m.weight", {4, 128})}, nullptr, 5), Code::kCorrupt,
               {"m.weight", "[4, 128]", "5 rows"});
  expect_error(matrix({packed({4, 16}), scales({5, 2}), biases({5, 2})}, kDefaults), Code::kCorrupt,
               {"m.scales", "4 rows"});
}

TEST_F(Quantization, ColumnsOfNoPossibleWidthAreCorrupt) {
  expect_error(matrix({packed({4, 28}), scales({4, 2}), biases({4, 2})}, kDefaults), Code::kCorrupt,
               {"m.weight", "[4, 28]"});  // 7 bits
  expect_error(matrix(four_bit(), kDefaults, 4, 100), Code::kCorrupt, {"m.weight", "[4, 16]"});
  expect_error(matrix({packed({4, 16}), scales({4, 3}), biases({4, 3})}, kDefaults), Code::kCorrupt,
               {"m.scales", "[4, 3]"});
  expect_error(matrix({packed({4, 16}), scales({4, 8}), biases({4, 8})}, kDefaults), Code::kCorrupt,
               {"m.scales", "[4, 8]"});
}

TEST_F(Quantization, IntegerWeightsAreCorrupt) {
  expect_error(matrix({{"m.weight", "I8", {4, 128}, std::string(512, '\0')}}, nullptr), Code::kCorrupt,
               {"m.weight", "I8"});
}

TEST_F(Quantization, EmptyMatrixWithAbsurdDimensionsIsCorrupt) {
  expect_error(matrix({{"m.weight", "U32", {0, int64_t{1} << 62}, ""},
                       {"m.scales", "BF16", {0, int64_t{1} << 62}, ""},
                       {"m.biases", "BF16", {0, int64_t{1} << 62}, ""}},
                      nullptr),
               Code::kCorrupt, {"m.weight"});
}

TEST_F(Quantization, NanAndInfinityInScalesOrBiasesAreNamedWithTheirIndex) {
  for (const auto& [bits, text] :
       {std::pair{std::string("\xc0\x7f", 2), "nan"}, {std::string("\x80\xff", 2), "-inf"}}) {
    auto tensors = four_bit();
    tensors[1].data.replace(2 * 5, 2, bits);
    expect_error(matrix(tensors, kDefaults), Code::kCorrupt,
                 {"model.safetensors", "m.scales", text, "index 5"});
    tensors = four_bit();
    tensors[2].data.replace(2 * 7, 2, bits);
    expect_error(matrix(tensors, kDefaults), Code::kCorrupt,
                 {"model.safetensors", "m.biases", text, "index 7"});
  }
}

}  // namespace
}  // namespace weir
