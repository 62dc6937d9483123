// What torch.npu.memory needs from here: figures, snapshots, history, options, pools, pinned memory.
#include "device/device.h"
#include "device/errors.h"
#include "device/profiler.h"
#include "memory/allocator.h"
#include "memory/device_memory.h"
#include "memory/pinned.h"

#include <c10/core/AllocatorConfig.h>
#include <torch/csrc/profiler/combined_traceback.h>
#include <torch/csrc/utils/pybind.h>

#include <unordered_map>
#include <unordered_set>

namespace torch {
// Declared here: torch's own header for it needs a JSON library that the wheel does not bring.
std::vector<pybind11::object> py_symbolize(std::vector<CapturedTraceback*>& to_symbolize);
}  // namespace torch

namespace py = pybind11;

namespace softnpu {

void bind_memory_source(py::module& m);

namespace {

using c10::CachingAllocator::Stat;
using c10::CachingAllocator::StatArray;

c10::DeviceIndex index_of(int device) { return static_cast<c10::DeviceIndex>(device); }

py::dict stat(const Stat& value) {
  py::dict one;
  one["current"] = value.current;
  one["peak"] = value.peak;
  one["allocated"] = value.allocated;
  one["freed"] = value.freed;
  return one;
}

py::dict stat_array(const StatArray& array) {
  py::dict found;
  found["all"] = stat(array[0]);
  found["small_pool"] = stat(array[1]);
  found["large_pool"] = stat(array[2]);
  return found;
}

py::dict memory_stats(int device) {
  const auto stats = allocator()->getDeviceStats(index_of(device));
  py::dict found;
  found["num_alloc_retries"] = stats.num_alloc_retries;
  found["num_ooms"] = stats.num_ooms;
  found["num_oom_rejections"] = 0;  // there is no policy that refuses before memory is out
  found["num_sync_all_streams"] = stats.num_sync_all_streams;
  found["num_device_alloc"] = stats.num_device_alloc;
  found["num_device_free"] = stats.num_device_free;
  found["max_split_size"] = stats.max_split_size;
  found["allocation"] = stat_array(stats.allocation);
  found["segment"] = stat_array(stats.segment);
  found["active"] = stat_array(stats.active);
  found["inactive_split"] = stat_array(stats.inactive_split);
  found["allocated_bytes"] = stat_array(stats.allocated_bytes);
  found["reserved_bytes"] = stat_array(stats.reserved_bytes);
  found["active_bytes"] = stat_array(stats.active_bytes);
  found["inactive_split_bytes"] = stat_array(stats.inactive_split_bytes);
  found["requested_bytes"] = stat_array(stats.requested_bytes);
  found["oversize_allocations"] = stat(stats.oversize_allocations);
  found["oversize_segments"] = stat(stats.oversize_segments);
  return found;
}

// Stacks as lists of frames. Many entries share one, and all are named in one go.
class Frames {
 public:
  void want(const Context& context) {
    if (context != nullptr) places_.try_emplace(context.get(), places_.size());
  }

  void find() {
    std::vector<torch::CapturedTraceback*> stacks(places_.size());
    for (const auto& [context, place] : places_) stacks[place] = static_cast<torch::CapturedTraceback*>(context);
    found_ = torch::py_symbolize(stacks);
  }

  py::object of(const Context& context) const { return context == nullptr ? py::list() : found_[places_.at(context.get())]; }

 private:
  std::unordered_map<c10::GatheredContext*, size_t> places_;
  std::vector<py::object> found_;
};

py::dict block_row(const BlockView& block, const Frames& frames) {
  py::dict row;
  row["address"] = block.address;
  row["size"] = block.size;
  row["requested_size"] = block.requested;
  row["state"] = block.state;
  row["frames"] = frames.of(block.context);
  return row;
}

py::dict segment_row(const SegmentView& segment, const Frames& frames) {
  py::dict row;
  row["device"] = segment.device;
  row["address"] = segment.address;
  row["total_size"] = segment.total;
  row["allocated_size"] = segment.allocated;
  row["active_size"] = segment.active;
  row["requested_size"] = segment.requested;
  row["stream"] = plain_stream(segment.stream);
  row["segment_type"] = segment.large ? "large" : "small";
  row["segment_pool_id"] = py::make_tuple(0, pool_of(segment.stream));
  row["is_expandable"] = false;
  row["frames"] = frames.of(segment.context);
  py::list blocks;
  for (const auto& block : segment.blocks) blocks.append(block_row(block, frames));
  row["blocks"] = blocks;
  return row;
}

py::dict trace_row(const TraceEntry& entry, const Frames& frames) {
  py::dict row;
  row["action"] = entry.action;
  row[std::string_view(entry.action) == "oom" ? "device_free" : "addr"] = entry.address;
  row["size"] = entry.size;
  row["stream"] = entry.stream;
  row["time_us"] = entry.time_us;
  row["frames"] = frames.of(entry.context);
  return row;
}

// Segments (of one pool or all) and, where asked for, the history of each device.
py::tuple memory_snapshot(std::optional<uint32_t> pool, bool with_traces) {
  std::vector<SegmentView> segments;
  std::vector<std::vector<TraceEntry>> traces;
  for (int i = 0; i < device_count(); ++i) {
    memory_of(index_of(i)).snapshot(segments);
    if (with_traces) traces.push_back(memory_of(index_of(i)).trace(true));
  }
  Frames frames;
  for (const auto& segment : segments) {
    frames.want(segment.context);
    for (const auto& block : segment.blocks) frames.want(block.context);
  }
  for (const auto& trace : traces) {
    for (const auto& entry : trace) frames.want(entry.context);
  }
  frames.find();
  py::list segment_rows, trace_rows;
  for (const auto& segment : segments) {
    if (!pool.has_value() || pool_of(segment.stream) == *pool) segment_rows.append(segment_row(segment, frames));
  }
  for (const auto& trace : traces) {
    py::list rows;
    for (const auto& entry : trace) rows.append(trace_row(entry, frames));
    trace_rows.append(rows);
  }
  return py::make_tuple(segment_rows, trace_rows);
}

void record_history(bool on, bool entries, int stacks, size_t most, bool clear) {
  auto& settings = trace_settings();
  settings.entries = on && entries;
  settings.stacks = on ? static_cast<Stacks>(stacks) : Stacks::kNever;
  settings.on = on;
  for (int i = 0; i < device_count(); ++i) memory_of(index_of(i)).set_trace(most, clear);
}

void set_options(size_t max_split, double collect_above, const std::vector<size_t>& divisions, size_t segment, size_t large_segment,
                 bool no_caching) {
  Options options;
  if (max_split != 0) options.max_split = max_split;
  options.collect_above = collect_above;
  TORCH_CHECK(divisions.empty() || divisions.size() == options.divisions.size(), "roundup_power2_divisions has ", divisions.size(),
              " values instead of ", options.divisions.size(), pta_error(ErrCode::kValue));
  options.divides = !divisions.empty();
  std::copy(divisions.begin(), divisions.end(), options.divisions.begin());
  options.segment = segment;
  if (large_segment != 0) options.large_segment = large_segment;
  options.no_caching = no_caching;
  for (int i = 0; i < device_count(); ++i) memory_of(index_of(i)).configure(options);
}

// Options that reach torch's own settings come here too. The function stays for the life of the process.
void on_settings(py::object apply, const std::vector<std::string>& names) {
  using Config = c10::CachingAllocator::AcceleratorAllocatorConfig;
  std::unordered_set<std::string> keys(names.begin(), names.end());
  for (const auto& known : Config::getKeys()) keys.erase(known);
  auto* kept = new py::object(std::move(apply));
  Config::registerDeviceConfigParserHook(
      [kept](const std::string& text) {
        py::gil_scoped_acquire gil;
        (*kept)(text);
      },
      keys);
}

py::dict duration(const c10::CachingAllocator::DurationStat& value) {
  py::dict one;
  one["total"] = value.total;
  one["max"] = value.max;
  one["min"] = value.min;
  one["count"] = value.count;
  one["avg"] = value.count == 0 ? 0 : value.total / value.count;
  return one;
}

py::dict host_stats() {
  const auto stats = pinned_allocator()->get_stats();
  py::dict found;
  found["num_host_alloc"] = stats.num_host_alloc;
  found["num_host_free"] = stats.num_host_free;
  found["allocations"] = stat(stats.allocations);
  found["allocated_bytes"] = stat(stats.allocated_bytes);
  found["active_requests"] = stat(stats.active_requests);
  found["active_bytes"] = stat(stats.active_bytes);
  found["host_alloc_time"] = duration(stats.host_alloc_time);
  found["host_free_time"] = duration(stats.host_free_time);
  return found;
}

void bind_figures(py::module& m) {
  m.def("_memory_stats", &memory_stats);
  m.def("_memory_snapshot", &memory_snapshot);
  m.def("_record_history", &record_history);
  m.def("_report_memory", [](bool on) { memory_reports.store(on, std::memory_order_relaxed); });
  m.def("_reset_peak_stats", [](int device) { allocator()->resetPeakStats(index_of(device)); });
  m.def("_reset_accumulated_stats", [](int device) { allocator()->resetAccumulatedStats(index_of(device)); });
  m.def("_host_memory_stats", &host_stats);
  m.def("_host_empty_cache", [] { pinned_allocator()->empty_cache(); });
  m.def("_host_reset_accumulated_stats", [] { pinned_allocator()->reset_accumulated_stats(); });
  m.def("_host_reset_peak_stats", [] { pinned_allocator()->reset_peak_stats(); });
}

}  // namespace

void bind_memory(py::module& m) {
  bind_memory_source(m);
  bind_figures(m);
  m.def("_set_allocator_options", &set_options);
  m.def("_on_settings", &on_settings);
  m.def("_set_pool_flags", &set_pool_flags);
  m.def("_forget_pool", &forget_pool);
  m.def("_empty_cache", [](std::optional<uint32_t> pool) { empty_cache(pool); }, py::arg("pool") = py::none());
  m.def("_set_memory_fraction", [](double fraction, int device) { memory_of(index_of(device)).set_fraction(fraction); });
  m.def("_get_memory_fraction", [](int device) { return memory_of(index_of(device)).fraction(); });
  m.def("_raw_allocate", [](size_t bytes, int device, int64_t stream) {
    py::gil_scoped_release release;
    return reinterpret_cast<uintptr_t>(raw_allocate(index_of(device), bytes, stream));
  });
  m.def("_raw_free", [](uintptr_t address) {
    py::gil_scoped_release release;
    raw_free(reinterpret_cast<void*>(address));
  });
  m.def("_erase_stream", [](const at::Tensor& tensor, int64_t stream) { erase_stream(tensor.storage().data_ptr(), stream); });
  m.def("_device_of", [](uintptr_t address) { return static_cast<int>(device_of(reinterpret_cast<void*>(address))); });
}

}  // namespace softnpu
