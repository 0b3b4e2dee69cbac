// weir quantize against MLX: whole checkpoints byte for byte, and what must be refused.
#include "checkpoint/quantize.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "checkpoint/json_fields.h"
#include "checkpoint/quantize_plan.h"
#include "expect_error.h"
#include "model_folder.h"

namespace weir {
namespace {

using testing::bf16_zeros;
using testing::expect_error;
using testing::StoredTensor;
using testing::TempFolder;

const std::string kQwenTiny = "tests/data/qwen-tiny/";
const std::string kGemmaTiny = "tests/data/diffusion-tiny/";

struct Work {
  Precision base = {4, 64};
  std::string recipe;
  QuantizeJob job;
  bool cancelled = false;
};

Result<QuantizeReport> quantize_folder(const std::string& from, const std::string& to,
                                       const Work& work = {}) {
  WEIR_TRY(const Checkpoint checkpoint, Checkpoint::open(from));
  WEIR_TRY(const ModelFamily family, model_family(checkpoint));
  WEIR_TRY(const QuantizeRecipe recipe, QuantizeRecipe::make(family, work.base, work.recipe));
  ThreadPool pool(2);
  const std::atomic<bool> cancelled{work.cancelled};
  return quantize(checkpoint, to, recipe, work.job, pool, {}, cancelled);
}

// As zlib has it.
uint32_t crc32(uint32_t crc, std::span<const std::byte> bytes) {
  crc = ~crc;
  for (const std::byte b : bytes) {
    crc ^= std::to_integer<uint32_t>(b);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0xedb88320u : 0u);
  }
  return ~crc;
}

// Of all tensors by name, as tests/data/checkpoint/make_quantized.py computes it.
uint32_t checksum(const Checkpoint& checkpoint) {
  uint32_t crc = 0;
  for (const TensorView* tensor : checkpoint.tensors()) {
    const std::string line =
        tensor->name + " " + std::string(dtype_name(tensor->dtype)) + " " + shape_text(tensor->shape) + "\n";
    crc = crc32(crc32(crc, testing::bytes_of(line)), tensor->data);
  }
  return crc;
}

// What MLX's loaders see, and its converter writes: no head of multi-token prediction.
Result<Checkpoint> open_as_mlx(const std::string& folder) {
  std::filesystem::remove(folder + "/mtp.safetensors");
  return Checkpoint::open(folder);
}

TEST(Quantize, WritesWhatMlxWritesByteForByte) {
  const auto cases = parse_json(testing::read_file("tests/data/checkpoint/quantized.json"),
                                "tests/data/checkpoint/quantized.json");
  ASSERT_TRUE(cases.ok());
  ASSERT_EQ(cases->size(), 9u);
  for (const auto& expected : *cases) {
    SCOPED_TRACE(expected.dump());
    const TempFolder folder;
    const std::string from = "tests/data/" + expected["model"].get<std::string>() + "/hf";
    const auto report =
        quantize_folder(from, folder / "out", {{expected["bits"], expected["group"]}, "", {}});
    ASSERT_TRUE(report.ok()) << report.error().message;
    const auto made = open_as_mlx(folder / "out");
    ASSERT_TRUE(made.ok()) << made.error().message;
    EXPECT_EQ(made->tensors().size(), expected["tensors"].get<size_t>());
    EXPECT_EQ(checksum(*made), expected["crc32"].get<uint32_t>());
  }
}

TEST(Quantize, FolderIsLaidOutAsMlxLaysItOut) {
  for (const std::string& model : {kQwenTiny, kGemmaTiny}) {
    const TempFolder folder;
    ASSERT_TRUE(quantize_folder(model + "hf", folder / "out").ok());
    const auto ours = open_as_mlx(folder / "out"), theirs = Checkpoint::open(model + "mlx-4bit");
    ASSERT_TRUE(ours.ok() && theirs.ok());
    const auto found = ours->tensors(), expected = theirs->tensors();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(found[i]->name, expected[i]->name);
      EXPECT_EQ(found[i]->dtype, expected[i]->dtype) << found[i]->name;
      EXPECT_EQ(found[i]->shape, expected[i]->shape) << found[i]->name;
    }
    for (const char* key : {"quantization", "quantization_config", "eos_token_id"}) {
      EXPECT_EQ(ours->config()[key], theirs->config()[key]) << key;
    }
    for (const char* file : {"/tokenizer.json", "/tokenizer_config.json", "/generation_config.json"}) {
      EXPECT_EQ(testing::read_file((folder / "out") + file), testing::read_file(model + "hf" + file)) << file;
    }
  }
}

TEST(Quantize, RecipesGiveEachPartItsBits) {
  const TempFolder folder;
  const auto report =
      quantize_folder(kQwenTiny + "hf", folder / "out",
                      {{4, 32}, "experts=2:64,head=bf16,delta-net=8", {ScaleRule::kSearch, {}}});
  ASSERT_TRUE(report.ok()) << report.error().message;
  auto made = Checkpoint::open(folder / "out");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto encoding = [&](const char* module, int64_t rows, int64_t cols) {
    const auto matrix = made->matrix(module, rows, cols);
    return matrix.ok() ? matrix->encoding.text() : matrix.error().message;
  };
  EXPECT_EQ(encoding("model.layers.0.mlp.switch_mlp.up_proj", 16 * 64, 64), "affine 2-bit, groups of 64");
  EXPECT_EQ(encoding("model.layers.0.mlp.gate", 16, 64), "affine 8-bit, groups of 64");
  EXPECT_EQ(encoding("model.layers.0.mlp.shared_expert_gate", 1, 64), "affine 8-bit, groups of 64");
  EXPECT_EQ(encoding("model.layers.0.mlp.shared_expert.up_proj", 64, 64), "affine 4-bit, groups of 32");
  EXPECT_EQ(encoding("model.layers.0.linear_attn.in_proj_z", 512, 64), "affine 8-bit, groups of 32");
  EXPECT_EQ(made->config()["quantization"]["bits"], 4);
  EXPECT_EQ(made->config()["quantization"]["group_size"], 32);
  EXPECT_TRUE(made->notes().empty());  // config.json says everything
}

TEST(Quantize, RowsThatAreNoWholeGroupsStayPlain) {
  const TempFolder folder;
  const auto report = quantize_folder(kQwenTiny + "hf", folder / "out", {{4, 128}, "", {}});
  ASSERT_TRUE(report.ok()) << report.error().message;
  ASSERT_FALSE(report->plain_though.empty());  // the hidden size is 64
  EXPECT_NE(report->plain_though[0].find("rows of 64 are no whole number of groups of 128"),
            std::string::npos);
  auto made = Checkpoint::open(folder / "out");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const auto matrix = made->matrix("model.layers.0.linear_attn.in_proj_z", 512, 64);
  ASSERT_TRUE(matrix.ok()) << matrix.error().message;
  EXPECT_EQ(matrix->encoding.text(), "bf16");
}

TEST(Quantize, ImportanceOfAnExpertChangesThatExpertAlone) {
  const TempFolder folder;
  const std::string module = "model.layers.0.mlp.switch_mlp.up_proj";
  Work work{{2, 64}, "", {ScaleRule::kSearch, {}}};
  ASSERT_TRUE(quantize_folder(kQwenTiny + "hf", folder / "even", work).ok());
  std::vector<float> weights(16 * 64, 1.0f);
  for (size_t i = 0; i < 64; ++i) weights[3 * 64 + i] = i < 8 ? 100.0f : 0.1f;
  work.job.importance[module] = weights;
  ASSERT_TRUE(quantize_folder(kQwenTiny + "hf", folder / "uneven", work).ok());
  auto even = Checkpoint::open(folder / "even"), uneven = Checkpoint::open(folder / "uneven");
  const auto a = even->matrix(module, 16 * 64, 64), b = uneven->matrix(module, 16 * 64, 64);
  ASSERT_TRUE(a.ok() && b.ok());
  std::set<int64_t> changed;
  std::vector<float> x(64), y(64);
  for (int64_t row = 0; row < 16 * 64; ++row) {
    decode_row(*a, row, x.data());
    decode_row(*b, row, y.data());
    if (x != y) changed.insert(row / 64);
  }
  EXPECT_EQ(changed, std::set<int64_t>{3});
}

TEST(Quantize, RefusesWhatIsQuantisedAlready) {
  const TempFolder folder;
  expect_error(quantize_folder(kQwenTiny + "mlx-4bit", folder / "out"), Code::kInvalidArgument,
               {"quantised already"});
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(Quantize, RefusesAFolderWithSomethingInIt) {
  const TempFolder folder;
  folder.write("notes.txt", "mine");
  expect_error(quantize_folder(kQwenTiny + "hf", folder.path()), Code::kInvalidArgument, {"not empty"});
  EXPECT_EQ(testing::read_file(folder / "notes.txt"), "mine");
  // The input's own folder is one of these.
  const TempFolder copy;
  std::filesystem::copy(kQwenTiny + "hf", copy.path(), std::filesystem::copy_options::recursive);
  expect_error(quantize_folder(copy.path(), copy.path()), Code::kInvalidArgument, {"not empty"});
  EXPECT_TRUE(Checkpoint::open(copy.path()).ok());
}

TEST(Quantize, LeavesNothingWhenCancelled) {
  const TempFolder folder;
  Work work;
  work.cancelled = true;
  expect_error(quantize_folder(kQwenTiny + "hf", folder / "out", work), Code::kCancelled, {"interrupted"});
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

TEST(Quantize, LeavesNothingWhenTheDiskIsFull) {
  const TempFolder folder;
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto old = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{200'000, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto result = quantize_folder(kQwenTiny + "hf", folder / "out");
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, old);
  expect_error(result, Code::kInternal, {"model.safetensors"});
  EXPECT_FALSE(std::filesystem::exists(folder / "out"));
}

// A folder of one tensor.
std::string one_tensor(const TempFolder& folder, const StoredTensor& tensor) {
  folder.write("config.json", R"({"model_type": "qwen3_5_moe"})");
  folder.write("model.safetensors", testing::safetensors({tensor}));
  return folder.path();
}

TEST(Quantize, NamesATensorThatIsNotFinite) {
  const TempFolder folder, out;
  StoredTensor tensor = bf16_zeros("lm_head.weight", {3, 64});
  tensor.data[2 * (64 + 5) + 1] = 0x7f;  // row 1: 0x7f80 is infinity
  tensor.data[2 * (64 + 5)] = static_cast<char>(0x80);
  expect_error(quantize_folder(one_tensor(folder, tensor), out / "out"), Code::kCorrupt,
               {"lm_head.weight", "row 1"});
  EXPECT_FALSE(std::filesystem::exists(out / "out"));
}

TEST(Quantize, RefusesExpertsThatHaveNoHalves) {
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{2, 3, 64}, {2, 64}, {0, 0, 64}}) {
    const TempFolder folder, out;
    const auto tensor = bf16_zeros("model.language_model.layers.0.mlp.experts.gate_up_proj", shape);
    expect_error(quantize_folder(one_tensor(folder, tensor), out / "out"), Code::kCorrupt, {"gate_up_proj"});
  }
}

TEST(Quantize, RefusesAModelOfAnotherKind) {
  const TempFolder folder, out;
  one_tensor(folder, bf16_zeros("lm_head.weight", {1, 64}));
  folder.write("config.json", R"({"model_type": "llama"})");
  expect_error(quantize_folder(folder.path(), out / "out"), Code::kUnsupported, {"'llama'"});
}

TEST(QuantizeRecipe, RefusesWhatItDoesNotKnow) {
  const auto make = [](Precision base, std::string_view text) {
    return QuantizeRecipe::make(ModelFamily::kQwen, base, text);
  };
  expect_error(make({7, 64}, ""), Code::kInvalidArgument, {"7 bits"});
  expect_error(make({0, 64}, ""), Code::kInvalidArgument, {"0 bits"});
  expect_error(make({4, 48}, ""), Code::kInvalidArgument, {"groups of 48"});
  for (const char* text : {"experts", "expert=2", "experts=", "experts=two", "experts=2:", "experts=1",
                           "experts=0", "experts=4:16", "norms=4", "=4", "experts=2,,head=4", "experts=-2"}) {
    expect_error(make({4, 64}, text), Code::kInvalidArgument, {});
  }
  const auto good = make({4, 64}, "experts=2,shared-expert=3:32,router=bf16");
  ASSERT_TRUE(good.ok());
  EXPECT_EQ(good->of("model.layers.1.mlp.switch_mlp.down_proj"), (Precision{2, 64}));
  EXPECT_EQ(good->of("model.layers.1.mlp.shared_expert.down_proj"), (Precision{3, 32}));
  EXPECT_TRUE(good->of("model.layers.1.mlp.shared_expert_gate").plain());
  EXPECT_EQ(good->of("lm_head"), (Precision{4, 64}));
}

}  // namespace
}  // namespace weir
