#include "checkpoint/names.h"

#include <gtest/gtest.h>

#include "checkpoint/quote.h"

namespace weir {
namespace {

TEST(Names, AllLayoutsOfQwenMeetInOneSpelling) {
  for (const char* name :
       {"model.language_model.layers.3.mlp.gate.weight", "language_model.model.layers.3.mlp.gate.weight",
        "model.layers.3.mlp.gate.weight"}) {
    EXPECT_EQ(canonical_name(name), "model.layers.3.mlp.gate.weight");
  }
  EXPECT_EQ(canonical_name("language_model.lm_head.weight"), "lm_head.weight");
  EXPECT_EQ(canonical_name("lm_head.weight"), "lm_head.weight");
}

TEST(Names, DiffusionGemmaKeepsItsNames) {
  for (const char* name : {"model.decoder.layers.0.experts.gate_up_proj", "model.decoder.embed_tokens.weight",
                           "model.encoder.language_model.layers.0.layer_scalar"}) {
    EXPECT_EQ(canonical_name(name), name);
    EXPECT_FALSE(is_vision_or_mtp(name));
  }
}

TEST(Names, VisionAndMultiTokenPredictionAreTold) {
  for (const char* name :
       {"vision_tower.blocks.0.attn.qkv.weight", "model.visual.patch_embed.proj.weight", "mtp.fc.weight",
        "language_model.mtp.norm.weight", "model.encoder.vision_tower.encoder.layers.0.mlp.fc1.weight",
        "model.encoder.embed_vision.embedding_projection.weight"}) {
    EXPECT_TRUE(is_vision_or_mtp(name)) << name;
  }
  EXPECT_FALSE(is_vision_or_mtp("model.language_model.norm.weight"));
}

TEST(Quote, KeepsMessagesOnOneShortLine) {
  EXPECT_EQ(quote("a.weight"), "'a.weight'");
  EXPECT_EQ(quote(std::string("a\n\x1b[31mb")), "'a??[31mb'");
  EXPECT_EQ(quote(std::string(121, 'x')), "'" + std::string(120, 'x') + "...'");
  EXPECT_EQ(quote(std::string(119, 'x') + "\xc3\xa9" + "y"), "'" + std::string(119, 'x') + "...'");
}

}  // namespace
}  // namespace weir
