#include "sessions/state_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/mapped_file.h"

namespace weir {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSequenceSuffix = ".sequence", kColumnSuffix = ".pages", kUnfinished = ".part";

// FNV-1a, which can be taken further as bytes come.
class NameHash {
 public:
  void add(std::span<const std::byte> bytes) {
    for (const std::byte byte : bytes) {
      value_ = (value_ ^ static_cast<uint64_t>(byte)) * 0x100000001b3;
    }
  }
  std::string text() const { return fmt::format("{:016x}", value_); }

 private:
  uint64_t value_ = 0xcbf29ce484222325;
};

std::string column_name(const std::string& prefix, NameHash tokens, std::span<const uint8_t> layers) {
  tokens.add(std::as_bytes(layers));
  return prefix + tokens.text() + std::string(kColumnSuffix);
}

std::string sequence_name(const std::string& prefix, std::span<const int32_t> tokens) {
  NameHash hash;
  hash.add(std::as_bytes(tokens));
  return prefix + hash.text() + std::string(kSequenceSuffix);
}

Error system_error(const std::string& what) {
  return {Code::kInternal, fmt::format("{}: {}", what, std::strerror(errno)), ""};
}

// Only its owner may read what was said.
Status write_bytes(const std::string& path, std::span<const std::byte> bytes) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
  if (file < 0) return system_error("cannot create it");
  while (!bytes.empty()) {
    const ssize_t written = ::write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      Error error = system_error("cannot write it");
      ::close(file);
      return error;
    }
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  if (::close(file) != 0) return system_error("cannot write it");
  return {};
}

}  // namespace

Result<StateFolder> StateFolder::open(const std::string& path, const std::string& identity,
                                      uint64_t most_bytes, Generator& generator, Notice notice) {
  std::error_code error;
  if (fs::create_directories(path, error)) fs::permissions(path, fs::perms::owner_all, error);
  if (!fs::is_directory(path, error)) {
    return Error{Code::kInvalidArgument,
                 fmt::format("{}: there is no folder for states, and it cannot be made{}{}", path,
                             error ? ": " : "", error ? error.message() : ""),
                 "name a folder that can be written"};
  }
  const std::string whole = generator.steps().name() + ", " + identity;
  NameHash hash;
  hash.add(std::as_bytes(std::span(whole)));
  const std::string prefix = hash.text() + "-";
  WEIR_TRY(FileLock lock, FileLock::take(path + "/" + prefix + "lock"));
  return StateFolder(std::move(lock), path, prefix, most_bytes, StateCodec(generator, whole),
                     std::move(notice));
}

void StateFolder::restore(PrefixCache& cache) {
  const std::vector<std::string> names = own_sequences();
  std::map<std::string, PageColumn> columns;
  std::vector<HeldSequence> restored;
  clock_ = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    if (total_ > most_bytes_) {  // the limit was higher once
      ::unlink(full(names[i]).c_str());
      continue;
    }
    Sequence sequence;
    sequence.written = names.size() - i;
    auto held = read(names[i], sequence, columns);
    if (held.ok()) {
      add(names[i], std::move(sequence));
      restored.push_back(std::move(*held));
    } else {
      report(names[i], held.error());
    }
  }
  while (!restored.empty()) {
    cache.insert(std::move(restored.back()));
    restored.pop_back();
  }
  remove_strays();
}

// Those of this identity, the one written last first.
std::vector<std::string> StateFolder::own_sequences() const {
  struct Found {
    fs::file_time_type written;
    std::string name;
  };
  std::vector<Found> found;
  std::error_code error;
  for (fs::directory_iterator file(path_, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename().string();
    if (!name.ends_with(kSequenceSuffix)) continue;
    if (!name.starts_with(prefix_)) {
      report(name, {Code::kUnsupported, "it belongs to another model or backend", ""});
      continue;
    }
    std::error_code gone;
    found.push_back({fs::last_write_time(file->path(), gone), name});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) {
    return std::tie(a.written, a.name) > std::tie(b.written, b.name);
  });
  std::vector<std::string> names;
  for (Found& f : found) names.push_back(std::move(f.name));
  return names;
}

Result<HeldSequence> StateFolder::read(const std::string& name, Sequence& sequence,
                                       std::map<std::string, PageColumn>& columns) {
  WEIR_TRY(const MappedFile file, MappedFile::open(full(name)));
  if (file.bytes().size() > most_bytes_) {
    return Error{Code::kUnsupported,
                 fmt::format("it has {} bytes, more than the {} that states may take", file.bytes().size(),
                             most_bytes_),
                 ""};
  }
  sequence.bytes = file.bytes().size();
  NameHash hash;
  size_t hashed = 0;
  const auto find = [&](std::span<const int32_t> tokens,
                        std::span<const uint8_t> layers) -> Result<PageColumn> {
    hash.add(std::as_bytes(tokens.subspan(hashed)));
    hashed = tokens.size();
    const std::string column = column_name(prefix_, hash, layers);
    if (!columns.contains(column)) {
      WEIR_TRY(const MappedFile pages, MappedFile::open(full(column)));
      WEIR_TRY(columns[column], codec_.decode_column(pages.bytes(), tokens, layers));
      columns_[column].bytes = pages.bytes().size();
    }
    sequence.columns.push_back(column);
    PageColumn shared;
    for (const Buffer& page : columns[column]) shared.push_back(page.share());
    return shared;
  };
  return codec_.decode_sequence(file.bytes(), find);
}

void StateFolder::write(std::span<const int32_t> tokens, const SequenceState& state) {
  const std::string name = sequence_name(prefix_, tokens);
  if (const auto known = sequences_.find(name); known != sequences_.end()) {
    known->second.written = ++clock_;
    std::error_code error;
    fs::last_write_time(full(name), fs::file_time_type::clock::now(), error);
  } else if (Status status = write_new(name, tokens, state); !status.ok()) {
    report(name, status.error());
  }
  while (total_ > most_bytes_) {
    const auto oldest =
        std::min_element(sequences_.begin(), sequences_.end(),
                         [](const auto& a, const auto& b) { return a.second.written < b.second.written; });
    remove(oldest->first);
  }
}

Status StateFolder::write_new(const std::string& name, std::span<const int32_t> tokens,
                              const SequenceState& state) {
  Sequence sequence;
  NameHash hash;
  for (size_t p = 0; static_cast<int64_t>(p + 1) * kKvPage <= state.position; ++p) {
    hash.add(std::as_bytes(tokens.subspan(p * kKvPage, kKvPage)));
    const PageColumn column = column_of(state, p);
    sequence.columns.push_back(column_name(prefix_, hash, layers_of(column)));
    WEIR_RETURN_IF_ERROR(write_column(sequence.columns.back(), tokens.first((p + 1) * kKvPage), column));
  }
  WEIR_TRY(const std::string bytes, codec_.encode(tokens, state));
  WEIR_RETURN_IF_ERROR(write_file(name, std::as_bytes(std::span(bytes))));
  sequence.bytes = bytes.size();
  sequence.written = ++clock_;
  add(name, std::move(sequence));
  return {};
}

Status StateFolder::write_column(const std::string& name, std::span<const int32_t> tokens,
                                 const PageColumn& column) {
  if (columns_.contains(name)) return {};
  WEIR_TRY(const std::string bytes, codec_.encode(tokens, column));
  WEIR_RETURN_IF_ERROR(write_file(name, std::as_bytes(std::span(bytes))));
  columns_[name].bytes = bytes.size();
  return {};
}

Status StateFolder::write_file(const std::string& name, std::span<const std::byte> bytes) {
  const std::string path = full(name), unfinished = path + std::string(kUnfinished);
  Status status = write_bytes(unfinished, bytes);
  if (status.ok() && std::rename(unfinished.c_str(), path.c_str()) != 0) {
    status = system_error("cannot rename it");
  }
  if (!status.ok()) ::unlink(unfinished.c_str());
  return status;
}

void StateFolder::add(const std::string& name, Sequence sequence) {
  total_ += sequence.bytes;
  for (const std::string& column : sequence.columns) {
    if (columns_[column].holders++ == 0) total_ += columns_[column].bytes;
  }
  sequences_[name] = std::move(sequence);
}

void StateFolder::remove(const std::string& name) {
  const auto gone = sequences_.extract(name);
  total_ -= gone.mapped().bytes;
  ::unlink(full(name).c_str());
  for (const std::string& column : gone.mapped().columns) {
    if (--columns_[column].holders > 0) continue;
    total_ -= columns_[column].bytes;
    columns_.erase(column);
    ::unlink(full(column).c_str());
  }
}

// Pages that no sequence has, and files that were not finished.
void StateFolder::remove_strays() {
  std::erase_if(columns_, [](const auto& column) { return column.second.holders == 0; });
  std::error_code error;
  for (fs::directory_iterator file(path_, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename().string();
    const bool is_stray =
        name.ends_with(kUnfinished) || (name.ends_with(kColumnSuffix) && !columns_.contains(name));
    if (name.starts_with(prefix_) && is_stray) ::unlink(full(name).c_str());
  }
}

void StateFolder::report(const std::string& name, const Error& error) const {
  if (notice_) notice_(fmt::format("{}: {}", full(name), error.message));
}

}  // namespace weir
