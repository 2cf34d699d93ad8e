// ferry: the engine of spill_core.
#pragma once

#include <ferry/lease/detail/spill_core.hpp>

#include <ferry/base/detail/catching.hpp>
#include <ferry/base/detail/check_stream.hpp>
#include <ferry/base/detail/reporter.hpp>
#include <ferry/space/copy_plan.hpp>
#include <ferry/space/detail/operations.hpp>
#include <ferry/tensor/validate.hpp>

namespace FERRY_NAMESPACE::detail {

/// Calls `f`, and returns its error or that of an exception that it throws.
template <class F>
[[nodiscard]] result<> outcome_of_all(F f) noexcept {
    result<> outcome = error{errc::driver, "ferry::spill_manager",
                             "the back end threw an exception that is not a ferry::error: correct the back end"};
    ignore_exceptions([&] { outcome = attempt<void>("ferry::spill_manager", {}, [&](record&) { return f(); }); });
    return outcome;
}
[[nodiscard]] inline error spill_error(errc code, message const& text,
                                       record const& of = {"ferry::spill_manager", {}}) noexcept {
    return {code, of.api, text, of.where};
}

FERRY_INLINE spill_core::~spill_core() {
    // No handle and no lease exists, so that these allocations are the last.
    for (auto* list : {&dropped_, &quarantined_})
        while (list->next != list) {
            auto* const a = static_cast<allocation*>(list->next);
            a->unlink();
            delete a;
        }
}

FERRY_INLINE void spill_core::close() noexcept {
    lock held{mutex_};
    is_closed_ = true;
    result<> ignored;
    while (free_one(held, ignored) != 0) {
    }
    changed_.wait(held, [&] { return calls_ == 0 && moving_ == 0; });
}

/// Puts an allocation into the list of its state.
FERRY_INLINE void spill_core::settle(allocation& a) noexcept {
    auto const at = a.state.at;
    if (a.state.is_quarantined) quarantined_.append(a);
    else if (at == lease_state::place::resident && a.bytes != 0) (a.state.is_used() ? leased_ : idle_).append(a);
    else a.unlink();
}

/// Removes an allocation to which nothing refers. Its memory is freed behind its marks: at once if they are done, else
/// when a later call finds that they are, or needs the memory.
FERRY_INLINE void spill_core::release_if_dropped(allocation& a, lock& held) noexcept {
    if (!a.state.is_dropped() || a.state.is_quarantined) return;
    dropped_.append(a);
    collect(held);
}

/// Frees the oldest dropped allocation, and adds the bytes of device memory to `freed`. Without `waits`, leaves it if
/// its work has not completed, and returns false.
FERRY_INLINE bool spill_core::free_dropped(lock& held, bool waits, std::size_t& freed) noexcept {
    auto& a = *static_cast<allocation*>(dropped_.next);
    a.unlink();
    bool const is_resident = a.state.at == lease_state::place::resident, is_closed = is_closed_;
    auto const bytes = a.bytes, pinned = a.host_device.type != device_type::cpu ? a.bytes : 0;
    ++moving_;
    held.unlock();
    bool const is_done = waits || is_closed || a.marks.are_done(*marks_);
    if (is_done) delete &a;  // waits for its marks, then frees its memory
    held.lock();
    --moving_;
    changed_.notify_all();
    if (!is_done) return dropped_.next->append(a), false;
    if (is_resident) resident_ -= bytes, totals_.freed_bytes += bytes, freed += bytes;
    pinned_ -= pinned;
    return true;
}

FERRY_INLINE result<allocation*> spill_core::adopt(managed_tensor& tensor, stream_token on, std::size_t reserved,
                                                   record to) {
    auto const view = tensor.try_view();
    if (!view) return view.error();
    auto const& v = *view;
    if (!is_same_device(v.device(), device_))
        return spill_error(errc::device,
                           message{"the tensor is on "}
                               << name(v.device().type) << ":" << v.device().id << ", expected " << name(device_.type)
                               << ":" << device_.id << ", the device of the memory space: pass a tensor of that device",
                           to);
    byte_reach reach;
    if (!check_stream(on, device_, to) || !check_reach(v, reach, to)) return to.outcome.error();
    auto made = std::make_unique<allocation>();
    auto& a = *made;
    a.below = v.is_empty() ? 0 : reach.below;
    a.bytes = v.is_empty() ? 0 : static_cast<std::size_t>(reach.below + reach.above);
    auto* const first = static_cast<std::byte*>(const_cast<void*>(v.data()));
    a.base = first != nullptr && !v.is_empty() ? first - a.below : nullptr;
    a.type = v.dtype();
    a.bits = v.flags() & (flags::subbyte_padded | flags::read_only);
    a.has_strides = !v.strides().is_implicit();
    a.dims.reserve(static_cast<std::size_t>(v.rank()) * 2);
    for (int i = 0; i < v.rank(); ++i) a.dims.push_back(v.extent(i));
    if (a.has_strides)
        for (int i = 0; i < v.rank(); ++i) a.dims.push_back(v.strides()[i]);
    if (on.names_stream()) {
        a.marks.uses.reserve(1);
        any_owner mark;
        if (auto outcome = outcome_of_all([&]() -> result<> {
                auto got = marks_->record(back_end_object_, on);
                if (!got) return got.error();
                mark = *std::move(got);
                return {};
            });
            !outcome)
            return outcome.error();
        if (mark.data() != nullptr) a.marks.add(on, true, mark);
    }
    a.original = std::move(tensor);
    lock held{mutex_};
    resident_ += a.bytes;
    reserved_ -= reserved;
    settle(a);
    collect(held);
    result<> ignored;
    while (resident_ + reserved_ > options_.limit && free_one(held, ignored) != 0) {
    }
    return made.release();
}

FERRY_INLINE result<> spill_core::copy(void* dst, ferry::device to, void const* src, ferry::device from,
                                       std::size_t bytes, stream_token on, bool waits) {
    std::int64_t const extents[] = {static_cast<std::int64_t>(bytes)};
    data_type const byte = dtype_of<std::uint8_t>;
    copy_plan const plan = plan_copy(tensor_view{dst, byte, {extents}, {}, to},
                                     tensor_view{const_cast<void*>(src), byte, {extents}, {}, from}, extents[0]);
    record outcome{"ferry::spill_manager", {}};
    bool is_complete = false;
    if (waits) static_cast<void>(copy_and_wait(back_end_, plan, dst, to, src, from, on, outcome));
    else static_cast<void>(queue_copy(back_end_, plan, dst, to, src, from, on, is_complete, outcome));
    return outcome.outcome;
}

/// Allocates device memory; makes room if necessary.
FERRY_INLINE result<any_owner> spill_core::allocate(std::size_t bytes, stream_token on) {
    for (;;) {
        auto const seen = freed();
        any_owner memory;
        auto const outcome = outcome_of_all([&]() -> result<> {
            auto got = on_device_.allocate(device_, bytes, on);
            if (!got) return got.error();
            memory = *std::move(got);
            return {};
        });
        if (outcome) return memory;
        if (outcome.error().code() != errc::out_of_memory || !make_room(bytes, seen)) return outcome.error();
    }
}

FERRY_INLINE result<> spill_core::begin(allocation& a, stream_token on, bool writes, record to) {
    if (!check_stream(on, device_, to)) return to.outcome;
    if (writes && has(a.bits, flags::read_only))
        return spill_error(errc::read_only, "the tensor is read-only: read it, or copy it", to);
    any_owner memory, unused;  // destroyed without the lock
    lock held{mutex_};
    lease_state::place place{};
    begun answer{};
    do {
        if (is_closed_)
            return spill_error(errc::consumed,
                               "the spill_manager of this tensor was destroyed: release its tensors before the manager",
                               to);
        place = a.state.at;
        answer = a.state.begin(writes, a.marks.needs_order(on, writes));
        if (answer == begun::wait) changed_.wait(held);
    } while (answer == begun::wait);
    if (answer == begun::prepare) {
        ++calls_;
        a.unlink();
        held.unlock();
        auto const outcome = outcome_of_all([&]() -> result<> {
            return place == lease_state::place::away ? bring_back(a, memory) : a.marks.prepare(on, writes, *marks_);
        });
        held.lock();
        --calls_;
        changed_.notify_all();
        a.state.prepared(writes, outcome.has_value(), place);
        settle(a);
        if (!outcome) {
            release_if_dropped(a, held);
            return outcome;
        }
        if (place == lease_state::place::away) {
            a.memory = std::move(memory);
            a.base = static_cast<std::byte*>(a.memory.data());
            unused = std::move(a.host);
            if (std::exchange(a.host_device, cpu).type != device_type::cpu) pinned_ -= a.bytes;
            reserved_ -= a.bytes;
            resident_ += a.bytes;
            ++totals_.returns;
            totals_.returned_bytes += a.bytes;
        }
    }
    if (writes) a.writer = on;
    if (a.state.readers + a.state.writers == 1) {
        settle(a);
        totals_.leased_bytes += a.bytes;
        a.where = to.where;
    }
    return {};
}

/// Copies a spilled allocation to new memory. The memory stays reserved on success.
FERRY_INLINE result<> spill_core::bring_back(allocation& a, any_owner& memory) {
    if (auto reserved = reserve(a.bytes); !reserved) return reserved;
    auto const outcome = outcome_of_all([&]() -> result<> {
        auto got = allocate(a.bytes, options_.stream);
        if (!got) return got.error();
        memory = *std::move(got);
        return copy(memory.data(), device_, a.host.data(), a.host_device, a.bytes, options_.stream, true);
    });
    if (!outcome) unreserve(a.bytes);
    return outcome;
}

FERRY_INLINE void spill_core::end(allocation& a, lease_use const& use) noexcept {
    lock held{mutex_};
    auto const add = [&](stream_token on) {
        if (!on.names_stream() || is_closed_) return;
        if (on.which() == stream_token::kind::per_thread_default && use.thread != this_thread())
            on = stream_token::cuda_legacy_default(device_.id);  // runs after the per-thread default streams
        ++calls_;
        held.unlock();
        any_owner mark;
        bool const is_marked = outcome_of_all([&]() -> result<> {
                                   auto got = marks_->record(back_end_object_, on);
                                   if (!got) return got.error();
                                   mark = *std::move(got);
                                   return {};
                               }).has_value();
        held.lock();
        while (a.state.at == lease_state::place::moving) changed_.wait(held);
        if (!is_marked && !a.state.is_quarantined) a.state.is_quarantined = true, ++totals_.quarantined;
        bool is_added = false;
        if (mark.data() != nullptr) ignore_exceptions([&] { a.marks.add(on, use.writes, mark), is_added = true; });
        held.unlock();
        if (is_added && mark.data() != nullptr && marks_->discard != nullptr) marks_->discard(mark.data());
        mark = {};  // waits, if it is neither added nor discarded
        held.lock();
        --calls_;
    };
    add(use.on);
    for (auto const on : use.others) add(on);
    a.state.end(use.writes);
    if (!a.state.is_used()) {
        totals_.leased_bytes -= a.bytes;
        settle(a);
    }
    changed_.notify_all();
    release_if_dropped(a, held);
}

FERRY_INLINE void spill_core::hold(allocation& a) noexcept {
    lock const held{mutex_};
    ++a.state.handles;
}
FERRY_INLINE void spill_core::drop(allocation& a) noexcept {
    lock held{mutex_};
    --a.state.handles;
    release_if_dropped(a, held);
}
FERRY_INLINE bool spill_core::is_alone(allocation const& a) const noexcept {
    lock const held{mutex_};
    return a.state.handles == 1 && a.state.readers == 0 && !has(a.bits, flags::read_only);
}
FERRY_INLINE bool spill_core::is_written(allocation const& a, stream_token& on) const noexcept {
    lock const held{mutex_};
    on = a.writer;
    return a.state.writers != 0;
}

/// Copies an allocation to host memory, behind its marks.
FERRY_INLINE result<> spill_core::spill(allocation& a, any_owner& host, ferry::device& where) noexcept {
    a.marks.uses.clear();  // waits, then copies
    ferry::device const pinned{device_type::cuda_host};
    where = cpu;
    {
        lock const held{mutex_};
        if (pinned_ < options_.most_pinned && a.bytes <= options_.most_pinned - pinned_ && back_end_.reaches(pinned))
            where = pinned, pinned_ += a.bytes;
    }
    auto outcome = outcome_of_all([&]() -> result<> {
        for (;;) {
            auto got = back_end_.allocate(where, a.bytes, {});
            if (got) {
                host = *std::move(got);
                return copy(host.data(), where, a.base, device_, a.bytes, options_.stream, true);
            }
            if (where.type == device_type::cpu) return got.error();
            where = cpu;
            lock const held{mutex_};
            pinned_ -= a.bytes;
        }
    });
    if (!outcome && where.type != device_type::cpu) {
        lock const held{mutex_};
        pinned_ -= a.bytes;
    }
    return outcome;
}

/// Frees dropped allocations, or spills the least recently used one. Returns the number of bytes freed; 0 if there is
/// none, or if the spill failed, with its error in `failure`.
FERRY_INLINE std::size_t spill_core::free_one(lock& held, result<>& failure) noexcept {
    std::size_t freed = 0;
    while (freed == 0 && dropped_.next != &dropped_) static_cast<void>(free_dropped(held, true, freed));
    if (freed != 0 || is_closed_ || idle_.next == &idle_) return freed;
    auto& a = *static_cast<allocation*>(idle_.next);
    a.unlink();
    static_cast<void>(a.state.leave());  // true: the list contains only such allocations
    ++moving_;
    held.unlock();
    any_owner host;
    ferry::device where;
    auto outcome = spill(a, host, where);
    if (outcome) {  // frees the device memory
        a.base = nullptr;
        a.original = {};
        a.memory = {};
        a.host = std::move(host);
        a.host_device = where;
    }
    held.lock();
    --moving_;
    a.state.left(outcome.has_value());
    if (outcome) {
        freed = a.bytes;
        resident_ -= a.bytes;
        totals_.freed_bytes += a.bytes;
        totals_.spilled_bytes += a.bytes;
        ++totals_.spills;
    } else {
        ++totals_.failed_spills;
        failure = outcome;
        settle(a);
    }
    changed_.notify_all();
    release_if_dropped(a, held);
    return freed;
}

FERRY_INLINE result<> spill_core::reserve(std::size_t bytes) {
    lock held{mutex_};
    if (bytes > options_.limit)
        return spill_error(errc::out_of_memory, message{"an allocation of "}
                                                    << std::uint64_t{bytes} << " bytes exceeds the limit of "
                                                    << std::uint64_t{options_.limit} << " bytes: raise the limit");
    while (resident_ + reserved_ > options_.limit - bytes) {
        result<> failure;
        if (free_one(held, failure) != 0) continue;
        if (resident_ + reserved_ <= options_.limit - bytes) break;
        if (!failure) return failure;
        if (moving_ == 0)
            return spill_error(errc::busy, message{"live leases and reservations occupy the limit of "}
                                               << std::uint64_t{options_.limit}
                                               << " bytes: end leases, or raise the limit");
        changed_.wait(held);
    }
    reserved_ += bytes;
    return {};
}
FERRY_INLINE void spill_core::unreserve(std::size_t bytes) noexcept {
    lock const held{mutex_};
    reserved_ -= bytes;
    changed_.notify_all();
}

FERRY_INLINE std::size_t spill_core::free_up(std::size_t bytes) noexcept {
    lock held{mutex_};
    std::size_t freed = 0;
    result<> ignored;
    while (freed < bytes) {
        auto const more = free_one(held, ignored);
        if (more == 0) break;
        freed += more;
    }
    return freed;
}
FERRY_INLINE bool spill_core::make_room(std::size_t bytes, std::uint64_t seen) noexcept {
    if (bytes == 0) bytes = 1;
    std::size_t freed = 0;
    lock held{mutex_};
    while (totals_.freed_bytes == seen || freed < bytes) {
        result<> failure;
        auto const more = free_one(held, failure);
        freed += more;
        if (more != 0) continue;
        if (totals_.freed_bytes != seen) return true;
        if (!failure || moving_ == 0) return false;
        changed_.wait(held);
    }
    return true;
}
FERRY_INLINE std::uint64_t spill_core::freed() const noexcept {
    lock const held{mutex_};
    return totals_.freed_bytes;
}

FERRY_INLINE result<allocation*> spill_core::duplicate(allocation const& a, stream_token on) {
    if (auto reserved = reserve(a.bytes); !reserved) return reserved.error();
    auto made = std::make_unique<allocation>();
    auto& b = *made;
    b.bytes = a.bytes;
    b.below = a.below;
    b.type = a.type;
    b.bits = a.bits & flags::subbyte_padded;
    b.has_strides = a.has_strides;
    b.dims = a.dims;
    bool const is_queued = on.names_stream();
    auto const outcome = outcome_of_all([&]() -> result<> {
        if (b.bytes == 0) return {};
        auto got = allocate(b.bytes, on);
        if (!got) return got.error();
        b.memory = *std::move(got);
        b.base = static_cast<std::byte*>(b.memory.data());
        if (auto copied = copy(b.base, device_, a.base, device_, b.bytes, on, !is_queued); !copied) return copied;
        if (!is_queued) return {};
        b.marks.uses.reserve(1);
        auto mark = marks_->record(back_end_object_, on);
        if (!mark) return wait_after_error(back_end_, on), mark.error();
        any_owner m = *std::move(mark);
        if (m.data() != nullptr) b.marks.add(on, true, m);
        return {};
    });
    lock held{mutex_};
    reserved_ -= b.bytes;
    changed_.notify_all();
    if (!outcome) return outcome.error();
    resident_ += b.bytes;
    settle(b);
    return made.release();
}

FERRY_INLINE spill_statistics spill_core::statistics() const noexcept {
    lock const held{mutex_};
    auto now = totals_;
    now.resident_bytes = resident_;
    return now;
}

FERRY_INLINE std::string spill_core::live_leases() const {
    std::string table;
    lock const held{mutex_};
    for (auto* node = leased_.next; node != &leased_; node = node->next) {
        auto const& a = *static_cast<allocation const*>(node);
        table += std::to_string(a.bytes) + " bytes  " + a.where.file_name() + ":" + std::to_string(a.where.line()) +
                 "  " + std::to_string(a.state.readers) + " reading, " + std::to_string(a.state.writers) + " writing\n";
    }
    return table;
}

}  // namespace FERRY_NAMESPACE::detail
