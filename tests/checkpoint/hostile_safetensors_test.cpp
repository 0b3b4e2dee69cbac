// Every way that a safetensors file can be wrong.
#include <gtest/gtest.h>

#include <limits>

#include "checkpoint/safetensors.h"
#include "expect_error.h"
#include "model_folder.h"

namespace weir {
namespace {

using testing::bf16_zeros;
using testing::bytes_of;
using testing::expect_error;
using testing::raw_safetensors;
using testing::safetensors;

constexpr const char* kPath = "some/model.safetensors";

Result<std::vector<TensorView>> parse(std::string_view file) {
  return parse_safetensors(bytes_of(file), kPath);
}

// A file of one tensor 'w', its description given as JSON.
std::string one_tensor(const std::string& description, size_t data_bytes) {
  return raw_safetensors(R"({"w":)" + description + "}", std::string(data_bytes, 'd'));
}

TEST(Safetensors, ReadsTensorsInTheOrderOfTheirData) {
  const auto file =
      raw_safetensors(R"({"a":{"dtype":"U8","shape":[3],"data_offsets":[4,7]},"__metadata__":{"format":"mlx"},
      "b":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"empty":{"dtype":"F32","shape":[0,7],"data_offsets":[4,4]},
      "scalar":{"dtype":"U8","shape":[],"data_offsets":[7,8]}}  )",
                      "BBBBaaas");
  const auto tensors = parse(file);
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  ASSERT_EQ(tensors->size(), 4u);
  EXPECT_EQ((*tensors)[0].name, "b");
  EXPECT_EQ((*tensors)[0].shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ((*tensors)[0].elements(), 2);
  EXPECT_EQ((*tensors)[1].name, "empty");
  EXPECT_EQ((*tensors)[1].elements(), 0);
  EXPECT_EQ((*tensors)[2].name, "a");
  EXPECT_EQ(static_cast<char>((*tensors)[2].data[2]), 'a');
  EXPECT_EQ((*tensors)[3].elements(), 1);
  EXPECT_EQ(static_cast<char>((*tensors)[3].data[0]), 's');
}

TEST(Safetensors, OpensAFileAndFindsByName) {
  const testing::TempFolder folder;
  const auto file =
      SafetensorsFile::open(folder.write("x.safetensors", safetensors({bf16_zeros("w", {2, 3})})));
  ASSERT_TRUE(file.ok()) << file.error().message;
  ASSERT_NE(file->find("w"), nullptr);
  EXPECT_EQ(file->find("w")->data.size(), 12u);
  EXPECT_EQ(file->find("v"), nullptr);
}

TEST(Safetensors, MissingFileIsNotFound) {
  expect_error(SafetensorsFile::open("no/such.safetensors"), Code::kNotFound, {"no/such.safetensors"});
}

TEST(Safetensors, FolderInPlaceOfAFileIsCorrupt) {
  expect_error(SafetensorsFile::open("tests"), Code::kCorrupt, {"tests"});
}

TEST(Safetensors, EmptyFileIsCorrupt) {
  expect_error(parse(""), Code::kCorrupt, {kPath, "0 bytes"});
}

TEST(Safetensors, SevenBytesAreCorrupt) {
  expect_error(parse("1234567"), Code::kCorrupt, {kPath, "7 bytes"});
}

TEST(Safetensors, HeaderLongerThanTheFileIsCorrupt) {
  auto file = safetensors({bf16_zeros("w", {4})});
  file[2] = 1;  // adds 65536 to the length
  expect_error(parse(file), Code::kCorrupt, {kPath, "header should be"});
}

TEST(Safetensors, AbsurdHeaderLengthIsCorrupt) {
  expect_error(parse(std::string(8, '\xff') + "{}"), Code::kCorrupt, {kPath, "18446744073709551615"});
}

TEST(Safetensors, HeaderThatIsNotJsonIsCorrupt) {
  expect_error(parse(raw_safetensors(R"({"w":)", "")), Code::kCorrupt,
               {kPath, "header is not a JSON object"});
  expect_error(parse(raw_safetensors("", "")), Code::kCorrupt, {kPath, "header is not a JSON object"});
  expect_error(parse(raw_safetensors(R"({"w":{}} trailing)", "")), Code::kCorrupt,
               {kPath, "header is not a JSON object"});
}

TEST(Safetensors, HeaderThatIsNotAnObjectIsCorrupt) {
  expect_error(parse(raw_safetensors("[1, 2]", "")), Code::kCorrupt, {kPath, "header is not a JSON object"});
}

TEST(Safetensors, HeaderWithBrokenUtf8IsCorrupt) {
  expect_error(parse(raw_safetensors("{\"\xff\":{}}", "")), Code::kCorrupt,
               {kPath, "header is not a JSON object"});
}

TEST(Safetensors, DeeplyNestedHeaderIsCorrupt) {
  expect_error(parse(raw_safetensors(std::string(1'000'000, '['), "")), Code::kCorrupt, {kPath});
}

TEST(Safetensors, GitLfsPointerIsCalledByItsName) {
  expect_error(parse("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"), Code::kCorrupt,
               {kPath, "Git LFS pointer"});
}

TEST(Safetensors, TensorThatIsNotAnObjectIsCorrupt) {
  expect_error(parse(one_tensor("7", 0)), Code::kCorrupt, {kPath, "'w'", "JSON object"});
}

TEST(Safetensors, MissingFieldsAreCorrupt) {
  expect_error(parse(one_tensor(R"({"shape":[1],"data_offsets":[0,2]})", 2)), Code::kCorrupt,
               {kPath, "'w'", "dtype"});
  expect_error(parse(one_tensor(R"({"dtype":"BF16","data_offsets":[0,2]})", 2)), Code::kCorrupt,
               {kPath, "'w'", "shape"});
  expect_error(parse(one_tensor(R"({"dtype":"BF16","shape":[1]})", 2)), Code::kCorrupt,
               {kPath, "'w'", "data_offsets"});
}

TEST(Safetensors, UnknownDtypeIsUnsupported) {
  expect_error(parse(one_tensor(R"({"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]})", 2)),
               Code::kUnsupported, {kPath, "'w'", "F8_E4M3"});
}

TEST(Safetensors, NegativeFractionalOrHugeDimensionsAreCorrupt) {
  for (const char* dimension : {"-1", "1.0", "\"1\"", "null", "9223372036854775808", "1e3"}) {
    expect_error(
        parse(one_tensor(
            R"({"dtype":"BF16","shape":[)" + std::string(dimension) + R"(],"data_offsets":[0,2]})", 2)),
        Code::kCorrupt, {kPath, "'w'", "dimension"});
  }
}

TEST(Safetensors, ShapeWhoseSizeOverflowsIsCorrupt) {
  for (const char* shape :
       {"[9223372036854775807]", "[4294967296,4294967296]", "[3037000500,3037000500,2]"}) {
    expect_error(
        parse(one_tensor(R"({"dtype":"F32","shape":)" + std::string(shape) + R"(,"data_offsets":[0,4]})", 4)),
        Code::kCorrupt, {kPath, "'w'", "larger than any file"});
  }
}

TEST(Safetensors, ShapeThatWrapsAroundToTheRightSizeIsCorrupt) {
  // 2^32 * 2^32 * 4 is 0 in 64 bits.
  expect_error(
      parse(one_tensor(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})", 0)),
      Code::kCorrupt, {kPath, "'w'", "larger than any file"});
}

TEST(Safetensors, HugeDimensionsBesideAZeroAreEmpty) {
  const auto tensors =
      parse(one_tensor(R"({"dtype":"F32","shape":[9223372036854775807,0,9],"data_offsets":[0,0]})", 0));
  ASSERT_TRUE(tensors.ok()) << tensors.error().message;
  EXPECT_EQ((*tensors)[0].elements(), 0);
}

TEST(Safetensors, OffsetsThatAreNotTwoNaturalNumbersAreCorrupt) {
  for (const char* offsets : {"[0]", "[0,2,4]", "[-2,2]", "[0,\"2\"]", "[0.0,2]", "{}"}) {
    expect_error(
        parse(one_tensor(R"({"dtype":"BF16","shape":[1],"data_offsets":)" + std::string(offsets) + "}", 2)),
        Code::kCorrupt, {kPath, "'w'", "data_offsets"});
  }
}

TEST(Safetensors, OffsetOfMoreThan64BitsIsCorrupt) {
  expect_error(
      parse(one_tensor(R"({"dtype":"BF16","shape":[1],"data_offsets":[0,18446744073709551616]})", 2)),
      Code::kCorrupt, {kPath, "header is not a JSON object"});
}

TEST(Safetensors, ReversedOffsetsAreCorrupt) {
  expect_error(parse(one_tensor(R"({"dtype":"BF16","shape":[1],"data_offsets":[2,0]})", 2)), Code::kCorrupt,
               {kPath, "'w'", "bytes 2 to 0"});
}

TEST(Safetensors, OffsetsBeyondTheDataAreCorrupt) {
  expect_error(parse(one_tensor(R"({"dtype":"BF16","shape":[2],"data_offsets":[0,4]})", 3)), Code::kCorrupt,
               {kPath, "'w'", "bytes 0 to 4", "ends at 3"});
  expect_error(
      parse(one_tensor(
          R"({"dtype":"U8","shape":[1],"data_offsets":[18446744073709551614,18446744073709551615]})", 1)),
      Code::kCorrupt, {kPath, "'w'", "18446744073709551615"});
}

TEST(Safetensors, SizeOtherThanTheShapeSaysIsCorrupt) {
  expect_error(parse(one_tensor(R"({"dtype":"BF16","shape":[3,2],"data_offsets":[0,10]})", 10)),
               Code::kCorrupt, {kPath, "'w'", "BF16 [3, 2]", "12 bytes", "has 10"});
}

TEST(Safetensors, OverlappingTensorsAreCorrupt) {
  expect_error(parse(raw_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
      "b":{"dtype":"U8","shape":[4],"data_offsets":[3,7]}})",
                                     "0123456")),
               Code::kCorrupt, {kPath, "'b'", "overlaps tensor 'a'"});
}

TEST(Safetensors, TwoTensorsOnTheSameBytesAreCorrupt) {
  expect_error(parse(raw_safetensors(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},
      "b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}})",
                                     "0123")),
               Code::kCorrupt, {kPath, "overlaps"});
}

TEST(Safetensors, GapsBetweenTensorsAreCorrupt) {
  expect_error(parse(raw_safetensors(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
      "b":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})",
                                     "0123")),
               Code::kCorrupt, {kPath, "'b'", "2 bytes after"});
}

TEST(Safetensors, BytesBehindTheLastTensorAreCorrupt) {
  expect_error(parse(safetensors({bf16_zeros("w", {4})}) + "rest"), Code::kCorrupt,
               {kPath, "8 bytes", "has 12"});
}

TEST(Safetensors, NameThatOccursTwiceIsCorrupt) {
  expect_error(parse(raw_safetensors(R"({"w":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},
      "w":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
                                     "01")),
               Code::kCorrupt, {kPath, "'w'", "occurs twice"});
}

TEST(Safetensors, ControlCharactersInANameStayOutOfTheMessage) {
  expect_error(parse(raw_safetensors(R"({"evil\nname\u001b[2J":7})", "")), Code::kCorrupt,
               {"'evil?name?[2J'"});
}

// Cut anywhere, a file is refused: its header is broken, or its data are too short.
TEST(Safetensors, FileCutAtAnyByteIsCorrupt) {
  const auto file = safetensors({bf16_zeros("first", {3, 5}), bf16_zeros("second", {7})});
  ASSERT_TRUE(parse(file).ok());
  for (size_t length = 0; length < file.size(); ++length) {
    const std::string cut = file.substr(0, length);  // its own allocation, so that a sanitizer sees its end
    expect_error(parse(cut), Code::kCorrupt, {kPath});
  }
}

}  // namespace
}  // namespace weir
