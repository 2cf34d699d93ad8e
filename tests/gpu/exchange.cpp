// Complete exchanges of CUDA memory: shared, with another device type, copied; the rows of the shared suites that need
// a device.
#include <gpu/world.hpp>

#include <atomic>
#include <vector>

namespace {

using namespace support;
using ferry::copy_policy;
using ferry::device;
using ferry::errc;
using ferry::request;
using ferry::stream_token;

/// An array that is ready at an event, before the later work of its stream.
struct ahead {
    gpu_array array;
    cudaEvent_t ready;
};

}  // namespace

template <>
struct ferry::array_traits<ahead> {
    static tensor_view view(ahead const& a) { return array_traits<gpu_array>::view(a.array); }
    static ahead share(ahead const& a) { return a; }
    static cuda::event_ref ready_on(ahead const& a) { return cuda::event_ref{a.ready}; }
};

namespace {

/// An array that its stream writes after `first` opens; the stream's later work waits for `next`.
struct prefetched {
    explicit prefetched(ferry::device where) : memory{make_poisoned(where, {1000})} {}
    [[nodiscard]] ahead array() const { return {memory, ready.get()}; }

    gpu_array memory;
    test_stream stream;
    ferry::cuda::event ready;
    gate first{(load_kernels(), stream.get())};
    bool const is_queued = [this] {
        iota(memory.first(), memory.size(), stream.get());
        ready.record(stream.get());
        return true;
    }();
    gate next{stream.get()};
};

}  // namespace

TEST_CASE("cuda R43: an export waits for the event of the array, and not for later work on its stream") {
    for (auto const where : cuda_memory)
        for (auto const policy : {copy_policy::if_needed, copy_policy::always}) {
            if (where == pinned && policy == copy_policy::always) continue;  // the host copies
            test_stream const ours;
            prefetched work{where};
            auto const got =
                ferry::to_dlpack(work.array(), {.copy = policy, .stream = ours.token()}, ferry::cuda::system);
            CHECK_GATED(!work.first.is_open());
            work.first.open();
            ours.finish();
            CHECK_GATED(!work.next.is_open());
            work.next.open();  // the release of managed memory synchronises the device
            CHECK(is_iota(got.view()));
        }
}

TEST_CASE("cuda R48: the host waits for the event of an array that is copied to the CPU; a null event is refused") {
    prefetched work{gpu};
    {
        opener const later{work.first};
        auto const here = ferry::to_host(work.array(), ferry::cuda::system);
        CHECK(is_iota_on_host(here.view()));
    }
    CHECK_GATED(!work.next.is_open());
    work.next.open();
    fails(errc::argument, [&] { (void)ferry::to_dlpack(ahead{work.memory, nullptr}, {}, ferry::cuda::system); },
          {"the cudaEvent_t is null"});
}

TEST_CASE("cuda R53: shares in place, copies on request and sets is_copied") {
    test_stream const theirs, ours;
    for (auto const where : cuda_memory) {
        CAPTURE(ferry::name(where.type));
        auto const array = make_array(where, theirs.token(), {3, 4});
        auto const shared = ferry::to_dlpack(array, {.stream = ours.token()}, ferry::cuda::system);
        CHECK(shared.view().data() == array.first());
        CHECK(!shared.is_copied());
        auto const copied =
            ferry::to_dlpack(array, {.copy = copy_policy::always, .stream = ours.token()}, ferry::cuda::system);
        CHECK(copied.view().data() != array.first());
        CHECK(copied.is_copied());
        CHECK(ferry::cuda::device_of_pointer(copied.view().data()).type == where.type);
        ours.finish();
        CHECK(is_iota(copied.view()));
        auto const imported =
            ferry::from_dlpack<taken>(ferry::to_dlpack(array, {.stream = ours.token()}, ferry::cuda::system),
                                      {.stream = ours.token()}, ferry::cuda::system, ours.token());
        CHECK(imported.tensor.view().data() == array.first());
    }
}

TEST_CASE("cuda R39, R53: pinned and managed memory is exchanged as other device types without a copy") {
    test_stream const theirs, ours;
    struct row {
        device from, to;
        bool is_shared;
    };
    for (auto const& [from, to, is_shared] :
         {row{pinned, ferry::cpu, true}, row{managed, ferry::cpu, true}, row{managed, gpu, true},
          row{gpu, ferry::cpu, false}, row{pinned, gpu, false}, row{gpu, pinned, false}, row{gpu, managed, false},
          row{managed, pinned, false}, row{pinned, managed, false}}) {
        CAPTURE(ferry::name(from.type));
        CAPTURE(ferry::name(to.type));
        auto const array = make_array(from, theirs.token(), {5, 6});
        stream_token const on = to == ferry::cpu ? stream_token{} : ours.token();
        auto const got = ferry::to_dlpack(array, {.device = to, .stream = on}, ferry::cuda::system);
        CHECK(got.device() == to);
        CHECK((got.view().data() == array.first()) == is_shared);
        CHECK(got.is_copied() == !is_shared);
        if (to == ferry::cpu) {
            CHECK(is_iota_on_host(got.view()));
        } else {
            ours.finish();
            CHECK(is_iota(got.view()));
        }
        auto const never = [&] {
            return ferry::to_dlpack(array, {.device = to, .copy = copy_policy::never, .stream = on},
                                    ferry::cuda::system);
        };
        if (is_shared) {
            auto const same = never();
            CHECK(same.view().data() == array.first());
        } else {
            fails(errc::copy_needed, [&] { static_cast<void>(never()); });
        }
    }
}

TEST_CASE("cuda: copies from the host to every kind of memory and back") {
    test_stream const ours;
    auto const array = make_array(ferry::cpu, {}, {7, 11});
    for (auto const to : cuda_memory)
        for (auto const on :
             {ours.token(), stream_token{}, stream_token::no_sync(), stream_token::cuda_per_thread_default()}) {
            CAPTURE(ferry::name(to.type));
            auto got = ferry::from_dlpack<taken>(array, {.device = to, .stream = on}, ferry::cuda::system);
            CHECK(got.tensor.is_copied());
            auto const back = ferry::to_host(std::move(got.tensor), ferry::cuda::system,
                                             on.names_stream() ? on : stream_token::cuda_legacy_default());
            CHECK(is_iota_on_host(back.view()));
        }
}

TEST_CASE("cuda R26: empty tensors are exchanged without a CUDA call that could fail") {
    test_stream const theirs;
    for (auto const where : cuda_memory) {
        auto const array = make_poisoned(where, {0, 4}, theirs.token());
        auto const host = ferry::to_host(array, ferry::cuda::system);
        CHECK(host.view().is_empty());
        CHECK(host.view().data() == nullptr);
    }
    CHECK(left_no_error());
}

TEST_CASE("cuda R50: a queued copy keeps its source alive") {
    test_stream const theirs, ours;
    auto result = make_poisoned(gpu, {1000});
    auto array = make_poisoned(gpu, {1000}, theirs.token());
    load_kernels();
    gate closed{theirs.get()};
    iota(array.first(), 1000, theirs.get());
    auto const got =
        ferry::to_dlpack(std::move(array), {.copy = copy_policy::always, .stream = ours.token()}, ferry::cuda::system);
    array.memory.reset();
    auto other = ferry::cuda::memory{gpu, 4000, ours.token()};  // would get the source's place, were it free
    CHECK_GATED(!closed.is_open());
    closed.open();
    ours.finish();
    CHECK(is_iota(got.view()));
    static_cast<void>(result);
}

TEST_CASE("cuda: results are allocated from the caller's space") {
    test_stream const theirs;
    auto const array = make_array(gpu, theirs.token(), {1000});
    ferry::cuda::pinned_pool const slots;
    {
        auto const host = ferry::to_dlpack(array, {.device = pinned}, ferry::destination{slots, ferry::cuda::system});
        CHECK(ferry::cuda::device_of_pointer(host.view().data()).type == ferry::device_type::cuda_host);
        CHECK(is_iota_on_host(host.view()));
    }
    CHECK(slots.kept() == 4096);
    auto const on_pool = ferry::to_dlpack(
        array, {.copy = copy_policy::always, .stream = theirs.token()},
        ferry::destination{ferry::cuda::pool_space{ferry::cuda::pool{}, theirs.get()}, ferry::cuda::system});
    theirs.finish();
    CHECK(is_iota(on_pool.view()));
}

TEST_CASE("cuda: many exchanges on many threads leave nothing allocated") {
    auto const before = pool_bytes_used();
    std::atomic<int> wrong = 0, done = 0;
    {
        std::vector<std::thread> threads;
        for (int t = 0; t < 8; ++t)
            threads.emplace_back([&, t] {
                try {
                    test_stream const theirs, ours;
                    for (int i = 0; i < 200; ++i) {
                        auto const where = cuda_memory[(t + i) % 3];
                        auto const array = make_array(where, theirs.token(), {1 + i % 7, 64});
                        auto shared = ferry::to_dlpack(array, {.stream = ours.token()}, ferry::cuda::system);
                        auto copied =
                            ferry::to_dlpack(std::move(shared), {.copy = copy_policy::always, .stream = theirs.token()},
                                             ferry::cuda::system, ours.token());
                        auto const host = ferry::to_host(std::move(copied), ferry::cuda::system, theirs.token());
                        if (!is_iota_on_host(host.view())) ++wrong;
                        ours.finish();
                        ++done;
                    }
                } catch (...) {
                    ++wrong;
                }
            });
        for (auto& t : threads) t.join();
    }
    CHECK(wrong == 0);
    CHECK(done == 1600);
    CHECK(pool_bytes_used() == before);
    CHECK(left_no_error());
}
