#include "sessions/state_folder.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/mapped_file.h"

namespace weir {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSequenceSuffix = ".sequence", kColumnSuffix = ".pages";

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

Result<FileLock> take_lock(const std::string& folder, const std::string& prefix) {
  auto lock = FileLock::take(folder + "/" + prefix + "lock");
  if (lock.ok() || lock.error().code != Code::kBusy) return lock;
  return Error{Code::kBusy, folder + " holds the states of another weir serve with this model",
               "end that one, or name another folder"};
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
  WEIR_TRY(FileLock lock, take_lock(path, prefix));
  WEIR_TRY(auto files, FileWriter::start(path, notice));
  return StateFolder(std::move(lock), std::move(files), path, prefix, most_bytes,
                     StateCodec(generator, whole), std::move(notice));
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
  forget_failed();
  const std::string name = sequence_name(prefix_, tokens);
  if (const auto known = sequences_.find(name); known != sequences_.end()) {
    known->second.written = ++clock_;
    files_->touch(name);
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
  sequence.written = ++clock_;
  NameHash hash;
  for (size_t p = 0; static_cast<int64_t>(p + 1) * kKvPage <= state.position; ++p) {
    hash.add(std::as_bytes(tokens.subspan(p * kKvPage, kKvPage)));
    const PageColumn column = column_of(state, p);
    sequence.columns.push_back(column_name(prefix_, hash, layers_of(column)));
    if (columns_.contains(sequence.columns.back())) continue;
    WEIR_TRY(std::string bytes, codec_.encode(tokens.first((p + 1) * kKvPage), column));
    columns_[sequence.columns.back()].bytes = bytes.size();
    files_->write(sequence.columns.back(), std::move(bytes), sequence.written);
  }
  WEIR_TRY(std::string bytes, codec_.encode(tokens, state));
  sequence.bytes = bytes.size();
  files_->write(name, std::move(bytes), sequence.written);
  add(name, std::move(sequence));
  return {};
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
  files_->remove(name);
  for (const std::string& column : gone.mapped().columns) {
    if (--columns_[column].holders > 0) continue;
    total_ -= columns_[column].bytes;
    columns_.erase(column);
    files_->remove(column);
  }
}

// Pages that no sequence has, and files that were not finished.
void StateFolder::remove_strays() {
  std::erase_if(columns_, [](const auto& column) { return column.second.holders == 0; });
  std::error_code error;
  for (fs::directory_iterator file(path_, error), end; !error && file != end; file.increment(error)) {
    const std::string name = file->path().filename().string();
    const bool is_stray =
        name.ends_with(kUnfinishedSuffix) || (name.ends_with(kColumnSuffix) && !columns_.contains(name));
    if (name.starts_with(prefix_) && is_stray) ::unlink(full(name).c_str());
  }
}

// What could not be written is not there, nor is a sequence without one of its columns.
void StateFolder::forget_failed() {
  for (const std::string& failed : files_->take_failed()) {
    std::vector<std::string> broken;
    for (const auto& [name, sequence] : sequences_) {
      const auto& columns = sequence.columns;
      const bool needs = std::find(columns.begin(), columns.end(), failed) != columns.end();
      if (name == failed || needs) broken.push_back(name);
    }
    for (const std::string& name : broken) remove(name);
    columns_.erase(failed);
  }
}

void StateFolder::flush() {
  files_->flush();
  forget_failed();
  files_->flush();
}

void StateFolder::report(const std::string& name, const Error& error) const {
  if (notice_) notice_(fmt::format("{}: {}", full(name), error.message));
}

}  // namespace weir
