#include "server/fields.h"

#include <gtest/gtest.h>

#include "server_testing.h"

namespace weir::server {
namespace {

std::string message_of(Fields& fields) {
  const auto status = fields.finish();
  return status.ok() ? "" : status.error().message;
}

TEST(Fields, a_missing_and_a_null_field_are_the_same) {
  const Json body = json(R"({"a": null})");
  Fields fields(body);
  EXPECT_FALSE(fields.integer("a", 0, 5));
  EXPECT_FALSE(fields.text("b"));
  EXPECT_EQ(message_of(fields), "");
}

TEST(Fields, a_field_that_nobody_read_is_refused_by_name) {
  const Json body = json(R"({"temperature": 1, "temprature": 1})");
  Fields fields(body);
  EXPECT_EQ(fields.number("temperature"), 1);
  EXPECT_EQ(message_of(fields), "the field temprature is unknown");
}

TEST(Fields, ignored_fields_may_hold_anything) {
  const Json body = json(R"({"metadata": {"a": [1]}, "user": 5})");
  Fields fields(body);
  fields.ignore({"metadata", "user"});
  EXPECT_EQ(message_of(fields), "");
}

TEST(Fields, whole_numbers_beyond_their_range_or_64_bits_are_refused) {
  for (const char* text : {"-1", "6", "18446744073709551615", "1e300", "1.5", "99999999999999999999", "\"3\"",
                           "true", "[]", "{}"}) {
    const Json body = json(std::string("{\"n\": ") + text + "}");
    Fields fields(body);
    EXPECT_FALSE(fields.integer("n", 0, 5)) << text;
    EXPECT_NE(message_of(fields).find("n is "), std::string::npos) << text;
  }
}

TEST(Fields, the_first_mistake_is_reported) {
  const Json body = json(R"({"a": "x", "b": "y"})");
  Fields fields(body);
  (void)fields.boolean("a");
  (void)fields.boolean("b");
  EXPECT_EQ(message_of(fields), "a is \"x\": expected true or false");
}

TEST(Fields, one_string_stands_for_a_list_of_one) {
  const Json body = json(R"({"a": "x", "b": ["y", "z"]})");
  Fields fields(body);
  EXPECT_EQ(fields.texts("a"), std::vector<std::string>{"x"});
  EXPECT_EQ(fields.texts("b"), (std::vector<std::string>{"y", "z"}));
}

TEST(Fields, what_is_no_object_is_refused) {
  for (const char* text : {"[]", "3", "\"a\"", "null"}) {
    const Json body = json(text);
    Fields fields(body, "stream_options");
    EXPECT_NE(message_of(fields).find("stream_options is "), std::string::npos) << text;
  }
}

TEST(Fields, a_field_with_one_accepted_value_refuses_others) {
  const Json body = json(R"({"store": true})");
  Fields fields(body);
  fields.only("store", false, "nothing is stored");
  EXPECT_EQ(message_of(fields), "store is true: only false is supported");
}

}  // namespace
}  // namespace weir::server
