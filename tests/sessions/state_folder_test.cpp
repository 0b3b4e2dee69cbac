#include "sessions/state_folder.h"

#include <optional>
#include <random>

#include "sessions/crc32.h"
#include "sessions/pocket_sessions.h"

namespace weir::test {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(Checksum, IsThatOfZipAndPng) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926u);
  EXPECT_EQ(crc32(bytes_of("The quick brown fox jumps over the lazy dog")), 0x414FA339u);
  EXPECT_EQ(crc32({}), 0u);
}

class Stored : public testing::TestWithParam<Kind> {
 protected:
  static void TearDownTestSuite() { model_.reset(); }
  void SetUp() override {
    if (!model_ || model_->kind != GetParam()) model_ = std::make_unique<PocketModel>(GetParam());
  }

  StateFolder open(uint64_t most_bytes = 1 << 30, const std::string& identity = "pocket") {
    return taken(StateFolder::open(folder_.path(), identity, most_bytes, *model_->generator,
                                   [this](const std::string& notice) { notices_.push_back(notice); }));
  }
  // What a program that starts finds.
  std::unique_ptr<PrefixCache> restored(const std::string& identity = "pocket") {
    notices_.clear();
    auto cache = std::make_unique<PrefixCache>(*model_->generator, 1 << 30);
    open(1 << 30, identity).restore(*cache);
    return cache;
  }
  void write(StateFolder& folder, const Tokens& tokens) {
    const HeldSequence held = read(*model_, tokens);
    folder.write(held.tokens, held.state);
    folder.flush();
  }

  static inline std::unique_ptr<PocketModel> model_;
  TemporaryFolder folder_;
  std::vector<std::string> notices_;
};

TEST_P(Stored, SequencesShareTheirPagesOnDiskAndWhenTheyAreBack) {
  const Tokens a = count_up(520, 100), b = joined(a, count_up(20, 50));
  std::optional<StateFolder> folder = open();
  write(*folder, a);
  const size_t columns = folder_.files(".pages").size();
  write(*folder, b);
  folder.reset();
  EXPECT_EQ(columns, 2u);
  EXPECT_EQ(folder_.files(".pages").size(), columns);
  const auto cache = restored();
  EXPECT_TRUE(notices_.empty());
  EXPECT_TRUE(cache->contains(a));
  EXPECT_TRUE(cache->contains(b));
  const auto first = taken(cache->find(joined(a, {7}))), second = taken(cache->find(joined(b, {7})));
  EXPECT_EQ(first.held.state.kv.back().pages[1].data(), second.held.state.kv.back().pages[1].data());
}

TEST_P(Stored, TheOldestGiveWayAndTakeTheirPagesAlong) {
  std::optional<StateFolder> folder = open();
  write(*folder, count_up(300, 100));
  const uint64_t one = folder_.bytes();
  folder.reset();
  folder.emplace(open(2 * one + 1000));
  PrefixCache cache(*model_->generator, 1 << 30);
  folder->restore(cache);
  for (const int32_t from : {200, 300, 100}) write(*folder, count_up(300, from));  // the last one is known
  folder.reset();
  EXPECT_LE(folder_.bytes(), 2 * one + 1000);
  EXPECT_EQ(folder_.files(".pages").size(), 2u);
  const auto back = restored();
  EXPECT_TRUE(back->contains(count_up(300, 300)));
  EXPECT_FALSE(back->contains(count_up(300, 200)));
}

TEST_P(Stored, FilesOfAnotherModelOrVersionAreReportedAndLeftAlone) {
  std::optional<StateFolder> folder = open();
  write(*folder, count_up(10, 100));
  folder.reset();
  EXPECT_EQ(restored("another")->size(), 0);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find("another model"), std::string::npos) << notices_[0];
  const std::string name = folder_.files(".sequence").at(0);
  std::string bytes = read_file(name);
  bytes[8] = 2;
  write_file(name, bytes);
  EXPECT_EQ(restored()->size(), 0);
  ASSERT_EQ(notices_.size(), 1u);
  EXPECT_NE(notices_[0].find("version 2, expected 1"), std::string::npos) << notices_[0];
  EXPECT_EQ(read_file(name), bytes);
}

TEST_P(Stored, ADamagedFileIsReportedAndSkipped) {
  StateFolder folder = open();
  write(folder, count_up(300, 100));
  write(folder, count_up(10, 500));
  std::mt19937_64 rng(5);
  for (const std::string& name : folder_.files()) {
    if (name.ends_with("lock")) continue;
    const std::string whole = read_file(name);
    std::vector<std::string> damaged{"", whole + "x", whole.substr(0, whole.size() - 1)};
    for (int i = 0; i < 3; ++i) {
      damaged.push_back(whole.substr(0, rng() % whole.size()));
      damaged.push_back(whole);
      damaged.back()[rng() % whole.size()] ^= static_cast<char>(1 << rng() % 8);
    }
    for (const std::string& bytes : damaged) {
      const TemporaryFolder copy;
      write_file(name, bytes);
      std::filesystem::copy(folder_.path(), copy.path(), std::filesystem::copy_options::recursive);
      std::vector<std::string> notices;
      PrefixCache cache(*model_->generator, 1 << 30);
      taken(StateFolder::open(copy.path(), "pocket", 1 << 30, *model_->generator,
                              [&](const std::string& notice) { notices.push_back(notice); }))
          .restore(cache);
      EXPECT_EQ(cache.size(), 1) << bytes.size() << " of " << whole.size() << " bytes";
      EXPECT_EQ(notices.size(), 1u);
    }
    write_file(name, whole);
  }
}

// Behind a checksum that is right, any length may be wrong.
TEST_P(Stored, SizesAreNotTrustedBehindARightChecksumEither) {
  const HeldSequence held = read(*model_, count_up(20, 100));
  StateCodec codec(*model_->generator, "pocket");
  std::string whole = taken(codec.encode(held.tokens, held.state));
  StateCodec::seal(whole);
  const auto no_columns = [](auto, auto) -> Result<PageColumn> {
    return Error{Code::kNotFound, "there are no columns", ""};
  };
  ASSERT_TRUE(codec.decode_sequence(bytes_of(whole), no_columns).ok());
  constexpr size_t kPayload = 32;
  std::mt19937_64 rng(8);
  for (int i = 0; i < 300; ++i) {
    std::string bytes = whole;
    // Mostly in the lengths and tokens at the beginning.
    const size_t at = kPayload + rng() % (i % 3 == 0 ? whole.size() - kPayload - 8 : 160);
    for (size_t k = 0; k < 1 + rng() % 8; ++k) bytes[at + k] = static_cast<char>(rng());
    if (i % 5 == 0) {
      bytes.resize(kPayload + rng() % (whole.size() - kPayload));
      const uint64_t length = bytes.size() - kPayload;
      std::memcpy(bytes.data() + 24, &length, 8);
    }
    const uint64_t sum = crc32(bytes_of(bytes).subspan(kPayload));
    std::memcpy(bytes.data() + 16, &sum, 8);
    const auto found = codec.decode_sequence(bytes_of(bytes), no_columns);
    if (!found.ok()) continue;
    EXPECT_EQ(found->tokens.size(), held.tokens.size());
    for (const int32_t token : found->tokens) EXPECT_LT(token, model_->generator->vocabulary());
  }
}

TEST_P(Stored, WhatCouldNotBeWrittenIsReportedOnceAndWrittenTheNextTime) {
  const Tokens a = count_up(520, 100), b = joined(a, count_up(20, 50));
  const HeldSequence first = read(*model_, a), second = read(*model_, b);
  std::optional<StateFolder> folder = open();
  std::filesystem::remove_all(folder_.path());
  folder->write(first.tokens, first.state);
  folder->write(second.tokens, second.state);
  folder->flush();
  EXPECT_EQ(notices_.size(), 2u);  // one for a sequence, not for each of its files
  for (const std::string& notice : notices_) EXPECT_NE(notice.find("cannot create it"), std::string::npos);
  std::filesystem::create_directory(folder_.path());
  folder->write(second.tokens, second.state);
  folder->flush();
  EXPECT_EQ(notices_.size(), 2u);
  folder.reset();
  const auto cache = restored();
  EXPECT_TRUE(notices_.empty());
  EXPECT_FALSE(cache->contains(a));
  EXPECT_TRUE(cache->contains(b));
}

TEST_P(Stored, AFolderHasOneWriterForEachIdentity) {
  const StateFolder folder = open();
  const auto second = StateFolder::open(folder_.path(), "pocket", 1, *model_->generator, {});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.error().code, Code::kBusy);
  open(1 << 30, "another");
}

TEST_P(Stored, AFolderThatCannotBeMadeIsRefused) {
  const std::string file = folder_.path() + "/file";
  write_file(file, "no folder");
  const auto refused = StateFolder::open(file, "", 1, *model_->generator, {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

INSTANTIATE_TEST_SUITE_P(pocket, Stored, testing::Values(Kind::kQwen, Kind::kGemma),
                         [](const auto& kind) { return kind_name(kind.param); });

}  // namespace
}  // namespace weir::test
