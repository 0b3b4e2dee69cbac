#include "device/ablations.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <numeric>

#include "base/bf16.h"
#include "device/expand_copy.h"
#include "device/random_weights.h"
#include "device/step_bench.h"
#include "kernels/cuda/packed.h"

namespace weir::bench {
namespace {

using cuda::ExpertsCall;
using cuda::Grouping;

constexpr int kRepeats = 9;

class Ablations {
 public:
  explicit Ablations(qwen::Model& model) : model_(model), steps_(model.steps()) {
    for (const qwen::Layer& layer : model.weights().layers) {
      if (layer.delta && layer_ == nullptr) layer_ = &layer;
    }
    tiles_ = static_cast<const cuda::TileExperts&>(*layer_->moe.expert).tiles;
  }

  void run() {
    if (!queue_.open().ok()) return;
    std::printf("ablations, us a layer (median of %d)\n", kRepeats);
    for (const int64_t rows : {512, 1024, 2048, 4096}) experts(rows);
    for (const int64_t rows : {512, 4096}) delta_state(rows);
  }

 private:
  Buffer memory(int64_t bytes) { return std::move(*steps_.allocate(static_cast<size_t>(bytes))); }

  double microseconds(const std::function<void()>& work) {
    std::vector<double> times;
    for (int i = 0; i < kRepeats + 2; ++i) {
      cudaStreamSynchronize(queue_.stream());
      const auto start = std::chrono::steady_clock::now();
      work();
      cudaStreamSynchronize(queue_.stream());
      const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
      if (i >= 2) times.push_back(1e6 * elapsed.count());
    }
    return median(times);
  }

  // A near-uniform router's choice for `rows` rows, and memory for everything that follows from it.
  struct Routed {
    std::vector<int32_t> ids;
    Buffer chosen, weights, normed, activated, counts, order, tiles, tile_count;
    ExpertsCall call;
    Grouping grouping;
  };

  Routed route(int64_t rows) {
    Routed r;
    Random random(9);
    const int64_t slots = layer_->moe.slots(), experts = layer_->moe.experts;
    std::vector<int32_t> all(static_cast<size_t>(experts));
    std::iota(all.begin(), all.end(), 0);
    for (int64_t t = 0; t < rows; ++t) {
      for (size_t s = 0; s + 1 < static_cast<size_t>(slots); ++s) {
        std::swap(all[s], all[s + static_cast<size_t>(random.below(experts - static_cast<int64_t>(s)))]);
        r.ids.push_back(all[s]);
      }
      r.ids.push_back(static_cast<int32_t>(experts));
    }
    const int64_t assignments = rows * slots;
    r.chosen = memory(4 * assignments);
    steps_.copy_in(r.chosen.data(), r.ids.data(), 4 * r.ids.size());
    r.weights = memory(4 * assignments);
    r.normed = memory(2 * rows * tiles_.up.cols);
    const auto values = random.values(rows * tiles_.up.cols / 2);
    std::vector<uint16_t> halves;
    for (const float v : values) halves.push_back(to_bf16(v).bits);
    steps_.copy_in(r.normed.data(), halves.data(), 2 * halves.size());
    r.activated = memory(2 * assignments * tiles_.intermediate);
    r.counts = memory(4 * tiles_.count);
    r.order = memory(4 * assignments);
    r.tiles = memory(static_cast<int64_t>(sizeof(cuda::ExpertTile)) * (assignments / 32 + tiles_.count));
    r.tile_count = memory(4);
    r.call.experts = tiles_;
    r.call.normed = static_cast<const __nv_bfloat16*>(r.normed.data());
    r.call.activated = static_cast<__nv_bfloat16*>(r.activated.data());
    r.call.chosen = static_cast<const int32_t*>(r.chosen.data());
    r.call.weights = r.weights.floats();
    r.call.rows = rows;
    r.call.slots = slots;
    r.grouping.counts = static_cast<int32_t*>(r.counts.data());
    r.grouping.order = static_cast<int32_t*>(r.order.data());
    r.grouping.tiles = static_cast<cuda::ExpertTile*>(r.tiles.data());
    r.grouping.tile_count = static_cast<int32_t*>(r.tile_count.data());
    cut(r, cuda::expert_tile_rows(assignments, tiles_.count));
    static_cast<void>(steps_.finish());
    return r;
  }

  void cut(Routed& r, int64_t tile_rows) {
    r.grouping.tile_rows = tile_rows;
    r.grouping.max_tiles = r.call.rows * r.call.slots / tile_rows + tiles_.count;
    cuda::group_by_expert(queue_, r.grouping, r.call);
  }

  // The routing goes to the host, is sorted there, and comes back.
  void group_on_host(Routed& r) {
    const size_t bytes = 4 * r.ids.size();
    std::vector<int32_t> ids(r.ids.size()), order(ids.size()), counts(static_cast<size_t>(tiles_.count));
    cudaMemcpyAsync(ids.data(), r.chosen.data(), bytes, cudaMemcpyDeviceToHost, queue_.stream());
    cudaStreamSynchronize(queue_.stream());
    for (const int32_t e : ids) ++counts[static_cast<size_t>(e)];
    std::vector<int32_t> at(counts.size());
    std::exclusive_scan(counts.begin(), counts.end(), at.begin(), 0);
    std::vector<cuda::ExpertTile> tiles;
    const auto most = static_cast<int32_t>(r.grouping.tile_rows);
    for (size_t e = 0; e < counts.size(); ++e) {
      for (int32_t first = 0; first < counts[e]; first += most) {
        tiles.push_back({static_cast<int32_t>(e), at[e] + first, std::min(most, counts[e] - first), 0});
      }
    }
    for (size_t i = 0; i < ids.size(); ++i)
      order[static_cast<size_t>(at[static_cast<size_t>(ids[i])]++)] = static_cast<int32_t>(i);
    const auto count = static_cast<int32_t>(tiles.size());
    cudaMemcpyAsync(r.order.data(), order.data(), bytes, cudaMemcpyHostToDevice, queue_.stream());
    cudaMemcpyAsync(r.tiles.data(), tiles.data(), tiles.size() * sizeof(tiles[0]), cudaMemcpyHostToDevice,
                    queue_.stream());
    cudaMemcpyAsync(r.tile_count.data(), &count, 4, cudaMemcpyHostToDevice, queue_.stream());
  }

  void experts(int64_t rows) {
    Routed r = route(rows);
    const auto up = [&] { cuda::experts_up_many(queue_, r.grouping, r.call); };
    const int64_t best = r.grouping.tile_rows;
    std::printf("  experts_up, %4ld rows: tiles of %3ld rows %7.1f", rows, best, microseconds(up));
    const int64_t other = best == 32 ? 160 : 32;
    cut(r, other);
    std::printf(", of %3ld rows %7.1f", other, microseconds(up));
    cut(r, best);
    ExpertsCall copied = r.call;
    const Buffer copy = memory(tiles_.count * tiles_.up.row_tiles() * tiles_.up.groups() *
                               cuda::tile_weight_bytes(cuda::TileKind::kBf16));
    copied.experts.up.kind = cuda::TileKind::kBf16;
    copied.experts.up.weights = static_cast<const char*>(copy.data());
    const auto up_by_copy = [&] {
      expand_copy(queue_, tiles_.up, tiles_.count, static_cast<char*>(copy.data()));
      cuda::experts_up_many(queue_, r.grouping, copied);
    };
    std::printf("; by a bf16 copy %7.1f", microseconds(up_by_copy));
    const auto on_device = [&] {
      cuda::group_by_expert(queue_, r.grouping, r.call);
      up();
    };
    const auto on_host = [&] {
      group_on_host(r);
      up();
    };
    const double device = microseconds(on_device), host = microseconds(on_host);
    std::printf("; with routing on the device %7.1f, by the host %7.1f\n", device, host);
  }

  // The state stays in registers through the pass, or is written and read again every 64 rows.
  void delta_state(int64_t rows) {
    SequenceState state = std::move(*model_.new_sequence());
    const DeltaWeights& w = *layer_->delta;
    const int64_t width = w.channels() + w.value_heads * (w.value_dim + 2), out = w.value_heads * w.value_dim;
    const Buffer in = memory(2 * rows * width), result = memory(2 * rows * out);
    const auto run = [&](int64_t each) {
      std::vector<double> times;
      for (int i = 0; i < kRepeats + 2; ++i) {
        const auto start = std::chrono::steady_clock::now();
        for (int64_t first = 0; first < rows; first += each) {
          const std::vector<int32_t> tokens(static_cast<size_t>(each), 0);
          const Segment segment{&state, 0, each};
          const Batch batch{tokens, {&segment, 1}, {}};
          steps_.begin(batch);
          steps_.delta_rule({static_cast<char*>(result.data()) + 2 * first * out, each, out, Dtype::kBf16},
                            {static_cast<char*>(in.data()) + 2 * first * width, each, width, Dtype::kBf16}, w,
                            batch, layer_->index);
        }
        static_cast<void>(steps_.finish());
        const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
        if (i >= 2) times.push_back(1e6 * elapsed.count());
      }
      return median(times);
    };
    std::printf(
        "  delta_rule, %4ld rows: state in registers throughout %7.1f, in memory every 64 rows %7.1f\n", rows,
        run(rows), run(64));
  }

  qwen::Model& model_;
  Steps& steps_;
  const qwen::Layer* layer_ = nullptr;
  cuda::ExpertTiles tiles_;
  cuda::LaunchQueue queue_;
};

}  // namespace

void print_ablations(qwen::Model& model) {
  Ablations(model).run();
}

}  // namespace weir::bench
