#include "checkpoint/model_path.h"

#include <gtest/gtest.h>

#include <map>

#include "expect_error.h"
#include "model_folder.h"

namespace weir {
namespace {

using testing::expect_error;
using testing::TempFolder;

std::string hub_cache(std::map<std::string, std::string> variables) {
  return hub_cache_from([&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

// A hub cache with org/model: branch main at commit 'aaaa', branch refs/pr/1 and tag v2 at 'bbbb'.
class ModelPath : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string repository = cache_ / "models--org--model";
    for (const char* part : {"/snapshots/aaaa", "/snapshots/bbbb", "/refs/refs/pr"}) {
      std::filesystem::create_directories(repository + part);
    }
    cache_.write("models--org--model/refs/main", "aaaa");
    cache_.write("models--org--model/refs/v2", "bbbb\n");
    cache_.write("models--org--model/refs/refs/pr/1", "bbbb");
    std::filesystem::create_directories(pocket_ / "pocket-qwen");
    search_ = {pocket_.path(), cache_.path()};
  }

  std::string snapshot(const char* commit) const { return cache_ / "models--org--model/snapshots/" + commit; }

  TempFolder cache_;
  TempFolder pocket_;
  ModelSearch search_;
};

TEST(HubCache, FollowsTheOrderOfTheHubClient) {
  EXPECT_EQ(hub_cache({{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/u"}}),
            "/c");
  EXPECT_EQ(hub_cache({{"HF_HOME", "/h"}, {"XDG_CACHE_HOME", "/x"}, {"HOME", "/u"}}), "/h/hub");
  EXPECT_EQ(hub_cache({{"XDG_CACHE_HOME", "/x"}, {"HOME", "/u"}}), "/x/huggingface/hub");
  EXPECT_EQ(hub_cache({{"HOME", "/u"}}), "/u/.cache/huggingface/hub");
  EXPECT_EQ(hub_cache({{"HF_HUB_CACHE", ""}, {"HF_HOME", "~/models"}, {"HOME", "/u"}}), "/u/models/hub");
  EXPECT_EQ(hub_cache({}), "");
}

TEST_F(ModelPath, FolderIsItself) {
  EXPECT_EQ(*find_model(cache_.path(), search_), cache_.path());
  EXPECT_EQ(*find_model("tests", {}), "tests");
}

TEST_F(ModelPath, PocketNameIsInThePocketFolder) {
  EXPECT_EQ(*find_model("pocket-qwen", search_), pocket_ / "pocket-qwen");
  expect_error(find_model("pocket-gemma", search_), Code::kNotFound,
               {"'pocket-gemma'", pocket_ / "pocket-gemma"});
}

TEST_F(ModelPath, RepositoryIsTheSnapshotOfItsMainBranch) {
  EXPECT_EQ(*find_model("org/model", search_), snapshot("aaaa"));
}

TEST_F(ModelPath, RevisionIsABranchTagOrCommit) {
  EXPECT_EQ(*find_model("org/model@v2", search_), snapshot("bbbb"));
  EXPECT_EQ(*find_model("org/model@refs/pr/1", search_), snapshot("bbbb"));
  EXPECT_EQ(*find_model("org/model@bbbb", search_), snapshot("bbbb"));
}

TEST_F(ModelPath, UnknownModelsListWhereWeirLooked) {
  expect_error(find_model("org/other", search_), Code::kNotFound,
               {"'org/other'", cache_ / "models--org--other"});
  expect_error(find_model("org/model@v3", search_), Code::kNotFound,
               {"'org/model@v3'", cache_ / "models--org--model/refs/v3", snapshot("v3")});
  expect_error(find_model("no-such-folder", search_), Code::kNotFound, {"'no-such-folder'"});
}

TEST_F(ModelPath, FilesAndEmptyNamesAreInvalid) {
  expect_error(find_model("CMakeLists.txt", search_), Code::kInvalidArgument, {"'CMakeLists.txt' is a file"});
  expect_error(find_model("", search_), Code::kInvalidArgument, {"no model"});
}

TEST_F(ModelPath, NoNameLeavesTheCache) {
  std::filesystem::create_directories(cache_ / "models--org--model/snapshots/..hidden");
  cache_.write("models--org--model/refs/evil", "../../../../etc");
  for (const char* name : {"org/model@../../..", "org/model@..", "../model", "org/..", "org/model@/etc",
                           "org/model@", "org/model@..hidden", "org/model@a//b", "a/b/c", "org/model@evil"}) {
    expect_error(find_model(name, search_), Code::kNotFound, {name});
  }
}

TEST_F(ModelPath, WithoutCacheOrPocketFolderNothingIsFound) {
  expect_error(find_model("org/model", {}), Code::kNotFound, {"'org/model'"});
  expect_error(find_model("pocket-qwen", {}), Code::kNotFound, {"'pocket-qwen'"});
}

}  // namespace
}  // namespace weir
