// Every CUDA call fails once: each exchange releases everything exactly once, and leaves no error pending.
#include <ferry/arrow.hpp>
#include <ferry/column.hpp>
#include <ferry/cuda/arrow.hpp>
#include <ferry/cuda/batch.hpp>
#include <ferry/cuda/copier.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/pack.hpp>
#include <ferry/cuda/pending.hpp>
#include <ferry/cuda/pool.hpp>
#include <ferry/cuda/reaper.hpp>
#include <ferry/cuda/recycled.hpp>
#include <ferry/cuda/thrust.hpp>
#include <ferry/ipc.hpp>
#include <gpu/calls.hpp>
#include <gpu/compiled.hpp>
#include <gpu/world.hpp>
#include <support/counting_producer.hpp>

#include <thrust/host_vector.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::errc;
using ferry::request;
using ferry::stream_token;

/// A tensor whose deleter counts, created for each attempt.
struct counted {
    counting_producer producer;
    explicit counted(gpu_array const& array, void* at) : producer{at != nullptr ? at : array.first(), float32, {1}} {
        producer.on(static_cast<std::int32_t>(array.where.type), array.where.id);
        auto& t = producer.tensor();
        t.ndim = static_cast<std::int32_t>(array.shape.size());
        std::copy(array.shape.begin(), array.shape.end(), producer.shape);
        if (array.strides.empty()) return;
        std::copy(array.strides.begin(), array.strides.end(), producer.strides);
        t.strides = producer.strides;
    }
};

/// Counts of resources that can leak, since `calls::reset()`. Threads cannot leak: ferry's are members of type
/// std::thread, which end the program if they are not joined.
struct things {
    std::int64_t blocks, bytes, events, streams, pools;

    [[nodiscard]] static things now() {
        using calls::of;
        auto const left = [](of made, of gone) {
            return std::int64_t{calls::count(made)} - calls::has_failed(made) - calls::count(gone);
        };
        return {left(of::allocate, of::free), static_cast<std::int64_t>(pool_bytes_used()),
                left(of::create_event, of::destroy_event), left(of::create_stream, of::destroy_stream),
                left(of::create_pool, of::destroy_pool)};
    }
};

/// An entry point and its input. `run` is passed a tensor like `from`, or null.
struct entry {
    char const* name;
    gpu_array const* from;
    std::function<void(DLManagedTensorVersioned*)> run;
    bool tells_all = true;    ///< else some calls may fail without harm: a deleter's, say
    void* lies_at = nullptr;  ///< in other memory than `from`
};

/// The expected error for a call that failed in this way. Calls that ferry can do without may lead to another result.
bool is_said(errc code, calls::failure how) {
    switch (how) {
        case calls::failure::out_of_memory: return code == errc::out_of_memory;
        case calls::failure::lost: return code == errc::context_lost;
        case calls::failure::current: return code == errc::device;
        case calls::failure::advice: return true;
        default: return code == errc::driver || code == errc::device || code == errc::not_exportable;
    }
}

/// All attempts at one entry point, each with another call failing in one manner.
struct outcome {
    int attempts = 0, told = 0, released = 0;
    things left{};
};

/// Makes the n-th call fail, for n = 1, 2, … until none does, in every manner. Prints a line. `settle` waits for the
/// streams that the entry uses.
void fails_well(entry const& e, std::function<void()> const& settle) {
    std::string const name = e.name;
    CAPTURE(name);
    auto const attempt = [&](bool& threw, calls::failure how) {
        std::optional<counted> once;
        if (e.from != nullptr) once.emplace(*e.from, e.lies_at);
        try {
            e.run(once ? &once->producer.raw : nullptr);
        } catch (ferry::error const& reported) {
            threw = true;
            INFO(shown(reported.what()));
            CHECK(is_said(reported.code(), how));
        } catch (std::exception const&) {  // the test's own call
            threw = true;
        }
        return once ? once->producer.deleter_calls : 1;
    };
    bool threw = false;
    for (int warm = 0; warm < 2; ++warm) CHECK(attempt(threw, calls::failure::invalid) == 1);
    CHECK(!threw);
    settle();

    auto const fail_each_call = [&](calls::failure how) {
        outcome all;
        calls::reset();
        auto const before = things::now();
        for (bool injected = true; injected && all.attempts < 1000;) {
            ++all.attempts;
            CAPTURE(all.attempts);
            threw = false;
            calls::reset();
            calls::fail_at(all.attempts, how);
            int const deleted = attempt(threw, how);
            injected = calls::has_failed();
            calls::fail_at(0);
            settle();
            bool const may_be_silent = !e.tells_all || how == calls::failure::advice || how == calls::failure::current;
            CHECK((may_be_silent ? injected || !threw : threw == injected));
            CHECK(deleted == 1);
            all.released += deleted;
            all.told += threw;
            auto const now = things::now();
            all.left.blocks += now.blocks;
            all.left.events += now.events;
            all.left.streams += now.streams;
            all.left.pools += now.pools;
            all.left.bytes = now.bytes - before.bytes;
            CHECK(left_no_error());
        }
        return all;
    };
    std::string failed;
    things left{};
    int told = 0, released = 0, attempts = 0;
    for (auto const& [how, what] :
         {std::pair{calls::failure::invalid, "n = 1 to "}, std::pair{calls::failure::out_of_memory, ", memory "},
          std::pair{calls::failure::lost, ", context "}, std::pair{calls::failure::advice, ", advice "},
          std::pair{calls::failure::current, ", device "}}) {
        CAPTURE(shown(what));
        auto const all = fail_each_call(how);
        CHECK(all.attempts < 1000);
        if (how == calls::failure::invalid) CHECK(all.attempts > 1);  // some call could fail
        // A deleter that cannot make its device current leaves the memory there (R66).
        if (how != calls::failure::current) {
            CHECK(all.left.blocks == 0);
            CHECK(all.left.bytes == 0);
            left.blocks += all.left.blocks;
            left.bytes += all.left.bytes;
        } else {
            calls::leaves(all.left.blocks);
        }
        CHECK(all.left.events == 0);
        CHECK(all.left.streams == 0);
        CHECK(all.left.pools == 0);
        left.events += all.left.events;
        left.streams += all.left.streams;
        left.pools += all.left.pools;
        told += all.told;
        released += all.released;
        attempts += all.attempts;
        failed += what + std::to_string(all.attempts - 1);
    }
    auto const n = [](auto x) { return static_cast<long long>(x); };
    char deleters[40] = "no tensor";
    if (e.from != nullptr) std::snprintf(deleters, sizeof deleters, "%d of %d released", released, attempts);
    std::printf(
        "injected | %-48s | %-66s | %3d told | %-19s | left: %lld blocks, %lld bytes, %lld events, %lld streams, "
        "%lld pools\n",
        e.name, failed.c_str(), told, deleters, n(left.blocks), n(left.bytes), n(left.events), n(left.streams),
        n(left.pools));
    std::fflush(stdout);
}

/// Two lanes and little pinned memory, so that starting and pinning is fast.
ferry::cuda::copier_options small_copier(bool packs = false) {
    ferry::cuda::copier_options o;
    o.lanes = 2;
    o.most_pinned = std::size_t{4} << 20;
    if (packs) o.pack = ferry::cuda::pack;
    return o;
}

/// Two streams of one capture, which is ended in any case: a failed call may have invalidated it. Its own streams,
/// since others may be captured as well.
class captured_pair {
   public:
    /// The first of them writes to `p` in the graph, which is never launched.
    explicit captured_pair(void* p) {
        must(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
        if (cudaStreamBeginCapture(a.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess &&
            cudaMemsetAsync(p, 0, 4, a.get()) == cudaSuccess && cudaEventRecord(fork_, a.get()) == cudaSuccess &&
            cudaStreamWaitEvent(b.get(), fork_, 0) == cudaSuccess && cudaMemsetAsync(p, 0, 4, a.get()) == cudaSuccess)
            return;
        end();
        throw std::runtime_error{"no capture"};
    }
    captured_pair(captured_pair const&) = delete;
    captured_pair& operator=(captured_pair const&) = delete;
    ~captured_pair() { end(); }

    test_stream const a, b;

   private:
    void end() noexcept {
        cudaGraph_t graph = nullptr;
        if (cudaStreamEndCapture(a.get(), &graph) == cudaSuccess) static_cast<void>(cudaGraphDestroy(graph));
        static_cast<void>(cudaEventDestroy(fork_));
        static_cast<void>(cudaGetLastError());
    }

    cudaEvent_t fork_ = nullptr;
};

/// Exported floats on a GPU, with an event; releases what was not imported.
struct exported_column {
    ArrowDeviceArray array{};
    ArrowSchema schema{};

    exported_column(ferry::column const& c, stream_token ready_on) {
        ferry::to_arrow_schema(c, &schema);
        try {
            ferry::to_arrow(c, &array, ferry::cuda::arrow, ready_on);
        } catch (...) {
            schema.release(&schema);
            throw;
        }
    }
    exported_column(exported_column const&) = delete;
    exported_column& operator=(exported_column const&) = delete;
    ~exported_column() {
        if (array.array.release) array.array.release(&array.array);
        if (schema.release) schema.release(&schema);
    }
};

}  // namespace

TEST_CASE("cuda: after any call fails, everything is released exactly once") {
    if (!calls::are_seen()) {
        MESSAGE("SKIPPED: calls are not counted: link libcudart shared");
        return;
    }
    test_stream const theirs, ours;
    auto const source = make_array(gpu, theirs.token(), {100}), locked = make_array(pinned, theirs.token(), {100});
    auto const large = make_array(gpu, theirs.token(), {3'000'000}),
               large_host = make_array(ferry::cpu, {}, {3'000'000});
    auto wide = large, tall = large, scattered = large;
    wide.shape = {1500, 2000}, wide.strides = {1, 1500};
    tall.shape = {2000, 100}, tall.strides = {1, 2000};
    scattered.shape = {50, 4, 1024}, scattered.strides = {10'240, 4096, 1};
    // Destinations of copies: on the device by columns, and on the host.
    auto by_columns = make_poisoned(gpu, {3'000'000}), on_host = make_poisoned(ferry::cpu, {100});
    by_columns.shape = wide.shape, by_columns.strides = wide.strides;
    auto rows_on_host = large_host, rows_pinned = make_array(pinned, theirs.token(), {3'000'000});
    rows_on_host.shape = rows_pinned.shape = wide.shape;
    ferry::buffer<ferry::cuda::device_space> const shareable_memory{std::size_t{2} << 20};
    ferry::cuda::pool const shareable_pool{0, ferry::cuda::pool::sharing::posix_fd};
    ferry::buffer<ferry::cuda::pool_space> const of_shareable_pool{
        4096, ferry::cuda::pool_space{shareable_pool, theirs.get()}};
    static_cast<void>(ferry::cuda::handle_of_pool_memory(of_shareable_pool.data()));  // exports the pool
    ferry::column_buffer const buffers[] = {{}, {source.first(), 400}};
    auto const column = ferry::make_column({.format = "f", .length = 100, .buffers = buffers}, source.memory, gpu);
    std::vector<float> const values(100, 1.0f);
    ferry::column_buffer const host_buffers[] = {{}, {values.data(), 400}};
    auto const host_column = ferry::make_column({.format = "f", .length = 100, .buffers = host_buffers}, nullptr);
    bool const two = gpus() > 1;
    ferry::device const other_gpu{ferry::device_type::cuda, 1};
    std::optional<test_stream> elsewhere;
    if (two) {
        on_device const there{1};
        elsewhere.emplace();
    }
    theirs.finish();
    auto const& s = ferry::cuda::system;
    auto const take = [](DLManagedTensorVersioned* raw) { return ferry::from_dlpack(raw); };
    auto const to_host = [&](bool packs = false) {
        return [&, packs](DLManagedTensorVersioned* raw) {
            ferry::cuda::copier copier{small_copier(packs)};
            auto const host = ferry::to_host(take(raw), copier, theirs.token());
            if (host.view().shape().size() == 1) CHECK(is_iota_on_host(host.view()));
            CHECK(copier.pinned().first == copier.pinned().second);
        };
    };
    auto const to = [&](ferry::device where, bool packs = false) {
        return [&, where, packs](DLManagedTensorVersioned* raw) {
            ferry::cuda::copier copier{small_copier(packs)};
            auto tensor = take(raw);
            auto const ready_on = tensor.device() == ferry::cpu ? ferry::already_ready : theirs.token();
            static_cast<void>(ferry::to_dlpack(std::move(tensor),
                                               {.device = where, .copy = copy_policy::always, .stream = ours.token()},
                                               copier, ready_on));
            ours.finish();
            CHECK(copier.pinned().first == copier.pinned().second);
        };
    };
    auto const to_other_gpu = [&](auto& back_end, DLManagedTensorVersioned* raw) {
        static_cast<void>(
            ferry::to_dlpack(take(raw), {.device = other_gpu, .stream = elsewhere->token()}, back_end, theirs.token()));
        elsewhere->finish();
    };
    auto const up_by_columns = [&](gpu_array const& from) {
        return [&](DLManagedTensorVersioned*) {
            ferry::cuda::copier copier{small_copier(true)};
            ferry::copy(ferry::view_of(by_columns), ferry::view_of(from), copier, ours.token());
            CHECK(copier.pinned().first == copier.pinned().second);
        };
    };
    auto const packs_by = [&](ferry::cuda::pack_function pack) {
        return [&, pack](DLManagedTensorVersioned*) {
            ferry::tensor_view const rows{by_columns.first(), wide.shape, {}, gpu};
            pack(ferry::make_copy_plan(rows, ferry::view_of(wide)), by_columns.first(), wide.first(), ours.get());
            ours.finish();
        };
    };
    std::vector<entry> entries{
        {"system: to_host", &source,
         [&](auto* raw) {
             auto const host = ferry::to_host(take(raw), s, theirs.token());
             CHECK(is_iota_on_host(host.view()));
         }},
        {"system: to_host of pinned memory", &locked,
         [&](auto* raw) {
             auto const host = ferry::to_host(take(raw), s, theirs.token());
             CHECK(is_iota_on_host(host.view()));
         }},
        {"system: a copy on a stream", &source,
         [&](auto* raw) {
             auto const got =
                 ferry::to_dlpack(take(raw), {.copy = copy_policy::always, .stream = ours.token()}, s, theirs.token());
             ours.finish();
         },
         false},
        {"system: shared in order", &source,
         [&](auto* raw) {
             static_cast<void>(ferry::to_dlpack(take(raw), {.stream = ours.token()}, s, theirs.token()));
         }},
        {"system: to pinned memory", &source,
         [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.device = pinned}, s, theirs.token())); }},
        {"system: to managed memory", &source,
         [&](auto* raw) { static_cast<void>(ferry::to_dlpack(take(raw), {.device = managed}, s, theirs.token())); }},
        {"system: from_dlpack with a copy", &source,
         [&](auto* raw) {
             static_cast<void>(ferry::from_dlpack<taken>(
                 take(raw), {.copy = copy_policy::always, .stream = ours.token()}, s, theirs.token()));
             ours.finish();
         },
         false},
        {"system: pinned memory to the device", &locked,
         [&](auto* raw) {
             static_cast<void>(ferry::to_dlpack(take(raw), {.device = gpu, .stream = ours.token()}, s, theirs.token()));
             ours.finish();
         },
         false},
        {"system: columns, by the host", &tall,
         [&](auto* raw) { static_cast<void>(ferry::to_host(take(raw), s, theirs.token())); }},
        {"copier: to_host", &source, to_host(), false},
        {"copier: to_host by lanes", &large, to_host(), false},
        {"copier: to_host, packed", &wide, to_host(true), false},
        {"copier: to_host, by the host", &tall, to_host(), false},
        {"copier: ordinary memory to the device by lanes", &large_host, to(gpu), false},
        {"copier: to pinned memory", &source, to(pinned), false},
        {"copier: to pinned memory, packed", &wide, to(pinned, true), false},
        {"copier: to pinned memory, in pieces", &scattered, to(pinned), false},
        {"copier: to managed memory", &source, to(managed), false},
        {"copier: pinned memory to the device", &locked, to(gpu), false},
        {"copier: rearranged on the device", &wide, to(gpu, true), false},
        {"copy_async", &source,
         [&](auto* raw) {
             ferry::cuda::copier copier{small_copier()};
             auto const host = ferry::cuda::copy_async(take(raw), pinned, copier, theirs.token(), ours.token()).get();
             CHECK(is_iota_on_host(host.view()));
         }},
        {"copy_async to the device", &locked,
         [&](auto* raw) {
             ferry::cuda::copier copier{small_copier()};
             auto const got = ferry::cuda::copy_async(take(raw), gpu, copier, theirs.token(), ours.token()).get();
             bool const is_right = is_iota(got.view());  // makes calls of its own, which may be the one that fails
             CHECK(is_right);
         }},
        {"copy_async to managed memory", &source,
         [&](auto* raw) {
             ferry::cuda::copier copier{small_copier()};
             auto const got = ferry::cuda::copy_async(take(raw), managed, copier, theirs.token(), ours.token()).get();
             CHECK(is_iota_on_host(got.view()));
         }},
        {"copy into a destination", nullptr,
         [&](auto*) { ferry::copy(ferry::view_of(on_host), ferry::view_of(source), s, theirs.token()); }},
        {"copy into a destination on the device", nullptr,
         [&](auto*) {
             std::int64_t const shape[] = {50, 40}, turned[] = {1, 50};
             ferry::copy({by_columns.first(), shape, turned, gpu}, ferry::tensor_view{large.first(), shape, {}, gpu}, s,
                         theirs.token());
         }},
        {"copier: ordinary memory, unpacked", nullptr, up_by_columns(rows_on_host), false},
        {"copier: pinned memory, unpacked", nullptr, up_by_columns(rows_pinned), false},
        {"copier: ordinary memory into columns, by the host", nullptr,
         [&](auto*) {
             ferry::cuda::copier copier{small_copier()};
             ferry::copy({by_columns.first(), tall.shape, tall.strides, gpu},
                         ferry::tensor_view{large_host.first(), tall.shape}, copier, ours.token());
         },
         false},
        {"to_vector", nullptr,
         [&](auto*) {
             auto const got =
                 ferry::cuda::to_vector<thrust::host_vector<float>>(ferry::view_of(source), s, theirs.token());
             CHECK(got[99] == 100.0f);
         }},
        {"pack", nullptr, packs_by(ferry::cuda::pack)},
        {"pack_compiled", nullptr, packs_by(compiled_pack())},
        {"columns: to the device and back", nullptr,
         [&](auto*) {
             auto const there = host_column.to(gpu, s, ours.token());
             static_cast<void>(there.to(ferry::cpu, s, ours.token()));
         }},
        {"arrow: out with an event, and in on a stream", nullptr,
         [&](auto*) {
             exported_column out{column, theirs.token()};
             static_cast<void>(ferry::from_arrow(&out.array, &out.schema, ferry::cuda::arrow, ours.token()));
         }},
        {"arrow: in for the host, and to it", nullptr,
         [&](auto*) {
             exported_column out{column, theirs.token()};
             auto const c = ferry::from_arrow(&out.array, &out.schema, ferry::cuda::arrow);
             static_cast<void>(c.to(ferry::cpu, s, ours.token()));
         }},
        {"ipc: share, and attach in the same session", &source,
         [&](auto* raw) {
             ferry::cuda::shareable b{s};
             ferry::ipc::session session;
             auto const shared = ferry::ipc::share(take(raw), {.session = &session, .ready_on = theirs.token()}, b);
             static_cast<void>(
                 ferry::ipc::attach(shared.descriptor(), {.session = &session, .stream = ours.token()}, b));
         },
         false, shareable_memory.data()},
        {"ipc: share by a copy", &source,
         [&](auto* raw) {
             ferry::cuda::shareable b{s};
             ferry::ipc::session session;
             static_cast<void>(ferry::ipc::share(take(raw), {.session = &session, .ready_on = theirs.token()}, b));
         },
         false},
        {"ipc: the handle of an allocation", nullptr,
         [&](auto*) {
             static_cast<void>(ferry::cuda::handle_of_allocation(ferry::cuda::allocation_of(shareable_memory.data())));
         },
         false},
        {"ipc: the handle of memory of a pool", nullptr,
         [&](auto*) { static_cast<void>(ferry::cuda::handle_of_pool_memory(of_shareable_pool.data())); }, false},
        {"ipc: an event", nullptr,
         [&](auto*) {
             ferry::cuda::ipc_event e{0};
             e.record(theirs.get());
             static_cast<void>(e.handle());
             e.enqueue_wait(ours.get());
             e.wait();
         }},
        {"release_after", &source,
         [&](auto* raw) {
             ferry::cuda::reaper reaper;
             auto tensor = take(raw);
             ferry::cuda::release_after(ours.token(), reaper, std::move(tensor));
             ours.finish();
             auto const dropped = reaper.poll();
             CHECK(dropped == 1);
         }},
        {"copy_batch on a stream, which waits", nullptr,
         [&](auto*) {
             ferry::cuda::memory const to_here{pinned, 400, {}};
             ferry::cuda::piece const only[] = {{to_here.data(), source.first(), 400}};
             ferry::cuda::copy_batch(only, ours.token());
             ferry::cuda::wait(ours.token());
         }},
        {"copy_batch on the legacy stream", nullptr,
         [&](auto*) {
             ferry::cuda::piece const only[] = {{locked.first(), source.first(), 400}};
             ferry::cuda::copy_batch(only, stream_token::cuda_legacy_default());
             must(cudaStreamSynchronize(cudaStreamLegacy));
         }},
        {"pack_pieces", nullptr,
         [&](auto*) {
             ferry::cuda::piece const only[] = {{locked.first(), source.first(), 400}};
             ferry::cuda::pack_pieces(only, ours.get());
             ours.finish();
         }},
        {"order", nullptr, [&](auto*) { ferry::cuda::order(theirs.token(), ours.token()); }},
        {"order, inside a capture", nullptr,
         [&](auto*) {
             captured_pair const both{by_columns.first()};
             ferry::cuda::order(both.a.token(), both.b.token());
             ferry::cuda::order(both.b.token(), both.a.token());
         }},
        {"wait", nullptr, [&](auto*) { ferry::cuda::wait(theirs.token()); }},
        {"memory on a stream", nullptr, [&](auto*) { ferry::cuda::memory const m(gpu, 4096, ours.token()); }},
        {"memory without a stream", nullptr, [&](auto*) { ferry::cuda::memory const m(gpu, 4096, {}); }},
        {"memory, pinned", nullptr, [&](auto*) { ferry::cuda::memory const m(pinned, 4096, {}); }},
        {"memory, managed", nullptr, [&](auto*) { ferry::cuda::memory const m(managed, 4096, {}); }},
        {"device_space", nullptr, [&](auto*) { ferry::buffer<ferry::cuda::device_space> const b{4096}; }},
        {"pinned_pool", nullptr,
         [&](auto*) {
             ferry::cuda::pinned_pool const pool;
             {
                 ferry::buffer<ferry::cuda::pinned_pool> const b{4096, pool};
             }
             ferry::buffer<ferry::cuda::pinned_pool> const again{4096, pool};
         }},
        {"pool_space", nullptr,
         [&](auto*) {
             ferry::buffer<ferry::cuda::pool_space> const b{4096,
                                                            ferry::cuda::pool_space{ferry::cuda::pool{}, ours.get()}};
         }},
        {"device_of_pointer", nullptr,
         [&](auto*) { static_cast<void>(ferry::cuda::device_of_pointer(source.first())); }},
        {"event", nullptr,
         [&](auto*) {
             ferry::cuda::event e;
             e.record(ours.get());
             e.wait();
         }},
    };
    if (two) {
        entries.push_back(
            {"system: a copy between two GPUs", &source, [&](auto* raw) { to_other_gpu(s, raw); }, false});
        entries.push_back({"copier: a copy between two GPUs", &source,
                           [&](auto* raw) {
                               ferry::cuda::copier copier{small_copier()};
                               to_other_gpu(copier, raw);
                           },
                           false});
    } else {
        std::printf("injected | a copy between two GPUs: SKIPPED: there is one\n");
    }
    for (auto const& e : entries)
        fails_well(e, [&] {
            // Resources whose return failed.
            must(cudaSetDevice(0));
            auto mode = cudaStreamCaptureModeGlobal;
            must(cudaThreadExchangeStreamCaptureMode(&mode));
            theirs.finish(), ours.finish();
            if (elsewhere) elsewhere->finish();
        });
}
