#include <minitensor/error.hpp>
#include <minitensor/stream.hpp>

#include "cuda.hpp"

#include <utility>
#include <vector>

namespace mt {
namespace {

/// The streams that this thread has entered and not left, with the innermost last.
thread_local std::vector<stream> entered;

/// Owners of imported memory that is used by queued work of minitensor.
struct waiting_list {
    struct entry {
        std::shared_ptr<void> mark;
        std::shared_ptr<void const> owner;
    };
    std::mutex mutex;
    std::vector<entry> entries;
};

/// Never destroyed: owners must not be released at the end of the program.
waiting_list& waiting() {
    static auto& list = *new waiting_list;
    return list;
}

}  // namespace

bool cuda_available() noexcept { return cuda::device_count() > 0; }
int device_count() noexcept { return cuda::device_count(); }

void synchronize(std::int32_t device_id) {
    cuda::synchronize(device_id);
    release_what_is_done();
}

stream current_stream(device where) {
    bool const anywhere = where.type == device::cuda_host || where.type == device::cuda_managed;
    if ((!anywhere && where.type != device::cuda) || !cuda_available()) return {};
    for (auto s = entered.rbegin(); s != entered.rend(); ++s) {
        if (anywhere || s->device == where.id) return *s;
        if (s->is_default()) return {s->handle, where.id, {}};
    }
    return {1, anywhere ? cuda::device_of(1) : where.id, {}};
}

void enter_stream(std::uintptr_t handle, std::shared_ptr<void const> owner) {
    cuda::require({device::cuda, 0});
    auto const id = cuda::device_of(handle);
    entered.push_back({handle, id, std::move(owner)});
}

void leave_stream() noexcept {
    if (!entered.empty()) entered.pop_back();
}

stream timeline::last() const {
    std::lock_guard const lock{mutex_};
    return last_;
}

bool timeline::used() const {
    std::lock_guard const lock{mutex_};
    return used_;
}

void timeline::continue_on(stream const& next) {
    stream before;  // destroyed outside of the lock: its owner may be a Python object, whose destruction needs the GIL
    std::lock_guard const lock{mutex_};
    if (!(last_ == next)) cuda::order(last_, next);
    before = std::exchange(last_, next);
    used_ = true;
}

void timeline::wait() const { cuda::wait(last()); }

void release_when_done(timeline const& line, std::shared_ptr<void const> owner) noexcept {
    release_what_is_done();
    try {
        if (!line.used()) return;
        auto mark = cuda::mark(line.last());
        if (cuda::passed(mark.get())) return;
        auto& list = waiting();
        std::lock_guard const lock{list.mutex};
        list.entries.push_back({std::move(mark), owner});
    } catch (...) {  // CUDA has shut down, or memory is exhausted: the owner is released now
    }
}

void release_what_is_done() noexcept {
    auto& list = waiting();
    for (;;) {
        std::shared_ptr<void const> owner;  // destroyed outside of the lock
        std::lock_guard const lock{list.mutex};
        for (auto& e : list.entries) {
            if (!cuda::passed(e.mark.get())) continue;
            owner = std::move(e.owner);
            std::swap(e, list.entries.back());
            list.entries.pop_back();
            break;
        }
        if (owner == nullptr) return;
    }
}

}  // namespace mt
