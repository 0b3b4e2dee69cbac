// Sequences that survive a restart, in a folder of files.
//
// A sequence is a file *.sequence, a column of pages one *.pages (state_codec.h); their names begin with a
// hash of the identity, so several models may share a folder. Files are complete or not there: they are
// written under another name first, on a thread of their own (file_writer.h).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/file_lock.h"
#include "sessions/file_writer.h"
#include "sessions/prefix_cache.h"
#include "sessions/state_codec.h"

namespace weir {

class StateFolder {
 public:
  using Notice = std::function<void(const std::string&)>;

  // Files of this identity take up to `most_bytes` together. `notice`, which may be empty, is told what could
  // not be read or written, in a sentence that names the file, on the caller's or the writer's thread.
  // Errors: kInvalidArgument when there is no such folder and it cannot be made, kBusy when another process
  // keeps states of this identity there. The generator must outlive this.
  static Result<StateFolder> open(const std::string& path, const std::string& identity, uint64_t most_bytes,
                                  Generator& generator, Notice notice);

  // Fills the cache, the sequence written last being the one used last. A file that is damaged or foreign is
  // reported and left alone.
  void restore(PrefixCache& cache);

  // Has a sequence written, or notes that it was used again; those written longest ago give way. The state is
  // copied meanwhile, and the caller does not wait for the disk unless much is to be written already.
  void write(std::span<const int32_t> tokens, const SequenceState& state);

  void flush();  // waits until the folder is what was asked for

 private:
  struct Sequence {
    uint64_t bytes = 0;
    std::vector<std::string> columns;  // their files
    uint64_t written = 0;              // when; larger is later
  };
  struct Column {
    uint64_t bytes = 0;
    int64_t holders = 0;
  };

  StateFolder(FileLock lock, std::unique_ptr<FileWriter> files, std::string path, std::string prefix,
              uint64_t most_bytes, StateCodec codec, Notice notice)
      : lock_(std::move(lock)),
        files_(std::move(files)),
        path_(std::move(path)),
        prefix_(std::move(prefix)),
        most_bytes_(most_bytes),
        codec_(std::move(codec)),
        notice_(std::move(notice)) {}

  std::vector<std::string> own_sequences() const;
  Result<HeldSequence> read(const std::string& name, Sequence& sequence,
                            std::map<std::string, PageColumn>& columns);
  Status write_new(const std::string& name, std::span<const int32_t> tokens, const SequenceState& state);
  void add(const std::string& name, Sequence sequence);
  void remove(const std::string& name);
  void remove_strays();
  void forget_failed();
  std::string full(const std::string& name) const { return path_ + "/" + name; }
  void report(const std::string& name, const Error& error) const;

  FileLock lock_;  // until the last file is written
  std::unique_ptr<FileWriter> files_;
  std::string path_, prefix_;
  uint64_t most_bytes_ = 0;
  StateCodec codec_;
  Notice notice_;
  std::map<std::string, Sequence> sequences_;
  std::map<std::string, Column> columns_;
  uint64_t total_ = 0, clock_ = 0;
};

}  // namespace weir
