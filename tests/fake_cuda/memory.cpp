// Memory of every kind, and pools; detects memory that is reused too early.
#include <fake_cuda/arena.hpp>
#include <fake_cuda/state.hpp>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace fake {
namespace {

constexpr std::size_t most_poisoned = std::size_t{1} << 20;  // of a block: the rest of its pages goes

constexpr std::size_t round_up(std::size_t n, std::size_t to) { return (n + to - 1) / to * to; }

/// Memory that other processes can open.
void enter(block const& b) {
    if (b.type == cudaMemoryTypeDevice)
        arena::one().book().blocks[arena::one().offset_of(b.begin) / arena::alignment] = b.id;
}
/// Ends that; a pool may have reused the memory.
void strike_out(block const& b) {
    if (b.type != cudaMemoryTypeDevice) return;
    std::uint64_t here = b.id;
    arena::one().book().blocks[arena::one().offset_of(b.begin) / arena::alignment].compare_exchange_strong(here, 0);
}

cudaError_t allocate(void** out, std::size_t n, cudaMemoryType type) {
    std::lock_guard const lock{all().mutex};
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return e;
    *out = nullptr;
    if (n == 0) return cudaSuccess;
    if (n > arena::bytes) return cudaErrorMemoryAllocation;
    auto const p = type == cudaMemoryTypeDevice
                       ? arena::one().take(n)
                       : reinterpret_cast<std::uintptr_t>(std::aligned_alloc(4096, round_up(n, 4096)));
    if (p == 0) return cudaErrorMemoryAllocation;
    enter(*add(p, n, type, mine().device));
    *out = reinterpret_cast<void*>(p);
    return cudaSuccess;
}

/// The block that begins here; null, after a fault, when there is none of this kind.
template <class Is>
std::shared_ptr<block> take_out(void* p, char const* call, Is is) {
    auto const at = all().blocks.find(reinterpret_cast<std::uintptr_t>(p));
    if (at == all().blocks.end() || !is(*at->second)) {
        fault(std::string{call} + " of memory that is not its own, or freed before");
        return nullptr;
    }
    auto const found = at->second;
    all().blocks.erase(at);
    return found;
}

/// Waits for the device, as CUDA does; ferry relies on it (gpu/spaces.cpp).
cudaError_t release(void* p, char const* call, bool is_host) {
    if (p == nullptr) return cudaSuccess;
    std::unique_lock lock{all().mutex};
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return e;
    auto const old = take_out(p, call, [&](block const& b) {
        return (b.from == nullptr) != b.is_imported() && !b.is_registered && (b.type == cudaMemoryTypeHost) == is_host;
    });
    if (old == nullptr) return cudaErrorInvalidValue;
    for (int id = 0; id < devices; ++id) finish_device(lock, id);
    old->now = block::is::freed;
    if (old->is_imported()) return old->window->close(), cudaSuccess;
    strike_out(*old);
    if (old->type == cudaMemoryTypeDevice) {
        arena::one().give_back(old->begin, old->bytes);
    } else {
        poison(static_cast<std::byte*>(p), old->bytes);
        std::free(p);
    }
    return cudaSuccess;
}

cudaMemPool_t handle(std::shared_ptr<pool> const& p) { return reinterpret_cast<cudaMemPool_t>(p.get()); }

/// Free memory, or memory that is free in the order of this stream; else new memory.
std::uintptr_t lend(pool& from, std::shared_ptr<stream> const& s, std::size_t n) {
    for (auto rest = from.rests.begin(); rest != from.rests.end(); ++rest) {
        bool const fits = round_up(rest->memory->bytes, arena::alignment) == round_up(n, arena::alignment);
        if (!fits || (rest->memory->now != block::is::freed && rest->behind != s)) continue;
        auto const p = rest->memory->begin;
        from.rests.erase(rest);
        return p;
    }
    return arena::one().take(n);
}

cudaError_t allocate_from(void** out, std::size_t n, std::shared_ptr<pool> const& from, cudaStream_t on) {
    auto const s = find(on);
    if (s == nullptr || from == nullptr) return cudaErrorInvalidValue;
    auto const p = n == 0 || n > arena::bytes ? 0 : lend(*from, s, n);
    if (p == 0) return cudaErrorMemoryAllocation;
    auto const made = add(p, n, cudaMemoryTypeDevice, from->device);
    made->from = from;
    made->now = block::is::promised;
    enter(*made);
    from->used += n;
    auto const queued = push(s, [made] {
        std::lock_guard const lock{all().mutex};
        if (made->now == block::is::promised) made->now = block::is::alive;
    });
    *out = reinterpret_cast<void*>(p);
    return queued;
}

/// The memory of a destroyed pool is freed, too.
void settle(pool& p) {
    if (!p.is_gone) return;
    std::erase_if(p.rests, [](auto const& rest) {
        if (rest.memory->now != block::is::freed) return false;
        arena::one().give_back(rest.memory->begin, rest.memory->bytes);
        return true;
    });
}

cudaError_t free_behind(void* p, cudaStream_t on) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(on);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    auto const old = take_out(p, "cudaFreeAsync", [](block const& b) { return b.from != nullptr; });
    if (old == nullptr) return cudaErrorInvalidValue;
    old->from->rests.push_back({old, s});
    return push(s, [old] {
        poison(arena::one().hosts(reinterpret_cast<void*>(old->begin)), old->bytes);
        std::lock_guard const inner{all().mutex};
        strike_out(*old);
        old->now = block::is::freed;
        old->from->used -= old->bytes;
        settle(*old->from);
    });
}

/// Whether calls of the device may access the memory: pool memory needs access for each device.
bool is_open_to(int device, place const& p) {
    if (p.of == nullptr || p.of->device == device || p.of->from == nullptr) return true;
    return (p.of->from->open_to >> device & 1) != 0;
}

/// Queues a copy or other work on this memory.
template <class Run>
cudaError_t queue_touch(cudaStream_t on, std::initializer_list<place> places, bool is_judged, Run run) {
    auto const s = find(on);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    for (auto const& p : places)
        if (is_judged && !is_open_to(mine().device, p)) return cudaErrorInvalidValue;
    return push(s, std::move(run));
}

void copy_bytes(place const& to, place const& from) {
    auto* const d = open(to);
    auto const* const f = open(from);
    if (d != nullptr && f != nullptr) std::memcpy(d, f, to.bytes);
}

cudaError_t copy(void* to, void const* from, std::size_t n, cudaStream_t on, bool is_judged = true) {
    std::lock_guard const lock{all().mutex};
    if (n == 0) return find(on) != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
    place const d = place_of(to, n), f = place_of(from, n);
    return queue_touch(on, {d, f}, is_judged, [d, f] { copy_bytes(d, f); });
}

/// Slices of rows.
struct box {
    place to, from;
    std::size_t width, rows, slices, to_pitch, from_pitch, to_slice, from_slice;

    box(cudaPitchedPtr const& d, cudaPitchedPtr const& f, cudaExtent const& e)
        : width{e.width},
          rows{e.height},
          slices{e.depth},
          to_pitch{d.pitch},
          from_pitch{f.pitch},
          to_slice{d.pitch * d.ysize},
          from_slice{f.pitch * f.ysize} {
        auto const reach = [&](std::size_t slice, std::size_t pitch) {
            return (slices - 1) * slice + (rows - 1) * pitch + width;
        };
        to = place_of(d.ptr, reach(to_slice, to_pitch));
        from = place_of(f.ptr, reach(from_slice, from_pitch));
    }
    void operator()() const {
        auto* const d = open(to);
        auto const* const f = open(from);
        if (d == nullptr || f == nullptr) return;
        for (std::size_t k = 0; k < slices; ++k)
            for (std::size_t i = 0; i < rows; ++i)
                std::memcpy(d + k * to_slice + i * to_pitch, f + k * from_slice + i * from_pitch, width);
    }
};

cudaError_t copy_box(cudaPitchedPtr const& d, cudaPitchedPtr const& f, cudaExtent const& e, cudaStream_t on,
                     bool is_judged) {
    if (e.width > d.pitch || e.width > f.pitch) return cudaErrorInvalidPitchValue;
    constexpr std::size_t most_pitch = (std::size_t{1} << 31) - 1;
    if (d.pitch > most_pitch || f.pitch > most_pitch) return cudaErrorInvalidPitchValue;
    if (e.width == 0 || e.height == 0 || e.depth == 0) return cudaSuccess;
    std::lock_guard const lock{all().mutex};
    box const b{d, f, e};
    return queue_touch(on, {b.to, b.from}, is_judged, b);
}

cudaError_t set(void* p, int value, std::size_t n, cudaStream_t on) {
    std::lock_guard const lock{all().mutex};
    place const to = place_of(p, n);
    return queue_touch(on, {to}, true, [to, value] {
        if (auto* const d = open(to)) std::memset(d, value, to.bytes);
    });
}

}  // namespace

std::shared_ptr<block> add(std::uintptr_t p, std::size_t n, cudaMemoryType type, int device) {
    auto made = std::make_shared<block>();
    made->begin = p;
    made->bytes = n;
    made->id = ++all().last_id;
    made->type = type;
    made->device = device;
    all().blocks.emplace(p, made);
    return made;
}

std::shared_ptr<pool> find_pool(cudaMemPool_t p) {
    auto const at = all().pools.find(p);
    if (at != all().pools.end()) return at->second;
    fault("a pool is used that is unknown, or destroyed");
    return nullptr;
}

bool has_leave(block const& b, int device) {
    if (b.from != nullptr) return (b.from->open_to >> device & 1) != 0;
    return b.is_for_peers() || b.device == device;
}

void poison(std::byte* p, std::size_t n) { std::memset(p, 0xDD, std::min(n, most_poisoned)); }

arena::arena() {
    file_ = memfd_create("device memory", MFD_CLOEXEC);
    bool const sized = file_ >= 0 && ftruncate(file_, bytes + sizeof(ledger)) == 0;
    auto const map = [&](std::size_t n, int how, std::size_t from) {
        return sized ? mmap(nullptr, n, how, MAP_SHARED | MAP_NORESERVE, file_, static_cast<off_t>(from)) : MAP_FAILED;
    };
    void* const open = map(bytes, PROT_READ | PROT_WRITE, 0);
    void* const closed = map(bytes, PROT_NONE, 0);
    void* const book = map(sizeof(ledger), PROT_READ | PROT_WRITE, bytes);
    if (open == MAP_FAILED || closed == MAP_FAILED || book == MAP_FAILED) {
        std::perror("the fake of CUDA: no addresses for device memory");
        std::abort();
    }
    book_ = static_cast<ledger*>(book);
    open_ = static_cast<std::byte*>(open);
    closed_ = static_cast<std::byte*>(closed);
    free_.emplace(reinterpret_cast<std::uintptr_t>(closed_), bytes);
}
arena& arena::one() {
    static auto* const made = new arena;
    return *made;
}
std::uintptr_t arena::take(std::size_t n) {
    n = round_up(n, alignment);
    for (auto at = free_.begin(); at != free_.end(); ++at) {
        if (at->second < n) continue;
        auto const [p, size] = *at;
        free_.erase(at);
        if (size > n) free_.emplace(p + n, size - n);
        return p;
    }
    return 0;
}
void arena::give_back(std::uintptr_t p, std::size_t n) {
    auto* const here = hosts(reinterpret_cast<void*>(p));
    poison(here, n);
    if (n > most_poisoned) {
        constexpr std::size_t page = 4096;
        auto const begin = round_up(reinterpret_cast<std::uintptr_t>(here) + most_poisoned, page);
        auto const last = (reinterpret_cast<std::uintptr_t>(here) + n) / page * page;
        if (last > begin) madvise(reinterpret_cast<void*>(begin), last - begin, MADV_REMOVE);
    }
    auto const at = free_.emplace(p, round_up(n, alignment)).first;
    if (auto const next = std::next(at); next != free_.end() && at->first + at->second == next->first) {
        at->second += next->second;
        free_.erase(next);
    }
    if (at == free_.begin()) return;
    if (auto const before = std::prev(at); before->first + before->second == at->first) {
        before->second += at->second;
        free_.erase(at);
    }
}
std::byte* arena::hosts(void const* p) const {
    auto* const there = static_cast<std::byte*>(const_cast<void*>(p));
    auto const offset = reinterpret_cast<std::uintptr_t>(there) - reinterpret_cast<std::uintptr_t>(closed_);
    return offset < bytes ? open_ + offset : there;
}

std::shared_ptr<block> block_of(void const* p) {
    auto const address = reinterpret_cast<std::uintptr_t>(p);
    auto at = all().blocks.upper_bound(address);
    if (at == all().blocks.begin()) return nullptr;
    --at;
    return address - at->first < at->second->bytes ? at->second : nullptr;
}

place place_of(void const* p, std::size_t bytes) { return {p, bytes, block_of(p)}; }

std::byte* open(place const& p) {
    auto* const here = p.of != nullptr && p.of->is_imported()
                           ? p.of->window->here + (reinterpret_cast<std::uintptr_t>(p.p) - p.of->begin)
                           : arena::one().hosts(p.p);
    if (p.of == nullptr) {
        if (here == p.p) return here;  // ordinary memory
        fault("queued work touches unallocated device memory");
        return nullptr;
    }
    std::lock_guard const lock{all().mutex};
    auto const offset = reinterpret_cast<std::uintptr_t>(p.p) - p.of->begin;
    if (offset > p.of->bytes || p.bytes > p.of->bytes - offset) fault("queued work runs over the end of its memory");
    else if (p.of->now == block::is::freed) fault("queued work touches memory that was freed");
    else if (p.of->now == block::is::promised) fault("queued work touches memory before its stream got to it");
    else return here;
    return nullptr;
}

cudaError_t queue(cudaStream_t on, void* to, void const* from, std::size_t bytes,
                  std::function<void(std::byte*, std::byte const*)> run) {
    std::lock_guard const lock{all().mutex};
    auto const s = find(on);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    return push(
        s, [d = place_of(to, bytes), f = from == nullptr ? place{} : place_of(from, bytes), work = std::move(run)] {
            auto* const there = open(d);
            auto const* const here = f.p == nullptr ? nullptr : open(f);
            if (there != nullptr && (f.p == nullptr || here != nullptr)) work(there, here);
        });
}

}  // namespace fake

using namespace fake;

extern "C" {

cudaError_t CUDARTAPI cudaMalloc(void** p, std::size_t n) { return say(allocate(p, n, cudaMemoryTypeDevice)); }
cudaError_t CUDARTAPI cudaHostAlloc(void** p, std::size_t n, unsigned) {
    return say(allocate(p, n, cudaMemoryTypeHost));
}
cudaError_t CUDARTAPI cudaMallocHost(void** p, std::size_t n) { return say(allocate(p, n, cudaMemoryTypeHost)); }
cudaError_t CUDARTAPI cudaMallocManaged(void** p, std::size_t n, unsigned) {
    return say(allocate(p, n, cudaMemoryTypeManaged));
}
cudaError_t CUDARTAPI cudaFree(void* p) { return say(release(p, "cudaFree", false)); }
cudaError_t CUDARTAPI cudaFreeHost(void* p) { return say(release(p, "cudaFreeHost", true)); }
cudaError_t CUDARTAPI cudaHostRegister(void* p, std::size_t n, unsigned) {
    std::lock_guard const lock{all().mutex};
    if (block_of(p) != nullptr) return say(cudaErrorHostMemoryAlreadyRegistered);
    add(reinterpret_cast<std::uintptr_t>(p), n, cudaMemoryTypeHost, mine().device)->is_registered = true;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaHostUnregister(void* p) {
    std::lock_guard const lock{all().mutex};
    auto const old = take_out(p, "cudaHostUnregister", [](block const& b) { return b.is_registered; });
    if (old != nullptr) old->now = block::is::freed;
    return say(old != nullptr ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t CUDARTAPI cudaMemPoolCreate(cudaMemPool_t* out, cudaMemPoolProps const* props) {
    std::lock_guard const lock{all().mutex};
    int const id = props->location.id;
    if (id < 0 || id >= devices) return say(cudaErrorInvalidValue);
    auto made = std::make_shared<pool>();
    made->device = id;
    made->handle_types = props->handleTypes;
    made->open_to = 1u << id;
    *out = handle(made);
    all().pools.emplace(*out, std::move(made));
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaMemPoolDestroy(cudaMemPool_t which) {
    std::lock_guard const lock{all().mutex};
    auto const p = find_pool(which);
    if (p == nullptr) return say(cudaErrorInvalidValue);
    p->is_gone = true;
    settle(*p);
    if (all().current_pool[p->device] == p) all().current_pool[p->device] = all().default_pool[p->device];
    all().pools.erase(which);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return say(cudaSuccess); }
cudaError_t CUDARTAPI cudaMemPoolGetAttribute(cudaMemPool_t which, cudaMemPoolAttr what, void* value) {
    std::lock_guard const lock{all().mutex};
    auto const p = find_pool(which);
    if (p == nullptr || what != cudaMemPoolAttrUsedMemCurrent) return say(cudaErrorInvalidValue);
    *static_cast<std::uint64_t*>(value) = p->used;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaDeviceGetMemPool(cudaMemPool_t* out, int id) {
    std::lock_guard const lock{all().mutex};
    if (id < 0 || id >= devices) return say(cudaErrorInvalidValue);
    *out = handle(all().current_pool[id]);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaDeviceGetDefaultMemPool(cudaMemPool_t* out, int id) {
    std::lock_guard const lock{all().mutex};
    if (id < 0 || id >= devices) return say(cudaErrorInvalidValue);
    *out = handle(all().default_pool[id]);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaDeviceSetMemPool(int id, cudaMemPool_t which) {
    std::lock_guard const lock{all().mutex};
    auto const p = find_pool(which);
    if (p == nullptr || p->device != id) return say(cudaErrorInvalidValue);
    all().current_pool[id] = p;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaMemPoolGetAccess(cudaMemAccessFlags* now, cudaMemPool_t which, cudaMemLocation* where) {
    std::lock_guard const lock{all().mutex};
    auto const p = find_pool(which);
    if (p == nullptr) return say(cudaErrorInvalidValue);
    *now = (p->open_to >> where->id & 1) != 0 ? cudaMemAccessFlagsProtReadWrite : cudaMemAccessFlagsProtNone;
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaMemPoolSetAccess(cudaMemPool_t which, cudaMemAccessDesc const* leaves, std::size_t n) {
    std::lock_guard const lock{all().mutex};
    auto const p = find_pool(which);
    if (p == nullptr) return say(cudaErrorInvalidValue);
    for (std::size_t i = 0; i < n; ++i) {
        auto const bit = 1u << leaves[i].location.id;
        p->open_to = leaves[i].flags == cudaMemAccessFlagsProtNone ? p->open_to & ~bit : p->open_to | bit;
    }
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaMallocFromPoolAsync(void** p, std::size_t n, cudaMemPool_t from, cudaStream_t on) {
    std::lock_guard const lock{all().mutex};
    return say(allocate_from(p, n, find_pool(from), on));
}
cudaError_t CUDARTAPI cudaMallocAsync(void** p, std::size_t n, cudaStream_t on) {
    std::lock_guard const lock{all().mutex};
    return say(allocate_from(p, n, all().current_pool[mine().device], on));
}
cudaError_t CUDARTAPI cudaFreeAsync(void* p, cudaStream_t on) { return say(free_behind(p, on)); }
cudaError_t CUDARTAPI cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    std::lock_guard const lock{all().mutex};
    *free = *total = arena::bytes;
    for (auto const& [begin, b] : all().blocks)
        if (b->type == cudaMemoryTypeDevice && !b->is_imported()) *free -= b->bytes;
    return say(cudaSuccess);
}

/// No byte has been read or written when a copy returns, also of pageable memory: CUDA does not promise more.
cudaError_t CUDARTAPI cudaMemcpyAsync(void* d, void const* f, std::size_t n, cudaMemcpyKind, cudaStream_t on) {
    return say(copy(d, f, n, on));
}
cudaError_t CUDARTAPI cudaMemcpyPeerAsync(void* d, int, void const* f, int, std::size_t n, cudaStream_t on) {
    return say(copy(d, f, n, on, false));
}
cudaError_t CUDARTAPI cudaMemcpy2DAsync(void* d, std::size_t d_pitch, void const* f, std::size_t f_pitch,
                                        std::size_t width, std::size_t rows, cudaMemcpyKind, cudaStream_t on) {
    return say(
        copy_box({d, d_pitch, width, rows}, {const_cast<void*>(f), f_pitch, width, rows}, {width, rows, 1}, on, true));
}
cudaError_t CUDARTAPI cudaMemcpy3DAsync(cudaMemcpy3DParms const* p, cudaStream_t on) {
    return say(copy_box(p->dstPtr, p->srcPtr, p->extent, on, true));
}
cudaError_t CUDARTAPI cudaMemcpy3DPeerAsync(cudaMemcpy3DPeerParms const* p, cudaStream_t on) {
    return say(copy_box(p->dstPtr, p->srcPtr, p->extent, on, false));
}
#if CUDART_VERSION >= 12080
#if CUDART_VERSION >= 13000
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void* const* d, void const* const* f, std::size_t const* n,
                                           std::size_t count, cudaMemcpyAttributes*, std::size_t*, std::size_t,
                                           cudaStream_t on) {
#else
cudaError_t CUDARTAPI cudaMemcpyBatchAsync(void** d, void** f, std::size_t* n, std::size_t count, cudaMemcpyAttributes*,
                                           std::size_t*, std::size_t, std::size_t*, cudaStream_t on) {
#endif
    if (on == cudaStreamLegacy || on == nullptr) return say(cudaErrorInvalidValue);
    std::lock_guard const lock{all().mutex};
    std::vector<std::pair<place, place>> pieces;
    for (std::size_t i = 0; i < count; ++i) {
        pieces.emplace_back(place_of(d[i], n[i]), place_of(f[i], n[i]));
        if (!is_open_to(mine().device, pieces.back().first) || !is_open_to(mine().device, pieces.back().second))
            return say(cudaErrorInvalidValue);
    }
    return say(queue_touch(on, {}, true, [all_pieces = std::move(pieces)] {
        // In an unspecified sequence: the last one first.
        for (auto p = all_pieces.rbegin(); p != all_pieces.rend(); ++p) copy_bytes(p->first, p->second);
    }));
}
#endif
cudaError_t CUDARTAPI cudaMemsetAsync(void* p, int value, std::size_t n, cudaStream_t on) {
    return say(set(p, value, n, on));
}
/// As tests use it: after the legacy default stream.
cudaError_t CUDARTAPI cudaMemcpy(void* d, void const* f, std::size_t n, cudaMemcpyKind) {
    if (auto const e = copy(d, f, n, cudaStreamLegacy); e != cudaSuccess) return say(e);
    std::unique_lock lock{all().mutex};
    finish(lock, *find(cudaStreamLegacy));
    return say(cudaSuccess);
}

}  // extern "C"
