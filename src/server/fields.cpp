#include "server/fields.h"

#include <utility>

namespace weir::server {

Fields::Fields(const Json& object, std::string path) : path_(std::move(path)) {
  if (object.is_object()) {
    object_ = &object;
    return;
  }
  const std::string where = path_.empty() ? "the body" : path_;
  fail({Code::kInvalidArgument, where + " is " + shown(object) + ": expected an object", ""});
}

std::string Fields::path(const char* name) const {
  return path_.empty() ? name : path_ + "." + name;
}

const Json* Fields::value(const char* name) {
  known_.insert(name);
  if (object_ == nullptr) return nullptr;
  const auto found = object_->find(name);
  return found == object_->end() || found->is_null() ? nullptr : &*found;
}

const Json* Fields::wrong_type(const char* name, const Json& found, std::string_view expected) {
  fail(name, "is " + shown(found) + ": expected " + std::string(expected));
  return nullptr;
}

std::optional<bool> Fields::boolean(const char* name) {
  const Json* found = value(name);
  if (found != nullptr && !found->is_boolean()) found = wrong_type(name, *found, "true or false");
  return found == nullptr ? std::nullopt : std::optional(found->get<bool>());
}

std::optional<double> Fields::number(const char* name) {
  const Json* found = value(name);
  if (found != nullptr && !found->is_number()) found = wrong_type(name, *found, "a number");
  return found == nullptr ? std::nullopt : std::optional(found->get<double>());
}

std::optional<int64_t> Fields::integer(const char* name, int64_t least, int64_t most) {
  const Json* found = value(name);
  if (found == nullptr) return std::nullopt;
  const std::string range = "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
  if (!found->is_number_integer()) {
    wrong_type(name, *found, range);
    return std::nullopt;
  }
  // Beyond int64, get<int64_t>() would wrap around.
  const bool too_large = found->is_number_unsigned() && found->get<uint64_t>() > uint64_t{INT64_MAX};
  if (too_large || found->get<int64_t>() < least || found->get<int64_t>() > most) {
    wrong_type(name, *found, range);
    return std::nullopt;
  }
  return found->get<int64_t>();
}

std::optional<std::string> Fields::text(const char* name) {
  const Json* found = value(name);
  if (found != nullptr && !found->is_string()) found = wrong_type(name, *found, "a string");
  return found == nullptr ? std::nullopt : std::optional(found->get<std::string>());
}

std::vector<std::string> Fields::texts(const char* name) {
  const Json* found = value(name);
  if (found == nullptr) return {};
  if (found->is_string()) return {found->get<std::string>()};
  std::vector<std::string> all;
  if (!found->is_array()) {
    wrong_type(name, *found, "a string or an array of strings");
    return all;
  }
  for (const Json& item : *found) {
    if (!item.is_string()) {
      wrong_type(name, *found, "only strings in it");
      return {};
    }
    all.push_back(item.get<std::string>());
  }
  return all;
}

void Fields::ignore(std::initializer_list<const char*> names) {
  for (const char* name : names) known_.insert(name);
}

void Fields::refuse(std::initializer_list<const char*> names, const std::string& hint) {
  for (const char* name : names) {
    if (value(name) == nullptr) continue;
    fail({Code::kUnsupported, path(name) + " is not supported", hint});
  }
}

void Fields::only(const char* name, const Json& accepted, const std::string& hint) {
  const Json* found = value(name);
  if (found == nullptr || *found == accepted) return;
  fail({Code::kUnsupported,
        path(name) + " is " + shown(*found) + ": only " + python_json(accepted) + " is supported", hint});
}

void Fields::fail(const char* name, const std::string& what, const std::string& hint) {
  fail({Code::kInvalidArgument, path(name) + " " + what, hint});
}

void Fields::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

Status Fields::finish() {
  if (error_) return *error_;
  for (const auto& [name, ignored] : object_->items()) {
    if (known_.contains(name)) continue;
    const std::string shown_name = name.size() > 60 ? name.substr(0, 57) + "..." : name;
    return Error{Code::kUnsupported,
                 "the field " + (path_.empty() ? "" : path_ + ".") + shown_name + " is unknown",
                 "leave it out; docs/server.md lists the fields"};
  }
  return Ok{};
}

}  // namespace weir::server
