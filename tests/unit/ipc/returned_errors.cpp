// A back end whose operations return a result, as do those of its memory; and streams that do not fit the device of
// shared memory. A descriptor whose origin is another process is attached in this one.
#include <support/returned_errors.hpp>

#include <ferry/ipc.hpp>
#include <support/fails.hpp>
#include <support/own_shm.hpp>
#include <support/patience.hpp>
#include <support/sim_column.hpp>
#include <support/sim_ipc.hpp>

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace {

using ferry::column;
using ferry::column_buffer;
using ferry::device_type;
using ferry::errc;
using ferry::managed_tensor;
using ferry::stream_token;
using ferry::ipc::attach;
using ferry::ipc::attach_column;
using ferry::ipc::session;
using ferry::ipc::share;
using support::fails;

constexpr ferry::device gpu{device_type::cuda, 0}, other_gpu{device_type::cuda, 1}, pinned{device_type::cuda_host, 0};

struct returning_shareable : support::returning_back_end {
    struct exported {
        support::called_operations* calls;
        support::sim_shareable::exported memory;
        [[nodiscard]] ferry::wire::memory const& description() const { return memory.description(); }
        [[nodiscard]] auto wait_ready(stream_token on) const {
            return calls->call("exported.wait_ready", [&] { memory.wait_ready(on); });
        }
        [[nodiscard]] auto record_ready(stream_token on) {
            return calls->call("exported.record_ready", [&] { memory.record_ready(on); });
        }
        [[nodiscard]] auto order_after(ferry::ipc::event_handle const& done, stream_token on) const {
            return calls->call("exported.order_after", [&] { return memory.order_after(done, on); });
        }
    };
    struct opened {
        support::called_operations* calls;
        support::sim_shareable::opened memory;
        [[nodiscard]] void* data() const { return memory.data(); }
        [[nodiscard]] ferry::device device() const { return memory.device(); }
        [[nodiscard]] auto wait_ready(ferry::wire::memory const& m, stream_token on) const {
            return calls->call("opened.wait_ready", [&] { memory.wait_ready(m, on); });
        }
        [[nodiscard]] auto record_done(stream_token on, ferry::ipc::event_handle& out) {
            return calls->call("opened.record_done", [&] { return memory.record_done(on, out); });
        }
    };

    explicit returning_shareable(support::sim_system& sim) : returning_back_end{sim}, sharing{sim} {}
    [[nodiscard]] auto exports(ferry::device d) {
        return calls.call("exports", [&] { return sharing.exports(d); });
    }
    [[nodiscard]] auto refusal(ferry::ipc::byte_range const& r, ferry::device d) {
        return calls.call("refusal", [&] { return sharing.refusal(r, d); });
    }
    [[nodiscard]] auto allocate_exportable(ferry::device d, std::size_t n, stream_token on) {
        return calls.call("allocate_exportable", [&] { return sharing.allocate_exportable(d, n, on); });
    }
    [[nodiscard]] auto export_memory(ferry::ipc::byte_range const& r, ferry::device d, stream_token on) {
        return calls.call("export_memory", [&] { return exported{&calls, sharing.export_memory(r, d, on)}; });
    }
    [[nodiscard]] auto opens(ferry::wire::memory const& m) {
        return calls.call("opens", [&] { return sharing.opens(m); });
    }
    [[nodiscard]] auto open_memory(ferry::wire::memory const& m, ferry::ipc::opening const& how) {
        return calls.call("open_memory", [&] { return opened{&calls, sharing.open_memory(m, how)}; });
    }

    support::sim_shareable sharing;
};
static_assert(ferry::ipc::handle_back_end<returning_shareable>);

struct world {
    support::sim_system sim{gpu, other_gpu, pinned};
    returning_shareable b{sim};
    stream_token on = sim.make_stream(device_type::cuda);

    /// Four floats.
    [[nodiscard]] managed_tensor tensor(ferry::device d = gpu) {
        std::int64_t const four[] = {4};
        auto memory = sim.make_memory(d, 16);
        auto* const first = static_cast<float*>(memory.data());
        return ferry::make_managed(std::move(memory), ferry::tensor_view{first, four, {}, d});
    }
    /// Three numbers with nulls, in two allocations.
    [[nodiscard]] column numbers(ferry::device d) {
        static std::int32_t const values[] = {1, 2, 3};
        static unsigned char const bits[] = {0b101};
        column_buffer const buffers[] = {{bits, 1}, {values, sizeof values}};
        auto const c = ferry::make_column({.format = "i", .name = "n", .length = 3, .buffers = buffers}, nullptr);
        return d == ferry::cpu ? c : support::sim_columns{sim, d, on}.put(c);
    }
    template <class Verb>
    void each_fails(char const* operations, Verb verb) {
        support::fails_at_each_operation(b.calls, sim, operations, verb);
    }
};
/// The descriptor of a share, as if another process had made it.
ferry::wire::descriptor foreign(ferry::ipc::shared const& s) {
    auto d = s.descriptor();
    ++d.from.pid;
    return d;
}

}  // namespace

TEST_CASE("share fails with the error of each operation that a back end returns, and keeps no memory") {
    world w;
    auto const kept = w.tensor();
    w.each_fails("exports export_memory", [&] {
        session own;
        return share(w.tensor(), {.session = &own, .ready_on = w.on}, w.b);
    });
    w.each_fails("exports allocate_exportable copy wait export_memory", [&] {
        session own;
        return share(w.tensor(), {.session = &own, .copy = ferry::copy_policy::always, .ready_on = w.on}, w.b);
    });
    w.each_fails("wait", [&] {
        session own;
        return share(w.numbers(pinned), {.session = &own, .ready_on = w.on}, w.b);
    });
    w.each_fails("exports export_memory exports export_memory", [&] {
        session own;
        return share(w.numbers(gpu), {.session = &own, .ready_on = w.on}, w.b);
    });
    w.each_fails("exports exports allocate_exportable copy copy wait export_memory", [&] {
        session own;
        return share(w.numbers(gpu), {.session = &own, .copy = ferry::copy_policy::always, .ready_on = w.on}, w.b);
    });
    column const children[] = {w.numbers(gpu), w.numbers(other_gpu)};
    auto const mixed = ferry::make_struct(children, "t");
    w.each_fails(
        "exports exports exports exports wait allocate_exportable copy copy export_memory allocate_exportable copy "
        "copy export_memory",
        [&] {
            session own;
            return share(mixed, {.session = &own, .copy = ferry::copy_policy::always, .ready_on = w.on}, w.b);
        });
}

TEST_CASE("attach fails with the error of each operation that a back end returns, and keeps no mapping") {
    world w;
    session own, importer{{.unused_mappings = 0}};
    auto const shared = share(w.tensor(), {.session = &own, .ready_on = w.on}, w.b);
    auto const table = share(w.numbers(gpu), {.session = &own, .ready_on = w.on}, w.b);
    auto const d = foreign(shared), of_table = foreign(table);
    w.each_fails("opens open_memory opened.wait_ready opened.record_done",
                 [&] { return attach(d, {.session = &importer, .stream = w.on}, w.b); });
    w.each_fails("opens open_memory opens open_memory opened.wait_ready opened.wait_ready opened.record_done",
                 [&] { return attach_column(of_table, {.session = &importer, .stream = w.on}, w.b); });
    w.each_fails("exported.wait_ready",
                 [&] { return attach(shared.descriptor(), {.session = &own, .stream = w.on}, w.b); });
    CHECK(importer.counts().mappings == 0);
    CHECK(own.counts().shares == 2);
}

TEST_CASE("the wait for readers fails with the error that an event returns") {
    world w;
    session own, importer;
    auto shared = share(w.tensor(), {.session = &own, .ready_on = w.on}, w.b);
    // Released: the mapping, which is kept for later attaches, has an event.
    static_cast<void>(attach(foreign(shared), {.session = &importer, .stream = w.on}, w.b));
    w.each_fails("exported.wait_ready exported.order_after", [&] {
        bool const is_free = shared.wait_for_readers(support::patience, w.on);
        CHECK(is_free);
        return 0;
    });
    importer.trim();  // else the memory would be kept when the share is closed
    CHECK(shared.close());
    CHECK(own.counts().condemned == 0);
}

TEST_CASE("R43: each function of shares refuses a stream that the device of the memory does not use") {
    world w;
    session own, importer{{.unused_mappings = 0}};
    auto shared = share(w.tensor(), {.session = &own, .ready_on = w.on}, w.b);
    column const children[] = {w.numbers(ferry::cpu), w.numbers(gpu)};
    auto const mixed = ferry::make_struct(children, "t");
    auto const table = share(mixed, {.session = &own, .ready_on = w.on}, w.b);
    auto const live = w.sim.live_bytes();
    auto const shares = own.counts().shares;
    for (auto const& bad : {stream_token::from_cuda_handle(0), stream_token::rocm_default(),
                            stream_token::native(device_type::vulkan, 16), stream_token::native(device_type::cpu, 16),
                            stream_token::cuda_legacy_default(1), stream_token::cuda_per_thread_default(1)}) {
        fails(errc::stream, [&] { static_cast<void>(share(w.tensor(), {.session = &own, .ready_on = bad}, w.b)); });
        fails(errc::stream, [&] { static_cast<void>(share(mixed, {.session = &own, .ready_on = bad}, w.b)); });
        for (auto const& d : {shared.descriptor(), foreign(shared)})
            fails(errc::stream, [&] {
                static_cast<void>(
                    attach(d, {.session = d.from == shared.descriptor().from ? &own : &importer, .stream = bad}, w.b));
            });
        fails(errc::stream,
              [&] { static_cast<void>(attach_column(foreign(table), {.session = &importer, .stream = bad}, w.b)); });
        fails(errc::stream, [&] { static_cast<void>(shared.wait_for_readers({}, bad)); },
              {"ferry::ipc::shared::wait_for_readers"});
    }
    CHECK(w.sim.live_bytes() == live);
    CHECK(importer.counts().mappings == 0);
    CHECK(own.counts().shares == shares);
    CHECK(shared.readers() == 0);
    CHECK(shared.wait_for_readers({}, stream_token::cuda_legacy_default(0)));
}
