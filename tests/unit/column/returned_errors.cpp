// A back end whose operations return a result. The failure of each operation of a function of columns is its error.
#include <support/returned_errors.hpp>

#include <ferry/column.hpp>
#include <support/no_owner.hpp>
#include <support/sim_column.hpp>

#include <doctest/doctest.h>

#include <cstdint>
#include <optional>
#include <utility>

namespace {

using ferry::column;
using ferry::column_buffer;
using ferry::device;
using ferry::device_type;
using support::fails_at_each_operation;

device const gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1}, pinned{device_type::cuda_host, 0};
std::int32_t const numbers[] = {1, 2, 3, 4, 5};
unsigned char const bits[] = {0b10110};

struct world {
    support::sim_system sim{gpu, other_gpu, pinned};
    support::returning_back_end b{sim};
    ferry::stream_token on = sim.make_stream(device_type::cuda);

    /// Five numbers with nulls, in two allocations.
    [[nodiscard]] column ints(device d) {
        column_buffer const five[] = {{bits, 1}, {numbers, sizeof numbers}};
        return put(ferry::make_column({.format = "i", .name = "x", .length = 5, .buffers = five}, nullptr), d);
    }
    [[nodiscard]] column bools(device d) {
        column_buffer const five[] = {{}, {bits, 1}};
        return put(ferry::make_column({.format = "b", .length = 5, .buffers = five}, nullptr), d);
    }
    /// Text, whose size only its offsets tell.
    [[nodiscard]] column text(device d) {
        std::int32_t const offsets[] = {0, 1, 3};
        column_buffer const two[] = {{}, {offsets, sizeof offsets}, {"abc", -1}};
        return put(ferry::make_column({.format = "u", .length = 2, .buffers = two}, nullptr), d);
    }
    [[nodiscard]] column put(column const& c, device d) {
        if (d.type == device_type::cpu) return c;
        return support::sim_columns{sim, d, on}.put(c);
    }
    /// Two integers with a stride of 2.
    [[nodiscard]] ferry::managed_tensor strided(device d) {
        std::int64_t const extent[] = {2}, stride[] = {2};
        auto memory = sim.make_memory(d, 16);
        auto* const first = static_cast<int*>(memory.data());
        return ferry::make_managed(std::move(memory), ferry::tensor_view{first, extent, stride, d});
    }
    [[nodiscard]] ferry::managed_tensor flags(device d) {
        std::int64_t const extent[] = {2};
        auto memory = sim.make_memory(d, 2);
        auto* const first = static_cast<std::uint8_t*>(memory.data());
        return ferry::make_managed(std::move(memory), ferry::tensor_view{first, extent, {}, d});
    }
    template <class Verb>
    void each_fails(char const* operations, Verb verb) {
        fails_at_each_operation(b.calls, sim, operations, verb);
    }
};

}  // namespace

TEST_CASE("column::to fails with the error of each operation that a back end returns, and keeps no memory") {
    world w;
    auto const near = w.ints(ferry::cpu), there = w.ints(gpu), locked = w.ints(pinned), text = w.text(gpu);
    w.each_fails("allocate copy mark", [&] { return near.to(gpu, w.b, w.on); });
    w.each_fails("allocate copy mark", [&] { return near.try_to(gpu, w.b, w.on); });
    w.each_fails("allocate copy copy mark", [&] { return there.try_to(other_gpu, w.b, w.on); });
    w.each_fails("allocate copy copy wait", [&] { return there.to(ferry::cpu, w.b, w.on); });
    w.each_fails("allocate copy copy wait", [&] { return there.try_to(ferry::cpu, w.b, w.on); });
    w.each_fails("copy copy wait", [&] { return there.try_to(ferry::host_space{}, w.b, w.on); });
    w.each_fails("allocate wait", [&] { return locked.try_to(ferry::cpu, w.b, w.on); });
    w.each_fails("allocate wait copy mark", [&] { return locked.try_to(gpu, w.b, w.on); });
    w.each_fails("copy wait allocate copy copy wait", [&] { return text.try_to(ferry::cpu, w.b, w.on); });
}

TEST_CASE("the move of a struct on several devices fails with each error that a back end returns") {
    world w;
    column const children[] = {w.ints(ferry::cpu), w.bools(gpu), w.bools(other_gpu)};
    auto const mixed = ferry::make_struct(children, "t");
    w.each_fails("wait wait allocate copy allocate copy", [&] { return mixed.to(ferry::cpu, w.b, w.on); });
    w.each_fails("wait wait allocate copy allocate copy", [&] { return mixed.try_to(ferry::cpu, w.b, w.on); });
}

TEST_CASE("exports as tensors fail with the error of each operation that a back end returns") {
    world w;
    auto const ints = w.ints(gpu), bools = w.bools(gpu), locked = w.bools(pinned);
    w.each_fails("copy wait allocate copy mark", [&] { return ferry::to_dlpack(ints, w.b, w.on); });
    w.each_fails("copy wait allocate copy mark", [&] { return ferry::try_to_dlpack(ints, w.b, w.on); });
    w.each_fails("copy wait allocate copy mark", [&] { return ferry::to_tensor(bools, w.b, w.on); });
    w.each_fails("copy wait allocate copy mark", [&] { return ferry::try_to_tensor(bools, w.b, w.on); });
    w.each_fails("wait allocate copy wait", [&] { return ferry::try_to_tensor(locked, w.b, w.on); });
}

TEST_CASE("imports of tensors fail with the error of each operation that a back end returns") {
    world w;
    w.each_fails("copy wait allocate copy mark allocate copy wait",
                 [&] { return ferry::from_tensors(w.strided(gpu), w.flags(gpu), w.b, w.on); });
    w.each_fails("copy wait allocate copy mark allocate copy wait",
                 [&] { return ferry::try_from_tensors(w.strided(gpu), w.flags(gpu), w.b, w.on); });
}
