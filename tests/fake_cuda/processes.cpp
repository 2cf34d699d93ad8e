// Other processes: handles name a file that all device memory lies in, which stays open as long as its process lives.
#include <fake_cuda/arena.hpp>
#include <fake_cuda/state.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <thread>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace fake {
namespace {

constexpr std::uint64_t the_magic = 0x656b61662d637069;
constexpr std::size_t page = 4096;

/// The 64 bytes of a handle.
struct said {
    std::uint64_t magic = the_magic, at = 0, bytes = 0, id = 0;
    std::int32_t pid = getpid(), file = arena::one().file(), device = 0;
};
static_assert(sizeof(said) <= 64);

template <class Handle>
void put(Handle& out, said const& what) {
    out = {};
    std::memcpy(out.reserved, &what, sizeof what);
}
template <class Handle>
[[nodiscard]] said from(Handle const& handle) {
    said what;
    std::memcpy(&what, handle.reserved, sizeof what);
    return what;
}

/// The file of another process, and its ledger.
class other_process {
   public:
    explicit other_process(said const& what) {
        auto const path = "/proc/" + std::to_string(what.pid) + "/fd/" + std::to_string(what.file);
        file_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
        struct stat facts = {};
        if (file_ < 0 || fstat(file_, &facts) != 0 || facts.st_size != arena::bytes + sizeof(ledger)) return;
        void* const at = map(sizeof(ledger), arena::bytes);
        if (at != MAP_FAILED) book_ = {static_cast<ledger*>(at), [](ledger* b) { munmap(b, sizeof *b); }};
    }
    other_process(other_process const&) = delete;
    other_process& operator=(other_process const&) = delete;
    ~other_process() {
        if (file_ >= 0) ::close(file_);
    }
    [[nodiscard]] std::shared_ptr<ledger> const& book() const { return book_; }
    [[nodiscard]] void* map(std::size_t n, std::size_t begin) const {
        return mmap(nullptr, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file_, static_cast<off_t>(begin));
    }

   private:
    int file_ = -1;
    std::shared_ptr<ledger> book_;
};

[[nodiscard]] std::shared_ptr<block> imported(said const& what) {
    for (auto const& [begin, b] : all().blocks)
        if (b->is_imported() && b->window->whose == what.pid && b->window->id == what.id) return b;
    return nullptr;
}

/// A block of another process. The caller holds the mutex.
cudaError_t open_block(void** out, said const& what, int device, std::shared_ptr<pool> const& of) {
    if (what.magic != the_magic || what.at >= arena::bytes || what.bytes > arena::bytes - what.at)
        return cudaErrorInvalidValue;
    if (what.pid == getpid()) return cudaErrorDeviceUninitialized;
    other_process const other{what};
    if (other.book() == nullptr || other.book()->blocks[what.at / arena::alignment] != what.id)
        return cudaErrorMapBufferObjectFailed;
    if (auto const known = imported(what); known != nullptr) {
        if (known->from == nullptr && known->device != device) return cudaErrorAlreadyMapped;
        ++known->window->opened;
        *out = reinterpret_cast<void*>(known->begin);
        return cudaSuccess;
    }
    auto made = std::make_shared<window>();
    std::size_t const before = what.at % page;
    made->bytes = (before + what.bytes + page - 1) / page * page;
    made->pages = other.map(made->bytes, what.at - before);
    made->addresses = mmap(nullptr, made->bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made->pages == MAP_FAILED || made->addresses == MAP_FAILED) return cudaErrorMemoryAllocation;
    made->here = static_cast<std::byte*>(made->pages) + before;
    made->whose = what.pid;
    made->id = what.id;
    auto const b =
        add(reinterpret_cast<std::uintptr_t>(made->addresses) + before, what.bytes, cudaMemoryTypeDevice, device);
    b->window = std::move(made);
    b->from = of;
    *out = reinterpret_cast<void*>(b->begin);
    return cudaSuccess;
}

/// This process's ordinal of a GPU; 0 when it is not visible.
[[nodiscard]] int number_of(std::int32_t physical) {
    auto const& all_visible = visible();
    auto const at = std::find(all_visible.begin(), all_visible.end(), physical);
    return at == all_visible.end() ? 0 : static_cast<int>(at - all_visible.begin());
}
[[nodiscard]] said said_of(block const& b) {
    said what;
    what.at = arena::one().offset_of(b.begin);
    what.bytes = b.bytes;
    what.id = b.id;
    what.device = visible()[static_cast<std::size_t>(b.device)];
    return what;
}

}  // namespace

void window::close() {
    munmap(pages, bytes);
    munmap(addresses, bytes);
}

std::shared_ptr<shared_event> make_shared_event() {
    static std::size_t next = 0;
    auto& book = arena::one().book();
    for (std::size_t i = 0; i < ledger::most_events; ++i) {
        auto& e = book.events[next++ % ledger::most_events];
        if (e.id != 0 || e.reached != e.recorded) continue;
        e.id = ++all().last_id;
        return {&e, [](shared_event* last) { last->id = 0; }};
    }
    return nullptr;
}

void wait_for(shared_event const& e, std::uint64_t turn, pid_t whose) {
    while (e.reached < turn && kill(whose, 0) == 0) std::this_thread::sleep_for(std::chrono::microseconds{50});
}

std::vector<int> const& visible() {
    static std::vector<int> const found = [] {
        std::vector<int> numbers;
        char const* const text = std::getenv("CUDA_VISIBLE_DEVICES");
        for (int id = 0; text == nullptr && id < devices; ++id) numbers.push_back(id);
        for (char const* at = text; at != nullptr && *at != '\0';) {
            bool const is_uuid = std::strncmp(at, "GPU-", 4) == 0;
            auto const first =
                is_uuid ? std::strtoul(std::string{at + 4, 2}.c_str(), nullptr, 16) : std::strtoul(at, nullptr, 10) + 1;
            if (first < 1 || first > devices) break;
            numbers.push_back(static_cast<int>(first) - 1);
            at = std::strchr(at, ',');
            if (at != nullptr) ++at;
        }
        return numbers;
    }();
    return found;
}

}  // namespace fake

using namespace fake;

extern "C" {

cudaError_t CUDARTAPI cudaIpcGetMemHandle(cudaIpcMemHandle_t* h, void* p) {
    std::lock_guard const lock{all().mutex};
    auto const b = block_of(p);
    if (b == nullptr || b->type != cudaMemoryTypeDevice || !b->is_for_peers()) return say(cudaErrorInvalidValue);
    put(*h, said_of(*b));
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaIpcOpenMemHandle(void** p, cudaIpcMemHandle_t h, unsigned) {
    std::lock_guard const lock{all().mutex};
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return say(e);
    return say(open_block(p, from(h), mine().device, nullptr));
}
/// Queued work that still uses it is a fault: CUDA does not promise to wait.
cudaError_t CUDARTAPI cudaIpcCloseMemHandle(void* p) {
    std::lock_guard const lock{all().mutex};
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return say(e);
    auto const at = all().blocks.find(reinterpret_cast<std::uintptr_t>(p));
    if (at == all().blocks.end() || !at->second->is_imported() || at->second->from != nullptr)
        return say(cudaErrorInvalidValue);
    if (--at->second->window->opened != 0) return say(cudaSuccess);
    at->second->now = block::is::freed;
    at->second->window->close();
    all().blocks.erase(at);
    return say(cudaSuccess);
}

cudaError_t CUDARTAPI cudaIpcGetEventHandle(cudaIpcEventHandle_t* h, cudaEvent_t which) {
    std::lock_guard const lock{all().mutex};
    auto const e = find_event(which);
    if (e == nullptr || e->shared == nullptr || e->whose != 0) return say(cudaErrorInvalidResourceHandle);
    said what;
    what.at = static_cast<std::size_t>(e->shared.get() - arena::one().book().events);
    what.id = e->shared->id;
    put(*h, what);
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaIpcOpenEventHandle(cudaEvent_t* out, cudaIpcEventHandle_t h) {
    std::lock_guard const lock{all().mutex};
    auto const what = from(h);
    if (what.magic != the_magic || what.at >= ledger::most_events) return say(cudaErrorInvalidValue);
    if (what.pid == getpid()) return say(cudaErrorDeviceUninitialized);
    other_process const other{what};
    if (other.book() == nullptr || other.book()->events[what.at].id != what.id)
        return say(cudaErrorMapBufferObjectFailed);
    auto made = std::make_shared<event>();
    made->device = mine().device;
    made->shared = {other.book(), &other.book()->events[what.at]};
    made->whose = what.pid;
    *out = reinterpret_cast<cudaEvent_t>(made.get());
    all().events.emplace(*out, std::move(made));
    return say(cudaSuccess);
}

/// The same file for every pool: it stands for the right to open memory of one.
cudaError_t CUDARTAPI cudaMemPoolExportToShareableHandle(void* out, cudaMemPool_t which,
                                                         cudaMemAllocationHandleType type, unsigned) {
    std::lock_guard const lock{all().mutex};
    auto const p = find_pool(which);
    if (p == nullptr || (p->handle_types & type) == 0) return say(cudaErrorInvalidValue);
    int const fd = fcntl(arena::one().file(), F_DUPFD_CLOEXEC, 0);
    std::memcpy(out, &fd, sizeof fd);
    return say(fd < 0 ? cudaErrorOperatingSystem : cudaSuccess);
}
cudaError_t CUDARTAPI cudaMemPoolExportPointer(cudaMemPoolPtrExportData* out, void* p) {
    std::lock_guard const lock{all().mutex};
    auto const b = block_of(p);
    if (b == nullptr || b->from == nullptr || b->is_imported()) return say(cudaErrorInvalidValue);
    put(*out, said_of(*b));
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaMemPoolImportFromShareableHandle(cudaMemPool_t* out, void* handle,
                                                           cudaMemAllocationHandleType, unsigned) {
    struct stat facts = {};
    int const file = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
    if (fstat(file, &facts) != 0 || facts.st_size != arena::bytes + sizeof(ledger)) return say(cudaErrorInvalidValue);
    std::lock_guard const lock{all().mutex};
    auto made = std::make_shared<pool>();
    made->device = mine().device;
    *out = reinterpret_cast<cudaMemPool_t>(made.get());
    all().pools.emplace(*out, std::move(made));
    return say(cudaSuccess);
}
cudaError_t CUDARTAPI cudaMemPoolImportPointer(void** p, cudaMemPool_t which, cudaMemPoolPtrExportData* data) {
    std::lock_guard const lock{all().mutex};
    if (auto const e = refuse_beside_captures(); e != cudaSuccess) return say(e);
    auto const what = from(*data);
    auto const of = find_pool(which);
    return say(of == nullptr ? cudaErrorInvalidValue : open_block(p, what, number_of(what.device), of));
}

}  // extern "C"
