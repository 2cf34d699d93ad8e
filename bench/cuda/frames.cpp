// What frames.py does in both of its processes, as a library: each fills and copies frames on one stream of its own,
// and ferry shares and attaches them. Everything is of the first GPU, and stays until the process ends.
#include <ferry/cuda/api.hpp>
#include <ferry/cuda/error.hpp>
#include <ferry/cuda/ipc.hpp>
#include <ferry/cuda/space.hpp>
#include <ferry/cuda/stream.hpp>
#include <ferry/ipc/attach.hpp>
#include <ferry/ipc/session.hpp>
#include <ferry/ipc/share.hpp>
#include <ferry/space/buffer.hpp>
#include <ferry/tensor/make_managed.hpp>
#include <ferry/wire/binary.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>

namespace {

namespace cuda = ferry::cuda;
namespace ipc = ferry::ipc;
using memory = ferry::buffer<cuda::device_space>;

constexpr std::size_t most_frames = 1024;

struct process {
    cuda::shareable<> back_end;
    ipc::session session;
    cuda::stream own{0};
    std::optional<memory> room;                               // what frames are copied into
    ferry::buffer<cuda::pinned_space> seen{2 * most_frames};  // the first and the last byte of each
};
process& here() {
    static auto* const made = new process;
    return *made;
}

/// A frame of the producer, in memory that it has shared once, and as often as it likes.
struct slot {
    std::shared_ptr<memory> where;
    ipc::shared kept, fresh;

    explicit slot(std::size_t bytes) : where{std::make_shared<memory>(bytes, cuda::device_space{0})} {
        kept = shared({});
    }
    [[nodiscard]] ipc::shared shared(ferry::stream_token ready_on) const {
        auto const bytes = static_cast<std::int64_t>(where->size());
        ferry::tensor_view const view{
            where->data(), ferry::dtype_of<std::uint8_t>, ferry::shape_view{&bytes, 1}, {}, where->device()};
        return ipc::share(ferry::make_managed(std::shared_ptr{where}, view),
                          {.session = &here().session, .ready_on = ready_on}, here().back_end);
    }
};
slot& slot_of(std::int64_t handle) { return *reinterpret_cast<slot*>(handle); }

void take(void const* frame, std::int64_t number) {
    auto const& p = here();
    auto const n = static_cast<std::size_t>(number);
    if (!p.room || n >= most_frames) throw std::runtime_error{"there is no room for the frame"};
    auto const bytes = p.room->size();
    auto const* const copied = static_cast<std::byte const*>(p.room->data());
    auto* const ends = static_cast<std::byte*>(p.seen.data()) + 2 * n;
    auto const copy = [on = p.own.get()](void* to, void const* from, std::size_t count) {
        cuda::check(cudaMemcpyAsync(to, from, count, cudaMemcpyDefault, on), "cudaMemcpyAsync");
    };
    copy(p.room->data(), frame, bytes);
    copy(ends, copied, 1);
    copy(ends + 1, copied + bytes - 1, 1);
}

/// What the work returns, or -1 when it failed.
template <class Work>
std::int64_t told(Work work) {
    try {
        return work();
    } catch (std::exception const& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return -1;
    }
}

}  // namespace

/// The stream of this process.
extern "C" std::int64_t bench_stream() {
    return told([] { return reinterpret_cast<std::int64_t>(here().own.get()); });
}
extern "C" std::int64_t bench_wait() {
    return told([] { return here().own.wait(), 0; });
}

/// Queues what the producer writes: one value over the whole frame.
extern "C" std::int64_t bench_fill(std::int64_t address, std::int64_t bytes, std::int64_t value) {
    return told([=] {
        cuda::check(cudaMemsetAsync(reinterpret_cast<void*>(address), static_cast<int>(value),
                                    static_cast<std::size_t>(bytes), here().own.get()),
                    "cudaMemsetAsync");
        return 0;
    });
}

/// The consumer's room, for frames of so many bytes.
extern "C" std::int64_t bench_room(std::int64_t bytes) {
    return told([=] {
        here().session.trim();  // what the last frames were in
        here().room.reset();
        here().room.emplace(static_cast<std::size_t>(bytes), cuda::device_space{0});
        return 0;
    });
}
/// Queues the copy of a frame, and of its ends to the host.
extern "C" std::int64_t bench_take(std::int64_t address, std::int64_t number) {
    return told([=] { return take(reinterpret_cast<void const*>(address), number), 0; });
}
/// Waits for the copies of so many frames; how many had not the values that begin with `first`, modulo 251.
extern "C" std::int64_t bench_wrong(std::int64_t first, std::int64_t count) {
    return told([=] {
        here().own.wait();
        auto const* const seen = static_cast<std::uint8_t const*>(here().seen.data());
        std::int64_t wrong = 0;
        for (std::int64_t i = 0; i < count; ++i)
            wrong += seen[2 * i] != (first + i) % 251 || seen[2 * i + 1] != (first + i) % 251;
        return wrong;
    });
}

/// ferry's frames: memory of the producer that is shared once and for all.
extern "C" std::int64_t bench_slot(std::int64_t bytes) {
    return told([=] { return reinterpret_cast<std::int64_t>(new slot{static_cast<std::size_t>(bytes)}); });
}
extern "C" std::int64_t bench_drop(std::int64_t handle) {
    return told([=] { return delete &slot_of(handle), 0; });
}
/// Queues a fill behind what the consumer has queued on the slot's last share, or on the one that is kept: no host
/// waits.
extern "C" std::int64_t bench_refill(std::int64_t handle, std::int64_t is_fresh, std::int64_t value) {
    return told([=] {
        auto& s = slot_of(handle);
        if (!(is_fresh != 0 ? s.fresh : s.kept).wait_for_readers(std::chrono::seconds{5}, here().own))
            throw std::runtime_error{"the consumer keeps the frame"};
        return bench_fill(reinterpret_cast<std::int64_t>(s.where->data()), static_cast<std::int64_t>(s.where->size()),
                          value);
    });
}
/// Writes the descriptor of the share that is kept, or of a new one, for which consumers wait by its event, and says
/// how long it is.
extern "C" std::int64_t bench_describe(std::int64_t handle, std::int64_t is_fresh, char* out, std::int64_t room) {
    return told([=] {
        auto& s = slot_of(handle);
        if (is_fresh != 0) s.fresh = s.shared(here().own);
        auto const text = ferry::wire::to_bytes((is_fresh != 0 ? s.fresh : s.kept).descriptor());
        if (text.size() > static_cast<std::size_t>(room)) throw std::runtime_error{"the descriptor is too long"};
        std::memcpy(out, text.data(), text.size());
        return static_cast<std::int64_t>(text.size());
    });
}
/// The consumer's side: attaches, queues the copy and drops the tensor, whose memory is marked until that is done.
extern "C" std::int64_t bench_attach(char const* text, std::int64_t length, std::int64_t number) {
    return told([=] {
        auto const from = ferry::wire::from_bytes(std::as_bytes(std::span{text, static_cast<std::size_t>(length)}));
        auto const frame = ipc::attach(from, {.session = &here().session, .stream = here().own}, here().back_end);
        return take(frame.view().data(), number), 0;
    });
}
