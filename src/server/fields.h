// Reads the fields of a JSON object from a client, and notices those that nobody reads.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "chat/json_text.h"

namespace weir::server {

// The first mistake is kept and returned by finish(); what is read after it has no meaning. A field that is
// null counts as missing. All errors are kInvalidArgument or kUnsupported and name the field.
class Fields {
 public:
  // `object` must outlive this. `path` stands before the names in errors, such as "stream_options"; empty for
  // the body itself.
  explicit Fields(const Json& object, std::string path = "");

  const Json* value(const char* name);  // null when missing
  std::optional<bool> boolean(const char* name);
  std::optional<double> number(const char* name);
  std::optional<int64_t> integer(const char* name, int64_t least, int64_t most);
  std::optional<std::string> text(const char* name);
  std::vector<std::string> texts(const char* name);  // one string or an array of them

  // Fields that change nothing in an answer, whatever they hold.
  void ignore(std::initializer_list<const char*> names);

  // Fields that weir has no way to honour, wherever they are given.
  void refuse(std::initializer_list<const char*> names, const std::string& hint = "");

  // A field that weir takes with one value only, the default of the protocol.
  void only(const char* name, const Json& accepted, const std::string& hint = "");

  void fail(const char* name, const std::string& what, const std::string& hint = "");
  void fail(Error error);
  bool failed() const { return error_.has_value(); }

  std::string path(const char* name) const;

  // The first mistake, else kUnsupported for the first field that was not asked for.
  Status finish();

 private:
  const Json* wrong_type(const char* name, const Json& found, std::string_view expected);

  const Json* object_ = nullptr;  // null when it is none
  std::string path_;
  std::set<std::string, std::less<>> known_;
  std::optional<Error> error_;
};

}  // namespace weir::server
